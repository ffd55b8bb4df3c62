"""The object store of a repository: loose objects in this process, everything else through one `git cat-file --batch`."""

from __future__ import annotations

import os
import time
import zlib

from vault_mem import files
from vault_mem.errors import GitRefusedError
from vault_mem.record import NamedTuple
from vault_mem.repo import shape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from hashlib import sha1
    from types import TracebackType
    from typing import Self

    from vault_mem.repo.program import Child
else:
    # The C modules themselves: `hashlib` costs 2-4 ms of CPU.
    try:
        from _sha1 import sha1
    except ImportError:  # another implementation of Python
        from hashlib import sha1

__all__ = [
    "Commit",
    "NotAnAncestorError",
    "Objects",
    "blob_at",
    "blob_oid",
    "commits_between",
    "find",
    "head",
    "head_of",
    "locate",
    "opened",
    "read",
    "sha1",
    "with_entry",
]

NO_ENVIRONMENT: Mapping[str, str] = {}
TREE_MODE = b"40000"
# Git's own for loose objects: the next packing compresses them properly.
_LEVEL = 1
_WALK = 64


class NotAnAncestorError(Exception):
    """The older commit is not in the history of the newer one: rewritten, rolled back, or another repository."""


class Commit(NamedTuple):
    """A commit as stored."""

    oid: str
    tree: str
    parents: tuple[str, ...]
    message: str


class Objects:
    """Reads and writes objects; one helper process for all that are not loose, ended on leaving the `with` block."""

    def __init__(self, repository: shape.Repository, *, environ: Mapping[str, str]) -> None:
        self.repository = repository
        self.environ = environ
        self._store = f"{repository.common}/objects"
        self._child: Child | None = None
        self._left = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.finish(b"", limit=2.0)

    def read(self, oid: str) -> tuple[bytes, bytes]:
        """Kind and content of an object; GitRefusedError when it is missing or damaged."""
        return self.loose(oid) or self._asked(oid)

    def loose(self, oid: str) -> tuple[bytes, bytes] | None:
        """Kind and content of an object that lies alone in its file here; None when git has to be asked for it."""
        if len(oid) != 40:
            return None
        try:
            return _unpacked(zlib.decompress(files.read_followed(f"{self._store}/{oid[:2]}/{oid[2:]}")))
        except (FileNotFoundError, zlib.error, ValueError):
            return None
        except OSError as error:
            raise shape.refused(error) from error

    def commit(self, oid: str) -> Commit:
        """The commit *oid*."""
        kind, body = self.read(oid)
        if kind != b"commit":
            raise GitRefusedError("git-failed:not a commit", oid)
        return _commit(oid, body)

    def entry(self, tree: str, path: str) -> tuple[bytes, str] | None:
        """Mode and name of the object at *path* below *tree*; None when there is none."""
        mode, oid = TREE_MODE, tree
        for part in os.fsencode(path).split(b"/"):
            found = find(self.read(oid)[1], part, len(oid) // 2) if mode == TREE_MODE else None
            if found is None:
                return None
            mode, oid = found
        return mode, oid

    def write(self, kind: bytes, body: bytes, *, durable: bool) -> str:
        """Stores a loose object and gives its name; one that is there already is kept from pruning."""
        raw = b"%s %d\0" % (kind, len(body)) + body
        oid = sha1(raw).hexdigest()  # noqa: S324 - the name git uses
        folder = f"{self._store}/{oid[:2]}"
        path = f"{folder}/{oid[2:]}"
        try:
            os.utime(path)
            return oid
        except FileNotFoundError:
            pass
        except PermissionError:
            # Somebody else's file in a shared store; it is there, that is enough.
            return oid
        # The name under which git's own clean-up finds it when we are killed here.
        temporary = f"{self._store}/tmp_obj_{os.getpid()}_{time.perf_counter_ns()}"  # noqa: S108 - inside the store
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | files.NOT_FOLLOWED, 0o444)
        try:
            try:
                files.write_handle(handle, zlib.compress(raw, _LEVEL))
                if durable:
                    os.fsync(handle)
            finally:
                os.close(handle)
            try:
                os.rename(temporary, path)
            except FileNotFoundError:
                files.make_dirs(folder, 0o777)
                os.rename(temporary, path)
        except BaseException:
            files.remove(temporary)
            raise
        return oid

    def _asked(self, oid: str) -> tuple[bytes, bytes]:
        if self._child is None:
            from vault_mem.repo import program

            git = program.found(self.environ)
            worktree = self.repository.worktree
            arguments = [git, *program.hardening(), "-C", worktree, "cat-file", "--batch"]
            extra = {"GIT_NO_LAZY_FETCH": "1", "GIT_NO_REPLACE_OBJECTS": "1"}
            self._child = program.Child(arguments, program.scrubbed(self.environ, worktree=worktree) | extra)
        try:
            files.write_handle(self._child.stdin, oid.encode() + b"\n")
        except BrokenPipeError as error:
            raise GitRefusedError("git-failed:git cat-file ended", oid) from error
        header = self._line()
        fields = header.split(b" ")
        if len(fields) != 3 or not fields[2].isdigit():
            raise GitRefusedError(f"git-failed:object {oid} {header.split(b' ')[-1].decode('utf-8', 'replace')}")
        body = self._bytes(int(fields[2]) + 1)
        return fields[1], body[:-1]

    def _line(self) -> bytes:
        while b"\n" not in self._left:
            self._more()
        line, _, self._left = self._left.partition(b"\n")
        return line

    def _bytes(self, count: int) -> bytes:
        while len(self._left) < count:
            self._more()
        data, self._left = self._left[:count], self._left[count:]
        return data

    def _more(self) -> None:
        import select

        child = self._child
        if child is None or not select.select([child.stdout], [], [], 10.0)[0]:
            raise GitRefusedError("timeout", "git cat-file")
        part = os.read(child.stdout, 1 << 16)
        if not part:
            self._child = None
            answer = child.finish(b"", limit=2.0)
            from vault_mem.repo import program

            raise program.refusal(answer)
        self._left += part


