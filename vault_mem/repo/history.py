"""What the vault's history says about its capsules: versions, deliveries, lineage, and those that have left the work tree."""

from __future__ import annotations

from vault_mem import stamps
from vault_mem.capsule import lineage
from vault_mem.errors import GitRefusedError
from vault_mem.record import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vault_mem.repo.store import Reading, Store

FOLDER = "capsules"
_SPANS = ("second", "minute", "hour", "day", "week", "month", "year")
SUFFIX = ".md"


class Moment(NamedTuple):
    """One commit about one capsule; *epoch* is the time the event names, else that of the commit."""

    oid: str
    epoch: float
    event: str
    id: str
    status: str
    parent: str
    session: str
    consumer: str
    harness: str


class Version(NamedTuple):
    """One state of a file in history."""

    oid: str
    epoch: float
    path: str
    moment: Moment | None


class Gone(NamedTuple):
    """A capsule that is no longer in the tree: its path, its id, the commit that took it out and the last that had it."""

    path: str
    id: str
    removed: str
    last: str


class Batch(NamedTuple):
    """A stretch of history, newest first: its events, its newest and oldest commit, and whether history begins within it."""

    moments: tuple[Moment, ...]
    newest: str
    oldest: str
    whole: bool


_FORMAT = "--format=%H%x00%ct%x00%B"


def events(store: Reading, *, rev: str = "", since: str = "", only: str = "") -> tuple[Moment, ...]:
    """Every event up to *rev* (after *since*), newest first; commits that are not ours are passed over.

    only: a capsule; git then looks for its name, and commits that merely hold it may be among the events.
    """
    span = [rev or store.rev, f"^{since}"] if since else [rev or store.rev]
    found = ["--fixed-strings", f"--grep=Capsule-Id: {only}"] if only else []
    out = store.text("log", "-z", "--topo-order", "--no-show-signature", *found, _FORMAT, *_revisions(span), "--")
    return tuple(_moments(out))


def recent(store: Reading, *, count: int, skip: int = 0, rev: str = "") -> Batch:
    """The events of *count* commits up to *rev*, passing over the newest *skip*. Costs what the commits read cost, not what history is long."""
    span = ["log", "-z", f"-n{count}", f"--skip={skip}", "--no-show-signature", _FORMAT]
    out = store.text(*span, *_revisions([rev or store.rev]), "--")
    fields = out.split("\0")
    rows = len(fields) // 3
    return Batch(tuple(_moments(out)), fields[0], fields[3 * rows - 3] if rows else "", rows < count)


def _moments(out: str) -> Iterator[Moment]:
    fields = out.split("\0")
    for oid, epoch, body in zip(fields[::3], fields[1::3], fields[2::3], strict=False):
        moment = _moment(oid, epoch, body)
        if moment is None:
            continue
        yield moment
        for line in body.splitlines() if moment.event == lineage.RETIRE else ():
            # One commit retires many; the last name is the one that `event_of` gave.
            name = line.removeprefix("Capsule-Id:").strip() if line.startswith("Capsule-Id:") else moment.id
            if name != moment.id:
                yield moment._replace(id=name)


def of(moments: Iterable[Moment], capsule: str) -> tuple[Moment, ...]:
    """The moments of one capsule."""
    return tuple(moment for moment in moments if moment.id == capsule)


def consumers(moments: Iterable[Moment], capsule: str) -> tuple[Moment, ...]:
    """The deliveries of a capsule, newest first; `reopen` undoes none of them here, it is an event of its own."""
    return tuple(moment for moment in of(moments, capsule) if moment.event == lineage.CONSUME)


def parents(moments: Iterable[Moment]) -> dict[str, str]:
    """The parent of every capsule that names one; the newest word counts."""
    found: dict[str, str] = {}
    for moment in moments:
        if moment.parent:
            found.setdefault(moment.id, moment.parent)
    return found


def children(moments: Iterable[Moment]) -> dict[str, tuple[str, ...]]:
    """The capsules that name each capsule as their parent, oldest first."""
    found: dict[str, list[str]] = {}
    for capsule, parent in reversed(parents(moments).items()):
        found.setdefault(parent, []).append(capsule)
    return {parent: tuple(capsules) for parent, capsules in found.items()}


def versions(store: Reading, path: str, *, rev: str = "") -> tuple[Version, ...]:
    """Every state the file had up to *rev*, newest first; its removals are no states."""
    arguments = ["log", "-z", "--no-renames", "--diff-filter=AMT", "--full-history", "--no-show-signature"]
    out = store.text("--literal-pathspecs", *arguments, _FORMAT, *_revisions([rev or store.rev]), "--", path)
    fields = out.split("\0")
    records = zip(fields[::3], fields[1::3], fields[2::3], strict=False)
    return tuple(Version(oid, float(epoch), path, _moment(oid, epoch, body)) for oid, epoch, body in records)


def text_at(store: Store, rev: str, path: str) -> bytes | None:
    """The bytes of the file in *rev*; None when it is not there."""
    return next(store.blobs([f"{rev}:{path}"]))[1]


