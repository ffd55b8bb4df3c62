"""Git's index, edited in this process: exactly our entries are replaced, inserted or removed, every other byte of theirs stays.

Written from `gitformat-index(5)`. Versions 2 and 3 with 20-byte names; what else an index can be is left to git (`OddIndexError`).
Extensions that git may drop (cached trees, untracked cache, resolve-undo) are dropped: they describe the index as it was.
"""

from __future__ import annotations

import os
import stat

from vault_mem import files
from vault_mem.errors import GitRefusedError
from vault_mem.record import NamedTuple
from vault_mem.repo.objects import blob_oid, sha1

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_HEADER = 12
_FIXED = 62
_EXTENDED = 0x4000
_SKIP_WORKTREE = 0x4000
_STAGE = 0x3000
_COMPARED = 1 << 20
REGULAR, EXECUTABLE = 0o100644, 0o100755


class OddIndexError(Exception):
    """An index of a kind that only git edits; the text says which."""


class Index(NamedTuple):
    """An index as read; *stamp* tells whether the file is still the same one."""

    data: bytes
    stamp: tuple[int, ...]


class Entry(NamedTuple):
    """What the index is to say about one file: its blob, its mode, and the file as it lies in the work tree (None: unknown)."""

    oid: str
    mode: int
    found: os.stat_result | None


def read(path: str) -> Index:
    """The index file; empty data when there is none yet. Raises GitRefusedError `index-unreadable` for a pipe or a device."""
    try:
        # Not blocking: git itself would wait for ever at a pipe.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0))
    except FileNotFoundError:
        return Index(b"", ())
    try:
        before = os.fstat(handle)
        if not stat.S_ISREG(before.st_mode):
            raise GitRefusedError("index-unreadable", f"{path} is no regular file")
        return Index(files.read_handle(handle, before.st_size), _stamp(before))
    finally:
        os.close(handle)


def is_still(path: str, index: Index) -> bool:
    """Whether the index file is the one that was read."""
    try:
        return _stamp(os.stat(path)) == index.stamp
    except FileNotFoundError:
        return not index.stamp


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_dev)


def edited(index: Index, entries: Mapping[bytes, Entry | None], worktree: str) -> tuple[bytes, bool]:
    """The bytes of an index that differs in *entries* only (None removes one), and whether they say anything new.

    Raises OddIndexError for an index only git can edit, GitRefusedError when one of the files is in conflict.
    """
    data = index.data or _checked(b"DIRC\0\0\0\2\0\0\0\0")
    version, count = _opened(data)
    wanted = sorted(entries)
    inside = tuple(name + b"/" for name in wanted if entries[name] is not None)
    above = frozenset(folder for name in wanted if entries[name] is not None for folder in _folders(name))
    youngest = _time(index.stamp[2]) if index.stamp else b"\xff" * 8
    parts: list[bytes] = []
    end = copied = _HEADER
    total, turn, differs = count, 0, False
    following = wanted[0] if wanted else b""
    for start, end, name, flags in _spans(data, count):
        while turn < len(wanted) and following < name:
            new = _encoded(following, entries[following])
            parts += (data[copied:start], new)
            copied, turn, total, differs = start, turn + 1, total + bool(new), differs or bool(new)
            following = wanted[turn] if turn < len(wanted) else b""
        if turn < len(wanted) and following == name:
            entry = entries[name]
            new = _replacement(data[start:end], name, flags, entry)
            parts += (data[copied:start], new)
            copied, turn, total = end, turn + 1, total - (not new)
            differs = differs or not _agrees(data[start:end], flags, entry)
            following = wanted[turn] if turn < len(wanted) else b""
        elif name in above or name.startswith(inside):
            raise GitRefusedError("path-conflict", os.fsdecode(name))
        elif data[start + 8 : start + 16] >= youngest and not _is_clean(data[start:end], name, flags, worktree):
            parts += (data[copied : start + 36], b"\0\0\0\0")
            copied = start + 40
    _refuse_required_extensions(data, end)
    parts.append(data[copied:end])
    for name in wanted[turn:]:
        new = _encoded(name, entries[name])
        parts.append(new)
        total, differs = total + bool(new), differs or bool(new)
    return _checked(b"DIRC" + version.to_bytes(4, "big") + total.to_bytes(4, "big") + b"".join(parts)), differs


