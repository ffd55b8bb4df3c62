"""What capsules there are, now or at an earlier time, those that left the tree included when asked for."""

from __future__ import annotations

from vault_mem.capsule import model, selector
from vault_mem.capsule.inert import plain
from vault_mem.errors import VaultMemError
from vault_mem.record import NamedTuple
from vault_mem.vault import past, tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from vault_mem.capsule.selector import Candidate
    from vault_mem.vault.store import Store

AMBIGUOUS_SHOWN = 8


class NothingThereError(VaultMemError):
    """There is no capsule to look at."""

    token = "no-capsules"
    exit_code = 4


class NoSuchCapsuleError(VaultMemError):
    """No capsule has this id or an id that begins so."""

    token = "no-such-capsule"
    exit_code = 4


class AmbiguousIdError(VaultMemError):
    """More than one id begins so."""

    token = "ambiguous-id"

    def __init__(self, given: str, ids: list[str]) -> None:
        self.ids = ids
        shown = ", ".join(plain(name) for name in ids[:AMBIGUOUS_SHOWN])
        more = f" and {len(ids) - AMBIGUOUS_SHOWN} more" if len(ids) > AMBIGUOUS_SHOWN else ""
        super().__init__(f"{len(ids)} capsules have an id that begins with {given!r}: {shown}{more}")


class Row(NamedTuple):
    """One capsule. *commit* is set where it was read from history; *gone*: it left the tree. *problem*: why its header cannot be used."""

    id: str
    path: str
    status: str
    created: float | None
    candidate: Candidate
    commit: str = ""
    gone: bool = False

    def text(self, key: str) -> str:
        """A field of its header, empty when there is none."""
        return selector.text_of(self.candidate.fields or {}, key)

    @property
    def problem(self) -> str:
        """Why its header cannot be used, empty when it can."""
        return self.candidate.problem


def row_of(candidate: Candidate, *, commit: str = "", gone: bool = False) -> Row:
    """A candidate as a row."""
    fields = candidate.fields or {}
    status = model.status_of(fields) or ("unreadable" if candidate.fields is None else "(absent)")
    name = selector.text_of(fields, "id") or candidate.name
    return Row(name, candidate.path, status, selector.created_of(fields), candidate, commit, gone)


def newest_first(rows: Iterable[Row]) -> list[Row]:
    """By `created_at`, then id, both descending; what has no time comes last."""
    return sorted(
        rows, key=lambda row: (row.created if row.created is not None else float("-inf"), row.id), reverse=True
    )


def rows(store: Store, *, everything: bool = False, at: str = "", status: str = "", named: str = "") -> list[Row]:
    """The capsules of the tree, or of an earlier commit; with *everything* also those that left it. Raises VaultMemError.

    named: of those that left, only the ones whose file name begins so, if there are such. Without history nothing has left.
    """
    found: list[Row] = []
    if at or (everything and store.keeps_history):
        with past.opened(store) as reading:
            commit = past.at(reading, at) if at else ""
            if commit:
                found = [row_of(each.candidate, commit=commit) for each in past.tree(reading, commit)]
            if everything:
                found += [
                    row_of(each.candidate, commit=each.commit, gone=True)
                    for each in past.gone(reading, store, rev=commit, named=named)
                ]
    if not at:
        here = [row_of(candidate) for candidate in tree.entries(store.memory)[0]]
        found = here + [row for row in found if row.path not in {each.path for each in here}]
    if status:
        found = [row for row in found if row.status == status]
    return newest_first(found)


def find(store: Store, given: str, *, at: str = "") -> Row:
    """The one capsule whose id or file name is *given* or begins so; also one that left the tree.

    Raises NoSuchCapsuleError, AmbiguousIdError and what history refuses.
    """
    matching = _matching(rows(store, at=at), given)
    if not matching and store.keeps_history:
        matching = _matching(rows(store, at=at, everything=True, named=given), given)
    if not matching:
        raise NoSuchCapsuleError(
            f"no capsule has the id {given!r} or one that begins so; `vault-mem list --all` shows what there is"
        )
    if len(matching) > 1:
        raise AmbiguousIdError(given, [row.id for row in matching])
    return matching[0]


def _matching(everyone: list[Row], given: str) -> list[Row]:
    exact = [row for row in everyone if given in (row.id, row.path)] or [
        row for row in everyone if given == row.candidate.name
    ]
    if exact:
        # A damaged tree can hold an id twice; the newest is the one that the selector would look at first.
        return exact[:1]
    return [row for row in everyone if given and (row.id.startswith(given) or row.candidate.name.startswith(given))]
