"""An adopted tree without a repository of its own: files and `runtime/deliveries/` say what elsewhere the history says."""

from __future__ import annotations

import os

from vault_mem import files, index, jsontext, receipts, stamps
from vault_mem.capsule import lineage, selector
from vault_mem.vault import tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from vault_mem.capsule.model import Value
    from vault_mem.vault.store import Store

BODY = "BODY_STATE.json"
OPERATOR_OWNED = ".aigent/operator-owned.json"
_LIMIT = 4 << 20


def book(store: Store) -> index.Book:
    """The book of deliveries from the records that were kept, the capsules in the tree and the sessions that have one."""
    events = [
        lineage.Event(
            id=intent.capsule,
            event=lineage.CONSUME,
            status="resumed",
            parent="",
            session="",
            harness="",
            consumer=intent.session,
            at=intent.at,
        )
        for intent in receipts.intents(store.runtime)
        if intent.done
    ]
    for found in tree.entries(store.memory)[0]:
        fields = found.fields or {}
        name, session = selector.text_of(fields, "id"), selector.text_of(fields, "session_id")
        if name:
            events.append(
                lineage.Event(
                    id=name,
                    event=lineage.AUTOSAVE,
                    status="",
                    parent=selector.text_of(fields, "parent_capsule_id"),
                    session=session,
                    harness="",
                    at=0.0,
                )
            )
    return index.of(events)


def point(store: Store, fields: Mapping[str, Value], path: str, *, trigger: str, session: str, now: float) -> str:
    """Updates the hint `state.last_capsule` of a `BODY_STATE.json`, in the memory root or the seat; a problem in words, or empty.

    Nothing of ours reads it. A file that is missing, or has no object `state`, stays as it is.
    """
    for place in (store.memory, store.seat.root):
        body = f"{place}/{BODY}"
        try:
            before = files.read(body, limit=_LIMIT)
        except FileNotFoundError:
            continue
        except OSError as error:
            return f"{BODY}: {error.strerror or error}"
        try:
            state: Any = jsontext.loads(before.decode("utf-8"))
            if not isinstance(state, dict) or not isinstance(state.get("state"), dict):
                return ""
            state["state"]["last_capsule"] = {
                **_mapping(state["state"].get("last_capsule")),
                "id": selector.text_of(fields, "id"),
                "path": os.path.relpath(f"{store.memory}/{path}", store.seat.root).replace(os.sep, "/"),
                "objective": selector.text_of(fields, "objective"),
                "status": selector.text_of(fields, "status"),
                "created_at": stamps.utc_millis(now),
                "trigger": trigger,
                "session_id": session,
            }
            mode = os.stat(body).st_mode & 0o777
            files.replace(body, _written(state, like=before), expected=before, mode=mode, durable=store.durable)
        except (OSError, ValueError) as error:
            return f"{BODY}: {error}"
        return ""
    return ""


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


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
