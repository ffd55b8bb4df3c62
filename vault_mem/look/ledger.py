"""The ledger of the choice that a clear would make now, or would have made then. Nothing is consumed and nothing is written."""

from __future__ import annotations

from vault_mem import index
from vault_mem.capsule import lineage, selector
from vault_mem.errors import GitRefusedError
from vault_mem.record import NamedTuple
from vault_mem.repo import history
from vault_mem.vault import choice, past

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from vault_mem.capsule.model import Value
    from vault_mem.capsule.selector import Selection
    from vault_mem.vault.store import Store


class Ledger(NamedTuple):
    """What would be handed out and why nothing else. faults, delivered: lines that are inert already. now: the time the choice is made for.

    left: active capsules that left the tree behind newer ones, so that nobody chooses among them.
    """

    selection: Selection
    now: float
    fields: Mapping[str, Value] = {}
    delivered: str = ""
    faults: tuple[str, ...] = ()
    commit: str = ""
    left: int = 0


def now(store: Store, *, now: float) -> Ledger:
    """The choice at this moment, for a fresh session."""
    book, faults = choice.book(store)
    chosen, selection, delivered = choice.choose(store, book, "", now=now)
    try:
        left = past.still_active(store) if store.keeps_history else 0
    except GitRefusedError:
        left = 0  # the faults say it already
    return Ledger(selection, now, chosen.fields if chosen else {}, delivered, faults, "", left)


def then(store: Store, at: str, *, now: float) -> Ledger:
    """The choice that a clear would have made at a revision or date. Raises VaultMemError."""
    with past.opened(store) as reading:
        commit = past.at(reading, at)
        candidates = tuple(each.candidate for each in past.tree(reading, commit))
        moments = history.events(reading, rev=commit)
        moment = float(reading.text("show", "-s", "--format=%ct", "--end-of-options", commit).split()[0])
    moment = min(max([moment, *(each.epoch for each in moments[:1])]), now)
    book = index.made(_event(each) for each in reversed(moments))
    facts = choice.facts_of(candidates, book, started=moment + 1)
    selection = selector.select(candidates, now=moment, facts=facts)
    fields = selection.chosen.fields or {} if selection.chosen else {}
    delivery = facts.deliveries.get(selector.text_of(fields, "id")) if fields else None
    return Ledger(selection, moment, fields, choice.delivered_line(delivery), (), commit)


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
