"""A capsule that a person names: by its id or how that begins, in the tree or among those that left it."""

from __future__ import annotations

from vault_mem.capsule import header, selector
from vault_mem.capsule.inert import plain
from vault_mem.errors import HeaderError, VaultMemError
from vault_mem.vault import past, tree
from vault_mem.vault.chosen import Chosen, NoSuchCapsuleError, opened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from vault_mem.capsule.selector import Candidate
    from vault_mem.vault.store import Store

SHOWN = 5


class AmbiguousIdError(VaultMemError):
    """More than one id begins so."""

    token = "ambiguous-id"


def found(store: Store, candidates: Iterable[Candidate], given: str) -> Chosen:
    """The one capsule whose id is *given* or begins so, with its whole text; one that left the tree when none in it fits.

    Raises NoSuchCapsuleError, AmbiguousIdError, and GitRefusedError where history cannot be read.
    """
    candidate = pick(candidates, given)
    try:
        if candidate is not None:
            return opened(store, candidate)
        gone = _gone(store, given) if store.keeps_history else None
    except HeaderError as error:
        raise NoSuchCapsuleError(f"capsule {plain(given)!r} cannot be read: {plain(error)}") from error
    if gone is None:
        raise NoSuchCapsuleError(
            f"no capsule has the id {plain(given)!r} or one that begins so; `vault-mem list --all` shows what there is"
        )
    return gone


def _gone(store: Store, given: str) -> Chosen | None:
    with past.opened(store) as reading:
        rows = past.gone(reading, store, named=given)
    candidate = pick((row.candidate for row in rows), given)
    row = next((each for each in rows if each.candidate is candidate), None)
    if row is None or candidate is None:
        return None
    document = tree.text_of(row.data)
    return Chosen(candidate, document, {**(candidate.fields or {}), **header.read(document)}, gone=row.commit)


def pick(candidates: Iterable[Candidate], given: str) -> Candidate | None:
    """The candidate whose id is *given*, else the only one whose id begins so. Raises AmbiguousIdError."""
    known = [(selector.text_of(each.fields, "id"), each) for each in candidates if each.fields is not None]
    # A damaged tree can hold an id twice; the newest is the one that the selector would look at first.
    exact = [each for name, each in known if name == given]
    if exact:
        return max(exact, key=lambda each: selector.created_of(each.fields or {}) or 0.0)
    fits = [(name, each) for name, each in known if given and name.startswith(given)]
    if len(fits) > 1:
        shown = ", ".join(plain(name) for name, _ in fits[:SHOWN])
        more = f" and {len(fits) - SHOWN} more" if len(fits) > SHOWN else ""
        raise AmbiguousIdError(f"{len(fits)} capsules have an id that begins with {plain(given)!r}: {shown}{more}")
    return fits[0][1] if fits else None
