"""One commit without a child process: loose objects, the changed trees only, the index and the branch moved together.

The index is locked before the branch moves and put in place after it, so that no other git sees one without the other. A writer that is
killed between those two leaves a record (`committing.json`) by which `recovery` finishes or undoes its work (details in
docs/explanation/commits.md).
"""

from __future__ import annotations

import errno
import os
import time

from vault_mem import files, jsontext, processes
from vault_mem.errors import GitRefusedError
from vault_mem.record import NamedTuple
from vault_mem.repo import index, objects, shape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vault_mem.repo.identity import Identity
    from vault_mem.repo.shape import Committed, Repository, Request

RECORD = "committing.json"
# `vault-mem-<pid>-...tmp` beside the index: what of it belongs to no living process is removed by the next commit.
MARK = "vault-mem-"
PATIENCE = 0.3
_NOTHING = "0" * 40
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EXDEV, errno.EMLINK, errno.ENOSYS)


class NotLightError(Exception):
    """Only git itself may do this; the text says why."""


class _Plan(NamedTuple):
    """A commit that is stored but not yet on the branch; *new* equals *old* when only the index has to change, if not *settled*."""

    base: index.Index
    content: bytes
    old: str
    new: str
    settled: bool


def commit(
    repository: Repository,
    request: Request,
    *,
    who: Callable[[], Identity],
    environ: Mapping[str, str],
    state: str,
    durable: bool,
    deadline: float,
    first: bool = False,
) -> Committed | None:
    """Commits on the branch HEAD names, on one without commits only as its *first*; None when HEAD or index changed meanwhile.

    None, NotLightError or GitRefusedError: nothing has changed but for unreferenced objects. *deadline* (of `time.monotonic`) bounds the
    wait for the locks of another git.
    """
    with objects.Objects(repository, environ=environ) as store:
        plan, blobs = _planned(store, request, who=who, durable=durable, first=first)
    if plan.new == plan.old:
        if plan.settled:
            return shape.Committed(plan.old, plan.old, "none", blobs)
        line, backend = "", "index"
    else:
        stamp = f"{who().committer} {max(int(request.at), 0)} +0000"
        line, backend = f"{plan.old or _NOTHING} {plan.new} {stamp}\tcommit: {flat(request.subject)}\n", "light"
    move = Move(repository, plan, state=state, durable=durable, deadline=deadline)
    return shape.Committed(plan.new, plan.old, backend, blobs) if move.made(encoded(line)) else None


def message(request: Request) -> str:
    """Subject, empty line, one line a trailer; a trailer without a value is left out."""
    lines = [flat(request.subject), ""]
    lines += [f"{flat(key)}: {flat(value)}" for key, value in request.trailers if flat(value)]
    return "\n".join(lines).rstrip("\n") + "\n"


def encoded(text: str) -> bytes:
    """UTF-8, bytes that came in undecodable as they were; what cannot be written at all becomes `?`."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def flat(text: str) -> str:
    """*text* as one line: line breaks and control characters become spaces."""
    return " ".join("".join(" " if ord(c) < 32 or c in "\x7f\x85\u2028\u2029" else c for c in text).split())


def checked_path(path: str) -> bytes:
    """The bytes of a path inside a work tree; GitRefusedError `bad-path` for one that leads elsewhere."""
    parts = path.split("/")
    if "\0" in path or any(part in ("", ".", "..") or part.lower() == ".git" for part in parts):
        raise GitRefusedError("bad-path", path)
    return os.fsencode(path)


def _planned(
    store: objects.Objects, request: Request, *, who: Callable[[], Identity], durable: bool, first: bool
) -> tuple[_Plan, dict[str, str]]:
    repository = store.repository
    try:
        base = index.Index(b"", ()) if repository.private else index.read(f"{repository.gitdir}/index")
        old = shape.tip(repository)
        if not old and not first:
            raise GitRefusedError("unborn")
        entries: dict[bytes, index.Entry | None] = {}
        blobs: dict[str, str] = {}
        for change in request.changes:
            name = checked_path(change.path)
            entries[name] = entry = _entry(store, change, durable=durable)
            if entry is not None:
                blobs[change.path] = entry.oid
        before = store.commit(old).tree if old else ""
        after = _tree(store, before, dict(entries), durable=durable) or store.write(b"tree", b"", durable=durable)
        content, differs = (b"", False) if repository.private else index.edited(base, entries, repository.worktree)
        new = old
        if after != before or request.allow_empty:
            new = store.write(b"commit", _text(request, after, old, who()), durable=durable)
    except index.OddIndexError as error:
        raise NotLightError(f"index: {error}") from error
    except shape.SymbolicRefError as error:
        raise NotLightError("symbolic branch") from error
    except OSError as error:
        raise shape.refused(error) from error
    return _Plan(base, content, old, new, not differs), blobs


def _entry(store: objects.Objects, change: shape.Change, *, durable: bool) -> index.Entry | None:
    if change.data is None:
        return None
    oid = store.write(b"blob", change.data, durable=durable)
    if store.repository.private:
        return index.Entry(oid, index.REGULAR, None)
    found = _same_file(f"{store.repository.worktree}/{change.path}", change.data)
    mode = index.REGULAR
    if found and found.st_mode & 0o100 and shape.truth(store.repository.config.get("core.filemode", "true")):
        mode = index.EXECUTABLE
    return index.Entry(oid, mode, found)


def _same_file(path: str, data: bytes) -> os.stat_result | None:
    """The file in the work tree when it holds exactly *data*: only then may its times vouch for the content."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | files.NOT_FOLLOWED)
    except OSError:
        return None
    try:
        found = os.fstat(handle)
        return found if found.st_size == len(data) and files.read_handle(handle, len(data)) == data else None
    except OSError:
        return None
    finally:
        os.close(handle)


