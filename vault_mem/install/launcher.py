"""How a shell starts our program, and the script of an installation that no system can start.

The script in an environment begins with the path of that environment's Python. A kernel ends that path at the first blank and after about
127 bytes, so below such a path the script is there and cannot be started. Entry points have an answer of their own for that, a detour through
`/bin/sh`; our script is faster than theirs (docs/explanation/performance.md), and takes the detour only where there is no other way.
"""

from __future__ import annotations

import os
import shlex
import stat

from vault_mem import files, hooksfile

_START = b"from vault_mem.entry import script\n\nscript()\n"
# What may not stand between double quotes in a shell, nor in a Python string of three single ones.
_UNQUOTABLE = frozenset("'\"\\$`\n")
_SHEBANG_LIMIT = 128


def program_line(started_by: str, interpreter: str) -> str:
    """What a shell starts our program by: the installed program where it can be started, else this Python with the package."""
    beside = script_of(interpreter)
    named = os.path.basename(started_by).removesuffix(".exe") == hooksfile.PROGRAM
    for path in (started_by, beside) if named else (beside,):
        if named and path == started_by and not os.path.lexists(path):
            return shlex.quote(path)
        if can_start(path):
            return shlex.quote(path)
    # -P: the folder a hook is started in must not answer for the package.
    return f"{shlex.quote(os.path.normpath(interpreter))} -P -m {hooksfile.MODULE}"


def script_of(interpreter: str) -> str:
    """Where an installation for this Python puts the script."""
    return os.path.join(os.path.dirname(interpreter), hooksfile.PROGRAM)


def can_start(path: str) -> bool:
    """Whether the system can start the file."""
    if not os.access(path, os.X_OK):
        return False
    try:
        with open(path, "rb") as file:
            line = file.read(512).partition(b"\n")[0]
    except OSError:
        # Executable and not readable: a program, not a script.
        return True
    words = line[2:].split()
    return not line.startswith(b"#!") or (bool(words) and len(line) < _SHEBANG_LIMIT and os.access(words[0], os.X_OK))


def mendable(interpreter: str) -> str:
    """The path of our own script beside this Python when it cannot be started and could be; else ""."""
    path = script_of(interpreter)
    if not os.path.isabs(path) or _UNQUOTABLE & set(interpreter) or can_start(path):
        return ""
    try:
        status = os.lstat(path)
        with open(path, "rb") as file:
            ours = file.read(4096).endswith(_START)
    except OSError:
        return ""
    executable = stat.S_ISREG(status.st_mode) and bool(status.st_mode & stat.S_IXUSR)
    return path if ours and executable and os.access(os.path.dirname(path), os.W_OK) else ""


def mend(path: str, interpreter: str) -> bool:
    """Gives the script at *path* a beginning that every system can start; whether it has one now."""
    # To a shell: start Python with this very file. To Python: a string that nobody uses.
    text = f"#!/bin/sh\n'''exec' \"{interpreter}\" \"$0\" \"$@\"\n' '''\n".encode() + _START
    try:
        files.write_atomic(path, text, mode=stat.S_IMODE(os.lstat(path).st_mode))
    except OSError:
        return False
    return can_start(path)
