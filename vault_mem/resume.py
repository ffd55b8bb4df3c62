"""Hand a capsule to a fresh session: choose, say, record. At most one silent delivery, ever.

Under the vault lock: an intent is made durable, the text is said, the status is written, the consume commit is made, the intent goes. When saying
fails the intent goes and nothing is consumed; when the process dies in between, the intent is found by the next hook and completed, and from then
on the capsule counts as delivered.
"""

from __future__ import annotations

import os

from vault_mem import clientprocess, files, lock, processes, receipts, stamps
from vault_mem.capsule import header, lifecycle, lineage, model, procedure, sections, selector
from vault_mem.capsule.inert import inert
from vault_mem.errors import GitRefusedError, HeaderError, LockBusyError, VaultMemError
from vault_mem.record import NamedTuple
from vault_mem.session import identity
from vault_mem.vault import commits, tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vault_mem.capsule.model import Value
    from vault_mem.capsule.selector import Candidate, Delivery, Facts, Selection
    from vault_mem.index import Book
    from vault_mem.vault.store import Store

WAIT = 1.0
CLEAR, COMPACT = "clear", "compact"


class Request(NamedTuple):
    """What is asked. session: the id as the client gave it, None when unusable; named: a capsule asked for by id; peek: print, change nothing."""

    source: str
    session: str | None
    named: str = ""
    peek: bool = False
    transcript: str = ""
    harness: str = ""


class Answer(NamedTuple):
    """What came of it: a token for the log, the capsule's id, the selection (for `--json`), the text that was or would be said."""

    token: str
    selection: Selection
    capsule: str = ""
    text: str = ""
    detail: str = ""


class NoSuchCapsuleError(VaultMemError):
    """A capsule was asked for by an id that is not in the tree, or that cannot be handed out."""

    token = "no-such-capsule"


class Chosen(NamedTuple):
    """A candidate whose whole text was read and holds."""

    candidate: Candidate
    document: str
    fields: Mapping[str, Value]


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
                ),
            )
    except OSError:
        pass


def orient(request: Request, store: Store, *, now: float) -> Answer:
    """What a session that was not cleared is told; consumes nothing, takes no lock."""
    candidates, unavailable = tree.entries(store.memory)
    if request.source == COMPACT and request.session:
        own = _own(candidates, identity.safe_id(request.session))
        if own is not None and own.fields is not None:
            text = procedure.orientation(own.fields, path=own.path, others=(), unavailable="")
            return Answer(
                "briefed", selector.Selection(own, selector.NONE, ()), selector.text_of(own.fields, "id"), text
            )
    book, faults = _book(store)
    selection = selector.select(
        candidates,
        now=now,
        facts=_facts(candidates, book, started=0.0, bound="", alive=frozenset()),
        unavailable=unavailable,
    )
    chosen = selection.chosen if selection.tier in (selector.ACTIVE, selector.PLACEHOLDER) else None
    others = [
        (selector.text_of(fields, "id"), selector.text_of(fields, "objective"))
        for fields in sorted(
            (found.fields for found in candidates if found.fields is not None and found is not chosen),
            key=lambda fields: (selector.created_of(fields) or 0.0, selector.text_of(fields, "id")),
            reverse=True,
        )
        if model.status_of(fields) in (model.ACTIVE, model.PAUSED)
    ]
    fields = chosen.fields if chosen else None
    text = procedure.orientation(
        fields, path=chosen.path if chosen else "", others=others, unavailable=selection.unavailable, faults=faults
    )
    return Answer("oriented", selection, selector.text_of(fields, "id") if fields else "", text)


def _own(candidates: tuple[Candidate, ...], session: str) -> Candidate | None:
    mine = [
        found
        for found in candidates
        if found.fields is not None and selector.text_of(found.fields, "session_id") == session
    ]
    return max(mine, key=lambda found: selector.created_of(found.fields or {}) or 0.0, default=None)


def peek(request: Request, store: Store, *, now: float, token: str) -> Answer:
    """What a clear would hand out now; nothing is changed."""
    book, faults = _book(store)
    session = identity.safe_id(request.session) if request.session else ""
    chosen, selection, delivered = _choose(request, store, book, session, now=now)
    text = _text(request, store, chosen, selection, delivered, now=now, token=token, faults=faults)
    return Answer("peeked", selection, selector.text_of(chosen.fields, "id") if chosen else "", text)


def hand_over(
    request: Request, store: Store, *, clock: Callable[[], float], token: str, say: Callable[[str], None]
) -> Answer:
    """The delivery on a clear. *say* prints and flushes and raises OSError when the text did not get out."""
    session = identity.safe_id(request.session) if request.session else ""
    now = clock()
    files.make_dirs(store.runtime)
    try:
        with lock.Locked(store.lock, timeout=WAIT), processes.Deferred():
            return _hand_over(request, store, session, now=now, clock=clock, token=token, say=say)
    except LockBusyError:
        answer = orient(request, store, now=now)
        text = "lock-busy: the vault is in use; nothing was handed over, run `vault-mem resume --peek`.\n" + answer.text
        say(text)
        return answer._replace(token="lock-busy", text=text)


