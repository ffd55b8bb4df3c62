"""The Stop writer: merge what happened since the last save into the session's one active capsule and commit it."""

from __future__ import annotations

import errno
import os

from vault_mem import clientprocess, files, lock, processes, receipts, redact, stamps, transcript, worktree
from vault_mem.capsule import codec, gate, header, lineage, model, sections, selector
from vault_mem.errors import (
    AnchorDamageError,
    BadPayloadError,
    ExternallyChangedError,
    GitRefusedError,
    HeaderError,
    LockBusyError,
    LockUnusableError,
)
from vault_mem.harness import claude, registry
from vault_mem.record import NamedTuple
from vault_mem.repo import objects
from vault_mem.session import evidence, identity, speaker
from vault_mem.session.event import HookEvent
from vault_mem.vault import commits, headers, tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from vault_mem.capsule.model import Bullet, Value
    from vault_mem.receipts import Cursor
    from vault_mem.session.evidence import Evidence
    from vault_mem.session.turns import Turn
    from vault_mem.spool import Entry
    from vault_mem.vault.store import Store

SAVED, NO_CHANGE, DEFERRED, NO_TRANSCRIPT = "saved", "no-change", "deferred-lock", "no-transcript"
SPOOLED = "spooled"
NAMES = 1000
COPIED_WITHIN = 64  # rows in which the first copy of a fork must stand
DRAINED = 8
"""Other sessions whose waiting deltas one hook takes care of; what is left is for the next one."""

NO_OBJECTIVE = "Unknown: no operator objective was captured in this session."
NO_WAITING = "Unknown: nothing captured says whether anything is pending."
NO_ACTION = "No concrete next action was captured in this Stop delta."


class Outcome(NamedTuple):
    """What a run came to: one token, a sentence, the capsule and the commit where there is one, problems that were logged."""

    token: str
    detail: str = ""
    capsule: str = ""
    commit: str = ""
    problems: tuple[str, ...] = ()


class Delta(NamedTuple):
    """What is new since the cursor, redacted. newest: time of the newest record or, for payload text without one, of the clock."""

    bullets: tuple[Bullet, ...]
    evidence: Evidence
    position: tuple[int, ...]
    recorded: float
    newest: float
    found: bool


class Target(NamedTuple):
    """The file a delta goes to: path relative to the memory root, its text (None: to be made), its header, its parent when it is new."""

    path: str
    document: str | None
    fields: Mapping[str, Value]
    parent: str = ""


def save(event: HookEvent, store: Store, *, now: float, wait: float) -> Outcome:
    """Save one session. Raises only what the door turns into a token: BadPayloadError, GitRefusedError, OSError."""
    if not event.session_id:
        raise BadPayloadError("the payload has no session_id")
    session = identity.safe_id(event.session_id)
    secrets = redact.environment_secrets(store.environ)
    files.make_dirs(store.runtime)
    try:
        with lock.Locked(store.lock, timeout=wait), processes.Deferred():
            problems = _drained(store, skip=session, now=now) if receipts.spooled(store.runtime) else ()
            outcome = _save(event, store, session, now=now, secrets=secrets)
            return outcome._replace(problems=problems + outcome.problems) if problems else outcome
    except (LockBusyError, LockUnusableError, OSError) as error:
        kept = _spooled(event, store, session, reason=_reason(error), now=now, secrets=secrets)
        if kept is None and not isinstance(error, LockBusyError):
            raise
        return kept or Outcome(DEFERRED, "the vault lock is busy; the next hook saves this turn")


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno == errno.ELOOP:
        return "symlink"
    return error.token if isinstance(error, LockBusyError | LockUnusableError) else f"error:{type(error).__name__}"


