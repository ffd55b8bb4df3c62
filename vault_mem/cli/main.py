"""The commands a person types. Each lives in a module of its own with one `run`, imported only when it is asked for."""

from __future__ import annotations

import importlib
import os
import sys
import time

from vault_mem.errors import VaultMemError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

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
    """Run one command; exit codes are those of the command line reference, never 2."""
    match list(arguments):
        case [] | ["--help" | "-h" | "help", *_]:
            sys.stdout.write(usage())
            return 0 if arguments else 64
        case ["--version" | "-V"]:
            from vault_mem import version

            sys.stdout.write(f"vault-mem {version.__version__}\n")
            return 0
        case ["--root", directory, name, *rest]:
            return _run(name, ["--root", directory, *rest], program=program)
        case [name, *rest]:
            return _run(name, rest, program=program)
    return 64


def _run(name: str, arguments: list[str], *, program: str) -> int:
    if name not in COMMANDS:
        sys.stderr.write(f"vault-mem: usage: unknown command {name!r}; `vault-mem --help` lists them\n")
        return 64
    module = importlib.import_module(f"vault_mem.cli.{COMMANDS[name][0]}")
    try:
        code: int = module.run(
            name,
            arguments,
            environ=dict(os.environ),
            cwd=os.getcwd(),
            now=time.time(),
            program=program,
            out=sys.stdout,
            err=sys.stderr,
        )
        sys.stdout.flush()
    except VaultMemError as error:
        text = str(error)
        sys.stderr.write(f"vault-mem: {text if text.startswith(error.token) else f'{error.token}: {text}'}\n")
        return error.exit_code
    except BrokenPipeError:
        # The reader went away; Python would complain once more when it closes standard output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    return code
