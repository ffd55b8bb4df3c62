"""One compaction from its announcement to the proof that its briefing arrived. Every step holds the session's lock; the door saves and prints.

Verbs do not know each other: saving comes in as *save*, printing as *say*, so that a snapshot that is taken afterwards can flush first.
"""

from __future__ import annotations

import os

from vault_mem import checkpoints, injections, lock, receipts, stamps
from vault_mem.capsule import lineage, selector
from vault_mem.context import children, gather, peers, tail
from vault_mem.digest import sha256
from vault_mem.errors import BadPayloadError, GitRefusedError, LockBusyError, VaultMemError
from vault_mem.record import NamedTuple
from vault_mem.session import briefing, checkpoint, continuity, drift, identity, usage
from vault_mem.session.continuity import Signal, State
from vault_mem.vault import commits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from vault_mem.session.event import HookEvent
    from vault_mem.session.usage import Sample
    from vault_mem.vault.store import Store

    Rows = tuple[tuple[str, Mapping[str, Any]], ...]

WAIT, SHORT = 2.0, 0.3
SESSION_START, TOOL, PROMPT, STOP = "SessionStart", "PostToolUse", "UserPromptSubmit", "Stop"
KEPT = 32
SLACK = 5.0


class Outcome(NamedTuple):
    """What a step came to: token, a sentence, the checkpoint's id and generation where there is one."""

    token: str
    detail: str = ""
    checkpoint: str = ""
    generation: int = 0


class Subject(NamedTuple):
    """Whose checkpoint it is. directory: of the project."""

    session: str
    harness: str
    directory: str
    transcript: str = ""
    model: str = ""
    turn: str = ""
    trigger: str = ""


def subject_of(event: HookEvent, store: Store) -> Subject:
    """The session a hook call belongs to. Raises BadPayloadError: a checkpoint is never attributed to somebody else's session."""
    if not event.session_id.strip():
        raise BadPayloadError("the payload has no session_id")
    directory = store.environ.get("CLAUDE_PROJECT_DIR") or event.cwd
    return Subject(
        identity.safe_id(event.session_id),
        event.harness,
        directory,
        event.transcript_path,
        event.model,
        event.turn,
        event.trigger,
    )


def _state(store: Store, subject: Subject) -> State:
    known = checkpoints.load(store.runtime, subject.session)
    return known if known is not None else State(subject.session, subject.harness)


def _signal(subject: Subject, now: float) -> Signal:
    return Signal(now, subject.turn, subject.trigger)


def announce(event: HookEvent, store: Store, *, now: float) -> Outcome:
    """PreCompact, after the save: a checkpoint and an open cycle, or the ones that this very announcement made before."""
    subject = subject_of(event, store)
    if event.agent_id:
        children.note(event, store, subject.session, now=now, hook="pre-compact")
        return Outcome("delegated", "the context of a sub-agent; the session's own picture stays")
    with checkpoints.locked(store.runtime, subject.session, timeout=WAIT):
        state = _sampled(store, _state(store, subject), subject, event.given, now=now)
        taken = _Taking(store, subject, now=now)
        signal = _signal(subject, now)
        if continuity.is_retry(state, signal, taken.fingerprint):
            return Outcome("checkpoint-reused", "the same announcement again", state.latest, state.generation)
        cycle = _name(now)
        started: Rows = (
            *continuity.closing(state),
            (
                continuity.STARTED,
                {
                    "cycle": cycle,
                    "announced": True,
                    "harness": subject.harness,
                    "trigger": subject.trigger,
                    "turn": subject.turn,
                    "fingerprint": taken.fingerprint,
                },
            ),
        )
        checkpoints.mark(store.runtime, subject.session, wanted=True)
        try:
            record = taken.write(state, continuity.PRE_COMPACT, cycle=cycle)
        except OSError as error:
            impaired = (continuity.IMPAIRED, {"reason": continuity.UNWRITABLE, "cycle": cycle})
            checkpoints.append(store.runtime, state, (*started, impaired), at=now, durable=store.durable)
            return Outcome("checkpoint-unwritable", str(error))
        checkpoints.append(
            store.runtime, state, (*started, _created(continuity.CREATED, record)), at=now, durable=store.durable
        )
        _tidy(store, subject.session, now=now)
        return Outcome("checkpointed", _named(record), record["id"], record["generation"])