def _spooled(
    event: HookEvent, store: Store, session: str, *, reason: str, now: float, secrets: tuple[str, ...]
) -> Outcome | None:
    """Keeps what is new for the next hook; None when nothing is, or when it cannot be kept either. The vault lock is not held."""
    from vault_mem import spool

    try:
        held = spool.load(store.runtime, session)
        cursor, _ = _past(receipts.load_cursor(store.runtime, session), held)
        known = {bullet for entry in held for bullet in entry.bullets}
        delta, journal = read_delta(event, store, cursor, now=now, secrets=secrets)
        bullets = tuple(bullet for bullet in delta.bullets if bullet not in known)
        if not bullets:
            return None
        name = spool.store(
            store.runtime,
            spool.Entry(
                session=session,
                reason=reason,
                bullets=bullets,
                evidence=evidence.to_json(delta.evidence),
                start=cursor.position,
                position=delta.position,
                journal=journal,
                saved=delta.recorded,
                newest=delta.newest,
                transcript=event.transcript_path,
                harness=event.harness,
                project=project_of(event, store),
            ),
        )
    except OSError:
        return None
    return Outcome(SPOOLED, f"{reason}; kept as {spool.FOLDER}/{name}, the next hook saves it")


def _past(cursor: Cursor, held: tuple[Entry, ...]) -> tuple[Cursor, tuple[Bullet, ...]]:
    """The cursor as it is after the deltas that wait, and their bullets; one that another save went past meanwhile does not move it."""
    bullets: tuple[Bullet, ...] = ()
    for entry in held:
        bullets += entry.bullets
        if entry.start == cursor.position:
            cursor = cursor._replace(
                position=entry.position,
                evidence=entry.evidence,
                journal=entry.journal,
                saved=max(cursor.saved, entry.saved),
                transcript=entry.transcript or cursor.transcript,
                harness=entry.harness or cursor.harness,
            )
    return cursor, bullets


def _drained(store: Store, *, skip: str, now: float) -> tuple[str, ...]:
    """Saves the waiting deltas of other sessions, one commit a capsule; what went wrong, in words."""
    from vault_mem import spool

    problems = []
    for session in [name for name in spool.sessions(store.runtime) if name != skip][:DRAINED]:
        held = spool.load(store.runtime, session)
        if not held:
            continue
        event = HookEvent(
            event="Drain", session_id=session, cwd=held[-1].project, harness=held[-1].harness or registry.DEFAULT
        )
        try:
            _save(event, store, session, now=now, secrets=())
        except (GitRefusedError, OSError) as error:
            problems.append(f"spool: {session}: {error}")
    return tuple(problems)


def drain(store: Store, *, now: float, wait: float) -> tuple[str, ...]:
    """The same, and what is owed to history, for a hook that has nothing of its own to save; a busy lock leaves it to the next one."""
    try:
        with lock.Locked(store.lock, timeout=wait), processes.Deferred():
            settled = _settle(store, skip="")
            return ((settled,) if settled else ()) + _drained(store, skip="", now=now)
    except LockBusyError:
        return ()


def _save(event: HookEvent, store: Store, session: str, *, now: float, secrets: tuple[str, ...]) -> Outcome:
    if not receipts.spooled(store.runtime):
        return _saved(event, store, session, (), now=now, secrets=secrets)
    from vault_mem import spool

    held = spool.load(store.runtime, session)
    outcome = _saved(event, store, session, held, now=now, secrets=secrets)
    if outcome.token in (SAVED, NO_CHANGE):
        spool.drop(store.runtime, held)
    return outcome