def _hand_over(
    request: Request,
    store: Store,
    session: str,
    *,
    now: float,
    clock: Callable[[], float],
    token: str,
    say: Callable[[str], None],
) -> Answer:
    faults = complete(store)
    book, more = _book(store)
    chosen, selection, delivered = _choose(request, store, book, session, now=now)
    faults += more
    if chosen is None or not session:
        return _said(
            Answer("none", selection),
            _text(request, store, chosen, selection, delivered, now=now, token=token, faults=faults),
            say,
        )
    capsule = selector.text_of(chosen.fields, "id")
    again = selection.tier == selector.AGAIN
    if not again:
        try:
            receipts.store_intent(store.runtime, receipts.Intent(capsule, session, clock()))
        except OSError as error:
            answer = orient(request, store, now=now)
            return _said(
                answer._replace(token="consume-unrecordable", detail=str(error)),
                f"consume-unrecordable: nothing was handed over.\n{answer.text}",
                say,
            )
    text = _text(request, store, chosen, selection, delivered, now=now, token=token, faults=faults)
    try:
        say(text)
    except OSError as error:
        if not again:
            receipts.drop_intent(store.runtime, session)
        return Answer("not-delivered", selection, capsule, "", f"the text did not get out: {error}")
    if again:
        return Answer("already-delivered", selection, capsule, text)
    _remember(store, session, capsule, now=now)
    try:
        consume(store, chosen, session, now=clock())
    except (GitRefusedError, OSError) as error:
        return Answer("consume-pending", selection, capsule, text, str(error))
    receipts.drop_intent(store.runtime, session)
    return Answer("delivered", selection, capsule, text, selection.tier)


def _said(answer: Answer, text: str, say: Callable[[str], None]) -> Answer:
    try:
        say(text)
    except OSError as error:
        return answer._replace(token="not-delivered", detail=str(error))
    return answer._replace(text=text)


def _remember(store: Store, session: str, capsule: str, *, now: float) -> None:
    record = receipts.load_session(store.runtime, session) or receipts.SessionRecord(session, at=now)
    try:
        receipts.store_session(store.runtime, record._replace(delivered=capsule))
    except OSError:
        pass  # history says the same, slower


def consume(store: Store, chosen: Chosen, session: str, *, now: float) -> None:
    """Write `status: resumed` and the consume commit. Raises GitRefusedError, OSError; the intent then stays for the next hook."""
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
    )
    commits.keep(store, chosen.candidate.path, document.encode("utf-8"), event, allow_empty=True)


def complete(store: Store) -> tuple[str, ...]:
    """Finish deliveries whose process died or whose commit was refused; a line for each that still cannot be recorded."""
    faults = []
    for intent in receipts.intents(store.runtime):
        if intent.done:
            continue
        try:
            delivery = commits.book(store).delivery(intent.capsule)
            if delivery is None or delivery.consumer != intent.session:
                chosen = _by_id(store, tree.entries(store.memory)[0], intent.capsule)
                if chosen is not None:
                    consume(store, chosen, intent.session, now=intent.at)
            receipts.drop_intent(store.runtime, intent.session)
        except (GitRefusedError, OSError, VaultMemError) as error:
            faults.append(
                f"consume-pending: {inert(intent.capsule, limit=120)} was handed out and is not recorded yet ({inert(str(error), limit=200)})"
            )
    return tuple(faults)


def _book(store: Store) -> tuple[Book | None, tuple[str, ...]]:
    try:
        return commits.book(store), ()
    except (GitRefusedError, OSError) as error:
        return None, (
            f"history-unchecked: {inert(str(error), limit=200)}; a capsule below may have been handed out before",
        )


def _facts(
    candidates: tuple[Candidate, ...], book: Book | None, *, started: float, bound: str, alive: frozenset[str]
) -> Facts:
    deliveries: dict[str, Delivery] = {}
    parents = set()
    saved = set()
    newest = ("", 0.0)
    for found in candidates:
        if found.fields is None or book is None:
            continue
        name, created = selector.text_of(found.fields, "id"), selector.created_of(found.fields) or 0.0
        if created >= newest[1]:
            newest = (name, created)
        if model.status_of(found.fields) == model.ACTIVE and (delivery := book.delivery(name)) is not None:
            deliveries[name] = delivery
    if book is not None and newest[0] and (delivery := book.delivery(newest[0])) is not None:
        deliveries[newest[0]] = delivery
    for name, delivery in deliveries.items():
        if book is not None and book.is_parent(name):
            parents.add(name)
        if book is not None and book.has_saved(delivery.consumer):
            saved.add(delivery.consumer)
    return selector.Facts(deliveries, frozenset(parents), frozenset(saved), alive, started, bound)


