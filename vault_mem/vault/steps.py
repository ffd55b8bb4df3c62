"""A delta with more bullets than a section keeps, as versions of the capsule one after the other, so that history has every one of them.

Only history sees these versions: the file goes from what it was to the last one. Loaded only when a delta is that large.
"""

from __future__ import annotations

from vault_mem.capsule import header, sections
from vault_mem.errors import AnchorDamageError, GitRefusedError, HeaderError
from vault_mem.repo import objects
from vault_mem.vault import active
from vault_mem.vault.active import Target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from vault_mem.capsule.model import Value
    from vault_mem.receipts import Cursor
    from vault_mem.session.event import HookEvent
    from vault_mem.vault.delta import Delta
    from vault_mem.vault.store import Store


def before(
    store: Store, event: HookEvent, cursor: Cursor, target: Target, delta: Delta, *, now: float
) -> tuple[tuple[str, Mapping[str, Value]], ...]:
    """The versions, document and header, that come before the last one and are not in history yet. Raises GitRefusedError, OSError.

    They start from the version last acknowledged, for what is on disk may have lost bullets to a save that was refused or killed.
    """
    head = objects.head(store.worktree, environ=store.environ, ref=store.ref)
    tip = objects.blob_at(store.worktree, head, target.path, environ=store.environ) if head else None
    base = _base(store, cursor, target, tip)
    inherited = cursor.inherited
    versions: list[tuple[str, Mapping[str, Value]]] = []
    try:
        for portion in sections.portions(delta.bullets)[:-1]:
            part = delta._replace(bullets=portion)
            document, fields = active.merged(store, event, base, part, inherited=inherited, now=now)
            if document != base.document:
                versions.append((document, fields))
            inherited = active.inherited_by(part, fields)
            base = Target(target.path, document, fields)
    except (AnchorDamageError, HeaderError):
        return ()
    kept = [objects.blob_oid(document.encode("utf-8"), like=tip or "") for document, _ in versions]
    # One that was killed in the middle goes on behind the version it had reached.
    return tuple(versions[kept.index(tip) + 1 :] if tip in kept else versions)


def _base(store: Store, cursor: Cursor, target: Target, tip: str | None) -> Target:
    blank = Target(target.path, None, {"id": target.fields["id"]}, _parent(target))
    if target.document is None:
        return target
    known = cursor.capsule == target.path
    if known and not cursor.blob:
        return blank
    for oid in (cursor.blob if known else "", tip):
        try:
            kind, data = objects.read(store.worktree, oid, environ=store.environ) if oid else (b"", b"")
            if kind == b"blob":
                document = data.decode("utf-8")
                return Target(target.path, document, header.read(document))
        except (GitRefusedError, HeaderError, OSError, ValueError, KeyError):
            continue
    return target if tip else blank


def _parent(target: Target) -> str:
    value = target.fields.get("parent_capsule_id")
    return target.parent or (value if isinstance(value, str) else "")
