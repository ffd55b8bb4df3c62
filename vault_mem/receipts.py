"""What the hooks remember between runs, below `runtime/` (never committed): cursors, delivery intents, session records, the log.

Everything here can be lost: a cursor is made again from the transcript and the capsule, a delivery from history.
"""

from __future__ import annotations

import os

from vault_mem import files, jsontext, stamps
from vault_mem.record import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LOG_LIMIT = 1 << 20
JOURNAL_LIMIT = 16 << 20
RECENT = 64  # session records looked at
SWEPT = 8  # sessions a start looks after
TAIL = 1 << 16
WORK = (
    b'"type":"user"',
    b'"type":"assistant"',
    b'"type": "user"',
    b'"type": "assistant"',
    b'"queued_command"',
    b'"response_item"',
)


class Cursor(NamedTuple):
    """How far a session's transcript is saved.

    position: what the transcript reader continues from. capsule: path relative to the memory root. blob: of the file as last committed.
    evidence: open state of the distiller. saved: time of the newest record saved (record times only). journal: bytes of the journal read.
    inherited: the next action taken over from the parent capsule, kept until something contradicts it. transcript, harness: for the sweep.
    """

    session: str
    position: tuple[int, ...] = ()
    capsule: str = ""
    blob: str = ""
    evidence: dict[str, Any] = {}  # noqa: RUF012 - never changed in place
    saved: float = 0.0
    journal: int = 0
    inherited: str = ""
    transcript: str = ""
    harness: str = ""


class Intent(NamedTuple):
    """A delivery that is about to be printed, or (in a tree without git) was. told: hash of the text.

    unsure: it is done, and whether its text was seen is not known.
    """

    capsule: str
    session: str
    at: float
    done: bool = False
    told: str = ""
    unsure: bool = False

    @property
    def is_open(self) -> bool:
        """Whether the text may not have been seen."""
        return self.unsure or not self.done


class SessionRecord(NamedTuple):
    """A session this seat has seen start: the client process (pid, start time) it belongs to, and what was handed to it.

    tmux, pane: `TMUX` and `TMUX_PANE` as its SessionStart hook had them, "" outside tmux.
    """

    session: str
    pid: int = 0
    started: str = ""
    at: float = 0.0
    delivered: str = ""
    transcript: str = ""
    harness: str = ""
    tmux: str = ""
    pane: str = ""