def _choose(
    request: Request, store: Store, book: Book | None, session: str, *, now: float
) -> tuple[Chosen | None, Selection, str]:
    """The capsule for this session, the selection it came of, and a line about an earlier delivery."""
    candidates, unavailable = tree.entries(store.memory)
    if request.named:
        return _named(request, store, candidates, book)
    held = _held(store, candidates, book, session)
    pid, started = clientprocess.of(os.getpid(), environ=store.environ)
    bound = receipts.load_handoff(store.runtime, pid=pid, started=started) if pid else ""
    facts = _facts(candidates, book, started=now, bound=bound, alive=frozenset())
    facts = facts._replace(alive=_alive(store, {delivery.consumer for delivery in facts.deliveries.values()}))
    if held is not None:
        rejected = [
            each
            for each in selector.select(candidates, now=now, facts=facts).rejected
            if each.name != held.candidate.name
        ]
        return held, selector.Selection(held.candidate, selector.AGAIN, tuple(rejected)), ""
    while True:
        selection = selector.select(candidates, now=now, facts=facts, unavailable=unavailable)
        if selection.chosen is None:
            return None, selection, ""
        try:
            chosen = _opened(store, selection.chosen)
        except HeaderError as error:
            bad = selection.chosen._replace(fields=None, problem=error.token, detail=error.detail)
            candidates = tuple(bad if found is selection.chosen else found for found in candidates)
            continue
        return chosen, selection, _delivered_line(facts.deliveries.get(selector.text_of(chosen.fields, "id")))


def _delivered_line(delivery: Delivery | None) -> str:
    if delivery is None:
        return ""
    return f"it may already have been delivered to session {inert(delivery.consumer, limit=120)} at {stamps.utc(delivery.at)}, which saved nothing"


def _opened(store: Store, candidate: Candidate) -> Chosen:
    document = tree.read_document(f"{store.memory}/{candidate.path}")
    return Chosen(candidate, document, {**(candidate.fields or {}), **header.read(document)})


def _by_id(store: Store, candidates: tuple[Candidate, ...], capsule: str) -> Chosen | None:
    for found in candidates:
        if found.fields is not None and selector.text_of(found.fields, "id") == capsule:
            return _opened(store, found)
    return None


def _held(store: Store, candidates: tuple[Candidate, ...], book: Book | None, session: str) -> Chosen | None:
    """The capsule that this very session was given before."""
    if not session:
        return None
    capsule = book.delivered_to(session) if book is not None else ""
    if not capsule:
        record = receipts.load_session(store.runtime, session)
        capsule = record.delivered if record is not None else ""
    try:
        return _by_id(store, candidates, capsule) if capsule else None
    except HeaderError:
        return None


def _alive(store: Store, consumers: set[str]) -> frozenset[str]:
    """Sessions whose recorded client process lives and has started no later session."""
    alive = set()
    for session in consumers:
        record = receipts.load_session(store.runtime, session)
        if record is None or not record.pid or not processes.alive(record.pid, record.started):
            continue
        others = receipts.sessions_of(store.runtime, pid=record.pid, started=record.started)
        if all(other.at <= record.at for other in others):
            alive.add(session)
    return frozenset(alive)


def _named(
    request: Request, store: Store, candidates: tuple[Candidate, ...], book: Book | None
) -> tuple[Chosen, Selection, str]:
    try:
        chosen = _by_id(store, candidates, request.named)
    except HeaderError as error:
        raise NoSuchCapsuleError(f"capsule {request.named!r} cannot be read: {error}") from error
    if chosen is None:
        raise NoSuchCapsuleError(
            f"no capsule {request.named!r} in the tree; `vault-mem list --all` shows what there is"
        )
    status = model.status_of(chosen.fields) or "(absent)"
    if (status, lifecycle.CONSUME) not in lifecycle.TRANSITIONS:
        raise NoSuchCapsuleError(
            f"capsule {request.named!r} is {status}; `vault-mem capsule reopen` makes it active again"
        )
    delivery = book.delivery(request.named) if book is not None else None
    return chosen, selector.Selection(chosen.candidate, selector.NAMED, ()), _delivered_line(delivery)


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
    started = selector.text_of(fields, "started_at") or selector.text_of(fields, "created_at")
    return procedure.render(
        procedure.View(
            selection=selection,
            session=procedure.Session(
                request.session,
                receipts.boot_session(store.runtime),
                f"{store.seat.memory.relative}/runtime/boot-receipt.json",
            ),
            now=now,
            token=token,
            fields=fields,
            sections=sections.read(chosen.document, day=started[:10]) if chosen else {},
            path=f"{store.seat.memory.relative}/{chosen.candidate.path}" if chosen else "",
            delivered=delivered,
            faults=faults,
        )
    )