def _tree(store: objects.Objects, oid: str, entries: Mapping[bytes, index.Entry | None], *, durable: bool) -> str:
    """The tree *oid* ('' for none) with *entries* put in or taken out; '' when nothing is left in it."""
    body = before = store.read(oid)[1] if oid else b""
    folders: dict[bytes, dict[bytes, index.Entry | None]] = {}
    for path, entry in entries.items():
        name, slash, rest = path.partition(b"/")
        if slash:
            folders.setdefault(name, {})[rest] = entry
            continue
        found = objects.find(body, name)
        if found and found[0] == objects.TREE_MODE:
            raise GitRefusedError("path-conflict", os.fsdecode(path))
        body = objects.with_entry(body, name, (b"%o" % entry.mode, entry.oid) if entry else None)
    for name, inner in folders.items():
        found = objects.find(body, name)
        if found and found[0] != objects.TREE_MODE:
            if all(entry is None for entry in inner.values()):
                continue
            raise GitRefusedError("path-conflict", os.fsdecode(name))
        new = _tree(store, found[1] if found else "", inner, durable=durable)
        body = objects.with_entry(body, name, (objects.TREE_MODE, new) if new else None)
    if body == before:
        return oid
    return store.write(b"tree", body, durable=durable) if body else ""


def _text(request: Request, tree: str, parent: str, who: Identity) -> bytes:
    at = max(int(request.at), 0)
    above = f"parent {parent}\n" if parent else ""
    text = f"tree {tree}\n{above}author {who.author} {at} +0000\ncommitter {who.committer} {at} +0000\n\n{message(request)}"
    return encoded(text)


