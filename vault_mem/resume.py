"""Hand a capsule to a fresh session: choose, say, record. At most one silent delivery, ever.

Under the vault lock: an intent is made durable, the text is said, the status is written, the consume commit is made, the intent goes. When saying
fails the intent goes and nothing is consumed; when the process dies in between, the intent is found by the next hook and completed, and from then
on the capsule counts as delivered.
"""

from __future__ import annotations

import os

from vault_mem import clientprocess, files, injections, lock, processes, receipts, stamps
from vault_mem.capsule import header, lifecycle, lineage, model, procedure, provenance, sections, selector
from vault_mem.capsule.inert import inert
from vault_mem.errors import GitRefusedError, LockBusyError, VaultMemError
from vault_mem.record import NamedTuple
from vault_mem.session import identity
from vault_mem.vault import choice, commits, headers, tree, vouched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vault_mem.capsule.model import Bullet, Value
    from vault_mem.capsule.selector import Candidate, Selection
    from vault_mem.receipts import Intent
    from vault_mem.vault.chosen import Chosen
    from vault_mem.vault.store import Store

WAIT = 1.0
CLEAR, COMPACT = "clear", "compact"
MANUAL = "manual-"
"""How the id of a consumer begins that no client session stands behind."""


class Request(NamedTuple):
    """What is asked. session: the id as the client gave it, None when unusable; named: a capsule asked for by id; peek: print, change nothing.

    project: the directory whose repository is compared with what the capsule says of it; empty for none.
    """

    source: str
    session: str | None
    named: str = ""
    peek: bool = False
    transcript: str = ""
    harness: str = ""
    project: str = ""


class Answer(NamedTuple):
    """What came of it: a token for the log, the capsule's id, the selection (for `--json`), the text that was or would be said."""

    token: str
    selection: Selection
    capsule: str = ""
    text: str = ""
    detail: str = ""


def started(request: Request, store: Store, *, now: float) -> None:
    """Remember that this session began: the boot receipt and which client process it belongs to. Never fatal."""
    try:
        receipts.boot(store.runtime, session=request.session or "", source=request.source, now=now)
        if request.session:
            session = identity.safe_id(request.session)
            pid, start = clientprocess.of(os.getpid(), environ=store.environ)
            known = receipts.load_session(store.runtime, session) or receipts.SessionRecord(session)
            receipts.store_session(
                store.runtime,
                known._replace(
                    pid=pid,
                    started=start,
                    at=now,
                    transcript=request.transcript or known.transcript,
                    harness=request.harness or known.harness,
                    tmux=store.environ.get("TMUX", ""),
                    pane=store.environ.get("TMUX_PANE", ""),
                ),
            )
    except OSError:
        pass


def orient(request: Request, store: Store, *, now: float) -> Answer:
    """What a session that was not cleared is told; consumes nothing, takes no lock."""
    candidates, unavailable = headers.entries(store, keep=True)
    if request.source == COMPACT and request.session:
        own = _own(candidates, identity.safe_id(request.session))
        if own is not None and own.fields is not None:
            text = procedure.orientation(own.fields, path=own.path, others=(), unavailable="")
            return Answer(
                "briefed", selector.Selection(own, selector.NONE, ()), selector.text_of(own.fields, "id"), text
            )
    book, faults = choice.book(store, candidates)
    selection = selector.select(
        candidates,
        now=now,
        facts=choice.facts_of(candidates, book)._replace(project=choice.only(store, request.project)),
        unavailable=unavailable,
    )
    chosen = selection.chosen if selection.tier in (selector.ACTIVE, selector.PLACEHOLDER) else None
    others = [
        (selector.text_of(fields, "id"), selector.text_of(fields, "objective"))
        for fields in sorted(
            (
                found.fields
                for found in candidates
                if found.fields is not None
                and found is not chosen
                and model.status_of(found.fields) in (model.ACTIVE, model.PAUSED)
            ),
            key=lambda fields: (selector.created_of(fields) or 0.0, selector.text_of(fields, "id")),
            reverse=True,
        )
    ]
    fields = chosen.fields if chosen else None
    faults += _woken(request, store, now=now)
    text = procedure.orientation(
        fields, path=chosen.path if chosen else "", others=others, unavailable=selection.unavailable, faults=faults
    )
    return Answer("oriented", selection, selector.text_of(fields, "id") if fields else "", text)