def _saved(
    event: HookEvent, store: Store, session: str, held: tuple[Entry, ...], *, now: float, secrets: tuple[str, ...]
) -> Outcome:
    cursor, waiting = _past(receipts.load_cursor(store.runtime, session), held)
    delta, journal = read_delta(event, store, cursor, now=now, secrets=secrets)
    if waiting:
        newest = max(delta.newest, *(entry.newest for entry in held))
        delta = delta._replace(bullets=waiting + delta.bullets, newest=newest)
    cursor = cursor._replace(
        journal=journal, transcript=event.transcript_path or cursor.transcript, harness=event.harness
    )
    settled_problem = _settle(store, skip=cursor.capsule)
    if not delta.bullets and not cursor.capsule:
        receipts.store_cursor(
            store.runtime,
            cursor._replace(position=delta.position, evidence=evidence.to_json(delta.evidence), saved=delta.recorded),
        )
        return Outcome(NO_CHANGE if delta.found else NO_TRANSCRIPT, "nothing was captured yet")
    target = _target(store, cursor, session, now=now)
    problems: list[str] = [settled_problem] if settled_problem else []
    try:
        document, fields = _merged(store, event, target, delta, inherited=cursor.inherited, now=now)
    except (AnchorDamageError, HeaderError) as error:
        problems.append(f"{error.token}: {target.path}: {error}")
        target = _fresh(store, session, now=now, parent=selector.text_of(target.fields, "id"))
        document, fields = _merged(store, event, target, delta, inherited=cursor.inherited, now=now)
    problems.extend(gate.problems(fields))
    return _land(event, store, cursor, target, document, fields, delta, now=now, problems=tuple(problems))


def _settle(store: Store, *, skip: str) -> str:
    try:
        commits.settle(store, skip=(skip,))
    except (GitRefusedError, OSError) as error:
        return f"pending: {error}"
    return ""


def read_delta(
    event: HookEvent, store: Store, cursor: Cursor, *, now: float, secrets: tuple[str, ...]
) -> tuple[Delta, int]:
    """New turns of the transcript and the payload's last message, distilled and redacted; and how far the journal was read."""

    def clean(text: str) -> str:
        return redact.redact(text, secrets)

    from vault_mem.session import distil

    project = project_of(event, store)
    state = evidence.from_json(cursor.evidence)
    position = (
        transcript.Position(*cursor.position) if len(cursor.position) == len(transcript.START) else transcript.START
    )
    bullets: tuple[Bullet, ...] = ()
    copied = _copied_until(event, store) if not position.offset and event.harness == "claude" else 0.0
    delta = _opened_transcript(event.transcript_path, position)
    if delta is not None:
        read = registry.reader(event.harness)
        state, bullets = distil.fold(
            state,
            (turn for line in delta for turn in read(line)),
            project=project,
            redact=clean,
            # A file that was rewritten is read again from the start; what was saved of it is not new.
            skip_until=max(cursor.saved if delta.restarted else 0.0, copied),
            undated=now,
        )
        position = delta.position
    recorded = max(cursor.saved, state.newest)
    prompts, journal = _journaled(store, cursor, bullets)
    state, more = distil.fold(state, prompts, project=project, redact=clean)
    bullets += more
    state, said = distil.payload_message(state, event.last_assistant_message, at=now, redact=clean)
    bullets += said
    newest = max(recorded, *(bullet.at for bullet in (*more, *said)), 0.0)
    return Delta(bullets, state, tuple(position), recorded, min(newest, now), delta is not None), journal


def _copied_until(event: HookEvent, store: Store) -> float:
    """The time of the last row that a fork took over from a session whose work is saved already; 0.0 for none."""
    delta = _opened_transcript(event.transcript_path, transcript.START)
    if delta is None:
        return 0.0
    saved: dict[str, float] = {}
    last = 0.0
    try:
        for number, line in enumerate(delta):
            other, at = claude.origin(line)
            if other and other not in saved:
                saved[other] = receipts.load_cursor(store.runtime, identity.safe_id(other)).saved
            if other and at is not None and last < at <= saved[other]:
                last = at
            if number > COPIED_WITHIN and not last:
                break  # copies stand at the beginning
    except OSError:
        return last
    finally:
        delta.close()
    return last


def _journaled(store: Store, cursor: Cursor, bullets: tuple[Bullet, ...]) -> tuple[tuple[Turn, ...], int]:
    """Prompts that the prompt hook kept and the transcript does not have: it lags, or the client dropped the turn."""
    rows, end = receipts.prompts(store.runtime, session=cursor.session, offset=cursor.journal)
    told = {bullet.text for bullet in bullets}
    turns = []
    for at, prompt in rows:
        # A command's row in the transcript has another wording; it is left to the transcript.
        turn = speaker.prompt(prompt, at=at, human=True) if prompt[:1] not in ("/", "!") else None
        if turn is not None and turn.text not in told:
            turns.append(turn)
    return tuple(turns), end