def snapshot(store: Store, subject: Subject, *, reason: str, note: str = "", now: float) -> dict[str, Any]:
    """A checkpoint that no compaction asked for; an open cycle stays as it is. Raises LockBusyError, OSError."""
    with checkpoints.locked(store.runtime, subject.session, timeout=10 * WAIT):
        state = _state(store, subject)
        record = _Taking(store, subject, now=now, note=note).write(state, reason, cycle="")
        checkpoints.append(store.runtime, state, (_created(continuity.TAKEN, record),), at=now, durable=store.durable)
        _tidy(store, subject.session, now=now)
        return record


def complete(event: HookEvent, store: Store, *, now: float, save: Callable[[], str]) -> Outcome:
    """PostCompact: the cycle is completed; nobody is told yet, this event reaches no model."""
    subject = subject_of(event, store)
    if event.agent_id:
        return Outcome("nothing-to-do", "the context of a sub-agent")
    with checkpoints.locked(store.runtime, subject.session, timeout=WAIT):
        _, token = _completed(store, _state(store, subject), subject, continuity.POST, now=now, save=save)
        return Outcome(token)


def _completed(
    store: Store, state: State, subject: Subject, which: str, *, now: float, save: Callable[[], str]
) -> tuple[State, str]:
    match continuity.completion(state, _signal(subject, now), which):
        case "double":
            return state, "nothing-to-do"
        case "same" if state.cycle is not None:
            row = (continuity.COMPLETED, {"cycle": state.cycle.id, "signal": which, "trigger": subject.trigger})
            return checkpoints.append(store.runtime, state, (row,), at=now, durable=store.durable), "completed"
    # Nobody announced it. What was saved before is older than this compaction, so a snapshot is taken now and says so.
    save()
    cycle = _name(now)
    checkpoints.mark(store.runtime, subject.session, wanted=True)
    record = _Taking(store, subject, now=now).write(state, continuity.POST_HOC, cycle=cycle)
    rows: Rows = (
        *continuity.closing(state),
        (
            continuity.STARTED,
            {
                "cycle": cycle,
                "announced": False,
                "harness": subject.harness,
                "trigger": subject.trigger,
                "turn": subject.turn,
            },
        ),
        _created(continuity.TAKEN, record),
        (continuity.IMPAIRED, {"reason": continuity.NO_SIGNAL, "cycle": cycle}),
        (continuity.COMPLETED, {"cycle": cycle, "signal": which, "trigger": subject.trigger}),
    )
    return checkpoints.append(store.runtime, state, rows, at=now, durable=store.durable), "context-degraded"


def begun(
    event: HookEvent, store: Store, *, now: float, save: Callable[[], str], say: Callable[[str, str], None]
) -> Outcome:
    """SessionStart after a compaction. *say* gets the text for the model and a line for the person, and raises OSError when it did not get out."""
    subject = subject_of(event, store)
    if event.agent_id:
        return Outcome("nothing-to-do", "the context of a sub-agent")
    with checkpoints.locked(store.runtime, subject.session, timeout=WAIT):
        state, _ = _completed(store, _state(store, subject), subject, continuity.START, now=now, save=save)
        if not continuity.is_pending(state):
            return Outcome("already-briefed", "this compaction had its briefing")
        return _tell(store, state, subject, SESSION_START, now=now, say=say)


def follow(event: HookEvent, store: Store, channel: str, *, now: float, say: Callable[[str, str], None]) -> Outcome:
    """A later hook of a session whose cycle is not settled: tell what is still owed, look whether the telling arrived."""
    subject = subject_of(event, store)
    if event.agent_id:
        return Outcome("nothing-to-do")
    try:
        with checkpoints.locked(store.runtime, subject.session, timeout=SHORT):
            return _follow(store, subject, channel, now=now, say=say)
    except LockBusyError:
        # Tool hooks run side by side; whoever holds the lock does the telling.
        return Outcome("nothing-to-do", "another hook looks after it")


