"""`vault-mem extension render FIELD`: the declared line or nothing on standard output, every reason on standard error, exit 0 always.

It runs inside a skill, between the capsule and the literal that ends it: nothing it finds may hold up that literal.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from vault_mem import extensionfile
from vault_mem.capsule import extension
from vault_mem.capsule.inert import inert

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TextIO

USAGE = """usage: vault-mem extension render resume_ack|capsule_ack [--capsule-id ID] [--root DIR]

Prints the line that `.aigent/lifecycle-extension.json` declares, with the capsule id in it; nothing when none is declared.
Always exits 0; whatever was refused or held is said on standard error after `LIFECYCLE-EXTENSION:`.

example: vault-mem extension render capsule_ack --capsule-id swe-autosave-5e551011-2026-12-01
"""


class _RefusedError(Exception):
    """A command line that cannot be understood."""


def run(
    _command: str,
    arguments: Sequence[str],
    *,
    environ: Mapping[str, str],
    cwd: str,
    now: float,
    program: str,
    out: TextIO,
    err: TextIO,
) -> int:
    """Print one declared line."""
    del environ, now, program
    if {"-h", "--help"} & set(arguments):
        out.write(USAGE)
        return 0
    try:
        field, capsule, root = _understood(arguments)
        declaration = extensionfile.load(_directory(cwd, root))
        template = declaration.resume_ack if field == "resume_ack" else declaration.capsule_ack
        line, held = extension.rendered(field, template, capsule=capsule)
        for warning in (declaration.warning, held):
            if warning:
                err.write(f"{warning}\n")
        if line:
            out.write(f"{line}\n")
    except _RefusedError as error:
        err.write(f"{extension.TOKEN} {error}\n")
    except Exception as error:  # noqa: BLE001 - see the module: nothing here may hold up what follows
        err.write(f"{extension.TOKEN} failed: {inert(f'{type(error).__name__}: {error}', limit=300)}\n")
    return 0


def _directory(cwd: str, root: str) -> str:
    directory = os.path.join(cwd, root)
    if not os.path.isdir(directory):
        raise _RefusedError(f"--root {inert(root, limit=200)} is not a directory")
    return directory


def _understood(arguments: Sequence[str]) -> tuple[str, str, str]:
    """Field, capsule id and root."""
    rest = list(arguments)
    words: list[str] = []
    flags: dict[str, str] = {}
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if not word.startswith("--"):
            words.append(word)
            continue
        if name not in ("--capsule-id", "--root"):
            raise _RefusedError(f"unknown argument {inert(word, limit=120)}")
        if name in flags:
            raise _RefusedError(f"{name} was given twice")
        if not equals:
            if not rest or rest[0].startswith("--"):
                raise _RefusedError(f"{name} needs a value")
            value = rest.pop(0)
        flags[name] = value
    if not words or words[0] != "render":
        raise _RefusedError(f"unknown command {inert(words[0] if words else '', limit=120)}; there is `render`")
    if len(words) > 2:
        raise _RefusedError(f"unknown argument {inert(words[2], limit=120)}")
    field = words[1] if len(words) > 1 else ""
    if field not in extension.ACKS:
        raise _RefusedError(f"unknown field {inert(field, limit=120)}; resume_ack and capsule_ack can be rendered")
    return field, flags.get("--capsule-id", ""), flags.get("--root", "") or "."
