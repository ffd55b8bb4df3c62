"""The one resolver of seats and memory roots: where a project's memory lies, or a loud refusal, never a guess beside it.

A seat is a directory with `.aigent/state.json`; the field `memory_root` there names the memory tree. No child process is started.
"""

from __future__ import annotations

import errno
import os
import stat

from vault_mem import jsontext
from vault_mem.errors import MemoryRootError, NoSeatError
from vault_mem.record import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

MARKER = ".aigent/state.json"
FIELD = "memory_root"
DEFAULTS = ("vault/memory", "memory")
LIMIT = 240
MARKER_LIMIT = 1024 * 1024


class MemoryRoot(NamedTuple):
    """A memory tree: the directory that declares it, its path, its path below that, and `configured` or `default`."""

    base: str
    path: str
    relative: str
    source: str


class Seat(NamedTuple):
    """An install root with its memory, and how it was found: `option`, `environment`, `project`, `cwd`, `main-worktree` or `state-home`."""

    root: str
    memory: MemoryRoot
    found: str


def code_of(error: OSError) -> str:
    """The name of an operating system error, `EACCES`."""
    return errno.errorcode.get(error.errno or 0, "EIO")


def marker_of(base: str) -> str:
    """The file that declares the memory root of *base*."""
    return os.path.join(base, *MARKER.split("/"))


def base_of(root: str, *, environ: Mapping[str, str]) -> str:
    """The directory whose declaration counts for *root*: the one named by AIGENT_STATE_HOME_DIR, else *root*."""
    return environ.get("AIGENT_STATE_HOME_DIR") or root


def resolve(base: str, *, environ: Mapping[str, str], allow_missing: bool = False) -> MemoryRoot:
    """The memory root of *base*; raises MemoryRootError where a declaration cannot be honoured. Creates nothing."""
    base = base_of(base, environ=environ)
    if not base.strip():
        raise MemoryRootError("a base directory is required")
    relative = declared(base)
    if relative is None:
        relative = next((name for name in DEFAULTS if os.path.lexists(_below(base, name))), DEFAULTS[0])
        return MemoryRoot(base, _below(base, relative), relative, "default")
    _inspect(base, relative, allow_missing=allow_missing)
    return MemoryRoot(base, _below(base, relative), relative, "configured")


def ledgers(memory: MemoryRoot) -> str:
    """Where ledgers lie: in a declared memory root, else in `memory` beside an undeclared one if that exists."""
    beside = _below(memory.base, "memory")
    return beside if memory.source == "default" and os.path.lexists(beside) else memory.path


def declared(base: str) -> str | None:
    """The memory root that *base* declares, relative with forward slashes; None: it declares none."""
    marker = marker_of(base)
    text = _marker_text(marker)
    if text is None:
        return None
    try:
        state = jsontext.loads(text)
    except ValueError as error:
        raise MemoryRootError(f"{marker}: is not valid JSON") from error
    if not isinstance(state, dict):
        raise MemoryRootError(f"{marker}: root must be an object")
    value = state.get(FIELD)
    return None if value is None else checked(value, where=marker)


def checked(value: object, *, where: str) -> str:
    """*value* as a relative path that stays below its base, or MemoryRootError that names *where* it was written."""
    problem = ""
    text = value.strip() if isinstance(value, str) else ""
    segments = text.split("/")
    if not isinstance(value, str):
        problem = "must be a string"
    elif not text:
        problem = "must not be empty"
    elif len(text) > LIMIT:
        problem = f"must be at most {LIMIT} characters"
    elif any(char < " " or char == "\x7f" for char in text):
        problem = "must not contain control characters"
    elif "\\" in text:
        problem = "must use forward slashes"
    elif text[0] == "/" or (text[1:2] == ":" and text[0].isascii() and text[0].isalpha()):
        problem = "must be relative to the install root, not absolute"
    elif "" in segments or "." in segments:
        problem = "must not contain an empty or . path segment"
    elif ".." in segments:
        problem = "must not contain a .. segment"
    if problem:
        raise MemoryRootError(f"{where}: {FIELD} {problem}")
    return text