def _follow(store: Store, subject: Subject, channel: str, *, now: float, say: Callable[[str, str], None]) -> Outcome:
    state = _state(store, subject)
    cycle = state.cycle
    if cycle is None or continuity.is_settled(state):
        checkpoints.mark(store.runtime, subject.session, wanted=False)
        return Outcome("nothing-to-do")
    if continuity.is_open(cycle):
        seen = tail.read(subject.transcript, harness=subject.harness, since=cycle.started - SLACK)
        if seen.boundary >= cycle.started - SLACK:
            row = (continuity.COMPLETED, {"cycle": cycle.id, "signal": continuity.TRANSCRIPT})
            state = checkpoints.append(store.runtime, state, (row,), at=now, durable=store.durable)
        elif channel == PROMPT and subject.turn and cycle.turn and subject.turn != cycle.turn:
            checkpoints.append(store.runtime, state, continuity.closing(state), at=now, durable=store.durable)
            checkpoints.mark(store.runtime, subject.session, wanted=False)
            return Outcome("nothing-to-do", "announced and never compacted")
    if continuity.is_pending(state) and channel != STOP:
        return _tell(store, state, subject, channel, now=now, say=say)
    if state.cycle is None or not state.cycle.injected:
        return Outcome("nothing-to-do")
    return _arrived(store, state, subject, channel, now=now, say=say)


def _arrived(
    store: Store, state: State, subject: Subject, channel: str, *, now: float, say: Callable[[str, str], None]
) -> Outcome:
    """Whether the mark of the cycle stands in the transcript. Where the client went on without it, the briefing is told once more, elsewhere."""
    cycle = state.cycle
    if cycle is None:
        return Outcome("nothing-to-do")
    seen = tail.read(subject.transcript, harness=subject.harness, since=cycle.injected - SLACK, mark=cycle.id)
    if seen.seen:
        row = (continuity.CONFIRMED, {"cycle": cycle.id})
        checkpoints.append(store.runtime, state, (row,), at=now, durable=store.durable)
        checkpoints.mark(store.runtime, subject.session, wanted=False)
        return Outcome("nothing-to-do", "the briefing arrived")
    if (
        channel in (TOOL, PROMPT)
        and cycle.channel == SESSION_START
        and cycle.tries == 1
        and seen.answered > cycle.injected
    ):
        # Rows are written in order: an answer after the printing with no trace of it before means that it was dropped.
        return _tell(store, state, subject, channel, now=now, say=say, again=True)
    if cycle.delivery != continuity.UNCONFIRMED:
        row = (continuity.UNCONFIRMED, {"cycle": cycle.id})
        checkpoints.append(store.runtime, state, (row,), at=now, durable=store.durable)
    if channel == STOP:
        checkpoints.mark(store.runtime, subject.session, wanted=False)
    return Outcome("nothing-to-do", "the briefing was not seen in the transcript yet")


def _tell(
    store: Store,
    state: State,
    subject: Subject,
    channel: str,
    *,
    now: float,
    say: Callable[[str, str], None],
    again: bool = False,
) -> Outcome:
    cycle = state.cycle
    if cycle is None:
        return Outcome("nothing-to-do")
    checkpoints.mark(store.runtime, subject.session, wanted=True)
    record, earlier = served(store.runtime, subject.session, cycle.generation)
    if record is None or earlier:
        reason = continuity.LOST if cycle.generation else state.degraded or continuity.UNWRITABLE
        rows: Rows = ((continuity.IMPAIRED, {"reason": reason, "cycle": cycle.id}),)
        if record is None:
            record = _Taking(store, subject, now=now).write(state, continuity.POST_HOC, cycle=cycle.id)
            rows = (_created(continuity.TAKEN, record), *rows)
        state = checkpoints.append(store.runtime, state, rows, at=now, durable=store.durable)
    degraded = state.degraded if state.phase == continuity.DEGRADED else ""
    text = text_of(store, record, cycle=cycle.id, now=now, degraded=degraded, earlier=earlier, again=again)
    warning = (
        f"vault-mem: continuity degraded ({degraded}): {continuity.WHY.get(degraded, degraded)}" if degraded else ""
    )
    say(text, warning)
    try:
        injections.note(store.runtime, session=subject.session, source=f"compact:{channel}", text=text, at=now)
    except OSError:
        pass  # an injection that cannot be kept is still an injection
    data = {
        "cycle": cycle.id,
        "channel": channel,
        "checkpoint": record["id"],
        "generation": record["generation"],
        "sha256": sha256(text.encode("utf-8", "replace")),
        "again": again,
    }
    checkpoints.append(store.runtime, state, ((continuity.INJECTED, data),), at=now, durable=store.durable)
    return Outcome("briefed", f"{_named(record)} {degraded}".strip(), record["id"], record["generation"])


