"""What a session's context has gone through: samples, checkpoints, compactions, briefings. State = fold of events, nothing else.

A *cycle* is one compaction: announced or not, completed or not, followed by one briefing. A checkpoint is a snapshot with a generation number; a
cycle points at the one it is served from. Signals of the clients come in any order and some never come: `before` and `completion` decide what a
signal means, `step` and `apply` only record it. Everything here is pure; identifiers and times come in by argument.
"""

from __future__ import annotations

from vault_mem.record import NamedTuple
from vault_mem.report import FAIL, WARN, Finding
from vault_mem.session import usage
from vault_mem.session.usage import Sample

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

OBSERVING, CHECKPOINTED, RECOVERED, DEGRADED = "observing", "checkpointed", "recovered", "degraded"
PHASES = (OBSERVING, CHECKPOINTED, RECOVERED, DEGRADED)

SAMPLED = "context-sampled"
STARTED = "compaction-started"
CREATED = "checkpoint-created"
TAKEN = "snapshot-taken"
COMPLETED = "compaction-completed"
CLOSED = "cycle-closed"
IMPAIRED = "continuity-degraded"
INJECTED = "briefing-injected"
CONFIRMED = "delivery-confirmed"
UNCONFIRMED = "delivery-unconfirmed"
CARRIED = "state-carried"
KINDS = (SAMPLED, STARTED, CREATED, TAKEN, COMPLETED, CLOSED, IMPAIRED, INJECTED, CONFIRMED, UNCONFIRMED, CARRIED)

TRANSITIONS = {
    **{(phase, CREATED): CHECKPOINTED for phase in PHASES},
    **{(phase, TAKEN): CHECKPOINTED for phase in (OBSERVING, CHECKPOINTED, RECOVERED)},
    **{(phase, INJECTED): RECOVERED for phase in (OBSERVING, CHECKPOINTED, RECOVERED)},
    **{(phase, IMPAIRED): DEGRADED for phase in PHASES},
}
"""Only `CREATED`, a checkpoint that a compaction announced, ends `degraded`; a pair that is not here stays in its phase."""

PRE_COMPACT, MANUAL, PRESSURE, SESSION_END, POST_HOC = "pre_compact", "manual", "pressure", "session_end", "post_hoc"
REASONS = (PRE_COMPACT, MANUAL, PRESSURE, SESSION_END, POST_HOC)
ABANDONED, SUPERSEDED = "abandoned", "superseded"
POST, START, TRANSCRIPT = "post", "start", "transcript"
NO_SIGNAL, LOST, UNWRITABLE = "no-pre-signal", "checkpoint-lost", "checkpoint-unwritable"
WHY = {
    NO_SIGNAL: "a compaction came without its announcement, so no checkpoint was made before it",
    LOST: "the checkpoint made before the compaction cannot be read any more",
    UNWRITABLE: "the checkpoint before the compaction could not be written",
}

RETRY = 60.0  # seconds within which a client without turn ids repeats one and the same announcement
DOUBLED = 10.0  # seconds within which the same completion is the same one, told twice
STALE = 3600.0  # an announcement without a turn id is not believed longer than this
RING = 32
_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


class Cycle(NamedTuple):
    """One compaction. started: 0.0 when it was not announced; generation: its checkpoint, 0 for none; signals: completions seen."""

    id: str
    started: float = 0.0
    trigger: str = ""
    turn: str = ""
    fingerprint: str = ""
    generation: int = 0
    completed: float = 0.0
    signals: tuple[str, ...] = ()
    seen: float = 0.0
    channel: str = ""
    injected: float = 0.0
    tries: int = 0
    delivery: str = ""
    closed: str = ""


class State(NamedTuple):
    """What is known of one session; times are epoch seconds, 0.0 for never. latest: id of the newest checkpoint."""

    session: str = ""
    harness: str = ""
    phase: str = OBSERVING
    generation: int = 0
    latest: str = ""
    checkpointed: float = 0.0
    cycle: Cycle | None = None
    cycles: int = 0
    samples: tuple[Sample, ...] = ()
    degraded: str = ""
    degraded_at: float = 0.0
    degradations: int = 0
    updated: float = 0.0
    events: int = 0
    last: str = ""


class Event(NamedTuple):
    """One row of the log."""

    id: str
    at: float
    kind: str
    data: Mapping[str, Any]


class Signal(NamedTuple):
    """What a hook tells about a compaction. turn: empty where the client names none."""

    at: float
    turn: str = ""
    trigger: str = ""


def ulid(at: float, noise: bytes) -> str:
    """A ULID: 48 bits of milliseconds, 80 bits of *noise* (ten bytes); later ones sort after earlier ones."""
    number = (max(0, round(at * 1000)) << 80) | int.from_bytes(noise[:10], "big")
    return "".join(_CROCKFORD[(number >> shift) & 31] for shift in range(125, -1, -5))


def ulid_time(text: str) -> float | None:
    """The time in a ULID, None when it is none."""
    if len(text) != 26 or any(char not in _CROCKFORD for char in text):
        return None
    value = 0
    for char in text[:10]:
        value = value * 32 + _CROCKFORD.index(char)
    return value / 1000