def _spans(data: bytes, count: int) -> Iterator[tuple[int, int, bytes, int]]:
    """Start, end, name and flags of every entry."""
    start = _HEADER
    for _ in range(count):
        flags = int.from_bytes(data[start + 60 : start + 62], "big")
        begin = start + (_FIXED + 2 if flags & _EXTENDED else _FIXED)
        stop = data.find(b"\0", begin)
        if stop < 0:
            raise OddIndexError("cut short")
        end = start + (stop - start + 8) // 8 * 8
        yield start, end, data[begin:stop], flags
        start = end


def _opened(data: bytes) -> tuple[int, int]:
    """Version and number of entries of a whole, undamaged index."""
    if len(data) < _HEADER + 20 or data[:4] != b"DIRC":
        raise OddIndexError("no index")
    version = int.from_bytes(data[4:8], "big")
    if version not in (2, 3):
        raise OddIndexError(f"version {version}")
    # All zeros: `index.skipHash`.
    if data[-20:] not in (sha1(data[:-20]).digest(), bytes(20)):
        raise OddIndexError("checksum")
    return version, int.from_bytes(data[8:12], "big")


def _checked(data: bytes) -> bytes:
    return data + sha1(data).digest()


def _replacement(old: bytes, name: bytes, flags: int, entry: Entry | None) -> bytes:
    if flags & _STAGE:
        raise GitRefusedError("merge-in-progress", f"{os.fsdecode(name)} is in conflict")
    if flags & _EXTENDED and int.from_bytes(old[_FIXED : _FIXED + 2], "big") & _SKIP_WORKTREE:
        raise OddIndexError("skip-worktree")
    return _encoded(name, entry)


def _agrees(old: bytes, flags: int, entry: Entry | None) -> bool:
    """Whether the old entry says the same as ours but for times: nothing git would show as a change."""
    if entry is None or flags & _EXTENDED:
        return False
    return old[40:60].hex() == entry.oid and int.from_bytes(old[24:28], "big") == entry.mode


def _encoded(name: bytes, entry: Entry | None) -> bytes:
    if entry is None:
        return b""
    found = entry.found
    numbers = (0, 0, 0) if found is None else (found.st_uid, found.st_gid, found.st_size)
    place = (0, 0) if found is None else (found.st_dev, found.st_ino)
    times = bytes(16) if found is None else _time(found.st_ctime_ns) + _time(found.st_mtime_ns)
    words = (*place, entry.mode, *numbers)
    fixed = times + b"".join((word & 0xFFFFFFFF).to_bytes(4, "big") for word in words)
    length = _FIXED + len(name)
    return fixed + bytes.fromhex(entry.oid) + min(len(name), 0xFFF).to_bytes(2, "big") + name + bytes(8 - length % 8)


def _time(nanoseconds: int) -> bytes:
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return (seconds & 0xFFFFFFFF).to_bytes(4, "big") + rest.to_bytes(4, "big")


def _folders(name: bytes) -> list[bytes]:
    parts = name.split(b"/")
    return [b"/".join(parts[:count]) for count in range(1, len(parts))]


def _is_clean(old: bytes, name: bytes, flags: int, worktree: str) -> bool:
    """Whether an entry as young as the index is the file on disk.

    Git compares such a file's content each time, because its times alone prove nothing. Our index is younger, so times would count from
    now on: an entry that does not pass gets size 0, the mark by which git compares the content again.
    """
    if not stat.S_ISREG(int.from_bytes(old[24:28], "big")) or flags & _STAGE:
        return True
    try:
        content = files.read(os.fsdecode(os.path.join(os.fsencode(worktree), name)), limit=_COMPARED)
    except OSError:
        return False
    return blob_oid(content) == old[40:60].hex()


def _refuse_required_extensions(data: bytes, position: int) -> None:
    end = len(data) - 20
    while position + 8 <= end:
        name = data[position : position + 4]
        if not 0x41 <= name[0] <= 0x5A:
            raise OddIndexError(f"extension {name.decode('ascii', 'replace')}")
        position += 8 + int.from_bytes(data[position + 4 : position + 8], "big")
    if position != end:
        raise OddIndexError("cut short")