def served(runtime: str, session: str, generation: int) -> tuple[dict[str, Any] | None, bool]:
    """The checkpoint that a cycle is served from, and whether an older one has to stand in because that one cannot be read."""
    directory = checkpoints.folder(runtime, session)
    record = checkpoints.read_checkpoint(directory, generation) if generation else None
    if record is not None:
        return record, False
    record = checkpoints.newest(directory) if generation else None
    return record, record is not None


def text_of(
    store: Store,
    record: Mapping[str, Any],
    *,
    cycle: str,
    now: float,
    degraded: str = "",
    earlier: bool = False,
    again: bool = False,
) -> str:
    """The briefing that *record* makes now."""
    work = checkpoint.work_of(dict(record))
    session = str(record["session"].get("id", ""))
    directory = str(record["repo"].get("cwd", ""))
    seen = gather.look(directory, changed=tuple(record["repo"].get("held", {})), environ=store.environ)
    moved, known = briefing.comparison(record, seen)
    view = briefing.View(
        cycle,
        record,
        now,
        moved,
        known,
        drift.position(seen),
        degraded,
        peers.sharing(store, session=session, files=work.files),
        earlier,
        again,
    )
    return briefing.render(view)


def sampled(store: Store, subject: Subject, sample: Sample | None, *, now: float) -> State:
    """Keep a measurement when it tells something new. Raises LockBusyError."""
    known = checkpoints.load(store.runtime, subject.session)
    state = known if known is not None else State(subject.session, subject.harness)
    if sample is None or usage.is_same(state.samples[-1] if state.samples else None, sample):
        return state
    with checkpoints.locked(store.runtime, subject.session, timeout=SHORT):
        return _kept(store, _state(store, subject), sample, now=now)


def _kept(store: Store, state: State, sample: Sample | None, *, now: float) -> State:
    if sample is None or usage.is_same(state.samples[-1] if state.samples else None, sample):
        return state
    row = (continuity.SAMPLED, {"sample": usage.to_json(sample)})
    return checkpoints.append(store.runtime, state, (row,), at=now, durable=False)


def _sampled(store: Store, state: State, subject: Subject, payload: Mapping[str, Any], *, now: float) -> State:
    """The measurement in the hook's payload, else at the end of the transcript; the window the client named before stays known."""
    sample = usage.of_payload(payload, source=usage.HOOK, at=now) or measured(state, subject)
    return _kept(store, state, sample, now=now)


def measured(state: State, subject: Subject) -> Sample | None:
    """What the transcript says now; its window is the one that the client itself named for this model before, never a guess."""
    sample = tail.read(subject.transcript, harness=subject.harness).sample
    if sample is None or sample.window:
        return sample
    known = next((s for s in reversed(state.samples) if s.window and s.model in (sample.model, "")), None)
    if known is None:
        return sample
    return usage.made(
        tokens=sample.tokens,
        window=known.window,
        source=sample.source,
        confidence=sample.confidence,
        model=sample.model,
        at=sample.at,
    )


