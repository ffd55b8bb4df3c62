"""What the reset keeps between runs, below `runtime/reset/`: small JSON files a session, two logs, all readable by this user alone."""

from __future__ import annotations

import os

from vault_mem import files, jsontext, processes, receipts, stamps
from vault_mem.session import quiet
from vault_mem.session.ceiling import Throttle
from vault_mem.session.meter import Typed, hashed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from vault_mem.receipts import SessionRecord

LIMIT = 1 << 20
RECEIPT, SPENT, REQUEST, READY, THROTTLE, PHRASE, SUBMITTED, ORDERED = (
    "receipt.json",
    "receipt.spent.json",
    "request.json",
    "ready",
    "throttle.json",
    "phrase.json",
    "submitted.json",
    "ordered.json",
)
BREAKER = "breaker.json"


def folder(runtime: str, session: str = "") -> str:
    """`runtime/reset`, or a session's folder in it (safe id)."""
    return f"{runtime}/reset/{session}" if session else f"{runtime}/reset"


def load(path: str) -> dict[str, Any] | None:
    """A small JSON object; None when it is missing, a link, or something else."""
    try:
        value = jsontext.loads(files.read(path, limit=LIMIT).decode("utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def store(path: str, value: dict[str, Any]) -> None:
    """Replace a small JSON object, durably. Raises OSError."""
    files.make_dirs(os.path.dirname(path))
    files.write_atomic(path, (jsontext.dumps(value) + "\n").encode("utf-8"), mode=0o600)


def forget(path: str) -> None:
    """Remove a file; none there is fine."""
    try:
        os.unlink(path)
    except OSError:
        pass


def log(runtime: str, outcome: str, detail: str, *, now: float) -> None:
    """One line `time TAB outcome TAB detail`, durable. Raises OSError."""
    files.make_dirs(folder(runtime))
    clean = " ".join("".join(char if char.isprintable() else " " for char in detail).split())
    files.append(f"{folder(runtime)}/reset.log", f"{stamps.utc(now)}\t{outcome}\t{clean[:2000]}\n".encode())
    handle = os.open(f"{folder(runtime)}/reset.log", os.O_RDONLY | files.NOT_FOLLOWED)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def tail_of_log(runtime: str, count: int = 5) -> list[str]:
    """The last lines of the log."""
    try:
        return files.read(f"{folder(runtime)}/reset.log").decode("utf-8", "replace").splitlines()[-count:]
    except OSError:
        return []


def throttle(runtime: str, session: str) -> Throttle:
    """What was said last about a session; a damaged file counts as nothing said."""
    value = load(f"{folder(runtime, session)}/{THROTTLE}") or {}
    try:
        at, since, suppressed = (float(value[key]) for key in ("at", "since", "suppressed"))
        return Throttle(str(value["kind"]), at, since, int(value["times"]), suppressed)
    except (KeyError, TypeError, ValueError):
        return Throttle()


def keep_throttle(runtime: str, session: str, value: Throttle) -> None:
    """Store it, or remove the file when nothing is held."""
    path = f"{folder(runtime, session)}/{THROTTLE}"
    if value == Throttle():
        forget(path)
    elif value != throttle(runtime, session):
        store(path, value._asdict())


def live(runtime: str) -> tuple[SessionRecord, ...]:
    """The session each live client process of this seat is in now: of several recorded for one process the one that started last."""
    try:
        names = os.listdir(f"{runtime}/sessions")
    except OSError:
        return ()
    newest: dict[tuple[int, str], SessionRecord] = {}
    for name in names:
        record = receipts.load_session(runtime, name[:-5]) if name.endswith(".json") else None
        if record is None or not record.pid:
            continue
        held = newest.get((record.pid, record.started))
        if held is None or record.at >= held.at:
            newest[(record.pid, record.started)] = record
    alive = (record for record in newest.values() if processes.alive(record.pid, record.started))
    return tuple(sorted(alive, key=lambda record: record.session))


def client(record: SessionRecord) -> str:
    """The client process as one word: pid and what tells it from a later one with the same number, boot included."""
    return f"{record.pid}:{record.started}"


def ledger(runtime: str) -> tuple[Typed, ...]:
    """Every line this program typed, oldest first."""
    try:
        lines = files.read(f"{folder(runtime)}/typed.jsonl").split(b"\n")
    except OSError:
        return ()
    found = []
    for line in lines[-500:]:
        try:
            row = jsontext.loads(line.decode("utf-8"))
            found.append(Typed(str(row["hash"]), float(row["at"]), str(row["client"])))
        except (ValueError, TypeError, KeyError):
            continue
    return tuple(found)


def note_typed(runtime: str, text: str, *, client: str, now: float) -> None:
    """Enter a line into the ledger, before it is typed. Raises OSError."""
    files.make_dirs(folder(runtime))
    row = jsontext.dumps({"hash": hashed(text), "at": now, "client": client}) + "\n"
    files.append(f"{folder(runtime)}/typed.jsonl", row.encode("utf-8"))


def away(runtime: str) -> float | None:
    """Since when away mode is on; None when it is off."""
    value = load(f"{folder(runtime)}/away.json")
    if value is None:
        return 0.0 if os.path.lexists(f"{folder(runtime)}/away.json") else None
    at = value.get("at")
    return float(at) if isinstance(at, int | float) else 0.0


def holds(runtime: str) -> tuple[quiet.Item, ...]:
    """Declared holds; a file that cannot be read holds as well."""
    try:
        names = sorted(os.listdir(f"{folder(runtime)}/holds"))
    except OSError:
        return ()
    found = []
    for name in names:
        if name.endswith(".json"):
            value = load(f"{folder(runtime)}/holds/{name}") or {}
            at = value.get("at")
            found.append(
                quiet.Item(
                    "hold", name[:-5], str(value.get("why", "")), float(at) if isinstance(at, int | float) else 0.0
                )
            )
    return tuple(found)


def decisions(runtime: str) -> tuple[list[dict[str, Any]], bool]:
    """The rows of the decision log, and whether there is one at all."""
    try:
        lines = files.read(f"{folder(runtime)}/decisions.jsonl").split(b"\n")
    except OSError:
        return [], False
    rows = []
    for line in lines:
        try:
            row = jsontext.loads(line.decode("utf-8"))
        except ValueError:
            continue
        if isinstance(row, dict):
            rows.append(row)
    return rows, True


def decide(runtime: str, verb: str, key: str, why: str, *, now: float) -> None:
    """Append one row to the decision log. Raises OSError."""
    files.make_dirs(folder(runtime))
    row = jsontext.dumps({"verb": verb, "key": key, "why": why[:300], "at": now}) + "\n"
    files.append(f"{folder(runtime)}/decisions.jsonl", row.encode("utf-8"))


def phrase(runtime: str, session: str, *, make: float | None = None) -> str:
    """The session's one-time phrase, unused; with *make* (the time) a new one where there is none. "" without one."""
    path = f"{folder(runtime, session)}/{PHRASE}"
    value = load(path) or {}
    held = value.get("phrase")
    if isinstance(held, str) and held and not value.get("used"):
        return held
    if make is None:
        return ""
    made = f"reset approved {os.urandom(4).hex()}"
    store(path, {"phrase": made, "at": make, "used": ""})
    return made
