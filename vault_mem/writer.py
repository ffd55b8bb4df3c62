"""The Stop writer: merge what happened since the last save into the session's one active capsule and commit it."""

from __future__ import annotations

import errno
import os

from vault_mem import clientprocess, files, lock, processes, receipts, redact
from vault_mem.capsule import gate, lineage, model, sections, selector
from vault_mem.errors import (
    AnchorDamageError,
    BadPayloadError,
    ExternallyChangedError,
    GitRefusedError,
    HeaderError,
    LockBusyError,
    LockUnusableError,
)
from vault_mem.harness import registry
from vault_mem.record import NamedTuple
from vault_mem.repo import objects
from vault_mem.session import evidence, identity
from vault_mem.session.event import HookEvent
from vault_mem.vault import active, commits, tree
from vault_mem.vault import delta as deltas

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from vault_mem.capsule.model import Bullet, Value
    from vault_mem.receipts import Cursor
    from vault_mem.spool import Entry
    from vault_mem.vault.active import Target
    from vault_mem.vault.delta import Delta
    from vault_mem.vault.store import Store

SAVED, NO_CHANGE, DEFERRED, NO_TRANSCRIPT = "saved", "no-change", "deferred-lock", "no-transcript"
SPOOLED = "spooled"
DRAINED = 8
"""Other sessions whose waiting deltas one hook takes care of; what is left is for the next one."""


class Outcome(NamedTuple):
    """What a run came to: one token, a sentence, the capsule and the commit where there is one, problems that were logged."""

    token: str
    detail: str = ""
    capsule: str = ""
    commit: str = ""
    problems: tuple[str, ...] = ()


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
        delta, journal = deltas.read(event, store, cursor, now=now, secrets=secrets)
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
                project=deltas.project_of(event, store),
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
    delta, journal = deltas.read(event, store, cursor, now=now, secrets=secrets)
    if waiting:
        newest = max(delta.newest, *(entry.newest for entry in held))
        delta = delta._replace(bullets=waiting + delta.bullets, newest=newest)
    cursor = cursor._replace(
        journal=journal, transcript=event.transcript_path or cursor.transcript, harness=event.harness
    )
    settled_problem = _settle(store, skip=cursor.capsule)
    read = cursor._replace(position=delta.position, evidence=evidence.to_json(delta.evidence), saved=delta.recorded)
    if not delta.bullets and not cursor.capsule:
        receipts.store_cursor(store.runtime, read)
        return Outcome(NO_CHANGE if delta.found else NO_TRANSCRIPT, "nothing was captured yet")
    target = active.find(store, cursor, session, now=now)
    if not delta.bullets and target.document is None:
        # Its capsule is spent: the next one begins with the next thing there is to say.
        receipts.store_cursor(store.runtime, read)
        return Outcome(NO_CHANGE, "nothing new", problems=(settled_problem,) if settled_problem else ())
    problems: list[str] = [settled_problem] if settled_problem else []
    try:
        document, fields = active.merged(store, event, target, delta, inherited=cursor.inherited, now=now)
    except (AnchorDamageError, HeaderError) as error:
        problems.append(f"{error.token}: {target.path}: {error}")
        target = active.fresh(store, session, now=now, parent=selector.text_of(target.fields, "id"))
        document, fields = active.merged(store, event, target, delta, inherited=cursor.inherited, now=now)
    problems.extend(gate.problems(fields))
    if store.keeps_history and len(sections.portions(delta.bullets)) > 1:
        _stepped(event, store, cursor, target, document, delta, now=now)
    return _land(event, store, cursor, target, document, fields, delta, now=now, problems=tuple(problems))


def _stepped(
    event: HookEvent, store: Store, cursor: Cursor, target: Target, document: str, delta: Delta, *, now: float
) -> None:
    """Commit what would fall out of the capsule before history had it. Refused: *document* is on disk, and the next hook does all of it again.

    Raises GitRefusedError, OSError.
    """
    from vault_mem.vault import steps

    try:
        for version, fields in steps.before(store, event, cursor, target, delta, now=now):
            commits.keep(store, target.path, version.encode("utf-8"), _event(event, cursor, fields, now=now))
    except GitRefusedError:
        if not cursor.capsule:
            # Whoever settles the debt commits the file only; by this the next hook knows that nothing was acknowledged of it.
            known = receipts.load_cursor(store.runtime, cursor.session)
            receipts.store_cursor(store.runtime, known._replace(capsule=target.path))
        if document != target.document:
            tree.write(f"{store.memory}/{target.path}", document, expected=target.document, durable=store.durable)
        raise


def _event(event: HookEvent, cursor: Cursor, fields: Mapping[str, Value], *, now: float) -> lineage.Event:
    return lineage.Event(
        id=selector.text_of(fields, "id"),
        event=lineage.AUTOSAVE,
        status=model.status_of(fields) or "",
        parent=selector.text_of(fields, "parent_capsule_id"),
        session=cursor.session,
        harness=event.harness,
        at=now,
    )


def _settle(store: Store, *, skip: str) -> str:
    try:
        commits.settle(store, skip=(skip,))
    except (GitRefusedError, OSError) as error:
        return f"pending: {error}"
    return ""


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
        inherited=active.inherited_by(delta, fields),
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
    done = commits.keep(store, target.path, data, _event(event, cursor, fields, now=now))
    receipts.store_cursor(store.runtime, moved)
    if done.backend == commits.NO_REPOSITORY:
        return Outcome(SAVED, f"{done.backend}: written, not committed", name, problems=problems)
    if done.oid == done.parent:
        return Outcome(NO_CHANGE, "history holds it already", name, problems=problems)
    return Outcome(SAVED, f"{done.backend}", name, done.oid, problems)


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
