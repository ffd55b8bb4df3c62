"""The lines of a transcript in bounded memory: those since the last hook, complete ones only, or all of them from the end."""

from __future__ import annotations

import os
import stat
from zlib import crc32

from vault_mem.record import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

BLOCK = 1 << 18
LONGEST = 1 << 26  # a longer line is passed over, never held
BACK = 1 << 20  # bytes read at once from the end
LONGEST_BACK = 8 << 20
FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
MARKED = 256  # bytes before the offset that tell whether the file is still the one that was read


class Position(NamedTuple):
    """How far a file was read. mark: a checksum of the bytes before *offset*. size: of the file when it was read."""

    offset: int = 0
    inode: int = 0
    mark: int = 0
    size: int = 0


START = Position()


class Delta:
    """The complete lines after *position*, to be looped over once; then `position` is where the next delta starts.

    `restarted` is known before the loop. The loop raises FileNotFoundError when there is no such file, or no regular one.
    """

    def __init__(self, path: str, position: Position = START) -> None:
        self.position = position
        self.restarted = False
        self._path = path
        self._start = position.offset
        self._file = -1
        try:
            self._file = os.open(path, FLAGS)
        except (FileNotFoundError, NotADirectoryError):
            return
        found = os.fstat(self._file)
        self._inode = found.st_ino
        if not stat.S_ISREG(found.st_mode):
            self.close()
        elif position.offset and not self._is_same(found):
            self.restarted = True
            self._start = 0

    @property
    def found(self) -> bool:
        """Whether there is a regular file to read; known before the loop."""
        return self._file >= 0

    def close(self) -> None:
        """Lets go of the file; a finished loop has done so."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _is_same(self, found: os.stat_result) -> bool:
        known = self.position
        return found.st_size >= known.offset and found.st_ino == known.inode and self._mark(known.offset) == known.mark

    def _mark(self, offset: int) -> int:
        begin = max(0, offset - MARKED)
        os.lseek(self._file, begin, os.SEEK_SET)
        kept = b""
        while len(kept) < offset - begin:
            block = os.read(self._file, offset - begin - len(kept))
            if not block:
                break
            kept += block
        return crc32(kept)

    def __del__(self) -> None:
        self.close()

    def __iter__(self) -> Iterator[bytes]:
        if self._file < 0:
            raise FileNotFoundError(self._path)
        try:
            end, read = self._start, self._start
            os.lseek(self._file, read, os.SEEK_SET)
            held: bytearray = bytearray()
            skipping = False
            while block := os.read(self._file, BLOCK):
                base = read
                read += len(block)
                last = block.rfind(b"\n")
                if last < 0:
                    if len(held) + len(block) > LONGEST:
                        held, skipping = bytearray(), True
                    if not skipping:
                        held += block
                    continue
                first = block.find(b"\n")
                if not skipping:
                    held += block[:first]
                    line = bytes(held)
                    held = bytearray()
                    yield line
                held, skipping = bytearray(), False
                if last > first:
                    yield from block[first + 1 : last].split(b"\n")
                held += block[last + 1 :]
                end = base + last + 1
            self.position = Position(end, self._inode, self._mark(end), read)
        finally:
            self.close()


def backwards(handle: int, size: int, *, floor: int = 0, block: int = BACK) -> Iterator[tuple[int, bytes]]:
    """Offset and bytes of each line, last first; the first may be half written. A line longer than LONGEST_BACK is passed over, never held.

    Nothing before *floor* is read; of a floor above 0 the line that stands there is not told, for its beginning may lie before it.
    """
    end = size
    parts: list[bytes] = []
    held, skipping = 0, False
    while end > floor:
        begin = max(floor, end - block)
        data = os.pread(handle, end - begin, begin)
        pieces = data.split(b"\n")
        del data
        if len(pieces) > 1:
            at = begin + sum(len(piece) + 1 for piece in pieces[:-1])
            if not skipping:
                yield at, b"".join([pieces[-1], *reversed(parts)])
            parts, held, skipping = [], 0, False
            for piece in reversed(pieces[1:-1]):
                at -= len(piece) + 1
                if piece:
                    yield at, piece
        parts.append(pieces[0])
        held += len(pieces[0])
        if held > LONGEST_BACK:
            parts, held, skipping = [], 0, True
        end = begin
    if parts and not skipping and not floor:
        yield 0, b"".join(reversed(parts))
