"""What a tree without a repository tells of its capsules: the time of each one's last save, and the records of deliveries that were kept."""

from __future__ import annotations

from vault_mem import receipts, stamps
from vault_mem.capsule import lineage, model, selector
from vault_mem.repo.history import Moment
from vault_mem.vault import tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from vault_mem.vault.store import Store

NOTE = "adopted-no-repo: this tree has no repository, so there is no history: only what lies in it and the deliveries that were recorded"


def moments(store: Store) -> tuple[Moment, ...]:
    """Newest first, without commits: one save for each capsule, and every recorded delivery."""
    return tuple(sorted(_moments(store), key=lambda each: each.epoch, reverse=True))


def _moments(store: Store) -> Iterator[Moment]:
    for found in tree.entries(store.memory)[0]:
        fields = found.fields
        if fields is None or not (name := selector.text_of(fields, "id")):
            continue
        yield Moment(
            oid="",
            epoch=stamps.epoch_of(fields.get("updated_at")) or selector.created_of(fields) or 0.0,
            event=lineage.AUTOSAVE if model.is_autosave(fields) else lineage.WRITE,
            id=name,
            status=model.status_of(fields) or "",
            parent=selector.text_of(fields, "parent_capsule_id"),
            session=selector.text_of(fields, "session_id"),
            consumer="",
            harness=selector.text_of(fields, "harness"),
        )
    for intent in receipts.intents(store.runtime):
        if intent.done:
            yield Moment("", intent.at, lineage.CONSUME, intent.capsule, model.RESUMED, "", "", intent.session, "")