class _Taking:
    """A checkpoint in the making: work and repository as they are now."""

    def __init__(self, store: Store, subject: Subject, *, now: float, note: str = "") -> None:
        self.store, self.subject, self.now = store, subject, now
        self.cursor = receipts.load_cursor(store.runtime, subject.session)
        self.capsule = gather.held(store, self.cursor)
        self.clean = gather.Redacting(store.environ)
        self.work = gather.work(
            self.cursor,
            self.capsule,
            self.clean,
            note=note,
            delegated=children.lines(store.runtime, subject.session),
        )
        self.look = gather.look(subject.directory, changed=self.work.files, environ=store.environ)
        self.fingerprint = checkpoint.fingerprint(self.work, self.look)

    def write(self, state: State, reason: str, *, cycle: str) -> dict[str, Any]:
        """Commit the capsule under the checkpoint's name, write the record under the next free generation."""
        name = _name(self.now)
        commit, problem = self._committed(name)
        head = {
            "id": name,
            "generation": state.generation,
            "created_at": stamps.utc_millis(self.now),
            "reason": reason,
            "trigger": self.subject.trigger,
            "cycle": cycle,
            "fingerprint": self.fingerprint,
            "session": {
                "id": self.subject.session,
                "harness": self.subject.harness,
                "model": self.subject.model,
                "turn": self.subject.turn,
                "transcript": self.subject.transcript,
            },
            "context": usage.to_json(state.samples[-1]) if state.samples else None,
            "capsule": {
                "id": self.capsule.id,
                "path": self.capsule.path,
                "status": self.capsule.status,
                "commit": commit,
                "problem": problem or self.capsule.problem,
            },
        }
        record = checkpoint.made(head=head, work=self.work, look=gather.cut(self.look), redacted=self.clean.count)
        directory = checkpoints.folder(self.store.runtime, self.subject.session)
        # A process that died between file and log left a generation that no event tells of.
        record["generation"] = max(state.generation, *checkpoints.generations(directory), 0) + 1
        checkpoints.add_checkpoint(directory, checkpoint.fitted(record), durable=self.store.durable)
        return record

    def _committed(self, name: str) -> tuple[str, str]:
        """The commit that names this checkpoint, or why there is none."""
        if self.capsule.document is None or not self.capsule.id:
            return "", "no-capsule"
        event = lineage.Event(
            id=self.capsule.id,
            event=lineage.CHECKPOINT,
            status=self.capsule.status,
            session=self.subject.session,
            harness=self.subject.harness,
            at=self.now,
            checkpoint=name,
        )
        try:
            with lock.Locked(self.store.lock, timeout=WAIT):
                fresh = gather.held(self.store, self.cursor)
                data = (fresh.document or self.capsule.document).encode("utf-8")
                done = commits.keep(self.store, self.capsule.path, data, event, allow_empty=True)
        except GitRefusedError as error:
            return "", error.token
        except (VaultMemError, OSError) as error:
            return "", error.token if isinstance(error, VaultMemError) else f"error:{type(error).__name__}"
        return done.oid, "" if done.oid else done.backend


def _created(kind: str, record: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    return kind, {
        "checkpoint": record["id"],
        "generation": record["generation"],
        "reason": record["reason"],
        "cycle": record["cycle"],
        "capsule": record["capsule"]["id"],
        "commit": record["capsule"]["commit"],
        "truncated": record["truncated"],
        "redacted": record["redacted"],
    }


def _named(record: Mapping[str, Any]) -> str:
    capsule = selector.text_of(record["capsule"], "id")
    return f"generation {record['generation']} of {record['session']['id']}{f', capsule {capsule}' if capsule else ''}"


def _name(now: float) -> str:
    return continuity.ulid(now, os.urandom(10))


def _tidy(store: Store, session: str, *, now: float) -> None:
    """What a checkpoint leaves to do: temporary files of the dead, and generations beyond those that are kept."""
    directory = checkpoints.folder(store.runtime, session)
    checkpoints.sweep(directory, now=now)
    for generation in checkpoints.generations(directory)[:-KEPT]:
        os.unlink(checkpoints.path_of(directory, generation))
