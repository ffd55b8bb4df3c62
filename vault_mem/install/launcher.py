"""How a shell starts our program, and what the script of an installation begins with.

The script that an installer puts into an environment starts that environment's Python with everything a Python may have: it reads the files by which
packages extend each other, which costs every hook a quarter of an interpreter's start, and it obeys `PYTHON…` variables, which belong to the project
a hook is run in and not to us. `init` gives it a beginning of our own (docs/explanation/performance.md): neither of the two, and the folder of the
package named. What is not found that way is looked for the usual way, so a script that the environment has outgrown works as before.

A kernel ends the path of the interpreter at the first blank and after about 127 bytes. Below such a path the script of an installation cannot be
started at all; there ours takes the detour through `/bin/sh` that entry points take.
"""

from __future__ import annotations

import os
import shlex
import stat

import vault_mem
from vault_mem import files, hooksfile

_END = "from vault_mem.entry import script\n\nscript()\n"
# No variables, not the script's own folder, no `site`. One word: a kernel passes everything after the interpreter as one.
_OPTIONS = "-EPS"
# The variables are shut out; one of them is a wish about our files that a person may have.
_FOUND = """import os
import sys

sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
sys.path.append(%s)
try:
    import vault_mem
except ModuleNotFoundError:
    import site

    site.main()
"""
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
    """The path of our own script beside this Python when it could begin better than it does; else ""."""
    path = script_of(interpreter)
    if not os.path.isabs(path) or _UNQUOTABLE & set(interpreter):
        return ""
    try:
        status = os.lstat(path)
        with open(path, "rb") as file:
            text = file.read(4096)
    except OSError:
        return ""
    ours = text.endswith(_END.encode()) and text != _script(interpreter)
    executable = stat.S_ISREG(status.st_mode) and bool(status.st_mode & stat.S_IXUSR)
    return path if ours and executable and os.access(os.path.dirname(path), os.W_OK) else ""


def mend(path: str, interpreter: str) -> bool:
    """Gives the script at *path* the beginning that every system can start; whether it can be started now."""
    try:
        files.write_atomic(path, _script(interpreter), mode=stat.S_IMODE(os.lstat(path).st_mode))
    except OSError:
        pass
    return can_start(path)


def _script(interpreter: str) -> bytes:
    """The whole script, as this Python is best started with this package."""
    first = f"#!{interpreter} {_OPTIONS}\n"
    if len(os.fsencode(first)) > _SHEBANG_LIMIT or len(interpreter.split()) != 1:
        # To a shell: start Python with this very file. To Python: a string that nobody uses.
        first = f"#!/bin/sh\n'''exec' \"{interpreter}\" {_OPTIONS} \"$0\" \"$@\"\n' '''\n"
    folder = os.path.dirname(os.path.abspath(vault_mem.__path__[0]))
    return os.fsencode(first) + (_FOUND % ascii(folder) + _END).encode()
