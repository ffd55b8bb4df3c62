"""Whole files: read without following links, written completely or not at all. No `pathlib`, `tempfile` or `shutil` (hook path)."""

from __future__ import annotations

import errno
import os
import stat
import time

from vault_mem.errors import ExternallyChangedError

NOT_FOLLOWED = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
TEMP_PREFIX = ".vault-mem-"
TEMP_SUFFIX = ".tmp"
_CHUNK = 1 << 20


def read(path: str, *, limit: int | None = None) -> bytes:
    """The bytes of the regular file *path*; OSError for a link, a device, a pipe, or more than *limit* bytes."""
    return _read(path, limit=limit, flags=NOT_FOLLOWED)


def read_followed(path: str, *, limit: int | None = None) -> bytes:
    """Like `read`, but through links: for git's own files, where links are the person's business."""
    return _read(path, limit=limit, flags=getattr(os, "O_CLOEXEC", 0))


def read_handle(handle: int, expected: int = 0) -> bytes:
    """Everything from the open file to its end; *expected* bytes are asked for at once."""
    first = os.read(handle, expected + 1)
    if len(first) == expected:
        return first
    parts = [first]
    while part := os.read(handle, _CHUNK):
        parts.append(part)
    return b"".join(parts)


def write_handle(handle: int, data: bytes) -> None:
    """All of *data*, however often the system cuts a write short."""
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def write_atomic(path: str, data: bytes, *, mode: int = 0o600, durable: bool = True, folder_too: bool = True) -> None:
    """Puts *data* at *path* in one step; a reader sees the old file or the new one, and a link there is replaced, not followed.

    *durable*: the bytes are on the disk before the name, and with *folder_too* the name is before this returns.
    """
    temporary = _written(path, data, mode=mode, durable=durable)
    try:
        os.rename(temporary, path)
    except BaseException:
        _forget(temporary)
        raise
    if durable and folder_too:
        sync_directory(os.path.dirname(path))


def create(path: str, data: bytes, *, mode: int = 0o600, durable: bool = True) -> None:
    """Like `write_atomic`, but FileExistsError when *path* is there in any form."""
    temporary = _written(path, data, mode=mode, durable=durable)
    try:
        os.link(temporary, path, follow_symlinks=False)
    finally:
        _forget(temporary)
    if durable:
        sync_directory(os.path.dirname(path))


def replace(path: str, data: bytes, *, expected: bytes | None, mode: int = 0o600, durable: bool = True) -> None:
    """Writes only when *path* still holds *expected* (None: is absent), else raises ExternallyChangedError.

    The caller holds the lock that its own kind respects; an editor between the comparison and the rename cannot be kept out.
    """
    if expected is None:
        try:
            create(path, data, mode=mode, durable=durable)
        except FileExistsError as error:
            raise ExternallyChangedError(path) from error
        return
    try:
        present = read(path)
    except FileNotFoundError as error:
        raise ExternallyChangedError(path) from error
    if present != expected:
        raise ExternallyChangedError(path)
    write_atomic(path, data, mode=mode, durable=durable)


def append(path: str, data: bytes, mode: int = 0o600) -> None:
    """Adds *data* at the end with one write, so that lines of several processes do not mix."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | NOT_FOLLOWED, mode)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        write_handle(handle, data)
    finally:
        os.close(handle)


def make_dirs(path: str, mode: int = 0o700) -> None:
    """Makes the directory and those above it that are missing, all with *mode*."""
    try:
        os.mkdir(path, mode)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
    except FileNotFoundError:
        parent = os.path.dirname(path)
        if parent in ("", path):
            raise
        make_dirs(parent, mode)
        make_dirs(path, mode)


def remove(path: str) -> bool:
    """Whether there was a *path* to remove."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True


def sync_directory(path: str) -> None:
    """Makes renames in the directory survive a power cut where the file system can do that."""
    handle = os.open(path or ".", os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0))
    try:
        os.fsync(handle)
    except OSError as error:
        # Some network file systems know no fsync of a directory.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise
    finally:
        os.close(handle)


def is_temporary(name: str) -> bool:
    """Whether a file name is one of our temporary names, left by a writer that was killed when it stays."""
    return name.startswith(TEMP_PREFIX) and name.endswith(TEMP_SUFFIX)


def _read(path: str, *, limit: int | None, flags: int) -> bytes:
    # O_NONBLOCK: opening a pipe somebody put in place of the file must not hang the hook.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | flags)
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            kind = errno.EISDIR if stat.S_ISDIR(found.st_mode) else errno.EINVAL
            raise OSError(kind, "not a regular file", path)
        if limit is not None and found.st_size > limit:
            raise OSError(errno.EFBIG, f"more than {limit} bytes", path)
        return read_handle(handle, found.st_size)
    finally:
        os.close(handle)


def _written(path: str, data: bytes, *, mode: int, durable: bool) -> str:
    folder = os.path.dirname(path)
    temporary = os.path.join(folder, f"{TEMP_PREFIX}{os.getpid()}-{time.perf_counter_ns()}{TEMP_SUFFIX}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOT_FOLLOWED, mode)
    try:
        try:
            write_handle(handle, data)
            if durable:
                os.fsync(handle)
        finally:
            os.close(handle)
    except BaseException:
        _forget(temporary)
        raise
    return temporary


def _forget(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
