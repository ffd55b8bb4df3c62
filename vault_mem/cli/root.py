"""`vault-mem root`: where the memory root is, for scripts and people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vault_mem import jsontext, roots
from vault_mem.errors import MemoryRootError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TextIO

FLAGS = ("--relative", "--allow-missing", "--json", "--ledgers", "--with-ledgers", "--default")
HELP = """usage: vault-mem root [--root DIR] [--relative] [--allow-missing] [--json] [--ledgers | --with-ledgers]
       vault-mem root --default

Prints the path of the memory root; nothing is created. Exit 1 with one line when the declaration cannot be honoured.

  --root DIR       the install root to ask for; without it the seat around the working directory
  --relative       the path below the install root
  --allow-missing  a declared memory root that does not exist yet is no error
  --ledgers        where ledgers lie, instead of the memory root
  --with-ledgers   both, on two lines
  --json           one document
  --default        the memory root of a seat that declares none, whatever is declared here

example: vault-mem root --relative
"""


def run(
    command: str,
    arguments: Sequence[str],
    *,
    environ: Mapping[str, str],
    cwd: str,
    now: float,
    program: str,
    out: TextIO,
    err: TextIO,
) -> int:
    """Answers on *out*; a refusal is one line on *err* and exit 1, for a wrong word too: scripts ask for nothing else."""
    del command, now, program
    if {"-h", "--help"} & set(arguments):
        out.write(HELP)
        return 0
    try:
        chosen, root = _read(arguments)
        if "--default" in chosen:
            out.write(f"{roots.DEFAULTS[0]}\n")
            return 0
        memory = _memory(root, allow_missing="--allow-missing" in chosen, environ=environ, cwd=cwd)
    except MemoryRootError as error:
        err.write(" ".join(str(error).splitlines()) + "\n")
        return 1
    ledgers = roots.ledgers(memory)
    if "--relative" in chosen:
        below = len(memory.base.rstrip("/")) + 1
        paths = {"memory_root": memory.relative, "ledgers": ledgers[below:]}
    else:
        paths = {"memory_root": memory.path, "ledgers": ledgers}
    if "--json" in chosen:
        facts = {"base": memory.base, "path": memory.path, "relative": memory.relative, "source": memory.source}
        document = {"schema": 1, "command": "root", "ok": True, **facts, "ledgers": ledgers}
        out.write(jsontext.dumps(document) + "\n")
        return 0
    wanted = ["ledgers"] if "--ledgers" in chosen else ["memory_root"]
    if "--with-ledgers" in chosen:
        wanted = ["memory_root", "ledgers"]
    out.write("".join(f"{paths[name]}\n" for name in wanted))
    return 0


def _memory(root: str, *, allow_missing: bool, environ: Mapping[str, str], cwd: str) -> roots.MemoryRoot:
    if root:
        return roots.resolve(root, environ=environ, allow_missing=allow_missing)
    seat = roots.find(environ=environ, cwd=cwd, allow_missing=allow_missing)
    if seat is None:
        raise MemoryRootError(f"no seat at or above {cwd}; name one with --root DIR")
    return seat.memory


def _read(arguments: Sequence[str]) -> tuple[set[str], str]:
    """The flags and the root; raises MemoryRootError for a word that is not understood."""
    chosen: set[str] = set()
    given: list[str] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if name == "--root":
            if not equals and not rest:
                raise MemoryRootError("--root needs a directory")
            given.append(value if equals else rest.pop(0))
        elif word in FLAGS:
            chosen.add(word)
        else:
            raise MemoryRootError(f"unknown argument {word!r}; see `vault-mem root --help`")
    if len(given) > 1:
        raise MemoryRootError("--root stands twice")
    if given and not given[0].strip():
        raise MemoryRootError("--root needs a directory")
    if "--default" in chosen and (given or len(chosen) > 1):
        raise MemoryRootError("--default stands alone")
    return chosen, given[0] if given else ""
