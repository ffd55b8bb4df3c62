"""A checkpoint: what a session was doing and where its repository stood, as one bounded record. Text of it is redacted before it comes here.

At most LIMIT bytes of UTF-8. What does not fit is shed in the order of SHED, and `truncated` names how much of what is missing; a checkpoint is
never refused because it is large, for it is needed most when there is most to say.
"""

from __future__ import annotations

from vault_mem import jsontext
from vault_mem.digest import sha256
from vault_mem.record import NamedTuple
from vault_mem.session import drift

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from vault_mem.session.drift import Look

SCHEMA = 1
LIMIT = 32 * 1024
TEXT = 1000
NOTE = 3000
PATH = 500
SHED = (
    ("work", "reads"),
    ("work", "commits"),
    ("work", "requests"),
    ("work", "delegated"),
    ("work", "todos"),
    ("repo", "dirty"),
    ("work", "errors"),
    ("work", "questions"),
    ("work", "failing"),
    ("repo", "held"),
    ("work", "files"),
)
"""Lists that are shed, first to last, from their ends; then the longest texts are cut."""
TEXTS = ("conclusion", "waiting_on", "request", "objective", "next_action", "note")


class Work(NamedTuple):
    """What the session was doing; every text redacted. files, reads: relative to the project, newest last."""

    objective: str = ""
    request: str = ""
    next_action: str = ""
    waiting_on: str = ""
    conclusion: str = ""
    note: str = ""
    requests: tuple[str, ...] = ()
    todos: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    failing: tuple[str, ...] = ()
    commits: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    delegated: tuple[str, ...] = ()


LISTS = tuple(name for name, value in Work()._asdict().items() if isinstance(value, tuple))


def fingerprint(work: Work, look: Look) -> str:
    """What tells whether work or repository moved between two announcements of a compaction."""
    told = {**work._asdict(), "note": ""}
    seen = (look.root, look.branch, look.head, look.operation, look.stash, look.digest, sorted(look.held.items()))
    return sha256(jsontext.dumps([told, list(seen)]).encode("utf-8", "surrogatepass"))[:24]


def made(*, head: dict[str, Any], work: Work, look: Look, redacted: int) -> dict[str, Any]:
    """The whole record, within LIMIT. *head*: identity, times, session, context, capsule; short values only."""
    record = {
        "schema": SCHEMA,
        **head,
        "work": {name: _cut_all(value, name) for name, value in work._asdict().items()},
        "repo": drift.to_json(look._replace(dirty=tuple((letters, path[:PATH]) for letters, path in look.dirty))),
        "redacted": redacted,
        "truncated": {},
    }
    return fitted(record)


def _cut_all(value: Any, name: str) -> Any:
    if isinstance(value, str):
        return value[: NOTE if name in ("note", "conclusion") else TEXT]
    return [item[:PATH] for item in value]


def fitted(record: dict[str, Any], limit: int = LIMIT) -> dict[str, Any]:
    """*record* with as much shed as it takes to be at most *limit* bytes when written."""
    excess = size(record) - limit
    if excess <= 0:
        return record
    record = {
        **record,
        "work": dict(record["work"]),
        "repo": dict(record["repo"]),
        "truncated": dict(record["truncated"]),
    }
    for part, name in SHED:
        if excess <= 0:
            return record
        _shed(record, part, name, excess)
        excess = size(record) - limit
    for name in TEXTS:
        if excess <= 0:
            break
        text = record["work"][name]
        kept = _within(text, max(120, len(text.encode("utf-8", "replace")) - excess - 40))
        if len(kept) < len(text):
            record["work"][name] = kept
            record["truncated"][f"work.{name}"] = len(text) - len(kept)
        excess = size(record) - limit
    return record


def _shed(record: dict[str, Any], part: str, name: str, excess: int) -> None:
    """Take entries from the far end of one list (the oldest, or the last path) until *excess* bytes are gone."""
    given = record[part][name]
    rows = list(given.items()) if isinstance(given, dict) else list(given)
    # Requests, files and reads stand oldest first; of a plan and of paths the tail goes.
    oldest_first = name in ("reads", "commits", "requests", "files", "errors", "delegated")
    before = len(rows)
    while rows and excess > -40:
        row = rows.pop(0 if oldest_first else -1)
        excess -= len(jsontext.dumps(list(row) if isinstance(row, tuple) else row).encode("utf-8", "replace")) + 2
    if before > len(rows):
        record[part][name] = dict(rows) if isinstance(given, dict) else rows
        record["truncated"][f"{part}.{name}"] = before - len(rows)


def _within(text: str, room: int) -> str:
    """As many code points of *text* as *room* bytes hold."""
    return text.encode("utf-8", "replace")[:room].decode("utf-8", "ignore")


def size(record: dict[str, Any]) -> int:
    """Bytes of the file that holds *record*."""
    return len(written(record))


def written(record: dict[str, Any]) -> bytes:
    """The file that holds *record*; half of a surrogate pair becomes a question mark."""
    return (jsontext.dumps(record) + "\n").encode("utf-8", "replace")


def read(text: str) -> dict[str, Any] | None:
    """The record in a file, None when it is no whole checkpoint."""
    try:
        record = jsontext.loads(text)
    except ValueError:
        return None
    if not isinstance(record, dict) or record.get("schema") != SCHEMA or type(record.get("generation")) is not int:
        return None
    tables = ("session", "capsule", "work", "repo", "truncated")
    if not all(isinstance(record.get(name), dict) for name in tables):
        return None
    texts = ("id", "created_at", "reason", "trigger", "cycle", "fingerprint")
    return record if all(isinstance(record.get(name), str) for name in texts) else None


def work_of(record: dict[str, Any]) -> Work:
    """The work in a record that `read` gave; what has another type than ours is left out."""
    given = record["work"]
    fields: dict[str, Any] = {}
    for name, empty in Work()._asdict().items():
        value = given.get(name)
        if isinstance(empty, str):
            fields[name] = value if isinstance(value, str) else ""
        else:
            fields[name] = tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()
    return Work(**fields)
