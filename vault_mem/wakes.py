"""Wakes: durable notices for one session, numbered, delivered at least once. Light enough for a hook.

`runtime/wakes.jsonl` holds what was not drained, one JSON object a line; `runtime/wakes.seq` the last number. Every change is made under
`runtime/wakes.lock`.
"""

from __future__ import annotations

import os

from vault_mem import files, jsontext, lock, stamps
from vault_mem.record import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

QUEUE, NUMBER, LOCK = "wakes.jsonl", "wakes.seq", "wakes.lock"
CEILING = "context-ceiling"
LIMIT = 1 << 20
WAIT = 5.0
SHOWN = 5
TEXT_LIMIT = 900
OVERDUE = 600.0
INTERVAL = 300.0
BEACON = "reset/beacon.json"


class Wake(NamedTuple):
    """One notice. key: what it is about; kind: its class there; session: the only one that shows and drains it (safe id)."""

    seq: int
    at: float
    session: str
    key: str
    kind: str
    text: str


def waiting(runtime: str, session: str = "") -> tuple[Wake, ...]:
    """What was not drained, oldest first, of one session (safe id) or of all; no file is nothing. Damaged lines are passed over."""
    try:
        data = files.read(f"{runtime}/{QUEUE}", limit=LIMIT)
    except OSError:
        return ()
    found = []
    for line in data.split(b"\n"):
        wake = _wake(line)
        if wake is not None and (not session or wake.session == session):
            found.append(wake)
    return tuple(found)


def _wake(line: bytes) -> Wake | None:
    if not line.strip():
        return None
    try:
        row: Any = jsontext.loads(line.decode("utf-8"))
        return Wake(int(row["seq"]), float(row["at"]), *(str(row[key]) for key in ("session", "key", "kind", "text")))
    except (ValueError, TypeError, KeyError):
        return None


def push(runtime: str, *, now: float, session: str, key: str, kind: str, text: str) -> Wake:
    """Append one notice so that it survives a crash right after. Raises OSError, LockBusyError."""
    files.make_dirs(runtime)
    with lock.Locked(f"{runtime}/{LOCK}", timeout=WAIT):
        try:
            last = int(files.read(f"{runtime}/{NUMBER}", limit=64))
        except (OSError, ValueError):
            last = max((wake.seq for wake in waiting(runtime)), default=0)
        wake = Wake(last + 1, now, session, key, kind, " ".join(text.split()))
        files.write_atomic(f"{runtime}/{NUMBER}", str(wake.seq).encode(), mode=0o600, durable=False)
        before = b""
        try:
            before = files.read(f"{runtime}/{QUEUE}", limit=LIMIT)
        except FileNotFoundError:
            pass
        if before and not before.endswith(b"\n"):
            before += b"\n"
        files.write_atomic(f"{runtime}/{QUEUE}", before + _line(wake), mode=0o600)
    return wake


def _line(wake: Wake) -> bytes:
    return (jsontext.dumps(wake._asdict()) + "\n").encode("utf-8")


def drop(runtime: str, seqs: frozenset[int]) -> None:
    """Take these numbers out of the queue; called after they were shown, so that a crash in between shows them again."""
    with lock.Locked(f"{runtime}/{LOCK}", timeout=WAIT):
        kept = b"".join(_line(wake) for wake in waiting(runtime) if wake.seq not in seqs)
        files.write_atomic(f"{runtime}/{QUEUE}", kept, mode=0o600)


def folded(found: tuple[Wake, ...]) -> tuple[Wake, ...]:
    """One wake a session and key: the place of the first, the text of the newest."""
    newest: dict[tuple[str, str], Wake] = {}
    for wake in found:
        newest[(wake.session, wake.key)] = wake
    return tuple(newest.values())


def lines(runtime: str, session: str, *, now: float) -> tuple[str, ...]:
    """What resume and the prompt hook print for a session (safe id): its wakes, and whether the watcher stands still. One line each.

    Costs two failed opens where nothing waits and no watcher was ever set up. The texts are inert; times are absolute.
    """
    from vault_mem.capsule.inert import inert

    found = folded(waiting(runtime, session)) if session else ()
    said = [f"WAKE {wake.seq} ({stamps.utc(wake.at)}): {inert(wake.text, limit=TEXT_LIMIT)}" for wake in found[:SHOWN]]
    if found:
        more = f" ({len(found) - SHOWN} more)" if len(found) > SHOWN else ""
        said.append(
            f"Run `vault-mem wakes drain`{more}; a wake is a diagnosis, only what it says may be done about it."
        )
    stale = stopped(runtime, now=now)
    if stale:
        said.append(stale)
    elif found and now - found[0].at > OVERDUE:
        said.append(f"wake-undrained: a wake of {stamps.utc(found[0].at)} was never drained")
    return tuple(said)


def overdue(runtime: str, *, now: float) -> tuple[Wake, ...]:
    """The wakes of all sessions that were not drained for too long, oldest first, one a session and key."""
    return tuple(wake for wake in folded(waiting(runtime)) if now - wake.at > OVERDUE)


def stopped(runtime: str, *, now: float) -> str:
    """A line when a watcher was set up once and its beacon is too old, else "".

    Too old is twice the check interval of the watcher itself, which it writes into the beacon: a hook may have been started with another one.
    """
    row = _beacon(runtime)
    at = _number(row.get("at"))
    interval = _number(row.get("interval")) or INTERVAL
    if at is None or -interval <= now - at < 2 * interval:
        return ""
    return (
        f"watcher-stale: `vault-mem reset watch` was last seen at {stamps.utc(at)}; the context ceiling is not watched"
    )


def beacon(runtime: str) -> float | None:
    """When a watcher last made a pass; None when none ever did."""
    return _number(_beacon(runtime).get("at"))


def _beacon(runtime: str) -> dict[str, Any]:
    try:
        row: Any = jsontext.loads(files.read(f"{runtime}/{BEACON}", limit=1 << 16).decode("utf-8"))
    except (OSError, ValueError):
        return {}
    return row if isinstance(row, dict) else {}


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def cleared(runtime: str) -> tuple[str, ...]:
    """A line that names the conversation a reset of ours cleared last, so that it can be found again; none when there was no reset."""
    from vault_mem.capsule.inert import plain

    try:
        row = jsontext.loads(files.read(f"{runtime}/reset/cleared.json", limit=1 << 16).decode("utf-8"))
        old, transcript = str(row["session"]), str(row["transcript"])
    except (OSError, ValueError, TypeError, KeyError):
        return ()
    way = f"claude --resume {plain(old, limit=120)}"
    return (
        f"context-reset: session {plain(old, limit=120)} was cleared; it stays at {plain(transcript, limit=300)}, back with `{way}`",
    )


def requested(runtime: str, session: str) -> bool:
    """Marks a reset that this session asked for as ready to be typed, because its turn has ended; whether there was one."""
    asked = f"{runtime}/reset/{session}/request.json"
    if not os.path.exists(asked):
        return False
    try:
        files.write_atomic(f"{runtime}/reset/{session}/ready", b"", mode=0o600, durable=False)
    except OSError:
        return False
    return True
