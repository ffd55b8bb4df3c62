"""After a kill: finishing or undoing a half-done commit, and telling an abandoned lock of git from one in use."""

from __future__ import annotations

import itertools
import os
import stat

from vault_mem import files, jsontext, processes
from vault_mem.errors import GitRefusedError
from vault_mem.repo import light, objects, shape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ABANDONED_AFTER = 600.0
_RECORD_LIMIT = 1 << 16
_ENVIRON_LIMIT = 1 << 20


def recover(worktree: str, *, state: str, ref: str = "") -> tuple[str, ...]:
    """Brings index and branch together after a writer died between them; tokens of what was done."""
    path = os.path.join(state, light.RECORD)
    try:
        record: Any = jsontext.loads(files.read(path, limit=_RECORD_LIMIT).decode("utf-8", "surrogateescape"))
        writer, start = int(record["pid"]), str(record["start"])
        new_index, index_inode = str(record["index"]["path"]), int(record["index"]["inode"])
        new_ref, ref_inode = str(record["branch"]["path"]), int(record["branch"]["inode"])
        old, new = str(record["old"]), str(record["new"])
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, KeyError, TypeError):
        # Killed while writing it: nothing had been locked yet.
        files.remove(path)
        return ("unreadable-record-removed",)
    if writer != os.getpid() and processes.alive(writer, start):
        return ("writer-alive",)
    try:
        repository = shape.opened(worktree, environ={}, ref=ref)
    except GitRefusedError:
        return ()
    done: list[str] = []
    if record["ref"] == repository.ref and repository.gitdir == record["gitdir"]:
        done = _settled(repository, old=old, new=new, index_inode=index_inode, ref_inode=ref_inode)
    # Paths come from a file of ours, but only names of our own making are removed.
    for temporary in (new_index, new_ref):
        folder, name = os.path.split(temporary)
        if folder == repository.gitdir and name.startswith(light.MARK):
            files.remove(temporary)
    files.remove(path)
    return tuple(done)


def _settled(repository: shape.Repository, *, old: str, new: str, index_inode: int, ref_inode: int) -> list[str]:
    done = []
    for lock in (f"{repository.gitdir}/HEAD.lock", f"{repository.ref_path}.lock"):
        if _is(lock, ref_inode):
            files.remove(lock)
            done.append("own-ref-lock-removed")
    lock = f"{repository.gitdir}/index.lock"
    if _is(lock, index_inode):
        if old != new and _has_reached(repository, new):
            os.rename(lock, f"{repository.gitdir}/index")
            done.append("index-completed")
        else:
            files.remove(lock)
            done.append("own-index-lock-removed")
    return done


def _has_reached(repository: shape.Repository, new: str) -> bool:
    """Whether the branch is at *new* or beyond: our index, locked all the while, is then the one that belongs to it."""
    try:
        tip = shape.tip(repository)
        if tip == new:
            return True
        objects.commits_between(repository.worktree, new, tip)
    except (objects.NotAnAncestorError, shape.SymbolicRefError, GitRefusedError):
        return False
    return True


def _is(path: str, inode: int) -> bool:
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_ino == inode


def abandoned(repository: shape.Repository, lock: str) -> bool:
    """Whether *lock* was left by a process that is gone, and is removed now: old, a regular file, and no git at work here."""
    try:
        found = os.lstat(lock)
    except FileNotFoundError:
        return True
    if not stat.S_ISREG(found.st_mode) or _age(repository, found) < ABANDONED_AFTER or git_is_at_work(repository):
        return False
    aside = f"{repository.gitdir}/{light.MARK}{os.getpid()}.stale.tmp"
    try:
        os.rename(lock, aside)
        if not _is(aside, found.st_ino):
            # A living process put its own lock there since we looked.
            os.link(aside, lock)
            return False
    except OSError:
        return False
    finally:
        files.remove(aside)
    return True


def _age(repository: shape.Repository, found: os.stat_result) -> float:
    """How old a file is by the clock that stamped it: on a network that is another machine's."""
    path = f"{repository.gitdir}/{light.MARK}{os.getpid()}.now.tmp"
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | files.NOT_FOLLOWED, 0o600)
        try:
            return os.fstat(handle).st_mtime - found.st_mtime
        finally:
            os.close(handle)
            files.remove(path)
    except OSError:
        return 0.0


def git_is_at_work(repository: shape.Repository) -> bool:
    """Whether a git process of this user works in the repository; True where processes cannot be listed."""
    places = {os.path.realpath(place) for place in (repository.worktree, repository.gitdir, repository.common)}
    try:
        numbers = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return True
    if str(os.getpid()) not in numbers:
        return True
    return any(_works_in(f"/proc/{number}", places) for number in numbers if int(number) != os.getpid())


def _works_in(process: str, places: set[str]) -> bool:
    try:
        if os.stat(process).st_uid != os.geteuid():
            return False
        arguments = files.read_followed(f"{process}/cmdline").split(b"\0")
        if not os.path.basename(arguments[0]).startswith(b"git"):
            return False
        folder = os.readlink(f"{process}/cwd")
        environment = files.read_followed(f"{process}/environ")[:_ENVIRON_LIMIT].split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return False
    except OSError:
        # One of ours that cannot be looked at may be at work here.
        return True
    named = [folder]
    named += [
        os.fsdecode(value[len(key) :])
        for value in environment
        for key in (b"GIT_DIR=", b"GIT_WORK_TREE=")
        if value.startswith(key)
    ]
    named += [os.fsdecode(after) for option, after in itertools.pairwise(arguments) if option in (b"-C", b"--git-dir")]
    named += [os.fsdecode(option[10:]) for option in arguments if option.startswith(b"--git-dir=")]
    resolved = [os.path.realpath(os.path.join(folder, name)) for name in named]
    return any(name == place or name.startswith(place + "/") for name in resolved for place in places)
