"""The ledger of the choice that a clear would make now, or would have made then. Nothing is consumed and nothing is written."""

from __future__ import annotations

from vault_mem.errors import GitRefusedError
from vault_mem.record import NamedTuple
from vault_mem.vault import choice, past
from vault_mem.vault import then as times

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
    chosen, selection, delivered = choice.choose(store, book, "", now=now, project=choice.only(store))
    try:
        left = past.still_active(store) if store.keeps_history else 0
    except GitRefusedError:
        left = 0  # the faults say it already
    return Ledger(selection, now, chosen.fields if chosen else {}, delivered, faults, "", left)


def then(store: Store, at: str, *, now: float) -> Ledger:
    """The choice that a clear would have made at a revision or date. Raises VaultMemError."""
    found = times.at(store, at, now=now)
    fields = found.chosen.fields if found.chosen else {}
    return Ledger(found.selection, found.now, fields, found.delivered, (), found.commit)
