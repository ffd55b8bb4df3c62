"""The capsule a session is being saved into: where it stands, its header and contract, and what it becomes with a delta in it.

Nothing is written here.
"""

from __future__ import annotations

import os

from vault_mem import receipts, redact, stamps, worktree
from vault_mem.capsule import codec, gate, header, model, sections, selector
from vault_mem.errors import GitRefusedError, HeaderError
from vault_mem.record import NamedTuple
from vault_mem.session import evidence, identity
from vault_mem.vault import commits, headers, tree
from vault_mem.vault.delta import project_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from vault_mem.capsule.model import Value
    from vault_mem.receipts import Cursor
    from vault_mem.session.event import HookEvent
    from vault_mem.vault.delta import Delta
    from vault_mem.vault.store import Store

NAMES = 1000
NO_OBJECTIVE = "Unknown: no operator objective was captured in this session."
NO_WAITING = "Unknown: nothing captured says whether anything is pending."
NO_ACTION = "No concrete next action was captured in this Stop delta."


class Target(NamedTuple):
    """The file a delta goes to: path relative to the memory root, its text (None: to be made), its header, its parent when it is new."""

    path: str
    document: str | None
    fields: Mapping[str, Value]
    parent: str = ""


def find(store: Store, cursor: Cursor, session: str, *, now: float) -> Target:
    """The session's active capsule, or the place for a new one; a curated capsule comes before an autosave."""
    if cursor.capsule:
        held = _opened(store, cursor.capsule)
        if held is not None and model.status_of(held.fields) == model.ACTIVE:
            return held
        parent = selector.text_of(held.fields, "id") if held is not None else ""
        return fresh(store, session, now=now, parent=parent)
    mine = [
        found
        for found in headers.entries(store)[0]
        if found.fields and selector.session_of(found) in (session, identity.legacy_mark(session))
    ]
    mine.sort(
        key=lambda found: (not model.is_autosave(found.fields or {}), selector.created_of(found.fields or {}) or 0.0),
        reverse=True,
    )
    for found in mine:
        held = _opened(store, found.path)
        if held is not None and model.status_of(held.fields) == model.ACTIVE:
            return held
    return fresh(store, session, now=now, parent=selector.text_of(mine[0].fields or {}, "id") if mine else "")


def _opened(store: Store, path: str) -> Target | None:
    try:
        document = tree.read_document(f"{store.memory}/{path}")
        return Target(path, document, header.read(document))
    except HeaderError:
        return None


def fresh(store: Store, session: str, *, now: float, parent: str) -> Target:
    """A name nobody has: the day, the session, `-2`, `-3` … when a file, a link or anything else stands there already."""
    day = stamps.day(now)
    for number in range(1, NAMES):
        name = identity.autosave_id(session, day, n=number)
        path = f"capsules/{day[:7]}/{name}.md"
        if not os.path.lexists(f"{store.memory}/{path}"):
            return Target(path, None, {"id": name}, parent or _delivered(store, session))
    raise FileExistsError(f"no free name for session {session} on {day}")


def _delivered(store: Store, session: str) -> str:
    """The capsule that was handed to this session: by our own record, else by history."""
    record = receipts.load_session(store.runtime, session)
    if record is not None and record.delivered:
        return record.delivered
    intent = receipts.load_intent(store.runtime, session)
    if intent is not None:
        return intent.capsule
    try:
        return commits.book(store).delivered_to(session)
    except (GitRefusedError, OSError):
        return ""


def _parent_fields(store: Store, parent: str) -> Mapping[str, Value]:
    if not parent:
        return {}
    for found in headers.entries(store)[0]:
        if found.fields and selector.text_of(found.fields, "id") == parent:
            # Of a capsule that is spent the index keeps beginnings only.
            held = _opened(store, found.path)
            return {**found.fields, **held.fields} if held is not None else {}
    return {}


def merged(
    store: Store, event: HookEvent, target: Target, delta: Delta, *, inherited: str, now: float
) -> tuple[str, dict[str, Value]]:
    """The document with the delta in it, and its header. Raises AnchorDamageError, HeaderError; nothing is written."""
    if target.document is None:
        fields = _first_header(store, event, target, delta, now=now)
        document = codec.render(codec.Capsule(fields, codec.blank_body()))
        return _with(document, delta, day=stamps.day(delta.newest or now)), fields
    # Headers of aigent-OS have no start: the day in the name stays when `created_at` moves on.
    named = selector.text_of(target.fields, "id")[:10]
    day = selector.text_of(target.fields, "started_at") or (
        named if stamps.epoch_of(named) is not None else selector.text_of(target.fields, "created_at")
    )
    document = _with(target.document, delta, day=day[:10])
    fields = dict(target.fields)
    if model.is_autosave(fields):
        for key, value in _contract(delta, fields, inherited).items():
            if fields.get(key) != value:
                document = header.edit(document, key, value)
                fields[key] = value
    if document != target.document:
        document = _restamped(document, fields, project_of(event, store), delta, now=now)
    return document, fields