def tree(store: Reading, rev: str = "") -> dict[str, str]:
    """Path and blob of every capsule in *rev*."""
    out = store.text("ls-tree", "-r", "-z", "--full-tree", *_revisions([rev or store.rev]), "--", FOLDER)
    found = {}
    for line in out.split("\0"):
        words, _, path = line.partition("\t")
        if path.endswith(SUFFIX):
            found[path] = words.split(" ")[2]
    return found


def ever(store: Reading, *, rev: str = "") -> dict[str, str]:
    """Path and id of every capsule that ever was in the tree, those that left it included."""
    arguments = [
        "log",
        "-z",
        "--no-renames",
        "--diff-filter=A",
        "--name-only",
        "-m",
        "--no-show-signature",
        "--format=",
    ]
    out = store.text(*arguments, *_revisions([rev or store.rev]), "--", FOLDER)
    return {path: id_of(path) for path in reversed(out.split("\0")) if path.endswith(SUFFIX)}


def gone(store: Reading, *, rev: str = "", since: str = "") -> dict[str, Gone]:
    """The capsules that left the tree up to *rev* (after *since*), by path, with the last commit that had each."""
    present = tree(store, rev)
    arguments = [
        "log",
        "-z",
        "--no-renames",
        "--diff-filter=D",
        "--name-only",
        "--no-show-signature",
        "--format=%x00%H%x00%P",
    ]
    span = [rev or store.rev, *([f"^{since}"] if since else [])]
    out = store.text(*arguments, *_revisions(span), "--", FOLDER)
    found: dict[str, Gone] = {}
    for record in out.split("\0\0"):
        removed, _, rest = record.strip("\0").partition("\0")
        above, _, names = rest.partition("\0")
        for path in names.split("\0"):
            name = path.strip("\n")
            if name.endswith(SUFFIX) and name not in present:
                found.setdefault(name, Gone(name, id_of(name), removed, above.split(" ")[0]))
    return found


def resolve(store: Reading, text: str, *, head: str = "") -> str | None:
    """The commit a person means by a revision or a date; None when there is none.

    A date is RFC 3339 (without a zone UTC; a day alone means its end) or `yesterday`, `3 hours ago` and the like. Git itself would take any
    word for a date, and a mistyped branch for now.
    """
    try:
        found = store.text("rev-parse", "-q", "--verify", "--end-of-options", f"{text}^{{commit}}").strip()
    except GitRefusedError:
        found = ""
    if found:
        return found
    until = _until(text)
    if not until:
        return None
    try:
        return store.text("rev-list", "-1", until, "--end-of-options", head or store.rev).strip() or None
    except GitRefusedError:
        return None


def is_date(text: str) -> bool:
    """Whether `resolve` takes *text* for a date when it is no revision."""
    return bool(_until(text))


def _until(text: str) -> str:
    epoch = stamps.epoch_of(text)
    if epoch is not None:
        end = stamps.DAY - 1 if len(text.strip()) == len("2026-12-01") else 0
        return f"--until=@{int(epoch) + end}"
    words = text.lower().replace(".", " ").split()
    if words in (["yesterday"], ["now"]):
        return f"--until={words[0]}"
    if len(words) == 3 and words[0].isdigit() and words[1].rstrip("s") in _SPANS and words[2] == "ago":
        return f"--until={' '.join(words)}"
    return ""


def is_ancestor(store: Store, old: str, new: str) -> bool:
    """Whether *old* is in the history of *new*."""
    return store.succeeds("merge-base", "--is-ancestor", "--end-of-options", old, new)


def id_of(path: str) -> str:
    """The id a capsule's file name stands for."""
    return path.rpartition("/")[2].removesuffix(SUFFIX)


def _revisions(names: list[str]) -> list[str]:
    return ["--end-of-options", *names]


def _moment(oid: str, epoch: str, body: str) -> Moment | None:
    """As `lineage.event_of`, for thousands of messages: a message of ours is read by its lines, and stamps of one day share the day."""
    start = body.find(f"\n{lineage.PREFIX}")
    if start < 0:
        return None
    values = {key: value.strip() for key, _, value in (line.partition(":") for line in body[start + 1 :].splitlines())}
    name, event = values.get("Capsule-Id"), values.get("Capsule-Event")
    if name is None or event is None:
        return None
    at = _epoch(values.get("Capsule-Time", "")) or float(epoch)
    status, parent = values.get("Capsule-Status", ""), values.get("Capsule-Parent", "")
    session, consumer = values.get("Capsule-Session", ""), values.get("Capsule-Consumer", "")
    return Moment(oid, at, event, name, status, parent, session, consumer, values.get("Capsule-Harness", ""))


_days: dict[str, float | None] = {}


def _epoch(text: str) -> float:
    """Seconds since the epoch of a stamp as we write it, of any other as `stamps` reads it; 0 when it is none."""
    clock = text[11:23]
    if len(text) == 24 and text[10] == "T" and text[23] == "Z" and clock.replace(":", "").replace(".", "").isdigit():
        day = _days.get(text[:10])
        if day is None:
            day = _days[text[:10]] = stamps.epoch_of(text[:10])
        if day is not None and clock[2] == clock[5] == ":" and clock[8] == "." and clock[9:].isdigit():
            seconds = int(clock[:2]) * 3600 + int(clock[3:5]) * 60 + int(clock[6:8])
            return round(day + seconds + int(clock[9:]) / 1000, 6)
    return stamps.epoch_of(text) or 0.0