# What a signal means


def is_retry(state: State, signal: Signal, fingerprint: str) -> bool:
    """Whether an announcement repeats the one whose cycle is open: same turn, nothing completed since, and neither work nor git moved."""
    cycle = state.cycle
    return (
        cycle is not None
        and is_open(cycle)
        and cycle.started > 0
        and cycle.generation > 0
        and cycle.fingerprint == fingerprint
        and _same_turn(cycle, signal)
    )


def _same_turn(cycle: Cycle, signal: Signal) -> bool:
    if cycle.turn or signal.turn:
        return cycle.turn == signal.turn
    return cycle.trigger == signal.trigger and 0 <= signal.at - cycle.started <= RETRY


def is_open(cycle: Cycle | None) -> bool:
    """Whether a cycle waits for its completion."""
    return cycle is not None and not cycle.completed and not cycle.closed


def is_pending(state: State) -> bool:
    """Whether a completed compaction still owes the model its briefing."""
    cycle = state.cycle
    return cycle is not None and cycle.completed > 0 and not cycle.injected and not cycle.closed


def is_settled(state: State) -> bool:
    """Whether no later hook has anything to do for the last cycle."""
    cycle = state.cycle
    return cycle is None or bool(cycle.closed) or cycle.delivery == CONFIRMED


def closing(state: State) -> tuple[tuple[str, Mapping[str, Any]], ...]:
    """The event that ends the last cycle when another one begins: it never completed, or nobody was told."""
    cycle = state.cycle
    if cycle is None or cycle.closed or cycle.injected:
        return ()
    return ((CLOSED, {"cycle": cycle.id, "outcome": SUPERSEDED if cycle.completed else ABANDONED}),)


def completion(state: State, signal: Signal, which: str) -> str:
    """What a completion signal (`POST`, `START`) is: `same` (belongs to the last cycle), `double` (told before), `missed` (unannounced)."""
    cycle = state.cycle
    if cycle is None or cycle.closed:
        return "missed"
    if cycle.turn and signal.turn and cycle.turn != signal.turn:
        return "missed"
    if which in cycle.signals:
        return "double" if 0 <= signal.at - cycle.seen <= DOUBLED else "missed"
    told = bool(cycle.turn and signal.turn) or cycle.completed > 0
    # Codex starts the session anew only with the next prompt, which may be hours later, and names no turn there.
    late = signal.at - cycle.started > STALE and not (which == START and state.harness == "codex")
    return "same" if told or not late else "missed"


# The fold


def step(phase: str, kind: str) -> str:
    """The phase after an event of *kind*."""
    return TRANSITIONS.get((phase, kind), phase)


def apply(state: State, event: Event) -> State:
    """The state after *event*; an event of an unknown kind only counts. The first event of a log names session and harness."""
    data = event.data
    if not state.session:
        state = state._replace(session=_text(data, "session"), harness=_text(data, "harness"))
    state = state._replace(
        phase=step(state.phase, event.kind), updated=event.at, events=state.events + 1, last=event.id
    )
    change = _APPLIED.get(event.kind)
    return state if change is None else change(state, event, data)


def folded(events: Iterable[Event], state: State = State()) -> State:  # noqa: B008 - a frozen value
    """The state after all *events*."""
    for event in events:
        state = apply(state, event)
    return state


def _sampled(state: State, _event: Event, data: Mapping[str, Any]) -> State:
    sample = usage.from_json(data.get("sample"))
    return state if sample is None else state._replace(samples=(*state.samples, sample)[-RING:])


def _started(state: State, event: Event, data: Mapping[str, Any]) -> State:
    cycle = Cycle(
        id=_text(data, "cycle"),
        started=event.at if data.get("announced") is True else 0.0,
        trigger=_text(data, "trigger"),
        turn=_text(data, "turn"),
        fingerprint=_text(data, "fingerprint"),
    )
    # A checkpoint by hand may have come before any hook told which client this is.
    return state._replace(cycle=cycle, cycles=state.cycles + 1, harness=_text(data, "harness") or state.harness)


def _created(state: State, event: Event, data: Mapping[str, Any]) -> State:
    generation = data.get("generation")
    generation = generation if type(generation) is int else state.generation
    cycle = state.cycle
    # A snapshot of another kind names no cycle, so an open one keeps its own.
    if cycle is not None and cycle.id == _text(data, "cycle"):
        cycle = cycle._replace(generation=generation)
    healed = event.kind == CREATED
    return state._replace(
        generation=max(generation, state.generation),
        latest=_text(data, "checkpoint"),
        checkpointed=event.at,
        cycle=cycle,
        degraded="" if healed else state.degraded,
        degraded_at=0.0 if healed else state.degraded_at,
    )


def _completed(state: State, event: Event, data: Mapping[str, Any]) -> State:
    cycle, which = state.cycle, _text(data, "signal")
    if cycle is None:
        return state
    signals = cycle.signals if which in cycle.signals else (*cycle.signals, which)
    return state._replace(cycle=cycle._replace(completed=cycle.completed or event.at, signals=signals, seen=event.at))


