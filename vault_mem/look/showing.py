"""One capsule in full: its header, its sections, the versions it had, and what changed between two of them."""

from __future__ import annotations

import difflib

from vault_mem.capsule import header, sections
from vault_mem.errors import GitRefusedError, HeaderError, VaultMemError
from vault_mem.record import NamedTuple
from vault_mem.repo import history
from vault_mem.vault import past, tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from vault_mem.capsule.model import Bullet, Value
    from vault_mem.look.listing import Row
    from vault_mem.repo.store import Store as Reader
    from vault_mem.vault.store import Store


class NoVersionError(VaultMemError):
    """The capsule has no version where one was asked for."""

    token = "no-such-version"
    exit_code = 4


class Shown(NamedTuple):
    """One version: commit, seconds since the epoch, event (empty for a commit by hand), status after it, consumer of a delivery."""

    oid: str
    epoch: float
    event: str = ""
    status: str = ""
    consumer: str = ""

    @property
    def detail(self) -> str:
        """Who was given it, empty when nobody was."""
        return f"→ session {self.consumer}" if self.consumer else ""


class View(NamedTuple):
    """A capsule as it is shown; everything in it is stored text."""

    fields: Mapping[str, Value]
    sections: Mapping[str, tuple[Bullet, ...]]
    versions: tuple[Shown, ...] = ()


class Change(NamedTuple):
    """The lines of a unified difference, and the two commits; an empty *old* is before the first version."""

    old: str
    new: str
    lines: tuple[str, ...]


def view(store: Store, row: Row, *, versions: bool) -> View:
    """The capsule of *row* read in full; one whose file cannot be read has neither fields nor sections."""
    try:
        document = _document(store, row)
        fields = {**(row.candidate.fields or {}), **header.read(document)}
        started = str(fields.get("started_at") or fields.get("created_at") or "")
        found = View(fields, sections.read(document, day=started[:10]))
    except VaultMemError:
        found = View({}, {})
    return found._replace(versions=_versions(store, row)) if versions else found


def _document(store: Store, row: Row) -> str:
    if not row.commit:
        return tree.read_document(f"{store.memory}/{row.path}")
    with past.opened(store) as reading:
        data = history.text_at(reading, row.commit, row.path)
    try:
        return (data or b"").decode("utf-8")
    except UnicodeDecodeError as error:
        raise HeaderError("not-utf8") from error


def _versions(store: Store, row: Row) -> tuple[Shown, ...]:
    with past.opened(store) as reading:
        found = history.versions(reading, row.path, rev=row.commit)
    shown = []
    for each in found:
        moment = each.moment
        if moment is None:
            shown.append(Shown(each.oid, each.epoch))
        else:
            shown.append(Shown(each.oid, moment.epoch, moment.event, moment.status, moment.consumer))
    return tuple(shown)


def difference(store: Store, row: Row, between: str) -> Change:
    """What changed from one revision or date to another (`REV..REV`, either may be empty), else in the last change of the capsule.

    Raises NoVersionError and what `past.at` raises.
    """
    with past.opened(store) as reading:
        if between:
            first, _, second = between.partition("..")
            old = past.at(reading, first) if first else ""
            new = past.at(reading, second or reading.rev)
        else:
            found = history.versions(reading, row.path)
            if not found:
                raise NoVersionError("nothing of this capsule has been committed yet")
            new, old = found[0].oid, found[1].oid if len(found) > 1 else ""
        texts = [_text(reading, commit, row.path) for commit in (old, new)]
    if texts == [None, None]:
        raise NoVersionError("the capsule is in neither of the two revisions")
    before, after = ((text or "").splitlines() for text in texts)
    lines = difflib.unified_diff(before, after, lineterm="", n=2)
    return Change(old, new, tuple(lines)[2:])


def _text(reading: Reader, commit: str, path: str) -> str | None:
    try:
        data = history.text_at(reading, commit, path) if commit else None
    except GitRefusedError:
        return None
    return None if data is None else data.decode("utf-8", "replace")