def _load(path: str) -> dict[str, Any]:
    """A small JSON object; empty when it is missing, cut or something else."""
    try:
        value = jsontext.loads(files.read(path, limit=4 << 20).decode("utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _store(path: str, value: dict[str, Any], *, durable: bool = False) -> None:
    files.make_dirs(os.path.dirname(path))
    files.write_atomic(path, (jsontext.dumps(value) + "\n").encode("utf-8"), mode=0o600, durable=durable)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


def load_cursor(runtime: str, session: str) -> Cursor:
    """The cursor of a session (safe id); a fresh one when there is none or it is damaged."""
    value = _load(f"{runtime}/cursors/{session}.json")
    if value.get("session") != session:
        return Cursor(session)
    position, evidence = value.get("position"), value.get("evidence")
    whole = isinstance(position, list) and all(type(number) is int for number in position)
    return Cursor(
        session,
        tuple(position) if whole and isinstance(position, list) else (),
        _text(value.get("capsule")),
        _text(value.get("blob")),
        evidence if isinstance(evidence, dict) else {},
        _number(value.get("saved")),
        int(_number(value.get("journal"))),
        _text(value.get("inherited")),
        _text(value.get("transcript")),
        _text(value.get("harness")),
    )


def store_cursor(runtime: str, cursor: Cursor) -> None:
    """Replace the cursor of a session."""
    _store(f"{runtime}/cursors/{cursor.session}.json", {**cursor._asdict(), "position": list(cursor.position)})


def load_intent(runtime: str, session: str) -> Intent | None:
    """The intent of a session, None when there is none."""
    value = _load(f"{runtime}/deliveries/{session}.json")
    if not _text(value.get("capsule")):
        return None
    return Intent(
        _text(value.get("capsule")),
        session,
        _number(value.get("at")),
        value.get("done") is True,
        _text(value.get("told")),
        value.get("unsure") is True,
    )


def intents(runtime: str) -> tuple[Intent, ...]:
    """All intents lying there, in the order of their sessions' names."""
    try:
        names = sorted(os.listdir(f"{runtime}/deliveries"))
    except OSError:
        return ()
    found = (load_intent(runtime, name[:-5]) for name in names if name.endswith(".json"))
    return tuple(intent for intent in found if intent is not None)


def store_intent(runtime: str, intent: Intent) -> None:
    """Write an intent so that it survives a crash right after."""
    _store(f"{runtime}/deliveries/{intent.session}.json", intent._asdict(), durable=True)


def drop_intent(runtime: str, session: str) -> None:
    """Remove an intent; none there is fine. One that is done stays: in a tree without git it is the record of the delivery."""
    kept = load_intent(runtime, session)
    if kept is not None and kept.done:
        if kept.unsure:
            store_intent(runtime, kept._replace(unsure=False))
        return
    try:
        os.unlink(f"{runtime}/deliveries/{session}.json")
    except FileNotFoundError:
        pass


def load_session(runtime: str, session: str) -> SessionRecord | None:
    """What is known about a session, None when this seat never saw it start."""
    value = _load(f"{runtime}/sessions/{session}.json")
    if value.get("session") != session:
        return None
    return SessionRecord(
        session,
        int(_number(value.get("pid"))),
        _text(value.get("started")),
        _number(value.get("at")),
        _text(value.get("delivered")),
        _text(value.get("transcript")),
        _text(value.get("harness")),
        _text(value.get("tmux")),
        _text(value.get("pane")),
    )


def store_session(runtime: str, record: SessionRecord) -> None:
    """Replace the record of a session."""
    _store(f"{runtime}/sessions/{record.session}.json", record._asdict())


def _written(directory: str) -> list[tuple[float, str]]:
    """When each JSON file in a directory was last written, and its name without the ending."""
    try:
        with os.scandir(directory) as found:
            return [(entry.stat().st_mtime, entry.name[:-5]) for entry in found if entry.name.endswith(".json")]
    except OSError:
        return []


def _newest_names(directory: str, limit: int) -> list[str]:
    return [name for _, name in sorted(_written(directory), reverse=True)[:limit]]


def seen(runtime: str) -> list[tuple[float, str]]:
    """When this seat last wrote about a session, and its safe id; a session may stand there twice."""
    return _written(f"{runtime}/sessions") + _written(f"{runtime}/cursors")


def sessions_of(runtime: str, *, pid: int, started: str) -> tuple[SessionRecord, ...]:
    """The sessions recorded for one client process, among the latest that this seat has seen start."""
    found = (load_session(runtime, name) for name in _newest_names(f"{runtime}/sessions", RECENT))
    return tuple(record for record in found if record is not None and (record.pid, record.started) == (pid, started))


def behind(runtime: str, *, skip: str) -> tuple[Cursor, ...]:
    """Cursors of recent sessions whose transcript has grown by something that is work; fresh ones for sessions that never saved."""
    names = dict.fromkeys(_newest_names(f"{runtime}/cursors", SWEPT) + _newest_names(f"{runtime}/sessions", SWEPT))
    found = []
    for name in names:
        cursor = load_cursor(runtime, name)
        if not cursor.transcript:
            record = load_session(runtime, name)
            if record is not None:
                cursor = cursor._replace(transcript=record.transcript, harness=record.harness)
        if (
            name != skip
            and cursor.transcript
            and _has_work(cursor.transcript, cursor.position[0] if cursor.position else 0)
        ):
            found.append(cursor)
    return tuple(found)


def _has_work(path: str, offset: int) -> bool:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0))
    except (OSError, ValueError):
        return False
    try:
        if os.fstat(handle).st_size <= offset:
            return False
        tail = os.pread(handle, TAIL, offset)
    except OSError:
        return False
    finally:
        os.close(handle)
    # Clients append rows of their own after the last hook; only these kinds can hold work.
    return len(tail) == TAIL or any(kind in tail for kind in WORK)


