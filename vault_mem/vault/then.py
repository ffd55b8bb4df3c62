"""The choice that a clear would have made at an earlier time, from history alone."""

from __future__ import annotations

from vault_mem import index
from vault_mem.capsule import header, lineage, selector
from vault_mem.capsule.inert import plain
from vault_mem.errors import HeaderError
from vault_mem.record import NamedTuple
from vault_mem.repo import history
from vault_mem.vault import choice, named, past, tree
from vault_mem.vault.chosen import Chosen, NoSuchCapsuleError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vault_mem.capsule.selector import Candidate, Selection
    from vault_mem.vault.past import Past
    from vault_mem.vault.store import Store


class Then(NamedTuple):
    """What would have been handed out: with its whole text, the time and commit the choice is made for, an inert line about an earlier delivery."""

    selection: Selection
    now: float
    commit: str
    chosen: Chosen | None = None
    delivered: str = ""


def at(store: Store, text: str, *, now: float, named: str = "") -> Then:
    """The choice at a revision or date; with *named* that capsule as it was then. Raises VaultMemError."""
    with past.opened(store) as reading:
        commit = past.at(reading, text)
        rows = {each.path: each for each in past.tree(reading, commit)}
        moments = history.events(reading, rev=commit)
        moment = float(reading.text("show", "-s", "--format=%ct", "--end-of-options", commit).split()[0])
    moment = min(max([moment, *(each.epoch for each in moments[:1])]), now)
    book = index.made(_event(each) for each in reversed(moments))
    candidates = tuple(each.candidate for each in rows.values())
    if named:
        return _named(rows, candidates, book, named, Then(selector.Selection(None, selector.NAMED, ()), moment, commit))
    facts = choice.facts_of(candidates, book, started=moment + 1)
    while True:
        selection = selector.select(candidates, now=moment, facts=facts)
        found = selection.chosen
        if found is None:
            return Then(selection, moment, commit)
        try:
            chosen = _opened(rows[found.path], found)
        except HeaderError as error:
            bad = found._replace(fields=None, problem=error.token, detail=error.detail)
            candidates = tuple(bad if each is found else each for each in candidates)
            continue
        delivery = facts.deliveries.get(selector.text_of(chosen.fields, "id"))
        return Then(selection, moment, commit, choice.with_parent(chosen, candidates), choice.delivered_line(delivery))


def _named(rows: dict[str, Past], candidates: tuple[Candidate, ...], book: index.Book, given: str, empty: Then) -> Then:
    found = named.pick(candidates, given)
    if found is None:
        raise NoSuchCapsuleError(f"no capsule had the id {plain(given)!r} then, or one that begins so")
    try:
        chosen = choice.with_parent(_opened(rows[found.path], found), candidates)
    except HeaderError as error:
        raise NoSuchCapsuleError(f"capsule {plain(given)!r} cannot be read: {plain(error)}") from error
    delivery = book.delivery(selector.text_of(chosen.fields, "id"))
    selection = selector.Selection(found, selector.NAMED, ())
    return empty._replace(selection=selection, chosen=chosen, delivered=choice.delivered_line(delivery))


def _opened(row: Past, candidate: Candidate) -> Chosen:
    document = tree.text_of(row.data)
    return Chosen(candidate, document, {**(candidate.fields or {}), **header.read(document)})


def _event(moment: history.Moment) -> lineage.Event:
    return lineage.Event(
        id=moment.id,
        event=moment.event,
        status=moment.status,
        parent=moment.parent,
        session=moment.session,
        harness=moment.harness,
        consumer=moment.consumer,
        at=moment.epoch,
    )