def _unpacked(raw: bytes) -> tuple[bytes, bytes]:
    end = raw.index(b"\0")
    return raw[:end].split(b" ")[0], raw[end + 1 :]


def _commit(oid: str, body: bytes) -> Commit:
    head, _, message = body.partition(b"\n\n")
    tree, parents = "", []
    for line in head.split(b"\n"):
        name, _, value = line.partition(b" ")
        if name == b"tree":
            tree = value.decode("ascii", "replace")
        elif name == b"parent":
            parents.append(value.decode("ascii", "replace"))
        elif name == b"author":
            break
    return Commit(oid, tree, tuple(parents), message.decode("utf-8", "replace"))


def blob_oid(data: bytes, *, like: str = "") -> str:
    """The name git gives to these bytes, in the hash that *like* (any object name) is made with."""
    raw = b"blob %d\0" % len(data) + data
    if len(like) != 64:
        return sha1(raw).hexdigest()  # noqa: S324 - the name git uses
    from hashlib import sha256

    return sha256(raw).hexdigest()


def find(tree: bytes, name: bytes, width: int = 20) -> tuple[bytes, str] | None:
    """Mode and object name of the entry *name* in the content of a tree."""
    span = locate(tree, name, width)
    if span is None:
        return None
    mode, _, rest = tree[span[0] : span[1]].partition(b" ")
    return mode, rest[-width:].hex()


def locate(tree: bytes, name: bytes, width: int = 20) -> tuple[int, int] | None:
    """Start and end of the entry *name* in the content of a tree."""
    position = 0
    # Without this the walk below would be taken for every new file; it proves absence, never presence.
    if b" " + name + b"\0" not in tree:
        return None
    while position < len(tree):
        space = tree.index(b" ", position)
        end = tree.index(b"\0", space) + 1 + width
        if tree[space + 1 : end - 1 - width] == name:
            return position, end
        position = end
    return None


def with_entry(tree: bytes, name: bytes, entry: tuple[bytes, str] | None) -> bytes:
    """The content of a tree in which *name* is *entry* (mode, object name), or is gone."""
    new = b"" if entry is None else entry[0] + b" " + name + b"\0" + bytes.fromhex(entry[1])
    span = locate(tree, name)
    if span is not None:
        if entry is None or (tree[span[0] : span[1]].startswith(TREE_MODE) == (entry[0] == TREE_MODE)):
            return tree[: span[0]] + new + tree[span[1] :]
        # A folder sorts elsewhere than a file of the same name.
        tree = tree[: span[0]] + tree[span[1] :]
    if entry is None:
        return tree
    position = _place(tree, name + b"/" if entry[0] == TREE_MODE else name)
    return tree[:position] + new + tree[position:]