def _below(base: str, relative: str) -> str:
    return os.path.join(base, *relative.split("/"))


def _marker_text(marker: str) -> str | None:
    try:
        # Without O_NONBLOCK a named pipe at this place would hold the hook for ever.
        handle = os.open(marker, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise MemoryRootError(f"{marker}: cannot be read ({code_of(error)})") from error
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise MemoryRootError(f"{marker}: cannot be read (not a regular file)")
        data = b""
        while len(data) <= MARKER_LIMIT and (part := os.read(handle, 65536)):
            data += part
    except OSError as error:
        raise MemoryRootError(f"{marker}: cannot be read ({code_of(error)})") from error
    finally:
        os.close(handle)
    if len(data) > MARKER_LIMIT:
        raise MemoryRootError(f"{marker}: cannot be read (larger than {MARKER_LIMIT} bytes)")
    try:
        # Not "utf-8-sig": that codec is a module of its own on the hook path.
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise MemoryRootError(f"{marker}: is not valid JSON (not UTF-8)") from error


def inspected(base: str, relative: str) -> None:
    """Raises MemoryRootError unless *relative* could be a memory root below *base*: missing, or a directory behind no link."""
    _inspect(base, relative, allow_missing=True)


def _inspect(base: str, relative: str, *, allow_missing: bool) -> None:
    """Refuses a tree behind a link, of another kind, or missing. A link could move the whole memory out of the project."""
    path = base
    mode = 0
    for segment in relative.split("/"):
        path = os.path.join(path, segment)
        try:
            mode = os.lstat(path).st_mode
        except FileNotFoundError:
            if allow_missing:
                return
            whole = _below(base, relative)
            raise MemoryRootError(f"{whole}: does not exist (declared in {marker_of(base)})") from None
        except OSError as error:
            raise MemoryRootError(f"{path}: cannot be inspected ({code_of(error)})") from error
        if stat.S_ISLNK(mode):
            raise MemoryRootError(f"{path}: configured memory root passes through a symlink")
        if not stat.S_ISDIR(mode):
            raise MemoryRootError(f"{path}: is not a directory")


def seat_at(root: str, *, environ: Mapping[str, str], found: str, allow_missing: bool = False) -> Seat:
    """The seat with install root *root*, which need not be declared. A default memory is held to the rules of a declared one."""
    memory = resolve(root, environ=environ, allow_missing=allow_missing)
    if memory.source == "default":
        _inspect(memory.base, memory.relative, allow_missing=True)
    return Seat(root, memory, found)


def nowhere(*, explicit: str, environ: Mapping[str, str], cwd: str) -> NoSeatError:
    """What to say when `find` has none: the directory that was named, else the one that was started from."""
    named = explicit or environ.get("VAULT_MEM_ROOT") or environ.get("AIGENT_ROOT")
    if named:
        how = "" if explicit else " (VAULT_MEM_ROOT or AIGENT_ROOT names it)"
        return NoSeatError(f"{os.path.normpath(os.path.join(cwd, named))} is no seat{how}")
    return NoSeatError(f"no seat at or above {cwd}; make one with `vault-mem init`")


def find(
    *,
    explicit: str = "",
    environ: Mapping[str, str],
    cwd: str,
    is_trusted: Callable[[str], bool] | None = None,
    allow_missing: bool = False,
) -> Seat | None:
    """The seat that serves *cwd*; None: there is none. Raises MemoryRootError when the first one found is declared badly.

    *explicit* and then VAULT_MEM_ROOT or AIGENT_ROOT name it exactly; otherwise CLAUDE_PROJECT_DIR and then *cwd* are walked up.
    *is_trusted* answers for the path of a memory root: a linked worktree's own copy of the declaration counts only where it says yes.
    """
    named = explicit or environ.get("VAULT_MEM_ROOT") or environ.get("AIGENT_ROOT")
    if named:
        root = os.path.normpath(os.path.join(cwd, named))
        base = base_of(root, environ=environ)
        if not os.path.isdir(root) or not (
            _is_seat(base) or any(os.path.isdir(_below(base, name)) for name in DEFAULTS)
        ):
            return None
        return seat_at(
            root, environ=environ, found="option" if explicit else "environment", allow_missing=allow_missing
        )
    for start, found in ((environ.get("CLAUDE_PROJECT_DIR", ""), "project"), (cwd, "cwd")):
        if not os.path.isabs(start):
            continue
        # As written first: a link may be how a seat lays a folder below itself. Then where the folder really is, as git does.
        for path in dict.fromkeys((os.path.normpath(start), os.path.realpath(start))):
            root = _walk(path, environ=environ, is_trusted=is_trusted)
            if root:
                how = found if root == path or path.startswith(root.rstrip("/") + "/") else "main-worktree"
                return seat_at(root, environ=environ, found=how, allow_missing=allow_missing)
    home = environ.get("AIGENT_STATE_HOME_DIR", "")
    if os.path.isabs(home) and _is_seat(home):
        return seat_at(home, environ=environ, found="state-home", allow_missing=allow_missing)
    return None


def _walk(start: str, *, environ: Mapping[str, str], is_trusted: Callable[[str], bool] | None) -> str:
    """The root of the first seat from *start* upwards, "" when there is none."""
    for path in _upwards(start):
        if not _is_seat(path):
            main = main_worktree(path)
            root = main and _in_main(start, path, main)
            if root:
                return root
            continue
        top = next((each for each in _upwards(path) if os.path.lexists(os.path.join(each, ".git"))), "")
        main = top and main_worktree(top)
        if main and not _is_own(path, environ=environ, is_trusted=is_trusted):
            # With no seat in the main worktree the copy is answered after all: it is untrusted, and that is said.
            return _in_main(start, top, main) or path
        return path
    return ""


def _upwards(path: str) -> Iterator[str]:
    while True:
        yield path
        parent = os.path.dirname(path)
        if parent == path:
            return
        path = parent


def _is_seat(path: str) -> bool:
    try:
        os.lstat(marker_of(path))
    except OSError as error:
        # A marker that is there and cannot be looked at is a seat: resolving it says what is wrong.
        return error.errno in (errno.EACCES, errno.EPERM, errno.EIO)
    return True


def _is_own(path: str, *, environ: Mapping[str, str], is_trusted: Callable[[str], bool] | None) -> bool:
    if is_trusted is None:
        return False
    try:
        return is_trusted(resolve(path, environ=environ, allow_missing=True).path)
    except MemoryRootError:
        return False


def _in_main(start: str, top: str, main: str) -> str:
    """The first seat from the place in the main worktree that corresponds to *start* up to *main*."""
    for path in _upwards(start):
        moved = os.path.normpath(os.path.join(main, os.path.relpath(path, top)))
        if _is_seat(moved):
            return moved
        if path == top:
            break
    return ""


def main_worktree(path: str) -> str:
    """The main worktree of the linked git worktree whose top is *path*; "" for everything else, submodules included."""
    pointer = os.path.join(path, ".git")
    text = _line(pointer)
    if not text.startswith("gitdir:"):
        return ""
    gitdir = os.path.join(path, text[7:].strip())
    common = _line(os.path.join(gitdir, "commondir"))
    back = _line(os.path.join(gitdir, "gitdir"))
    if not common or not back:
        return ""
    # Only git writes both ends: a `.git` file that merely points at somebody's repository must not borrow its memory.
    if os.path.realpath(os.path.join(gitdir, back)) != os.path.realpath(pointer):
        return ""
    common = os.path.realpath(os.path.join(gitdir, common))
    return os.path.dirname(common) if os.path.basename(common) == ".git" else ""


def _line(path: str) -> str:
    """The one line of a small regular file, "" when there is no such file."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return ""
    try:
        data = os.read(handle, 8192) if stat.S_ISREG(os.fstat(handle).st_mode) else b""
    except OSError:
        return ""
    finally:
        os.close(handle)
    return os.fsdecode(data).strip()
