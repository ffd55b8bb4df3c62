"""Looks at what the hooks keep: locks, owed commits, deliveries, cursors, the log, and whether there is room to write."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Any

from vault_mem import checkpoints, files, jsontext, lock, processes, receipts, stamps, wakes
from vault_mem.doctor.scene import Logged, State
from vault_mem.repo import create, light
from vault_mem.session import continuity
from vault_mem.vault import commits
from vault_mem.vault import store as seats

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vault_mem.doctor.scene import Git, Place, Trusting

DAY = 86_400.0
LOG_TAIL = 128 << 10
KINDS_OF_STATE = ("cursors", "deliveries", "sessions", "handoff", "spool")
_WHOLE = ("boot-receipt.json", commits.PENDING, "identity.json")


def runtime_of(place: Place, trusting: Trusting, git: Git) -> str:
    """Where this seat keeps its state."""
    if trusting.mode == seats.EMBEDDED and git.gitdir:
        return create.embedded_runtime(git.worktree, trusting.ref)
    return f"{place.memory}/runtime"


def look(*, place: Place, trusting: Trusting, git: Git, now: float) -> State:
    """The state as it is; nothing is made, and the vault lock is held for a moment only to see whether it is free."""
    runtime = runtime_of(place, trusting, git)
    problem = ""
    if os.path.islink(runtime):
        problem = "is a symbolic link"
    elif os.path.lexists(runtime) and not os.path.isdir(runtime):
        problem = "is no directory"
    free, free_files = _room(place.memory)
    held, unusable = _lock(f"{runtime}/{seats.LOCK}")
    rows = () if problem else tuple(_log(runtime, since=now - DAY))
    return State(
        runtime=runtime,
        runtime_problem=problem,
        read_only=tuple(_unwritable(place, git, runtime)),
        free=free,
        free_files=free_files,
        lock_held=held,
        lock_problem=unusable,
        pending=_pending(runtime),
        intents=tuple((each.session, each.capsule, each.at) for each in receipts.intents(runtime) if not each.done),
        spool=_count(f"{runtime}/spool"),
        bad_files=tuple(_damaged(runtime)),
        temporaries=tuple(_temporaries(place.memory, git.gitdir, now=now)),
        unfinished=_unfinished(runtime),
        unsaved=tuple(cursor.session for cursor in receipts.behind(runtime, skip="")),
        log=rows,
        seen_hooks=os.path.exists(f"{runtime}/log.jsonl"),
        context=() if problem else continuity.findings(checkpoints.states(runtime)),
        watcher="" if problem else wakes.stopped(runtime, now=now),
        overdue=() if problem else wakes.overdue(runtime, now=now),
    )


def _room(path: str) -> tuple[int | None, int | None]:
    try:
        room = os.statvfs(path)
    except OSError:
        return None, None
    # Some file systems make files as they need them and report none.
    return room.f_bavail * room.f_frsize, room.f_favail if room.f_files else None


def _unwritable(place: Place, git: Git, runtime: str) -> Iterator[str]:
    paths = [place.memory, f"{place.memory}/capsules", runtime, git.gitdir, git.gitdir and f"{git.gitdir}/objects"]
    for path in paths:
        if path and os.path.isdir(path):
            is_mounted_so = bool(os.statvfs(path).f_flag & os.ST_RDONLY)
            if is_mounted_so or not os.access(path, os.W_OK | os.X_OK):
                yield path


def _lock(path: str) -> tuple[str, str]:
    """Who holds the lock ("" when nobody does), and why the file is no lock."""
    try:
        status = os.lstat(path)
    except OSError:
        return "", ""
    if not stat.S_ISREG(status.st_mode):
        return "", "is a symbolic link" if stat.S_ISLNK(status.st_mode) else "is no regular file"
    if not lock.HAS_FLOCK:
        return "", ""
    import fcntl

    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | files.NOT_FOLLOWED)
    except OSError as error:
        return "", error.strerror or "cannot be opened"
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _holder(status.st_ino) or "another process", ""
    except OSError as error:
        return "", error.strerror or "cannot be locked"
    finally:
        os.close(handle)
    return "", ""


def _holder(inode: int) -> str:
    try:
        rows = files.read_followed("/proc/locks").decode("ascii", "replace").splitlines()
    except OSError:
        return ""
    for row in rows:
        words = row.split()
        if len(words) > 5 and words[5].endswith(f":{inode}") and words[4].isdigit():
            found = processes.look(int(words[4]))
            return f"process {words[4]}{f' ({found.name})' if found else ''}"
    return ""


def _object(path: str, limit: int = 4 << 20) -> dict[str, Any] | None:
    try:
        value = jsontext.loads(files.read(path, limit=limit).decode("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _pending(runtime: str) -> tuple[str, ...]:
    return tuple(_object(f"{runtime}/{commits.PENDING}") or ())


def _count(folder: str) -> int:
    try:
        return sum(not files.is_temporary(name) for name in os.listdir(folder))
    except OSError:
        return 0


def _damaged(runtime: str) -> Iterator[str]:
    for name in _WHOLE:
        if os.path.lexists(f"{runtime}/{name}") and _object(f"{runtime}/{name}") is None:
            yield f"{runtime}/{name}"
    for kind in KINDS_OF_STATE:
        try:
            names = sorted(os.listdir(f"{runtime}/{kind}"))
        except OSError:
            continue
        for name in names:
            if name.endswith(".json") and _object(f"{runtime}/{kind}/{name}") is None:
                yield f"{runtime}/{kind}/{name}"


def _temporaries(memory: str, gitdir: str, *, now: float) -> Iterator[str]:
    """Temporary files of writers that are gone; a living writer's are minutes old at most."""
    for folder, folders, names in os.walk(memory):
        folders[:] = [each for each in folders if each != ".git"]
        for name in names:
            if files.is_temporary(name) and is_left(f"{folder}/{name}", now=now):
                yield f"{folder}/{name}"
    try:
        names = sorted(os.listdir(gitdir)) if gitdir else []
    except OSError:
        names = []
    for name in names:
        if name.startswith(light.MARK) and name.endswith(".tmp") and is_left(f"{gitdir}/{name}", now=now):
            yield f"{gitdir}/{name}"


