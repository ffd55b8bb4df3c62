"""What a commit of the vault says about a capsule, read from its trailers, and the trailers of a commit we make."""

from __future__ import annotations

from vault_mem import stamps
from vault_mem.record import NamedTuple

AUTOSAVE, CONSUME, WRITE, REOPEN, RETIRE = "autosave", "consume", "write", "reopen", "retire"
CHECKPOINT = "checkpoint"
PREFIX = "Capsule-"
INJECTED = "Injected:"


class Event(NamedTuple):
    """One event of one capsule.

    at: seconds since the epoch; consumer, told (hash of the text it was given): only for `consume`; checkpoint: the id of the one that a
    `checkpoint` commit stands for; why: the reason a person gave.
    """

    id: str
    event: str
    status: str = ""
    parent: str = ""
    session: str = ""
    harness: str = ""
    consumer: str = ""
    at: float = 0.0
    told: str = ""
    checkpoint: str = ""
    why: str = ""


def event_of(message: str) -> Event | None:
    """The event a commit message records, None when it is no commit of ours."""
    values: dict[str, str] = {}
    told = ""
    for line in message.splitlines():
        if line.startswith(PREFIX):
            key, _, value = line[len(PREFIX) :].partition(":")
            values[key.lower()] = value.strip()
        elif line.startswith(INJECTED):
            told = line[len(INJECTED) :].strip()
    if "id" not in values or "event" not in values:
        return None
    return Event(
        id=values["id"],
        event=values["event"],
        status=values.get("status", ""),
        parent=values.get("parent", ""),
        session=values.get("session", ""),
        harness=values.get("harness", ""),
        consumer=values.get("consumer", ""),
        at=stamps.epoch_of(values.get("time")) or 0.0,
        told=told,
        checkpoint=values.get("checkpoint", ""),
        why=values.get("why", ""),
    )


def subject(event: Event) -> str:
    """`capsule: autosave <id>`."""
    return f"capsule: {event.event} {event.id}"


def trailers(event: Event, *, version: str) -> tuple[tuple[str, str], ...]:
    """The trailers of a commit, one line each; empty ones are left out."""
    rows = (
        ("Capsule-Id", event.id),
        ("Capsule-Event", event.event),
        ("Capsule-Status", event.status),
        ("Capsule-Parent", event.parent),
        ("Capsule-Session", event.session),
        ("Capsule-Harness", event.harness),
        ("Capsule-Consumer", event.consumer),
        ("Capsule-Time", stamps.utc_millis(event.at) if event.at else ""),
        ("Capsule-Checkpoint", event.checkpoint),
        ("Capsule-Why", event.why),
        ("Injected", event.told),
        ("Vault-Mem-Version", version),
    )
    return tuple((key, " ".join(value.split())) for key, value in rows if value)
