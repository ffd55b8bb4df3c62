"""What kind of repository lies at a place, what its HEAD says, and whether it is in a state to take a commit."""

from __future__ import annotations

import os
import stat

from vault_mem import files
from vault_mem.errors import GitRefusedError
from vault_mem.record import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_HEX = frozenset("0123456789abcdef")
_CONFIG_LIMIT = 1 << 20
# State files of operations that only the person can end. HEAD is often detached meanwhile, so they are looked at first.
_OPERATIONS = (
    ("MERGE_HEAD", "merge-in-progress"),
    ("rebase-merge", "rebase-in-progress"),
    ("rebase-apply", "rebase-in-progress"),
    ("CHERRY_PICK_HEAD", "cherry-pick-in-progress"),
    ("REVERT_HEAD", "revert-in-progress"),
    ("sequencer", "cherry-pick-in-progress"),
    ("BISECT_LOG", "bisect-in-progress"),
)
_HARMLESS_EXTENSIONS = ("noop", "noop-v1", "preciousobjects", "relativeworktrees", "worktreeconfig")


class Change(NamedTuple):
    """One file of a commit: its path from the top of the work tree, and its bytes; None removes it."""

    path: str
    data: bytes | None


class Request(NamedTuple):
    """A commit to make: subject and trailers become its message, *at* (seconds since the epoch) its date, in UTC.

    Files that HEAD holds already make no commit unless *allow_empty*.
    """

    changes: tuple[Change, ...]
    subject: str
    trailers: tuple[tuple[str, str], ...]
    at: float
    allow_empty: bool = False


class Committed(NamedTuple):
    """What HEAD is now. Nothing was committed when *oid* equals *parent*: HEAD held these bytes already."""

    oid: str
    parent: str
    backend: str
    blobs: dict[str, str]
    notes: tuple[str, ...] = ()


class Repository(NamedTuple):
    """A repository with a work tree. *ref* is the branch HEAD names, empty when detached; *why* says why only git itself may write here.

    *private*: *ref* is one of our own beside the person's branches, and neither HEAD nor index has anything to do with it.
    """

    worktree: str
    gitdir: str
    common: str
    ref: str
    why: str
    names: frozenset[str]
    config: dict[str, str]
    private: bool = False

    @property
    def ref_path(self) -> str:
        """The file of the branch."""
        return f"{self.common}/{self.ref}"


class SymbolicRefError(Exception):
    """A reference names another one; only git follows those."""


def opened(worktree: str, *, environ: Mapping[str, str], ref: str = "") -> Repository:
    """The repository whose work tree is exactly *worktree*; GitRefusedError `not-a-repository` when there is none.

    With *ref* everything is about that private reference instead of the branch that HEAD names.
    """
    gitdir = _gitdir(worktree)
    try:
        names = frozenset(os.listdir(gitdir))
        common = _common(gitdir, names)
        head = "" if os.path.islink(f"{gitdir}/HEAD") else _text(f"{gitdir}/HEAD")
        config = settings(
            _text(f"{common}/config") if "config" in (names if common == gitdir else os.listdir(common)) else ""
        )
        ours = _is_ours(worktree, gitdir, environ)
    except FileNotFoundError as error:
        raise GitRefusedError("not-a-repository", error.filename or worktree) from error
    except OSError as error:
        raise refused(error) from error
    if ref:
        head = "ref: refs/heads/any"
    why = _why(worktree, gitdir, head, config) if ours else "owner"
    branch = head[4:].strip() if head.startswith("ref:") else ""
    return Repository(worktree, gitdir, common, ref or branch, why, names, config, bool(ref))


def places(worktree: str) -> tuple[str, str]:
    """The git directory of *worktree* and the one it shares with its sister work trees; GitRefusedError `not-a-repository`."""
    gitdir = _gitdir(worktree)
    try:
        return gitdir, _common(gitdir, frozenset(os.listdir(gitdir)))
    except OSError as error:
        raise GitRefusedError("not-a-repository", worktree) from error


def refusal(repository: Repository) -> str:
    """The token of what keeps this repository from taking a commit on its branch; empty when nothing does."""
    for name, token in () if repository.private else _OPERATIONS:
        if name in repository.names:
            return token
    if repository.why in ("reftable", "linked-head"):
        return ""
    if not repository.ref:
        return "detached-head"
    try:
        return "" if tip(repository) else "unborn"
    except SymbolicRefError:
        return ""


def tip(repository: Repository) -> str:
    """The commit the branch is at; empty when it has none. SymbolicRefError when the branch is an alias."""
    try:
        text = _text(repository.ref_path)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return packed_tip(repository)
    if text.startswith("ref:"):
        raise SymbolicRefError(text)
    return text if is_oid(text) else packed_tip(repository)


def packed_tip(repository: Repository) -> str:
    """The commit `packed-refs` has for the branch; empty when it has none."""
    try:
        packed = files.read_followed(f"{repository.common}/packed-refs")
    except FileNotFoundError:
        return ""
    end = packed.find(b" " + os.fsencode(repository.ref) + b"\n")
    oid = packed[packed.rfind(b"\n", 0, max(end, 0)) + 1 : max(end, 0)].decode("ascii", "replace")
    return oid if is_oid(oid) else ""


