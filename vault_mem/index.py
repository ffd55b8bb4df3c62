"""The book of deliveries: which capsules history says were handed out, so that nobody walks all commits at a /clear.

`runtime/index/consumed` is append-only text. `D <id> <consumer> <ms>` a consume commit, `R <id>` a reopen, `P <id>` a capsule that some commit
names as parent, `S <session>` a session that saved something, `H <commit>` the book is complete up to this commit. Lines after the last `H`
are not counted, so a torn append is harmless; a book whose `H` is no ancestor of HEAD is thrown away and made again. Names are percent-encoded.
"""

from __future__ import annotations

import os

from vault_mem import files
from vault_mem.capsule import lineage
from vault_mem.capsule.selector import Delivery

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from vault_mem.capsule.lineage import Event

PATH = "index/consumed"
TAIL = 4096
_SAFE_BYTES = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
_SAFE = frozenset(_SAFE_BYTES)


def _encoded(name: str) -> bytes:
    raw = name.encode("utf-8")
    if not raw.translate(None, _SAFE_BYTES):
        return raw
    return b"".join(bytes((byte,)) if byte in _SAFE else b"%%%02X" % byte for byte in raw)


def _decoded(name: bytes) -> str:
    head, *rest = name.split(b"%")
    return (head + b"".join(bytes((int(part[:2], 16),)) + part[2:] for part in rest)).decode("utf-8", "replace")


class Book:
    """The counted lines of the book, and questions to it."""

    def __init__(self, data: bytes) -> None:
        end = data.rfind(b"\nH ")
        stop = data.find(b"\n", end + 1) if end >= 0 else -1
        self.head = data[end + 3 : stop].decode("ascii", "replace") if stop > 0 else ""
        self.data = data[: stop + 1] if stop > 0 else b"\n"

    def delivery(self, capsule_id: str) -> Delivery | None:
        """The last delivery of a capsule, None when it was never handed out or was reopened since."""
        name = _encoded(capsule_id)
        start = self.data.rfind(b"\nD " + name + b" ")
        if start < 0 or self.data.rfind(b"\nR " + name + b"\n") > start:
            return None
        _, _, consumer, millis = self.data[start + 1 : self.data.index(b"\n", start + 1)].split(b" ")
        return Delivery(_decoded(consumer), int(millis) / 1000)

    def handed_out(self) -> frozenset[str]:
        """The ids of all capsules that were ever handed out; those not among them need not be asked about one by one."""
        rows = self.data.split(b"\nD ")[1:]
        return frozenset(_decoded(row[: row.index(b" ")]) for row in rows)

    def delivered_to(self, session: str) -> str:
        """The id of the capsule last handed to a session, empty for none."""
        start = self.data.rfind(b" " + _encoded(session) + b" ")
        while start >= 0:
            line = self.data.rfind(b"\n", 0, start) + 1
            if self.data.startswith(b"D ", line):
                return _decoded(self.data[line + 2 : start])
            start = self.data.rfind(b" " + _encoded(session) + b" ", 0, start)
        return ""

    def is_parent(self, capsule_id: str) -> bool:
        """Whether some commit names this capsule as a parent."""
        return b"\nP " + _encoded(capsule_id) + b"\n" in self.data

    def has_saved(self, session: str) -> bool:
        """Whether some autosave or curated capsule came of this session."""
        return b"\nS " + _encoded(session) + b"\n" in self.data


def _lines(event: Event, known: Book, fresh: set[bytes]) -> bytes:
    """The lines an event adds; `S` and `P` lines once, *fresh* holds those added since *known* was read."""
    out = b""
    if event.event == lineage.CONSUME and event.consumer:
        out += b"D %s %s %d\n" % (_encoded(event.id), _encoded(event.consumer), round(event.at * 1000))
    elif event.event == lineage.REOPEN:
        out += b"R %s\n" % _encoded(event.id)
    once = []
    if event.event in (lineage.AUTOSAVE, lineage.WRITE) and event.session and not known.has_saved(event.session):
        once.append(b"S %s\n" % _encoded(event.session))
    if event.parent and not known.is_parent(event.parent):
        once.append(b"P %s\n" % _encoded(event.parent))
    for line in once:
        if line not in fresh:
            fresh.add(line)
            out += line
    return out


def read(runtime: str) -> Book:
    """The book as it lies there; an empty one when there is none."""
    try:
        return Book(files.read(f"{runtime}/{PATH}"))
    except OSError:
        return Book(b"")


def made(events: Iterable[Event]) -> Book:
    """A book of these events, oldest first, that is kept nowhere: what history said at an earlier time."""
    empty = Book(b"")
    fresh: set[bytes] = set()
    return Book(b"".join((b"\n", *(_lines(event, empty, fresh) for event in events), b"H -\n")))


def note(runtime: str, *, parent: str, commit: str, event: Event) -> None:
    """Append one commit of ours when the book is complete up to its parent; otherwise leave it to the next reader.

    Only the end of the book is looked at: a line that stands twice is harmless, reading all of it at every Stop would not be.
    """
    path = f"{runtime}/{PATH}"
    try:
        handle = os.open(path, os.O_RDONLY | files.NOT_FOLLOWED)
    except OSError:
        return
    try:
        tail = os.pread(handle, TAIL, max(0, os.fstat(handle).st_size - TAIL))
    finally:
        os.close(handle)
    book = Book(b"\n" + tail.partition(b"\n")[2] if len(tail) == TAIL else tail)
    if book.head == parent:
        files.append(path, _lines(event, book, set()) + b"H " + commit.encode() + b"\n")


def current(runtime: str, *, head: str, commits: Callable[[str, str], Iterable[tuple[str, str]] | None]) -> Book:
    """The book, complete up to *head*.

    commits: given an old commit ('' for none) and *head*, the (id, message) of every commit after the old one, oldest first; None when the
    old one is no ancestor, in which case the book is made anew.
    """
    book = read(runtime)
    if book.head == head:
        return book
    walked = commits(book.head, head) if book.head else None
    if walked is None:
        book = Book(b"")
        walked = commits("", head) or ()
    events = [event for _, message in walked if (event := lineage.event_of(message)) is not None]
    fresh: set[bytes] = set()
    added = [_lines(event, book, fresh) for event in events]
    data = b"".join((book.data, *added, b"H ", head.encode(), b"\n"))
    files.make_dirs(f"{runtime}/index")
    files.write_atomic(f"{runtime}/{PATH}", data, mode=0o600, durable=False)
    return Book(data)


def of(deliveries: Iterable[Event], *, sessions: Iterable[str], parents: Iterable[str]) -> Book:
    """The book of a tree whose history is not in git: its deliveries, the sessions that saved, the ids that are parents. Kept nowhere."""
    empty, fresh = Book(b""), set[bytes]()
    given = [_lines(event, empty, fresh) for event in deliveries]
    saved = [b"S %s\n" % _encoded(session) for session in dict.fromkeys(sessions) if session]
    above = [b"P %s\n" % _encoded(parent) for parent in dict.fromkeys(parents) if parent]
    return Book(b"".join((b"\n", *given, *saved, *above, b"H none\n")))