def spooled(runtime: str) -> bool:
    """Whether a delta waits in `runtime/spool/`; the module that reads them is loaded only then."""
    try:
        return any(name.endswith(".json") for name in os.listdir(f"{runtime}/spool"))
    except OSError:
        return False


def owed(runtime: str) -> bool:
    """Whether something waits to be committed: a delta in the spool, or a file whose commit was refused."""
    return spooled(runtime) or os.path.lexists(f"{runtime}/pending.json")


def store_handoff(runtime: str, *, pid: int, started: str, session: str) -> None:
    """A client process ended a session by /clear: its next session starts from this one's capsule."""
    _store(f"{runtime}/handoff/{pid}-{started}.json", {"session": session})


def load_handoff(runtime: str, *, pid: int, started: str) -> str:
    """The session that this client process cleared last, empty for none."""
    return _text(_load(f"{runtime}/handoff/{pid}-{started}.json").get("session"))


def boot(runtime: str, *, session: str, source: str, now: float) -> str | None:
    """Write the boot receipt of this start and give the session id that the previous one held, None when there was none."""
    path = f"{runtime}/boot-receipt.json"
    before = _load(path)
    sequence = before.get("boot_sequence")
    _store(
        path,
        {
            "boot_sequence": sequence + 1 if type(sequence) is int else 0,
            "session_id": session,
            "source": source or "startup",
            "observed_at": stamps.utc(now),
        },
    )
    held = before.get("session_id")
    return held if isinstance(held, str) else None


def boot_session(runtime: str) -> str | None:
    """The session id in the boot receipt as it lies there; None when it is absent or malformed."""
    held = _load(f"{runtime}/boot-receipt.json").get("session_id")
    return held if isinstance(held, str) else None


def log(runtime: str, *, now: float, door: str, outcome: str, session: str = "", detail: str = "") -> None:
    """One line about one run; the file is turned over at LOG_LIMIT. A log that cannot be written stops nobody."""
    row = {"at": stamps.utc_millis(now), "door": door, "outcome": outcome, "session": session, "detail": detail[:500]}
    _append(f"{runtime}/log.jsonl", row, LOG_LIMIT, escaped=True)


def journal(runtime: str, *, now: float, session: str, prompt: str) -> None:
    """Keep a prompt (redacted by the caller), so that it outlives a client that dies before its first Stop."""
    _append(
        f"{runtime}/journal.jsonl", {"at": stamps.utc_millis(now), "session": session, "prompt": prompt}, JOURNAL_LIMIT
    )


def prompts(runtime: str, *, session: str, offset: int) -> tuple[list[tuple[float, str]], int]:
    """Time and text of the prompts of a session kept since *offset*, and where the next reading starts; a turned-over file is read anew."""
    try:
        handle = os.open(f"{runtime}/journal.jsonl", os.O_RDONLY | files.NOT_FOLLOWED)
    except OSError:
        return [], 0
    try:
        size = os.fstat(handle).st_size
        begin = offset if offset <= size else 0
        data = os.pread(handle, size - begin, begin) if size > begin else b""
    finally:
        os.close(handle)
    end = data.rfind(b"\n") + 1
    mark = jsontext.dumps(session).encode("utf-8")
    found = []
    for line in data[:end].split(b"\n"):
        if mark not in line:
            continue
        try:
            row = jsontext.loads(line.decode("utf-8"))
        except ValueError:
            continue
        at = stamps.epoch_of(row.get("at")) if isinstance(row, dict) and row.get("session") == session else None
        if at is not None and _text(row.get("prompt")):
            found.append((at, _text(row.get("prompt"))))
    return found, begin + end


def _append(path: str, row: dict[str, Any], limit: int, *, escaped: bool = False) -> None:
    try:
        files.make_dirs(os.path.dirname(path))
        try:
            if os.stat(path).st_size > limit:
                os.replace(path, f"{path}.1")
        except FileNotFoundError:
            pass
        files.append(path, (jsontext.dumps(row, escaped=escaped) + "\n").encode("utf-8"), mode=0o600)
    except OSError:
        pass