def _opened_transcript(path: str, position: transcript.Position) -> transcript.Delta | None:
    """The transcript from *position*; None when there is none to read, the payload's own text is saved all the same."""
    try:
        delta = transcript.Delta(path, position) if path else None
    except (OSError, ValueError):
        return None
    return delta if delta is not None and delta.found else None


def project_of(event: HookEvent, store: Store) -> str:
    """The project's directory: the client's word for it, for `cwd` follows the agent's `cd`."""
    return store.environ.get("CLAUDE_PROJECT_DIR") or event.cwd


def _target(store: Store, cursor: Cursor, session: str, *, now: float) -> Target:
    """The session's active capsule, or the place for a new one; a curated capsule comes before an autosave."""
    if cursor.capsule:
        held = _opened(store, cursor.capsule)
        if held is not None and model.status_of(held.fields) == model.ACTIVE:
            return held
        parent = selector.text_of(held.fields, "id") if held is not None else ""
        return _fresh(store, session, now=now, parent=parent)
    mine = [
        found
        for found in headers.entries(store)[0]
        if found.fields and selector.session_of(found) in (session, identity.legacy_mark(session))
    ]
    mine.sort(
        key=lambda found: (not model.is_autosave(found.fields or {}), selector.created_of(found.fields or {}) or 0.0),
        reverse=True,
    )
    for found in mine:
        held = _opened(store, found.path)
        if held is not None and model.status_of(held.fields) == model.ACTIVE:
            return held
    return _fresh(store, session, now=now, parent=selector.text_of(mine[0].fields or {}, "id") if mine else "")


def _opened(store: Store, path: str) -> Target | None:
    try:
        document = tree.read_document(f"{store.memory}/{path}")
        return Target(path, document, header.read(document))
    except HeaderError:
        return None


def _fresh(store: Store, session: str, *, now: float, parent: str) -> Target:
    """A name nobody has: the day, the session, `-2`, `-3` … when a file, a link or anything else stands there already."""
    day = stamps.day(now)
    for number in range(1, NAMES):
        name = identity.autosave_id(session, day, n=number)
        path = f"capsules/{day[:7]}/{name}.md"
        if not os.path.lexists(f"{store.memory}/{path}"):
            return Target(path, None, {"id": name}, parent or _delivered(store, session))
    raise FileExistsError(f"no free name for session {session} on {day}")


def _delivered(store: Store, session: str) -> str:
    """The capsule that was handed to this session: by our own record, else by history."""
    record = receipts.load_session(store.runtime, session)
    if record is not None and record.delivered:
        return record.delivered
    intent = receipts.load_intent(store.runtime, session)
    if intent is not None:
        return intent.capsule
    try:
        return commits.book(store).delivered_to(session)
    except (GitRefusedError, OSError):
        return ""


def _parent_fields(store: Store, parent: str) -> Mapping[str, Value]:
    if not parent:
        return {}
    for found in headers.entries(store)[0]:
        if found.fields and selector.text_of(found.fields, "id") == parent:
            # Of a capsule that is spent the index keeps beginnings only.
            held = _opened(store, found.path)
            return {**found.fields, **held.fields} if held is not None else {}
    return {}