def _woken(request: Request, store: Store, *, now: float) -> tuple[str, ...]:
    """The session's wakes and a watcher that stands still, as inert lines; nothing is loaded where no watcher was ever set up."""
    if not any(os.path.exists(f"{store.runtime}/{name}") for name in ("wakes.jsonl", "reset")):
        return ()
    from vault_mem import wakes

    session = identity.safe_id(request.session) if request.session else ""
    return (*wakes.lines(store.runtime, session, now=now), *wakes.cleared(store.runtime))


def _own(candidates: tuple[Candidate, ...], session: str) -> Candidate | None:
    mine = [
        found
        for found in candidates
        if found.fields is not None and selector.text_of(found.fields, "session_id") == session
    ]
    return max(mine, key=lambda found: selector.created_of(found.fields or {}) or 0.0, default=None)


def peek(request: Request, store: Store, *, now: float, token: str) -> Answer:
    """What a clear would hand out now; nothing is changed."""
    book, faults = choice.book(store)
    session = identity.safe_id(request.session) if request.session else ""
    chosen, selection, delivered = choice.choose(
        store, book, session, now=now, named=request.named, project=choice.only(store, request.project)
    )
    if chosen is not None and chosen.gone:
        faults += (
            f"This capsule left the tree (commit {chosen.gone[:12]}); handing it over puts its file back first.",
        )
    faults += tuple(fault.said for fault in _vouched(store, chosen).faults)
    text = _text(request, store, chosen, selection, delivered, now=now, token=token, faults=faults)
    return Answer("peeked", _whole(selection, chosen), selector.text_of(chosen.fields, "id") if chosen else "", text)


def _vouched(store: Store, chosen: Chosen | None) -> vouched.Verdict:
    return vouched.of(store, chosen) if chosen is not None else vouched.history(store)


def _whole(selection: Selection, chosen: Chosen | None) -> Selection:
    """*selection* with all that the chosen file says: of a spent capsule the index keeps beginnings only."""
    return selection._replace(chosen=chosen.candidate._replace(fields=chosen.fields)) if chosen else selection


def then(request: Request, store: Store, at: str, *, now: float, token: str) -> Answer:
    """What a clear would have handed out at a revision or date *at*; nothing is changed. Raises VaultMemError."""
    from vault_mem.vault import then as times

    found = times.at(store, at, now=now, named=request.named)
    line = f"AS OF {stamps.utc(found.now)} (commit {found.commit[:12]}): what a clear would have handed out then. Nothing was handed over."
    request = request._replace(project="")
    text = _text(
        request, store, found.chosen, found.selection, found.delivered, now=found.now, token=token, faults=(line,)
    )
    capsule = selector.text_of(found.chosen.fields, "id") if found.chosen else ""
    return Answer("peeked", _whole(found.selection, found.chosen), capsule, text, found.commit)


def hand_over(
    request: Request, store: Store, *, clock: Callable[[], float], token: str, say: Callable[[Answer], None]
) -> Answer:
    """The delivery on a clear. *say* prints the text of an answer and flushes; it raises OSError when that did not get out."""
    session = identity.safe_id(request.session) if request.session else ""
    now = clock()
    files.make_dirs(store.runtime)
    try:
        with lock.Locked(store.lock, timeout=WAIT), processes.Deferred():
            return _hand_over(request, store, session, now=now, clock=clock, token=token, say=say)
    except LockBusyError:
        answer = orient(request, store, now=now)
        text = "lock-busy: the vault is in use; nothing was handed over, run `vault-mem resume --peek`.\n" + answer.text
        return _said(answer._replace(token="lock-busy"), text, say)