def _closed(state: State, _event: Event, data: Mapping[str, Any]) -> State:
    return state if state.cycle is None else state._replace(cycle=state.cycle._replace(closed=_text(data, "outcome")))


def _impaired(state: State, event: Event, data: Mapping[str, Any]) -> State:
    return state._replace(degraded=_text(data, "reason"), degraded_at=event.at, degradations=state.degradations + 1)


def _injected(state: State, event: Event, data: Mapping[str, Any]) -> State:
    cycle = state.cycle
    if cycle is None:
        return state
    cycle = cycle._replace(channel=_text(data, "channel"), injected=event.at, tries=cycle.tries + 1, delivery="")
    return state._replace(cycle=cycle)


def _delivery(state: State, event: Event, _data: Mapping[str, Any]) -> State:
    return state if state.cycle is None else state._replace(cycle=state.cycle._replace(delivery=event.kind))


def _carried(state: State, event: Event, data: Mapping[str, Any]) -> State:
    carried = from_json(data.get("state"))
    # The log was turned over: what came before is in here; only the row's own identity is newer.
    return state if carried is None else carried._replace(last=event.id)


def _text(data: Mapping[str, Any], key: str) -> str:
    value = data.get(key)
    return value if isinstance(value, str) else ""


_APPLIED = {
    SAMPLED: _sampled,
    STARTED: _started,
    CREATED: _created,
    TAKEN: _created,
    COMPLETED: _completed,
    CLOSED: _closed,
    IMPAIRED: _impaired,
    INJECTED: _injected,
    CONFIRMED: _delivery,
    UNCONFIRMED: _delivery,
    CARRIED: _carried,
}


# As JSON


def to_json(state: State) -> dict[str, Any]:
    """*state* as a JSON value."""
    cycle = state.cycle
    return {
        "schema": 1,
        **state._asdict(),
        "cycle": {**cycle._asdict(), "signals": list(cycle.signals)} if cycle is not None else None,
        "samples": [usage.to_json(sample) for sample in state.samples],
    }


def from_json(value: object) -> State | None:
    """The state that `to_json` wrote; None for anything that it cannot have written."""
    if not isinstance(value, dict) or value.get("schema") != 1 or value.get("phase") not in PHASES:
        return None
    samples = value.get("samples")
    read = tuple(usage.from_json(sample) for sample in samples) if isinstance(samples, list) else None
    cycle = _cycle(value.get("cycle"))
    if read is None or None in read or (cycle is None) != (value.get("cycle") is None):
        return None
    fields = _like({**value, "cycle": None, "samples": ()}, State())
    return None if fields is None else State(**{**fields, "cycle": cycle, "samples": read})


def _cycle(value: object) -> Cycle | None:
    if not isinstance(value, dict):
        return None
    signals = value.get("signals")
    if not isinstance(signals, list) or not all(isinstance(signal, str) for signal in signals):
        return None
    fields = _like({**value, "signals": tuple(signals)}, Cycle(""))
    return None if fields is None else Cycle(**fields)


def _like(value: Mapping[str, Any], example: Any) -> dict[str, Any] | None:
    """The fields of *example* out of *value*; None when one is missing or of another type."""
    found: dict[str, Any] = {}
    for name, default in example._asdict().items():
        if name not in value:
            return None
        given = value[name]
        if isinstance(default, float) and type(given) is int:
            given = float(given)
        if type(given) is not type(default):
            return None
        found[name] = given
    return found


def event_to_json(event: Event) -> dict[str, Any]:
    """A row of the log."""
    return {"id": event.id, "at": event.at, "kind": event.kind, "data": dict(event.data)}


def event_from_json(value: object) -> Event | None:
    """The event in a row; None when it is none."""
    if not isinstance(value, dict):
        return None
    name, at, kind, data = (value.get(key) for key in ("id", "at", "kind", "data"))
    if not isinstance(name, str) or not isinstance(kind, str) or not isinstance(data, dict):
        return None
    if isinstance(at, bool) or not isinstance(at, int | float):
        return None
    return Event(name, float(at), kind, data)


# What is wrong


def findings(states: Iterable[State], *, where: str = "") -> tuple[Finding, ...]:
    """What a person should know about the continuity of these sessions, for the doctor and the status command."""
    found = []
    for state in states:
        if state.phase == DEGRADED:
            why = WHY.get(state.degraded, state.degraded or "the reason is not recorded")
            found.append(
                Finding(
                    "context-degraded",
                    FAIL if state.degraded == UNWRITABLE else WARN,
                    where or f"session {state.session}",
                    f"session {state.session}: {why} ({state.degradations}x)",
                    "what the model is told after such a compaction was snapshotted afterwards",
                    "vault-mem init",
                )
            )
        cycle = state.cycle
        if cycle is not None and cycle.delivery == UNCONFIRMED and not cycle.closed:
            found.append(
                Finding(
                    "briefing-unconfirmed",
                    WARN,
                    where or f"session {state.session}",
                    f"session {state.session}: the briefing after the last compaction was printed and was not seen in the transcript",
                    "the client may not have passed it on to the model",
                    f"vault-mem context brief --session {state.session}",
                )
            )
    return tuple(found)