class Move:
    """Puts a stored commit on the branch and the index beside it, or leaves everything as it was."""

    def __init__(self, repository: Repository, plan: _Plan, *, state: str, durable: bool, deadline: float) -> None:
        mark = f"{MARK}{os.getpid()}-{time.perf_counter_ns()}"
        self.repository = repository
        self.plan = plan
        self.durable = durable
        self.deadline = deadline
        self.record = os.path.join(state, RECORD)
        self.new_index = f"{repository.gitdir}/{mark}.index.tmp"
        self.new_ref = f"{repository.gitdir}/{mark}.ref.tmp"
        self.locks: list[str] = []

    def made(self, line: bytes) -> bool:
        """Whether it is done; False when somebody was faster and everything has to be planned again."""
        try:
            try:
                self._noted()
                if self.repository.private:
                    return self._moved(line)
                self._locked(self.new_index, f"{self.repository.gitdir}/index.lock", "index-locked")
                return index.is_still(f"{self.repository.gitdir}/index", self.plan.base) and self._moved(line)
            except OSError as error:
                raise shape.refused(error) from error
        finally:
            self._tidied()

    def _noted(self) -> None:
        """Writes the new index and the new value of the branch beside their places, and who is about to put them there."""
        index_inode = 0
        if not self.repository.private:
            index_inode = _stored(self.new_index, self.plan.content, durable=self.durable)
        ref_inode = _stored(self.new_ref, self.plan.new.encode() + b"\n", durable=self.durable)
        record = {
            "pid": os.getpid(),
            "start": processes.start_time(os.getpid()) or "",
            "gitdir": self.repository.gitdir,
            "common": self.repository.common,
            "ref": self.repository.ref,
            "old": self.plan.old,
            "new": self.plan.new,
            "index": {"path": self.new_index, "inode": index_inode},
            "branch": {"path": self.new_ref, "inode": ref_inode},
        }
        handle = _made(self.record)
        try:
            files.write_handle(handle, jsontext.dumps(record).encode("utf-8", "surrogateescape"))
        finally:
            os.close(handle)

    def _locked(self, source: str, lock: str, reason: str) -> None:
        """Links *source*, content and all, to the name by which git locks; waits a little when somebody else holds it."""
        wait = 0.002
        while True:
            try:
                os.link(source, lock)
            except FileExistsError as error:
                if time.monotonic() + wait > self.deadline:
                    raise GitRefusedError(reason, lock) from error
            except FileNotFoundError:
                # The folder of a branch that was packed may be gone.
                files.make_dirs(os.path.dirname(lock), 0o777)
            except OSError as error:
                if error.errno in _NO_LINKS:
                    raise NotLightError("no hard links here") from error
                raise
            else:
                self.locks.append(lock)
                return
            time.sleep(wait)
            wait = min(wait * 2, 0.03)

    def _moved(self, line: bytes) -> bool:
        repository = self.repository
        if self.plan.new != self.plan.old:
            if not repository.private:
                # Git locks HEAD too while it moves the branch HEAD names: nobody may switch branches in between.
                self._locked(self.new_ref, f"{repository.gitdir}/HEAD.lock", "ref-locked")
            self._locked(self.new_ref, f"{repository.ref_path}.lock", "ref-locked")
            try:
                if not repository.private and shape.head_text(repository) != f"ref: {repository.ref}":
                    return False
                if shape.tip(repository) != self.plan.old:
                    return False
            except shape.SymbolicRefError:
                return False
            self._logged(line)
            os.rename(f"{repository.ref_path}.lock", repository.ref_path)
            self.locks.remove(f"{repository.ref_path}.lock")
        elif shape.tip(repository) != self.plan.old:
            return False
        return self._finished()

    def _finished(self) -> bool:
        """The branch has moved; from here on nothing is a refusal any more. What fails now `recovery` does again."""
        lock = f"{self.repository.gitdir}/index.lock"
        try:
            if not self.repository.private:
                self.locks.remove(lock)
                os.rename(lock, f"{self.repository.gitdir}/index")
            if self.durable:
                files.sync_directory(os.path.dirname(self.repository.ref_path))
        except OSError:
            self.record = ""
        return True

    def _logged(self, line: bytes) -> None:
        wanted = shape.truth(self.repository.config.get("core.logallrefupdates", "true").replace("always", "true"))
        paths = [f"{self.repository.common}/logs/{self.repository.ref}", f"{self.repository.gitdir}/logs/HEAD"]
        if self.repository.private:
            # Git keeps no log of such a reference by itself, and ours is the only way back after a mistake.
            wanted = bool(paths.pop())
        for path in paths:
            flags = os.O_WRONLY | os.O_APPEND | files.NOT_FOLLOWED | (os.O_CREAT if wanted else 0)
            try:
                handle = os.open(path, flags, 0o666)
            except FileNotFoundError:
                if not wanted:
                    continue
                files.make_dirs(os.path.dirname(path), 0o777)
                handle = os.open(path, flags, 0o666)
            try:
                files.write_handle(handle, line)
            finally:
                os.close(handle)

    def _tidied(self) -> None:
        for path in (*self.locks, self.new_index, self.new_ref, self.record):
            try:
                os.unlink(path)
            except OSError:
                pass


def _stored(path: str, data: bytes, *, durable: bool) -> int:
    """Writes a new file and gives its inode."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | files.NOT_FOLLOWED, 0o666)
    try:
        files.write_handle(handle, data)
        if durable:
            os.fsync(handle)
        return os.fstat(handle).st_ino
    finally:
        os.close(handle)


def _made(path: str) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | files.NOT_FOLLOWED
    try:
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        files.make_dirs(os.path.dirname(path))
        return os.open(path, flags, 0o600)
