"""The choice of a capsule for a session, made from the tree, the book of deliveries and the runtime state; nothing is changed by it."""

from __future__ import annotations

import os

from vault_mem import clientprocess, processes, receipts, stamps
from vault_mem.capsule import lifecycle, model, selector
from vault_mem.capsule.inert import inert, plain
from vault_mem.errors import GitRefusedError, HeaderError
from vault_mem.vault import commits, headers, tree, vouched
from vault_mem.vault import store as seats
from vault_mem.vault.chosen import Chosen, NoSuchCapsuleError, opened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vault_mem.capsule.selector import Candidate, Delivery, Facts, Selection
    from vault_mem.index import Book
    from vault_mem.receipts import Intent
    from vault_mem.vault.store import Store


def book(store: Store, candidates: tuple[Candidate, ...] | None = None) -> tuple[Book | None, tuple[str, ...]]:
    """The book of deliveries (*candidates*: what is in the tree, where that is known already), or None and an inert line that says why it cannot be read."""
    try:
        return commits.book(store, candidates), ()
    except (GitRefusedError, OSError) as error:
        return None, (
            f"history-unchecked: {inert(str(error), limit=200)}; a capsule below may have been handed out before",
        )


def facts_of(
    candidates: tuple[Candidate, ...],
    book: Book | None,
    *,
    started: float = 0.0,
    bound: str = "",
    alive: frozenset[str] = frozenset(),
    intents: tuple[Intent, ...] = (),
) -> Facts:
    """What the selector must know beside the files; without a *book* nothing counts as delivered but for the open *intents*."""
    deliveries: dict[str, Delivery] = {}
    parents = set()
    saved = set()
    newest = ("", 0.0)
    latest: object = None
    handed_out = book.handed_out() if book is not None else frozenset()
    for found in candidates:
        if found.fields is None or book is None:
            continue
        name, written = selector.text_of(found.fields, "id"), found.fields.get("created_at")
        if not stamps.surely_before(written, latest) and (created := stamps.epoch_of(written) or 0.0) >= newest[1]:
            newest, latest = (name, created), written
        if name not in handed_out or model.status_of(found.fields) != model.ACTIVE:
            continue
        if (delivery := book.delivery(name)) is not None:
            deliveries[name] = delivery
    if book is not None and newest[0] and (delivery := book.delivery(newest[0])) is not None:
        deliveries[newest[0]] = delivery
    for intent in intents:
        if not is_recorded(intent, book):
            deliveries[intent.capsule] = selector.Delivery(intent.session, intent.at)
    interrupted = frozenset(
        intent.capsule
        for intent in intents
        if (given := deliveries.get(intent.capsule)) is not None and given.consumer == intent.session
    )
    for name, delivery in deliveries.items():
        if book is not None and book.is_parent(name):
            parents.add(name)
        if book is not None and book.has_saved(delivery.consumer):
            saved.add(delivery.consumer)
    return selector.Facts(
        deliveries, frozenset(parents), frozenset(saved), alive, started, bound, interrupted=interrupted
    )


def is_recorded(intent: Intent, book: Book | None) -> bool:
    """Whether history (or what stands in for it) has the delivery of an open intent."""
    return book is not None and book.delivered_to(intent.session) == intent.capsule


def is_over(intent: Intent, candidates: tuple[Candidate, ...], book: Book | None) -> bool:
    """Whether an open intent needs no making good any more: it is recorded, and its session saved something or newer work is there."""
    newest, present = (0.0, ""), False
    for found in candidates:
        if found.fields is not None:
            name = selector.text_of(found.fields, "id")
            newest = max(newest, (selector.created_of(found.fields) or 0.0, name))
            present = present or name == intent.capsule
    if book is None or (present and not is_recorded(intent, book)):
        return False
    delivery = book.delivery(intent.capsule)
    return (
        newest[1] != intent.capsule
        or delivery is None
        or delivery.consumer != intent.session
        or book.has_saved(intent.session)
        or book.is_parent(intent.capsule)
        or any(selector.session_of(found) == intent.session for found in candidates)
    )


