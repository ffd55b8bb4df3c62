"""An adopted tree without a repository of its own: files and `runtime/deliveries/` say what elsewhere the history says."""

from __future__ import annotations

import os

from vault_mem import files, index, jsontext, receipts, stamps
from vault_mem.capsule import header, lineage, selector
from vault_mem.errors import VaultMemError
from vault_mem.vault import headers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from vault_mem.capsule.lineage import Event
    from vault_mem.capsule.selector import Candidate
    from vault_mem.vault.store import Store

BODY = "BODY_STATE.json"
OPERATOR_OWNED = ".aigent/operator-owned.json"
_LIMIT = 4 << 20


def book(store: Store, candidates: tuple[Candidate, ...] | None = None) -> index.Book:
    """The book of deliveries from the records that were kept, the capsules in the tree and the sessions that have one.

    candidates: the capsules in the tree, where the caller has looked at them already.
    """
    deliveries = [
        lineage.Event(id=intent.capsule, event=lineage.CONSUME, status="resumed", consumer=intent.session, at=intent.at)
        for intent in receipts.intents(store.runtime)
        if intent.done
    ]
    listed = headers.entries(store)[0] if candidates is None else candidates
    known = [found.fields for found in listed if found.fields and selector.text_of(found.fields, "id")]
    return index.of(
        deliveries,
        sessions=(selector.text_of(fields, "session_id") for fields in known),
        parents=(selector.text_of(fields, "parent_capsule_id") for fields in known),
    )


def note(store: Store, path: str, data: bytes | None, event: Event) -> None:
    """Keeps what a commit would have said: a delivery becomes a record that stays. The hint is updated as well."""
    if event.event == lineage.CONSUME and event.consumer:
        before = receipts.load_intent(store.runtime, event.consumer)
        intent = before or receipts.Intent(event.id, event.consumer, event.at)
        receipts.store_intent(store.runtime, intent._replace(done=True))
    if event.event == lineage.REOPEN:
        for intent in receipts.intents(store.runtime):
            if intent.done and intent.capsule == event.id:
                files.remove(f"{store.runtime}/deliveries/{intent.session}.json")
    point(store, path, data, event)


def point(store: Store, path: str, data: bytes | None, event: Event) -> bool:
    """Updates the hint `state.last_capsule` of a `BODY_STATE.json` in the memory root or the seat; whether it did.

    Nothing of ours reads it, so what fails here stops nothing. A file that is missing, or has no object `state`, stays as it is.
    """
    if data is None or event.event not in (lineage.AUTOSAVE, lineage.WRITE, lineage.CONSUME):
        return False
    for place in dict.fromkeys((f"{store.memory}/{BODY}", f"{store.seat.root}/{BODY}")):
        try:
            before = files.read(place, limit=_LIMIT)
        except FileNotFoundError:
            continue
        except OSError:
            return False
        try:
            return _pointed(store, place, before, _hint(store, path, data, event))
        except (OSError, ValueError, VaultMemError):
            return False
    return False


def _hint(store: Store, path: str, data: bytes, event: Event) -> dict[str, Any]:
    fields = header.read(data.decode("utf-8", "replace"))
    return {
        "id": event.id,
        "path": os.path.relpath(f"{store.memory}/{path}", store.seat.root).replace(os.sep, "/"),
        "objective": selector.text_of(fields, "objective"),
        "status": event.status,
        "created_at": stamps.utc_millis(event.at),
        "trigger": selector.text_of(fields, "trigger"),
        "session_id": event.session,
    }


def _pointed(store: Store, place: str, before: bytes, hint: dict[str, Any]) -> bool:
    body: Any = jsontext.loads(before.decode("utf-8"))
    if not isinstance(body, dict) or not isinstance(body.get("state"), dict):
        return False
    state = body["state"]
    held = state.get("last_capsule")
    state["last_capsule"] = {**(held if isinstance(held, dict) else {}), **hint}
    mode = os.stat(place).st_mode & 0o777
    files.replace(place, _written(body, like=before), expected=before, mode=mode, durable=store.durable)
    return True


def _written(state: object, *, like: bytes) -> bytes:
    """The JSON with the indentation of the file it replaces."""
    import json

    second = like.split(b"\n", 2)[1] if like.count(b"\n") > 1 else b""
    indent = len(second) - len(second.lstrip(b" "))
    return (
        json.dumps(state, ensure_ascii=False, indent=indent or None) + ("\n" if like.endswith(b"\n") else "")
    ).encode()


def operator_owned(root: str) -> frozenset[str]:
    """Paths, relative to the seat, that a person keeps for themselves: never overwritten by us. Unreadable counts as naming nothing.

    Read from `.aigent/operator-owned.json`: a list of paths, or an object with such a list under `files` or `paths`.
    """
    try:
        found: Any = jsontext.loads(files.read(f"{root}/{OPERATOR_OWNED}", limit=_LIMIT).decode("utf-8"))
    except (OSError, ValueError):
        return frozenset()
    if isinstance(found, dict):
        found = found.get("files", found.get("paths"))
    return (
        frozenset(path.strip("/") for path in found if isinstance(path, str))
        if isinstance(found, list)
        else frozenset()
    )