def _place(tree: bytes, key: bytes) -> int:
    position = 0
    while position < len(tree):
        space = tree.index(b" ", position)
        end = tree.index(b"\0", space)
        name = tree[space + 1 : end]
        if (name + b"/" if tree[position:space] == TREE_MODE else name) > key:
            return position
        position = end + 21
    return position


def head(worktree: str, *, environ: Mapping[str, str] = NO_ENVIRONMENT, ref: str = "") -> str | None:
    """The commit HEAD, or the private *ref*, is at; None when it has none yet."""
    return head_of(shape.opened(worktree, environ=environ, ref=ref), environ=environ)


def head_of(repository: shape.Repository, *, environ: Mapping[str, str]) -> str | None:
    """Like `head`, for a repository already opened."""
    try:
        if repository.why not in ("reftable", "linked-head"):
            if repository.ref:
                return shape.tip(repository) or None
            text = shape.head_text(repository)
            return text if shape.is_oid(text) else None
    except shape.SymbolicRefError:
        pass
    except OSError as error:
        raise shape.refused(error) from error
    worktree = repository.worktree
    from vault_mem.repo import program

    name = repository.ref if repository.private else "HEAD"
    answer = program.run(["rev-parse", "-q", "--verify", name], worktree=worktree, environ=environ)
    text = answer.out.decode("ascii", "replace").strip()
    return text if answer.code == 0 and shape.is_oid(text) else None


def read(worktree: str, oid: str, *, environ: Mapping[str, str] = NO_ENVIRONMENT) -> tuple[bytes, bytes]:
    """Kind and content of an object."""
    with opened(worktree, environ=environ) as store:
        return store.read(oid)


def opened(worktree: str, *, environ: Mapping[str, str] = NO_ENVIRONMENT) -> Objects:
    """The object store of the repository at *worktree*, for several questions with one helper process."""
    return Objects(shape.opened(worktree, environ=environ), environ=environ)


def blob_at(worktree: str, commit: str, path: str, *, environ: Mapping[str, str] = NO_ENVIRONMENT) -> str | None:
    """The blob that *commit* has at *path*; None when there is no file."""
    with opened(worktree, environ=environ) as store:
        found = store.entry(store.commit(commit).tree, path)
    return found[1] if found and found[0] != TREE_MODE else None


def commits_between(
    worktree: str, old: str, new: str, *, environ: Mapping[str, str] = NO_ENVIRONMENT
) -> Iterable[tuple[str, str]]:
    """Name and message of the commits after *old* up to *new*, oldest first; all up to *new* when *old* is empty.

    NotAnAncestorError when *old* is not in the history of *new*.
    """
    if old == new:
        return []
    with opened(worktree, environ=environ) as store:
        walked = _walked(store, old, new)
    return walked if walked is not None else _logged(worktree, old, new, environ)


def _walked(store: Objects, old: str, new: str) -> list[tuple[str, str]] | None:
    """The commits of a short line of loose commits without merges; None when git has to be asked."""
    found: list[tuple[str, str]] = []
    current = new
    while len(found) < _WALK:
        loose = store.loose(current)
        if loose is None or loose[0] != b"commit":
            return None
        commit = _commit(current, loose[1])
        found.append((current, commit.message))
        if len(commit.parents) > 1:
            return None
        current = commit.parents[0] if commit.parents else ""
        if current == old:
            return found[::-1]
        if not current:
            raise NotAnAncestorError(old)
    return None


def _logged(worktree: str, old: str, new: str, environ: Mapping[str, str]) -> list[tuple[str, str]]:
    from vault_mem.repo import program

    span = [new, f"^{old}"] if old else [new]
    arguments = [
        "log",
        "-z",
        "--boundary",
        "--topo-order",
        "--reverse",
        "--no-color",
        "--no-show-signature",
        "--format=%m%H%n%B",
        *span,
        "--",
    ]
    answer = program.run(arguments, worktree=worktree, environ=environ)
    if answer.code:
        raise NotAnAncestorError(old)
    found: list[tuple[str, str]] = []
    ancestor = not old
    for record in answer.out.decode("utf-8", "replace").split("\0"):
        first, _, message = record.partition("\n")
        if first.startswith("-"):
            ancestor = ancestor or first[1:] == old
        elif first:
            found.append((first[1:], message))
    if not ancestor:
        raise NotAnAncestorError(old)
    return found