def _with(document: str, delta: Delta, *, day: str) -> str:
    for portion in sections.portions(delta.bullets):
        document = sections.merge(document, portion, day=day).document
    return document


def _restamped(document: str, fields: dict[str, Value], project: str, delta: Delta, *, now: float) -> str:
    """New stamps and place for a changed autosave; a curated header stays its author's."""
    if not model.is_autosave(fields):
        return document
    here = worktree.here(project)
    before = selector.created_of(fields) or 0.0
    stamp = stamps.utc_millis(max(delta.newest or now, before))
    fresh = {
        "created_at": stamp,
        "updated_at": stamp,
        "branch": _branch(here, delta),
        "head": here.head or None,
    }
    for key, value in fresh.items():
        if key in fields and fields[key] != value:
            document = header.edit(document, key, value)
            fields[key] = value
    return document


def _branch(here: worktree.Here, delta: Delta) -> str | None:
    # The transcript's is clean already; the one of the work tree comes straight from a file.
    return redact.redact(here.branch) or delta.evidence.branch or None


def _first_header(store: Store, event: HookEvent, target: Target, delta: Delta, *, now: float) -> dict[str, Value]:
    here = worktree.here(project_of(event, store))
    stamp = stamps.utc_millis(delta.newest or now)
    parent = _parent_fields(store, target.parent)
    fields: dict[str, Value] = dict.fromkeys(model.FIELDS)
    fields.update(
        id=selector.text_of(target.fields, "id"),
        parent_capsule_id=target.parent or None,
        status=model.ACTIVE,
        resume_trigger="clear",
        trigger=model.STOP_DELTA,
        success_criteria=(),
        tags=("capsule", model.AUTOSAVE),
        created_at=stamp,
        started_at=stamp,
        updated_at=stamp,
        session_id=identity.safe_id(event.session_id),
        harness=event.harness,
        seat=os.path.basename(store.seat.root) or None,
        project=os.path.basename(here.top or project_of(event, store)) or None,
        branch=_branch(here, delta),
        head=here.head or None,
    )
    fields.update(_contract(delta, parent, selector.text_of(parent, "next_valid_action")))
    fields.update(dict(model.FRAMING))
    return fields


def _contract(delta: Delta, before: Mapping[str, Value], inherited: str) -> dict[str, Value]:
    """The contract fields: evidence first, then what was inherited and is not contradicted, else what says that nothing was captured.

    before: the header as it stands, or the parent's for a new capsule. Without any record (no transcript) what stands there stays.
    """
    now = evidence.contract(delta.evidence)
    blind = not delta.recorded
    objective, action, waiting = (
        selector.text_of(before, key) for key in ("objective", "next_valid_action", "waiting_on")
    )
    keeps = (
        bool(action)
        and not gate.not_captured(action)
        and (blind or action == inherited)
        and not _finished(action, delta)
    )
    return {
        "objective": now.objective or ("" if gate.not_captured(objective) else objective) or NO_OBJECTIVE,
        "waiting_on": now.waiting_on or (waiting if blind and waiting else NO_WAITING),
        "next_valid_action": now.next_valid_action or (action if keeps else NO_ACTION),
    }


def _finished(action: str, delta: Delta) -> bool:
    """Whether an inherited action is over: a todo that this delta completed is what it was about, or its tests pass now."""
    done = (bullet.text.strip() for bullet in delta.bullets if bullet.section == "done" and bullet.tag == evidence.TODO)
    return any(text and text in action for text in done) or evidence.passes(delta.evidence, action)


def inherited_by(delta: Delta, fields: Mapping[str, Value]) -> str:
    """The action that came from the parent and still stands; once this session had one of its own, none does."""
    action = selector.text_of(fields, "next_valid_action")
    own = evidence.contract(delta.evidence).next_valid_action
    return "" if own or not model.is_autosave(fields) or gate.not_captured(action) else action