def _merged(
    store: Store, event: HookEvent, target: Target, delta: Delta, *, inherited: str, now: float
) -> tuple[str, dict[str, Value]]:
    """The document with the delta in it, and its header. Raises AnchorDamageError, HeaderError; nothing is written."""
    if target.document is None:
        fields = _first_header(store, event, target, delta, now=now)
        document = codec.render(codec.Capsule(fields, codec.blank_body()))
        return sections.merge(document, delta.bullets, day=stamps.day(delta.newest or now)).document, fields
    # Headers of aigent-OS have no start: the day in the name stays when `created_at` moves on.
    named = selector.text_of(target.fields, "id")[:10]
    day = selector.text_of(target.fields, "started_at") or (
        named if stamps.epoch_of(named) is not None else selector.text_of(target.fields, "created_at")
    )
    document = sections.merge(target.document, delta.bullets, day=day[:10]).document
    fields = dict(target.fields)
    if model.is_autosave(fields):
        for key, value in _contract(delta, fields, inherited).items():
            if fields.get(key) != value:
                document = header.edit(document, key, value)
                fields[key] = value
    if document != target.document:
        document = _restamped(document, fields, project_of(event, store), delta, now=now)
    return document, fields


def _restamped(document: str, fields: dict[str, Value], project: str, delta: Delta, *, now: float) -> str:
    """New stamps and place for a changed autosave; a curated header stays its author's."""
    if not model.is_autosave(fields):
        return document
    here = worktree.here(project)
    before = selector.created_of(fields) or 0.0
    stamp = stamps.utc_millis(max(delta.newest or now, before))
    fresh = {
        "created_at": stamp,
        "updated_at": stamp,
        "branch": here.branch or delta.evidence.branch or None,
        "head": here.head or None,
    }
    for key, value in fresh.items():
        if key in fields and fields[key] != value:
            document = header.edit(document, key, value)
            fields[key] = value
    return document


def _first_header(store: Store, event: HookEvent, target: Target, delta: Delta, *, now: float) -> dict[str, Value]:
    here = worktree.here(project_of(event, store))
    stamp = stamps.utc_millis(delta.newest or now)
    parent = _parent_fields(store, target.parent)
    fields: dict[str, Value] = dict.fromkeys(model.FIELDS)
    fields.update(
        id=selector.text_of(target.fields, "id"),
        parent_capsule_id=target.parent or None,
        status=model.ACTIVE,
        resume_trigger="clear",
        trigger=model.STOP_DELTA,
        success_criteria=(),
        tags=("capsule", model.AUTOSAVE),
        created_at=stamp,
        started_at=stamp,
        updated_at=stamp,
        session_id=identity.safe_id(event.session_id),
        harness=event.harness,
        seat=os.path.basename(store.seat.root) or None,
        project=os.path.basename(here.top or project_of(event, store)) or None,
        branch=here.branch or delta.evidence.branch or None,
        head=here.head or None,
    )
    fields.update(_contract(delta, parent, selector.text_of(parent, "next_valid_action")))
    fields.update(dict(model.FRAMING))
    return fields


def _contract(delta: Delta, before: Mapping[str, Value], inherited: str) -> dict[str, Value]:
    """The contract fields: evidence first, then what was inherited and is not contradicted, else what says that nothing was captured.

    before: the header as it stands, or the parent's for a new capsule. Without any record (no transcript) what stands there stays.
    """
    now = evidence.contract(delta.evidence)
    blind = not delta.recorded
    objective, action, waiting = (
        selector.text_of(before, key) for key in ("objective", "next_valid_action", "waiting_on")
    )
    keeps = (
        bool(action)
        and not gate.not_captured(action)
        and (blind or action == inherited)
        and not _finished(action, delta)
    )
    return {
        "objective": now.objective or ("" if gate.not_captured(objective) else objective) or NO_OBJECTIVE,
        "waiting_on": now.waiting_on or (waiting if blind and waiting else NO_WAITING),
        "next_valid_action": now.next_valid_action or (action if keeps else NO_ACTION),
    }


def _finished(action: str, delta: Delta) -> bool:
    """Whether an inherited action is over: a todo that this delta completed is what it was about, or its tests pass now."""
    done = (bullet.text.strip() for bullet in delta.bullets if bullet.section == "done" and bullet.tag == evidence.TODO)
    return any(text and text in action for text in done) or evidence.passes(delta.evidence, action)


