"""What happened to the capsules, told from git: autosaves folded, deliveries, parents; flat or as a graph of capsules.

Only as many commits are read as the rows asked for need, so the price does not grow with the history.
"""

from __future__ import annotations

from vault_mem.capsule import lineage
from vault_mem.record import NamedTuple
from vault_mem.repo import history

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from vault_mem.repo.history import Moment
    from vault_mem.repo.store import Reading

FIRST = 20  # commits read for every row asked for, at first
MOST = 64  # and at most; what lies behind is said to be there


class Entry(NamedTuple):
    """One row: an event, or *times* autosaves of one capsule with nothing else of it between. first, last: seconds since the epoch.

    *open*: more autosaves of this run may lie behind what was read. *again*: a delivery of a capsule that had been delivered before.
    """

    moment: Moment
    first: float
    last: float
    times: int = 1
    open: bool = False
    again: bool = False

    @property
    def event(self) -> str:
        """The event, `consume` of a capsule delivered before being `re-deliver`."""
        return "re-deliver" if self.again else self.moment.event


class Node(NamedTuple):
    """A capsule in the graph: its rows, newest first, its parent as far as it is known, what became of it."""

    id: str
    parent: str
    status: str
    session: str
    harness: str
    entries: tuple[Entry, ...]


class Tale(NamedTuple):
    """Rows, newest first; *more*: history goes on behind them."""

    entries: tuple[Entry, ...]
    more: bool


def told(reading: Reading, *, count: int = 0, capsule: str = "", rev: str = "") -> Tale:
    """The newest *count* rows (0: all), of one capsule when it is named."""
    if capsule or not count:
        return told_of(history.events(reading, rev=rev, only=capsule), count=count, capsule=capsule)
    for moments, whole, oldest, last in _stretches(reading, count, rev):
        entries = folded(moments, whole=whole)
        if not whole and len(entries) >= count:
            entries = _closed(reading, entries, oldest)
        if last or (len(entries) >= count and not any(entry.open for entry in entries[:count])):
            break
    return Tale(tuple(entries[:count]), not whole or len(entries) > count)


def told_of(moments: Sequence[Moment], *, count: int = 0, capsule: str = "") -> Tale:
    """The same of these events, newest first, which are all there are."""
    entries = folded(history.of(moments, capsule) if capsule else moments, whole=True)
    return Tale(tuple(entries[:count] if count else entries), bool(count) and len(entries) > count)


def grown(reading: Reading, *, count: int = 0, capsule: str = "", rev: str = "") -> tuple[tuple[Node, ...], bool]:
    """The *count* capsules with the newest events (0: all), children before their parents, and whether there are more.

    Of a named capsule: itself, those it came from and those that came from it.
    """
    if capsule or not count:
        return grown_of(history.events(reading, rev=rev), count=count, capsule=capsule)
    for moments, whole, oldest, last in _stretches(reading, count, rev):
        entries = folded(moments, whole=whole, apart=True)
        nodes = _seen(entries, whole=whole)
        if not whole and len(nodes) >= count:
            present = _names(reading, oldest)
            nodes = _seen(_closed(reading, entries, oldest), whole=whole)
            if not any(node.id in present for node in nodes[:count]):
                break
        if last:
            break
    return _ordered(nodes[:count]), not whole or len(nodes) > count


def grown_of(moments: Sequence[Moment], *, count: int = 0, capsule: str = "") -> tuple[tuple[Node, ...], bool]:
    """The same of these events, newest first, which are all there are."""
    nodes = _nodes(folded(moments, whole=True, apart=True))
    if capsule:
        nodes = _family(nodes, capsule)
    return _ordered(nodes[:count] if count else nodes), bool(count) and len(nodes) > count


def _stretches(reading: Reading, count: int, rev: str) -> Iterator[tuple[tuple[Moment, ...], bool, str, bool]]:
    """All that was read so far, whether history is at its end, the oldest commit, whether this is the last try; ever more."""
    moments: tuple[Moment, ...] = ()
    read, size = 0, max(FIRST * count, 64)
    while True:
        batch = history.recent(reading, count=size, skip=read, rev=rev)
        # A save meanwhile would shift what is skipped.
        rev = rev if read else batch.newest or rev
        read, moments = read + size, moments + batch.moments
        last = batch.whole or read >= MOST * count
        yield moments, batch.whole, batch.oldest, last
        if last:
            return
        size = read * 2