def _hand_over(
    request: Request,
    store: Store,
    session: str,
    *,
    now: float,
    clock: Callable[[], float],
    token: str,
    say: Callable[[Answer], None],
) -> Answer:
    faults, owed = complete(store)
    faults += _woken(request, store, now=now)
    listed = headers.entries(store, keep=True)
    book, more = choice.book(store, listed[0])
    chosen, selection, delivered = choice.choose(
        store,
        book,
        session,
        now=now,
        named=request.named,
        listed=listed,
        intents=owed,
        project=choice.only(store, request.project),
    )
    faults += more
    verdict = _vouched(store, chosen)
    vouched.moved(store, verdict)
    for fault in verdict.faults:
        faults += (fault.said,)
        receipts.log(store.runtime, now=now, door="resume", outcome=fault.token, session=session, detail=fault.detail)
    for intent in owed:
        if choice.is_over(intent, listed[0], book):
            receipts.drop_intent(store.runtime, intent.session)
    if chosen is None or not session:
        return _said(
            Answer("none", selection),
            _text(request, store, chosen, selection, delivered, now=now, token=token, faults=faults),
            say,
        )
    capsule = selector.text_of(chosen.fields, "id")
    if chosen.gone:
        _restore(store, chosen, now=now)
    again = selection.tier == selector.AGAIN
    text = _text(request, store, chosen, selection, delivered, now=now, token=token, faults=faults)
    told = injections.hash_of(text)
    if not again:
        try:
            receipts.store_intent(store.runtime, receipts.Intent(capsule, session, clock(), told=told))
        except OSError as error:
            answer = orient(request, store, now=now)
            return _said(
                answer._replace(token="consume-unrecordable", detail=str(error)),
                f"consume-unrecordable: nothing was handed over.\n{answer.text}",
                say,
            )
    answer = Answer("already-delivered" if again else "delivered", _whole(selection, chosen), capsule, text)
    try:
        say(answer)
    except OSError as error:
        if not again:
            receipts.drop_intent(store.runtime, session)
        return answer._replace(token="not-delivered", text="", detail=f"the text did not get out: {error}")
    # Only now: until this one's own intent lay there and the text was out, the earlier one was all that knew of the interruption.
    for intent in owed:
        if intent.capsule == capsule and choice.is_recorded(intent, book) and (not again or intent.session == session):
            receipts.drop_intent(store.runtime, intent.session)
    if again:
        return answer
    _remember(store, session, capsule, now=now)
    try:
        consume(store, chosen, session, now=clock(), told=told)
    except (GitRefusedError, OSError) as error:
        return answer._replace(token="consume-pending", detail=str(error))
    receipts.drop_intent(store.runtime, session)
    return answer._replace(detail=selection.tier)


def _said(answer: Answer, text: str, say: Callable[[Answer], None]) -> Answer:
    try:
        say(answer._replace(text=text))
    except OSError as error:
        return answer._replace(token="not-delivered", text="", detail=str(error))
    return answer._replace(text=text)


def _restore(store: Store, chosen: Chosen, *, now: float) -> None:
    """Put a capsule that left the tree back to its place. Raises ExternallyChangedError where another file took it, GitRefusedError, OSError."""
    path = chosen.candidate.path
    tree.write(f"{store.memory}/{path}", chosen.document, expected=None, durable=store.durable)
    event = lineage.Event(
        id=selector.text_of(chosen.fields, "id"),
        event=lineage.WRITE,
        status=model.status_of(chosen.fields) or "",
        parent=selector.text_of(chosen.fields, "parent_capsule_id"),
        session=selector.text_of(chosen.fields, "session_id"),
        harness=selector.text_of(chosen.fields, "harness"),
        at=now,
        why=f"restored from {chosen.gone[:12]} to be handed over",
    )
    commits.keep(store, path, chosen.document.encode("utf-8"), event)


def _remember(store: Store, session: str, capsule: str, *, now: float) -> None:
    record = receipts.load_session(store.runtime, session) or receipts.SessionRecord(session, at=now)
    try:
        receipts.store_session(store.runtime, record._replace(delivered=capsule))
    except OSError:
        pass  # history says the same, slower


def consume(store: Store, chosen: Chosen, session: str, *, now: float, told: str) -> None:
    """Write `status: resumed` and the consume commit; *told* is the hash of the text that was handed out.

    Raises GitRefusedError, OSError; the intent then stays for the next hook.
    """
    status = model.status_of(chosen.fields) or ""
    after = lifecycle.step(status, lifecycle.CONSUME)
    document = chosen.document
    if status != after:
        document = header.edit(chosen.document, "status", after)
        tree.write(f"{store.memory}/{chosen.candidate.path}", document, expected=chosen.document, durable=store.durable)
    event = lineage.Event(
        id=selector.text_of(chosen.fields, "id"),
        event=lineage.CONSUME,
        status=after,
        parent=selector.text_of(chosen.fields, "parent_capsule_id"),
        session=selector.text_of(chosen.fields, "session_id"),
        harness=selector.text_of(chosen.fields, "harness"),
        consumer=session,
        at=now,
        told=told,
    )
    commits.keep(store, chosen.candidate.path, document.encode("utf-8"), event, allow_empty=True)