def _inherited(delta: Delta, fields: Mapping[str, Value]) -> str:
    """The action that came from the parent and still stands; once this session had one of its own, none does."""
    action = selector.text_of(fields, "next_valid_action")
    own = evidence.contract(delta.evidence).next_valid_action
    return "" if own or not model.is_autosave(fields) or gate.not_captured(action) else action


def _land(
    event: HookEvent,
    store: Store,
    cursor: Cursor,
    target: Target,
    document: str,
    fields: Mapping[str, Value],
    delta: Delta,
    *,
    now: float,
    problems: tuple[str, ...],
) -> Outcome:
    """Write, commit, then move the cursor. The same text with the blob last committed changes nothing at all."""
    data = document.encode("utf-8")
    blob = objects.blob_oid(data)
    name = selector.text_of(fields, "id")
    moved = cursor._replace(
        position=delta.position,
        capsule=target.path,
        blob=blob,
        evidence=evidence.to_json(delta.evidence),
        saved=delta.recorded,
        inherited=_inherited(delta, fields),
    )
    if document == target.document and blob == cursor.blob:
        if moved != cursor:
            receipts.store_cursor(store.runtime, moved)
        return Outcome(NO_CHANGE, "nothing new", name, problems=problems)
    path = f"{store.memory}/{target.path}"
    if document != target.document:
        try:
            tree.write(path, document, expected=target.document, durable=store.durable)
        except ExternallyChangedError as error:
            return Outcome(f"error:{type(error).__name__}", str(error), name, problems=problems)
    done = commits.keep(
        store,
        target.path,
        data,
        lineage.Event(
            id=name,
            event=lineage.AUTOSAVE,
            status=model.status_of(fields) or "",
            parent=selector.text_of(fields, "parent_capsule_id"),
            session=cursor.session,
            harness=event.harness,
            at=now,
        ),
    )
    receipts.store_cursor(store.runtime, moved)
    if done.backend == commits.NO_REPOSITORY:
        return Outcome(SAVED, f"{done.backend}: written, not committed", name, problems=problems)
    if done.oid == done.parent:
        return Outcome(NO_CHANGE, "history holds it already", name, problems=problems)
    return Outcome(SAVED, f"{done.backend}", name, done.oid, problems)


def note_prompt(event: HookEvent, store: Store, *, now: float) -> Outcome:
    """Keep a prompt in the journal, redacted, before the client can lose it."""
    if not event.session_id:
        raise BadPayloadError("the payload has no session_id")
    if event.prompt.strip():
        prompt = redact.redact(event.prompt, redact.environment_secrets(store.environ))
        receipts.journal(store.runtime, now=now, session=identity.safe_id(event.session_id), prompt=prompt)
    return Outcome("noted")


def hand_off(event: HookEvent, store: Store) -> None:
    """This client cleared this session: the next session of the same process starts from its capsule."""
    pid, started = clientprocess.of(os.getpid(), environ=store.environ)
    if pid:
        receipts.store_handoff(store.runtime, pid=pid, started=started, session=identity.safe_id(event.session_id))


def sweep(store: Store, *, skip: str, now: float, wait: float) -> tuple[Outcome, ...]:
    """Save recent sessions of this seat whose client went away before its last hook; a session that still runs saves itself.

    Times are those of the records, so that an old session never becomes the newest by being swept.
    """
    outcomes = []
    if receipts.owed(store.runtime):
        outcomes = [Outcome("pending", problem) for problem in drain(store, now=now, wait=wait)]
    for cursor in receipts.behind(store.runtime, skip=skip):
        record = receipts.load_session(store.runtime, cursor.session)
        if record is not None and record.pid and processes.alive(record.pid, record.started):
            continue
        event = HookEvent(
            event="Sweep",
            session_id=cursor.session,
            transcript_path=cursor.transcript,
            cwd=store.seat.root,
            harness=cursor.harness or registry.DEFAULT,
        )
        try:
            outcomes.append(save(event, store, now=now, wait=wait))
        except (GitRefusedError, OSError) as error:
            outcomes.append(Outcome(f"error:{type(error).__name__}", str(error)))
    return tuple(outcomes)