def folded(moments: Iterable[Moment], *, whole: bool, apart: bool = False) -> list[Entry]:
    """The rows of these events, newest first; *whole*: nothing lies before them, *apart*: a row for each capsule that a commit retired."""
    entries: list[Entry] = []
    runs: dict[str, int] = {}
    deliveries: dict[str, int] = {}
    for moment in moments:
        place = runs.get(moment.id)
        if moment.event == lineage.RETIRE and not apart and entries and entries[-1].moment.oid == moment.oid:
            entries[-1] = entries[-1]._replace(times=entries[-1].times + 1)
            runs.pop(moment.id, None)
            continue
        if moment.event == lineage.AUTOSAVE and place is not None:
            known = entries[place]
            first, last = min(known.first, moment.epoch), max(known.last, moment.epoch)
            entries[place] = known._replace(first=first, last=last, times=known.times + 1)
            continue
        runs.pop(moment.id, None)
        if moment.event == lineage.AUTOSAVE:
            runs[moment.id] = len(entries)
        elif moment.event == lineage.REOPEN:
            deliveries.pop(moment.id, None)
        elif moment.event == lineage.CONSUME:
            later = deliveries.get(moment.id)
            if later is not None:
                entries[later] = entries[later]._replace(again=True)
            deliveries[moment.id] = len(entries)
        entries.append(Entry(moment, moment.epoch, moment.epoch))
    for place in () if whole else runs.values():
        entries[place] = entries[place]._replace(open=True)
    return entries


def _names(reading: Reading, commit: str) -> frozenset[str]:
    return frozenset(history.id_of(path) for path in history.tree(reading, commit))


def _closed(reading: Reading, entries: list[Entry], oldest: str) -> list[Entry]:
    """Runs of capsules that were not there yet in the oldest commit read are whole."""
    present = _names(reading, oldest)
    return [entry._replace(open=False) if entry.open and entry.moment.id not in present else entry for entry in entries]


def _nodes(entries: Iterable[Entry]) -> list[Node]:
    """Capsules by their newest event; leaving the tree is upkeep and makes none newer."""
    found: dict[str, list[Entry]] = {}
    place: dict[str, int] = {}
    for number, entry in enumerate(entries):
        name = entry.moment.id
        found.setdefault(name, []).append(entry)
        if entry.moment.event != lineage.RETIRE:
            place.setdefault(name, number)
    return [_node(name, found[name]) for name in sorted(found, key=lambda name: place.get(name, len(place)))]


def _seen(entries: Iterable[Entry], *, whole: bool) -> list[Node]:
    """As `_nodes`; of a capsule whose end alone was read there is nothing to tell yet."""
    nodes = _nodes(entries)
    return nodes if whole else [node for node in nodes if node.entries[-1].moment.event != lineage.RETIRE]


def _node(name: str, rows: Sequence[Entry]) -> Node:
    def newest(field: str) -> str:
        return next((value for row in rows if (value := str(getattr(row.moment, field)))), "")

    return Node(name, newest("parent"), newest("status"), newest("session"), newest("harness"), tuple(rows))


def _family(nodes: Sequence[Node], capsule: str) -> list[Node]:
    parents = {node.id: node.parent for node in nodes}
    wanted = {capsule}
    above = parents.get(capsule, "")
    while above and above not in wanted:
        wanted.add(above)
        above = parents.get(above, "")
    below = {capsule}
    while below:
        below = {node.id for node in nodes if node.parent in below} - wanted
        wanted |= below
    return [node for node in nodes if node.id in wanted]


def _ordered(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """By newest event, but a capsule never before one that came from it; a circle, which only forged commits make, is cut somewhere."""
    waiting = {node.id: node for node in nodes}
    children = dict.fromkeys(waiting, 0)
    for node in nodes:
        if node.parent in children:
            children[node.parent] += 1
    ordered = []
    while waiting:
        node = next((each for each in waiting.values() if not children[each.id]), next(iter(waiting.values())))
        del waiting[node.id]
        ordered.append(node)
        if node.parent in children:
            children[node.parent] -= 1
    return tuple(ordered)
