"""The commands a person types. Each lives in a module of its own with one `run`, imported only when it is asked for."""

from __future__ import annotations

import importlib
import io
import os
import sys
import time

from vault_mem.errors import VaultMemError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO

COMMANDS = {
    "init": ("install", "make this project a seat: memory root, vault, hooks, skills, trust"),
    "install": ("install", "the same as init"),
    "uninstall": ("install", "remove exactly our hook entries; the vault stays"),
    "trust": ("install", "trust this seat for this user (--revoke: distrust it)"),
    "capsule": ("capsule", "validate, write, resolve, pause, abandon or reopen a capsule"),
    "note": ("capsule", "one bullet into the session's active capsule"),
    "list": ("look", "capsules, newest first"),
    "show": ("look", "one capsule"),
    "diff": ("look", "what changed in a capsule"),
    "log": ("look", "lineage from git: parents, consumers, autosaves folded"),
    "retire": ("upkeep", "take capsules beyond the limit out of the tree; they stay in history"),
    "gc": ("upkeep", "pack the vault; the hooks start it themselves, detached, when it is due"),
    "verify": ("verify", "integrity of history and tree"),
    "explain": ("look", "what a clear would hand out now, and why not the others"),
    "root": ("root", "where the memory root is"),
    "extension": ("extension", "one line of the declared lifecycle extension"),
    "injected": ("injected", "what a session was told, byte for byte"),
    "doctor": ("doctor", "every fault of root, hooks, git and vault, with the command that mends it"),
    "context": ("context", "where this session stands; status, checkpoint, show, brief, list, prune, rebuild, bench"),
    "reset": ("reset", "context reset: status, watch, receipt, clear, away, hold, release, decision"),
    "wakes": ("reset", "notices for this session; drain takes them out of the queue"),
    "statusline": ("statusline", "one line: context, capsule, last save; a status line of your own is passed through"),
    "import": ("exchange", "take over an aigent-OS tree, Harnery checkpoints or plain markdown"),
    "export": ("exchange", "every capsule as JSON lines or as a tar"),
    "replay": ("replay", "feed a recorded transcript or session folder through the real hooks"),
}
TRACE = "VAULT_MEM_TRACE"
BEFORE_PARSING = {
    "resume": "SessionStart hook; by hand: what a fresh session would be given",
    "hook": "hook entry points, payload on standard input",
}


def usage() -> str:
    """The list of commands."""
    rows = {**{name: text for name, (_, text) in COMMANDS.items()}, **BEFORE_PARSING}
    lines = [f"  {name:<10} {text}" for name, text in rows.items()]
    return "\n".join(
        (
            "usage: vault-mem COMMAND [--root DIR] …",
            "",
            "A memory for coding-agent sessions that is a git repository of markdown files.",
            "",
            *lines,
            "",
            "vault-mem COMMAND --help explains one; vault-mem --version says which this is.",
            "example: vault-mem init && vault-mem doctor",
            "",
        )
    )


def main(arguments: Sequence[str], *, program: str) -> int:
    """Run one command; exit codes are those of the command line reference, never 2. Nothing that happens here ends in a traceback."""
    out, err = _stream(sys.stdout), _stream(sys.stderr)
    try:
        code = _chosen(list(arguments), program=program, out=out, err=err)
        out.flush()
    except VaultMemError as error:
        text = str(error)
        _say(err, text if text.startswith(error.token) else f"{error.token}: {text}")
        code = error.exit_code
    except BrokenPipeError:
        code = 1
    except KeyboardInterrupt:
        code = 130
    except OSError as error:
        _say(err, f"error:{type(error).__name__}: {error}")
        code = 1
    except Exception as error:
        if os.environ.get(TRACE):
            raise
        _say(err, f"error:{type(error).__name__}: {error} (a fault of the program; {TRACE}=1 shows where)")
        code = 1
    _let_go(out)
    return code


def _chosen(arguments: list[str], *, program: str, out: TextIO, err: TextIO) -> int:
    match arguments:
        case [] | ["--help" | "-h" | "help", *_]:
            out.write(usage())
            return 0 if arguments else 64
        case ["--version" | "-V"]:
            from vault_mem import version

            out.write(f"vault-mem {version.__version__}\n")
            return 0
        case ["--root", directory, name, *rest]:
            return _run(name, ["--root", directory, *rest], program=program, out=out, err=err)
        case [name, *rest]:
            return _run(name, rest, program=program, out=out, err=err)
    return 64


def _run(name: str, arguments: list[str], *, program: str, out: TextIO, err: TextIO) -> int:
    if name not in COMMANDS:
        _say(err, f"usage: unknown command {name!r}; `vault-mem --help` lists them")
        return 64
    module = importlib.import_module(f"vault_mem.cli.{COMMANDS[name][0]}")
    code: int = module.run(
        name, arguments, environ=dict(os.environ), cwd=_cwd(), now=time.time(), program=program, out=out, err=err
    )
    return code


def _cwd() -> str:
    """The working directory; where it was removed, the path it had as far as that is known: a seat above it can still be found."""
    try:
        return os.getcwd()
    except OSError:
        former = os.environ.get("PWD", "")
        return former if os.path.isabs(former) and not os.path.exists(former) else "/removed-working-directory"


def _stream(stream: TextIO | None) -> TextIO:
    """The stream such that every character gets out of it in some form; a closed one swallows everything."""
    if stream is None:
        return open(os.devnull, "w", encoding="utf-8")
    if isinstance(stream, io.TextIOWrapper):
        # A terminal that knows no "·" shows \xb7, which is better than an error in the middle of a list.
        stream.reconfigure(errors="backslashreplace")
    return stream


def _say(err: TextIO, text: str) -> None:
    try:
        err.write(f"vault-mem: {text}\n")
        err.flush()
    except OSError:
        pass


def _let_go(out: TextIO) -> None:
    """What could not be written is given up here: at its end Python would try once more, complain and change the exit code."""
    try:
        out.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