def head_text(repository: Repository) -> str:
    """What HEAD says now, without the end of line."""
    return _text(f"{repository.gitdir}/HEAD")


def is_oid(text: str) -> bool:
    """Whether *text* is a whole object name of either kind."""
    return len(text) in (40, 64) and _HEX.issuperset(text)


def truth(value: str) -> bool:
    """A git boolean."""
    return value.lower() in ("true", "yes", "on") or (value.lstrip("+-").isdigit() and int(value) != 0)


def settings(text: str) -> dict[str, str]:
    """The last value of every `section.key` or `section.subsection.key` in the text of a git configuration file; a key alone is `true`."""
    found: dict[str, str] = {}
    section = ""
    # A backslash before the end of a line goes on with the next one, unless it is itself escaped; the stand-in is no text git would read.
    joined = text.replace("\r\n", "\n").replace("\\\\", "\0").replace("\\\n", "").replace("\0", "\\\\")
    for raw in joined.split("\n"):
        line = raw.strip()
        if line.startswith("["):
            section, line = _section(line)
        if not line or line[0] in "#;":
            continue
        key, equals, value = line.partition("=")
        found[f"{section}.{key.strip().lower()}"] = _value(value) if equals else "true"
    return found


def refused(error: OSError) -> GitRefusedError:
    """The refusal that a failed system call amounts to."""
    import errno

    where = error.filename if isinstance(error.filename, str) else ""
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return GitRefusedError("read-only", where)
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return GitRefusedError("disk-full", where)
    return GitRefusedError(f"git-failed:{error.strerror or error}", where)


def _gitdir(worktree: str) -> str:
    path = f"{worktree}/.git"
    try:
        kind = os.stat(path).st_mode
    except OSError as error:
        raise GitRefusedError("not-a-repository", worktree) from error
    if stat.S_ISDIR(kind):
        return path
    try:
        text = _text(path)
    except OSError as error:
        raise GitRefusedError("not-a-repository", path) from error
    if not text.startswith("gitdir:"):
        raise GitRefusedError("not-a-repository", path)
    return os.path.normpath(os.path.join(worktree, text[7:].strip()))


def _common(gitdir: str, names: frozenset[str]) -> str:
    if "commondir" not in names:
        if not names.issuperset(("HEAD", "objects", "refs")):
            raise FileNotFoundError(2, "no repository", gitdir)
        return gitdir
    return os.path.normpath(os.path.join(gitdir, _text(f"{gitdir}/commondir")))


def _text(path: str) -> str:
    return os.fsdecode(files.read_followed(path, limit=_CONFIG_LIMIT)).rstrip("\n")


def _why(worktree: str, gitdir: str, head: str, config: dict[str, str]) -> str:
    if config.get("extensions.refstorage", "files").lower() != "files":
        return "reftable"
    if not head:
        return "linked-head"
    if config.get("extensions.objectformat", "sha1").lower() != "sha1":
        return "object-format"
    for key in config:
        if key.startswith("extensions.") and key[11:] not in (*_HARMLESS_EXTENSIONS, "objectformat", "refstorage"):
            return "extension"
    if truth(config.get("core.bare", "false")):
        return "bare"
    # A shared repository wants modes and groups of its own on every file made.
    if config.get("core.sharedrepository", "umask").lower() not in ("umask", "false", "0"):
        return "shared"
    other = config.get("core.worktree")
    if other and os.path.realpath(os.path.join(gitdir, other)) != os.path.realpath(worktree):
        raise GitRefusedError("not-a-repository", f"core.worktree is {other}")
    if head.startswith("ref:") and not head[4:].strip().startswith("refs/heads/"):
        return "odd-head"
    return ""


def _is_ours(worktree: str, gitdir: str, environ: Mapping[str, str]) -> bool:
    """The rule of git's `safe.directory` without its exceptions, which only git knows: work tree and repository belong to this user."""
    user = os.geteuid()
    allowed = {user}
    behind = environ.get("SUDO_UID", "")
    if user == 0 and behind.isdigit():
        allowed.add(int(behind))
    return all(os.stat(path).st_uid in allowed for path in (worktree, gitdir))


def _section(line: str) -> tuple[str, str]:
    """Name of the section a header line opens, and what follows the header on that line."""
    name, quote, rest = line[1:].partition('"')
    if not quote or "]" in name:
        name, _, rest = line[1:].partition("]")
        return name.strip().lower(), rest.strip()
    subsection, escaped = "", False
    for index, character in enumerate(rest):
        if escaped or character not in '\\"':
            subsection, escaped = subsection + character, False
        elif character == "\\":
            escaped = True
        else:
            return f"{name.strip().lower()}.{subsection}", rest[index + 1 :].partition("]")[2].strip()
    return name.strip().lower(), ""


def _value(text: str) -> str:
    text = text.strip()
    if not any(character in text for character in '"\\#;'):
        return text
    parts: list[str] = []
    quoted = escaped = False
    for character in text:
        if escaped:
            parts.append({"n": "\n", "t": "\t", "b": "\b"}.get(character, character))
            escaped = False
        elif character == "\\":
            escaped = True
        elif character == '"':
            quoted = not quoted
        elif character in "#;" and not quoted:
            break
        else:
            parts.append(character)
    return "".join(parts).strip()