def complete(store: Store) -> tuple[tuple[str, ...], tuple[Intent, ...]]:
    """Record deliveries whose process died or whose commit was refused: a line for each that still cannot be, and the intents.

    An intent stays until it is known what came of it, so that a process killed in here takes no knowledge with it.
    """
    faults, owed = [], []
    for intent in sorted(receipts.intents(store.runtime), key=lambda each: each.at):
        if not intent.is_open:
            continue
        owed.append(intent)
        try:
            # A delivery that history has is not recorded again, reopened since or not.
            if not intent.done and commits.book(store).delivered_to(intent.session) != intent.capsule:
                chosen = choice.by_id(store, tree.entries(store.memory)[0], intent.capsule)
                if chosen is not None:
                    if not store.keeps_history:
                        receipts.store_intent(store.runtime, intent._replace(unsure=True))
                    consume(store, chosen, intent.session, now=intent.at, told=intent.told)
        except (GitRefusedError, OSError, VaultMemError) as error:
            faults.append(
                f"consume-pending: {inert(intent.capsule, limit=120)} was handed out and is not recorded yet ({inert(str(error), limit=200)})"
            )
    return tuple(faults), tuple(owed)


def _text(
    request: Request,
    store: Store,
    chosen: Chosen | None,
    selection: Selection,
    delivered: str,
    *,
    now: float,
    token: str,
    faults: tuple[str, ...],
) -> str:
    fields: Mapping[str, Value] = chosen.fields if chosen else {}
    extension = _declared(store.seat.root, selector.text_of(fields, "id"))
    started = selector.text_of(fields, "started_at") or selector.text_of(fields, "created_at")
    bullets = sections.read(chosen.document, day=started[:10]) if chosen else {}
    return procedure.render(
        procedure.View(
            selection=selection,
            session=_session(request, store),
            now=now,
            token=token,
            fields=fields,
            sections=bullets,
            path=f"{store.seat.memory.relative}/{chosen.candidate.path}" if chosen else "",
            delivered=delivered,
            faults=faults,
            evidence=provenance.evidence(fields, bullets, chosen.parent) if chosen else {},
            notes=_moved(request, store, fields, bullets) if chosen else (),
            extension=extension,
            left=_left(store),
        )
    )


def _left(store: Store) -> int:
    """How many active capsules left the tree, as the last upkeep counted them; most seats never had one."""
    if not os.path.exists(f"{store.runtime}/upkeep.json"):
        return 0
    from vault_mem.vault import upkeep

    return upkeep.note(store.runtime).left


def _moved(
    request: Request, store: Store, fields: Mapping[str, Value], bullets: Mapping[str, tuple[Bullet, ...]]
) -> tuple[str, ...]:
    if not request.project:
        return ()
    from vault_mem.vault import moved

    try:
        return moved.since(
            fields, bullets.get("files", ()), project=request.project, environ=store.environ, runtime=store.runtime
        )
    except (OSError, ValueError) as error:
        return (f"  DRIFT of the project: unknown ({inert(str(error), limit=120)})",)


def _session(request: Request, store: Store) -> procedure.Session:
    """Who asks; a hand-over by hand without a client has no start event that a receipt could confirm."""
    if request.session and request.session.startswith(MANUAL):
        return procedure.Session(request.session, source="asked for by hand, no client session")
    return procedure.Session(
        request.session,
        receipts.boot_session(store.runtime),
        os.path.relpath(f"{store.runtime}/boot-receipt.json", store.seat.root).replace(os.sep, "/"),
    )


def _declared(root: str, capsule: str) -> procedure.Extension:
    """The lines this install declares for the procedure; most declare none and load nothing for it."""
    if not os.path.lexists(f"{root}/.aigent/lifecycle-extension.json"):
        return procedure.Extension()
    from vault_mem import extensionfile
    from vault_mem.capsule import extension

    declaration = extensionfile.load(root)
    ack, held = extension.rendered("resume_ack", declaration.resume_ack, capsule=capsule)
    warnings = tuple(line for line in (declaration.warning, held) if line)
    return procedure.Extension(declaration.preload, declaration.reground, ack, warnings)