def choose(
    store: Store,
    book: Book | None,
    session: str,
    *,
    now: float,
    named: str = "",
    listed: tuple[tuple[Candidate, ...], str] | None = None,
    intents: tuple[Intent, ...] | None = None,
    project: str = "",
) -> tuple[Chosen | None, Selection, str]:
    """The capsule for this session (safe id, empty when unknown), the selection it came of, and an inert line about an earlier delivery.

    named: a capsule asked for by id; NoSuchCapsuleError when it cannot be handed out. listed: what `headers.entries` gave, where it was
    asked already. intents: the open ones, where they were looked for already; one whose consumer made nothing of it comes before older capsules.
    project: only capsules of this project count; empty for all. With `integrity: refuse` nothing is chosen that is not vouched for;
    of what is asked for by id vouched.NotVouchedError says so.
    """
    if intents is None:
        intents = tuple(intent for intent in receipts.intents(store.runtime) if intent.is_open)
    candidates, unavailable = listed or headers.entries(store, keep=True)
    strict = vouched.refuses(store)
    faults = vouched.history(store).faults if strict else ()
    if named:
        return _named(named, store, candidates, book, faults=faults, strict=strict)
    if faults:
        return None, selector.Selection(None, selector.NONE, (), faults[0].token), ""
    held = _held(store, candidates, book, session)
    bound = _cleared(store, session)
    facts = facts_of(candidates, book, started=now, bound=bound, intents=intents)
    alive = _alive(store, {delivery.consumer for delivery in facts.deliveries.values()})
    facts = facts._replace(alive=alive, project=project)
    if held is not None:
        rejected = [
            each
            for each in selector.select(candidates, now=now, facts=facts).rejected
            if each.path != held.candidate.path
        ]
        if strict and (fault := vouched.of(store, held).file) is not None:
            # The session had its capsule; that somebody changed it since is no reason to give it a second one.
            refused = selector.Rejection(held.candidate.name, fault.token, fault.detail, held.candidate.path)
            return None, selector.Selection(None, selector.NONE, (refused, *rejected), fault.token), ""
        return with_parent(held, candidates), selector.Selection(held.candidate, selector.AGAIN, tuple(rejected)), ""
    indexed = True
    while True:
        selection = selector.select(candidates, now=now, facts=facts, unavailable=unavailable)
        if selection.chosen is None:
            return None, selection, ""
        try:
            chosen = _fit(store, selection.chosen, strict=strict)
        except HeaderError as error:
            bad = selection.chosen._replace(fields=None, problem=error.token, detail=error.detail)
            candidates = tuple(bad if found is selection.chosen else found for found in candidates)
            continue
        if indexed and not _agrees(chosen, selection.chosen):
            # The index was wrong about it, so about others too perhaps: everything is read.
            (candidates, unavailable), indexed = tree.entries(store.memory), False
            facts = facts_of(candidates, book, started=now, bound=bound, intents=intents)
            facts = facts._replace(alive=alive, project=project)
            continue
        line = delivered_line(facts.deliveries.get(selector.text_of(chosen.fields, "id")))
        return with_parent(chosen, candidates), selection, line


def only(store: Store, directory: str = "") -> str:
    """The project whose capsules alone count (setting `selection`), empty for all; that around *directory*, else of the seat."""
    if seats.setting("selection", "seat", environ=store.environ, record=store.record) != "project":
        return ""
    from vault_mem import worktree

    directory = directory or store.seat.root
    return os.path.basename(worktree.here(directory).top or directory)


def _fit(store: Store, candidate: Candidate, *, strict: bool) -> Chosen:
    """The candidate with its whole text. Raises HeaderError; *strict*: also by the token of what is not as our commits left it."""
    chosen = opened(store, candidate)
    if strict and (fault := vouched.of(store, chosen).file) is not None:
        raise HeaderError(fault.token, fault.detail)
    return chosen


def with_parent(chosen: Chosen, candidates: tuple[Candidate, ...]) -> Chosen:
    """*chosen* with the header of its parent."""
    parent = selector.text_of(chosen.fields, "parent_capsule_id")
    for found in candidates if parent else ():
        if found.fields is not None and selector.text_of(found.fields, "id") == parent:
            return chosen._replace(parent=found.fields)
    return chosen


def _agrees(chosen: Chosen, candidate: Candidate) -> bool:
    """Whether the file says what the index said of it."""
    said = candidate.fields or {}
    return all(
        selector.text_of(chosen.fields, key) == selector.text_of(said, key) for key in ("id", "status", "created_at")
    )


def delivered_line(delivery: Delivery | None) -> str:
    """An inert line about an earlier delivery, empty for none."""
    if delivery is None:
        return ""
    return f"it may already have been delivered to session {inert(delivery.consumer, limit=120)} at {stamps.utc(delivery.at)}, which saved nothing"


def by_id(store: Store, candidates: tuple[Candidate, ...], capsule: str) -> Chosen | None:
    """The candidate with this id, None when there is none. Raises HeaderError."""
    for found in candidates:
        if found.fields is not None and selector.text_of(found.fields, "id") == capsule:
            return opened(store, found)
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
        return by_id(store, candidates, capsule) if capsule else None
    except HeaderError:
        return None


def _cleared(store: Store, session: str) -> str:
    """The session that this client process cleared, empty when that is not known."""
    pid, started = clientprocess.of(os.getpid(), environ=store.environ)
    told = receipts.load_handoff(store.runtime, pid=pid, started=started) if pid else ""
    if told or not pid:
        return told
    # Codex tells of the end of a session only when it leaves: the session it started before this one is the one it cleared.
    others = [each for each in receipts.sessions_of(store.runtime, pid=pid, started=started) if each.session != session]
    return max(others, key=lambda each: each.at).session if others else ""


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
    named: str,
    store: Store,
    candidates: tuple[Candidate, ...],
    book: Book | None,
    *,
    faults: tuple[vouched.Fault, ...],
    strict: bool,
) -> tuple[Chosen, Selection, str]:
    from vault_mem.vault import named as names

    chosen = names.found(store, candidates, named)
    fault = faults[0] if faults else vouched.of(store, chosen).file if strict else None
    if fault is not None:
        raise vouched.NotVouchedError(fault)
    named = selector.text_of(chosen.fields, "id")
    status = model.status_of(chosen.fields) or "(absent)"
    if (status, lifecycle.CONSUME) not in lifecycle.TRANSITIONS:
        raise NoSuchCapsuleError(
            f"capsule {plain(named)!r} is {plain(status)}; `vault-mem capsule reopen` makes it active again"
        )
    delivery = book.delivery(named) if book is not None else None
    selection = selector.Selection(chosen.candidate, selector.NAMED, ())
    return with_parent(chosen, candidates), selection, delivered_line(delivery)