def is_left(path: str, *, now: float) -> bool:
    """Whether a temporary file of ours is older than a minute and the process whose number it bears is gone."""
    name = os.path.basename(path).removeprefix(files.TEMP_PREFIX).removeprefix(light.MARK)
    pid = name.partition("-")[0].partition(".")[0]
    try:
        age = now - os.lstat(path).st_mtime
    except OSError:
        return False
    return age > 60 and (not pid.isdigit() or processes.start_time(int(pid)) is None)


def _unfinished(runtime: str) -> str:
    path = f"{runtime}/{light.RECORD}"
    if not os.path.lexists(path):
        return ""
    record = _object(path)
    try:
        is_alive = record is not None and processes.alive(int(record["pid"]), str(record["start"]))
    except (KeyError, TypeError, ValueError):
        is_alive = False
    return "" if is_alive else path


def _log(runtime: str, *, since: float) -> Iterator[Logged]:
    """The lines of the log since then, of its last part."""
    try:
        handle = os.open(f"{runtime}/log.jsonl", os.O_RDONLY | os.O_NONBLOCK | files.NOT_FOLLOWED)
    except OSError:
        return
    try:
        data = os.pread(handle, LOG_TAIL, max(0, os.fstat(handle).st_size - LOG_TAIL))
    finally:
        os.close(handle)
    for line in data.split(b"\n"):
        try:
            row = jsontext.loads(line.decode("utf-8")) if line else None
        except ValueError:
            continue
        at = stamps.epoch_of(row.get("at")) if isinstance(row, dict) else None
        if isinstance(row, dict) and at is not None and at >= since:
            yield Logged(at, str(row.get("door", "")), str(row.get("outcome", "")), str(row.get("detail", "")))
