"""Curated capsules: checked, stamped, written and led through their life by a person or an agent; a note into the session's capsule.

Every change happens under the vault lock, starts from the bytes on disk (an edit by hand is kept) and is one commit.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vault_mem import files, lock, processes, receipts, redact, stamps, worktree
from vault_mem.capsule import codec, draft, header, lifecycle, lineage, model, sections, selector
from vault_mem.capsule.inert import plain
from vault_mem.errors import AnchorDamageError, ExternallyChangedError, GitRefusedError, HeaderError, VaultMemError
from vault_mem.repo import objects
from vault_mem.repo.commit import Committed
from vault_mem.report import FAIL, Finding
from vault_mem.session import identity
from vault_mem.vault import commits, tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from vault_mem.capsule.model import Value
    from vault_mem.capsule.selector import Candidate
    from vault_mem.vault.store import Store

WAIT = 5.0
TRIES = 4
NAMES = 1000
STAMPED = {lifecycle.RESOLVE, lifecycle.ABANDON}
NOTED = ("facts", "rejected", "gates")
NO_OBJECTIVE = "Unknown: no operator objective was captured in this session."
NO_WAITING = "Unknown: nothing captured says whether anything is pending."
NO_ACTION = "No concrete next action was captured in this Stop delta."


class InvalidCapsuleError(VaultMemError):
    """A capsule has problems and was not written; *findings* has them all."""

    token = "invalid-capsule"

    def __init__(self, findings: tuple[Finding, ...]) -> None:
        self.findings = findings
        super().__init__("; ".join(f"{found.token}: {found.what}" for found in findings))


class NoSuchCapsuleError(VaultMemError):
    """No capsule in the tree has this id."""

    token = "no-such-capsule"


class AmbiguousIdError(VaultMemError):
    """The beginning of an id fits more than one capsule."""

    token = "ambiguous-id"


class NoSessionError(VaultMemError):
    """A note needs the capsule of a session, and neither a session nor an active capsule is known."""

    token = "no-session"


@dataclass(frozen=True, slots=True)
class Session:
    """Who writes: the session's safe id and client ("" unknown), and the project's directory."""

    id: str = ""
    harness: str = ""
    project: str = ""


@dataclass(frozen=True, slots=True)
class Done:
    """What a verb came to. *changed*: False when everything was so already; *superseded*: ids of autosaves; *notes*: warnings of the check."""

    id: str
    path: str
    status: str
    changed: bool
    commit: str = ""
    superseded: tuple[str, ...] = ()
    notes: tuple[Finding, ...] = ()
    before: str = ""


# --- reading -------------------------------------------------------------------------------------------------------------------


def decoded(data: bytes) -> str:
    """The text of a capsule that came in as bytes. Raises HeaderError: `not-utf8`, `unreadable`."""
    if len(data) > tree.DOCUMENT_LIMIT:
        raise HeaderError("unreadable", f"more than {tree.DOCUMENT_LIMIT >> 20} MiB")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise HeaderError("not-utf8", f"byte {error.start}") from error


def found(store: Store, name: str) -> Candidate:
    """The capsule whose id is *name*, or begins with it when only one does. Raises NoSuchCapsuleError, AmbiguousIdError."""
    known = [(selector.text_of(each.fields, "id"), each) for each in tree.entries(store.memory)[0] if each.fields]
    exact = [each for known_id, each in known if known_id == name]
    fits = exact or [each for known_id, each in known if name and known_id.startswith(name)]
    if not fits:
        raise NoSuchCapsuleError(
            f"no capsule {plain(name, 200)!r} in the tree; `vault-mem list --all` shows what there is"
        )
    if len(fits) > 1:
        names = ", ".join(
            f"{plain(selector.text_of(each.fields or {}, 'id'))} ({plain(each.path, 200)})" for each in fits[:5]
        )
        raise AmbiguousIdError(f"{plain(name, 200)!r} fits {len(fits)} capsules: {names}")
    return fits[0]


@contextmanager
def _held(store: Store, *, wait: float) -> Iterator[None]:
    """The vault lock, with everything that earlier saves still owe committed."""
    files.make_dirs(store.runtime)
    with lock.Locked(store.lock, timeout=wait), processes.Deferred():
        try:
            commits.settle(store)
        except (GitRefusedError, OSError):
            pass  # what it owes stays noted; our own commit says whether git refuses
        yield


def _retried(act: Callable[[], Done]) -> Done:
    """*act*, again from what lies there now when an editor was faster."""
    for _ in range(TRIES - 1):
        try:
            return act()
        except ExternallyChangedError:
            continue
    return act()


# --- writing -------------------------------------------------------------------------------------------------------------------


def write(store: Store, document: str, session: Session, *, now: float, wait: float = WAIT) -> Done:
    """Write a curated capsule; the session's autosaves are superseded, its later bullets go into this one.

    Raises InvalidCapsuleError with every problem, HeaderError, LockBusyError, GitRefusedError (written, committed by the next save).
    """
    given = draft.unified(document)
    fields = header.read(given)
    session = Session(
        session.id or selector.text_of(fields, "session_id"),
        session.harness or selector.text_of(fields, "harness"),
        session.project,
    )
    secrets = redact.environment_secrets(store.environ)

    def act() -> Done:
        with _held(store, wait=wait):
            return _write(store, given, fields, session, secrets, now=now)

    return _retried(act)


def _write(
    store: Store, given: str, fields: Mapping[str, Value], session: Session, secrets: tuple[str, ...], *, now: float
) -> Done:
    entries = tree.entries(store.memory)[0]
    mine = [each for each in entries if each.fields and session.id and _of(each) == session.id]
    wanted = selector.text_of(fields, "id") or draft.name(
        redact.redact(selector.text_of(fields, "objective"), secrets), stamps.day(now)
    )
    if not draft.is_name(wanted):
        problem = Finding("bad-id", FAIL, "id", "id must be letters, digits, dots, dashes and underscores, at most 128")
        raise InvalidCapsuleError((problem,))
    own = _own(entries, wanted, session, store)
    old = tree.read_document(f"{store.memory}/{own.path}") if own else None
    name, path = (wanted, own.path) if own else _free(store, entries, wanted, now=now)
    stamp = stamps.utc_millis(now)
    known = _stamps(store, session, mine, header.read(old) if old else {}, stamp)
    document = draft.stamped(given, {**known, "id": name}, session=session.id, name=name)
    document = draft.redacted(document, lambda text: redact.redact(text, secrets))
    document = draft.sectioned(document)
    notes = draft.examine(document, now=now)
    failed = tuple(each for each in notes if each.severity == FAIL)
    if failed:
        raise InvalidCapsuleError(failed)
    if old is not None:
        document = _with_old_bullets(document, old)
        if document != old:
            fresh = {"updated_at": stamp}
            if "created_at" not in fields or fields["created_at"] is None:
                fresh["created_at"] = stamp
            for key, value in fresh.items():
                document = header.put(document, key, value)
            # An edit by hand that nobody committed is kept in history before it is written over.
            _keep(store, own.path if own else path, old, lineage.WRITE, header.read(old), session, now=now)
    final = header.read(document)
    if document != old:
        tree.write(f"{store.memory}/{path}", document, expected=old, durable=store.durable)
    refused: list[GitRefusedError] = []
    done = _kept(refused, store, path, document, lineage.WRITE, final, session, now=now)
    is_active = model.status_of(final) == model.ACTIVE
    superseded = _superseded(refused, store, mine, name, session, now=now) if is_active else ()
    _point_cursor(store, session.id, path, document)
    if refused:
        raise GitRefusedError(refused[0].reason, f"{name} is written; the next save commits it")
    changed = document != old or done.oid != done.parent or bool(superseded)
    return Done(name, path, model.status_of(final) or "", changed, done.oid if changed else "", superseded, notes)


def _kept(
    refused: list[GitRefusedError],
    store: Store,
    path: str,
    document: str,
    event: str,
    fields: Mapping[str, Value],
    session: Session,
    *,
    now: float,
) -> Committed:
    """As `_keep`; what git refuses is owed and collected, so that the files of one step are all as they should be."""
    try:
        return _keep(store, path, document, event, fields, session, now=now)
    except GitRefusedError as error:
        refused.append(error)
        return Committed("", "", "refused", {})


def _of(candidate: Candidate) -> str:
    return selector.text_of(candidate.fields or {}, "session_id")


def _own(entries: tuple[Candidate, ...], wanted: str, session: Session, store: Store) -> Candidate | None:
    """The active capsule of that id which this session (or nobody) wrote: it is written anew. Any other keeps its name."""
    for each in entries:
        fields = each.fields or {}
        if selector.text_of(fields, "id") != wanted or model.status_of(fields) != model.ACTIVE:
            continue
        if (
            _of(each) == session.id
            and not model.is_autosave(fields)
            and not os.path.islink(f"{store.memory}/{each.path}")
        ):
            return each
    return None


def _free(store: Store, entries: tuple[Candidate, ...], wanted: str, *, now: float) -> tuple[str, str]:
    """An id and a path that nobody has: `-2`, `-3` … behind the one that was wanted."""
    taken = {selector.text_of(each.fields or {}, "id") for each in entries}
    folder = f"capsules/{stamps.day(now)[:7]}"
    for number in range(1, NAMES):
        name = wanted if number == 1 else f"{wanted}-{number}"
        if name not in taken and not os.path.lexists(f"{store.memory}/{folder}/{name}.md"):
            return name, f"{folder}/{name}.md"
    raise FileExistsError(f"no free name for {wanted}")


def _stamps(
    store: Store, session: Session, mine: list[Candidate], old: Mapping[str, Value], stamp: str
) -> dict[str, Value]:
    """What the author need not write: where a field is missing or null it gets this value."""
    here = worktree.here(session.project) if session.project else worktree.NOWHERE
    autosaves = [each.fields or {} for each in mine if model.is_autosave(each.fields or {})]
    autosaves.sort(key=lambda each: selector.created_of(each) or 0.0)
    newest = autosaves[-1] if autosaves else {}
    fresh: dict[str, Value] = {
        "parent_capsule_id": _delivered(store, session.id) or selector.text_of(newest, "parent_capsule_id") or None,
        "status": model.ACTIVE,
        "resume_trigger": "clear",
        "expires": None,
        "trigger": draft.MANUAL,
        "success_criteria": (),
        "tags": ("capsule",),
        "created_at": stamp,
        "started_at": selector.text_of(newest, "started_at") or stamp,
        "updated_at": stamp,
        "resolved_at": None,
        "session_id": session.id or None,
        "harness": session.harness or None,
        "seat": os.path.basename(store.seat.root) or None,
        "project": os.path.basename(here.top or session.project) or None,
        "branch": here.branch or None,
        "head": here.head or None,
        **dict(model.FRAMING),
    }
    return {key: value if old.get(key) is None else old[key] for key, value in fresh.items()}


def _delivered(store: Store, session: str) -> str:
    if not session:
        return ""
    record = receipts.load_session(store.runtime, session)
    if record is not None and record.delivered:
        return record.delivered
    try:
        return commits.book(store).delivered_to(session)
    except (GitRefusedError, OSError):
        return ""


def _with_old_bullets(document: str, old: str) -> str:
    """*document* with the bullets that the writer added to its former text; one whose anchors are damaged has none to give."""
    day = selector.text_of(header.read(old), "started_at")[:10]
    try:
        if sections.damage(old):
            return document
        bullets = [each for group in sections.read(old, day=day).values() for each in group]
        return sections.merge(document, bullets, day=day).document
    except (AnchorDamageError, HeaderError):
        return document


def _superseded(
    refused: list[GitRefusedError], store: Store, mine: list[Candidate], name: str, session: Session, *, now: float
) -> tuple[str, ...]:
    """Every active autosave of the session gives way, one commit each."""
    gone = []
    for each in mine:
        fields = each.fields or {}
        if model.status_of(fields) != model.ACTIVE or not model.is_autosave(fields):
            continue
        if selector.text_of(fields, "id") == name:
            continue
        before = tree.read_document(f"{store.memory}/{each.path}")
        after = _moved(before, lifecycle.SUPERSEDE, now=now)
        tree.write(f"{store.memory}/{each.path}", after, expected=before, durable=store.durable)
        _kept(refused, store, each.path, after, lifecycle.SUPERSEDE, header.read(after), session, now=now)
        gone.append(selector.text_of(fields, "id"))
    return tuple(gone)


def _keep(
    store: Store,
    path: str,
    document: str,
    event: str,
    fields: Mapping[str, Value],
    session: Session,
    *,
    now: float,
    why: str = "",
) -> Committed:
    return commits.keep(
        store,
        path,
        document.encode("utf-8"),
        lineage.Event(
            id=selector.text_of(fields, "id"),
            event=event,
            status=model.status_of(fields) or "",
            parent=selector.text_of(fields, "parent_capsule_id"),
            session=session.id or selector.text_of(fields, "session_id"),
            harness=session.harness or selector.text_of(fields, "harness"),
            at=now,
            why=why,
        ),
    )


def _point_cursor(store: Store, session: str, path: str, document: str) -> None:
    """The writer goes on in this file; how far it has read the transcript stays as it is."""
    if not session:
        return
    cursor = receipts.load_cursor(store.runtime, session)
    if cursor.capsule or cursor.position:
        blob = objects.blob_oid(document.encode("utf-8"))
        receipts.store_cursor(store.runtime, cursor._replace(capsule=path, blob=blob))


# --- life ----------------------------------------------------------------------------------------------------------------------


def change(store: Store, name: str, event: str, *, why: str, session: Session, now: float, wait: float = WAIT) -> Done:
    """Lead a capsule through *event* of its life (`resolve`, `pause`, `abandon`, `reopen`), with the reason in the commit.

    Raises TransitionError, NoSuchCapsuleError, AmbiguousIdError, HeaderError, LockBusyError, GitRefusedError.
    """
    reason = redact.redact(why, redact.environment_secrets(store.environ))

    def act() -> Done:
        with _held(store, wait=wait):
            return _change(store, name, event, reason, session, now=now)

    return _retried(act)


def _change(store: Store, name: str, event: str, why: str, session: Session, *, now: float) -> Done:
    candidate = found(store, name)
    place = f"{store.memory}/{candidate.path}"
    before = tree.read_document(place)
    fields = header.read(before)
    status = model.status_of(fields) or "(absent)"
    after = before
    if status != _target(event):
        after = _moved(before, event, now=now)
        tree.write(place, after, expected=before, durable=store.durable)
    final = header.read(after)
    done = _keep(store, candidate.path, after, event, final, session, now=now, why=why)
    if after != before:
        _follow_cursor(store, candidate.path, final, after)
    changed = after != before or done.oid != done.parent
    return Done(
        selector.text_of(final, "id"),
        candidate.path,
        model.status_of(final) or "",
        changed,
        done.oid if changed else "",
        before=status,
    )


def _target(event: str) -> str:
    return next(after for (_, name), after in lifecycle.TRANSITIONS.items() if name == event)


def _moved(document: str, event: str, *, now: float) -> str:
    """The document after *event*: status and stamps, every other byte as it was. Raises TransitionError, HeaderError."""
    fields = header.read(document)
    status = lifecycle.step(model.status_of(fields) or "(absent)", event)
    stamp = stamps.utc_millis(now)
    document = header.put(document, "status", status)
    if event in STAMPED:
        document = header.put(document, "resolved_at", stamp)
    elif event == lifecycle.REOPEN and fields.get("resolved_at") is not None:
        document = header.put(document, "resolved_at", None)
    if "updated_at" in fields:
        document = header.edit(document, "updated_at", stamp)
    return document


def _follow_cursor(store: Store, path: str, fields: Mapping[str, Value], document: str) -> None:
    """A session that saves into this file finds the bytes that are committed."""
    session = selector.text_of(fields, "session_id")
    if session and receipts.load_cursor(store.runtime, session).capsule == path:
        _point_cursor(store, session, path, document)


# --- note ----------------------------------------------------------------------------------------------------------------------


def note(store: Store, text: str, section: str, session: Session, *, now: float, wait: float = WAIT) -> Done:
    """One bullet into the session's active capsule, which is made where there is none; without a session, into the newest active one.

    Raises NoSessionError, AnchorDamageError, HeaderError, LockBusyError, GitRefusedError.
    """
    clean = redact.redact(text, redact.environment_secrets(store.environ))

    def act() -> Done:
        with _held(store, wait=wait):
            return _note(store, clean, section, session, now=now)

    return _retried(act)


def _note(store: Store, text: str, section: str, session: Session, *, now: float) -> Done:
    held = _active(store, session)
    if held is None:
        if not session.id:
            raise NoSessionError(
                "no session is known here and no capsule is active; run this inside a client, or name one with --session"
            )
        name, path, before, document = _fresh(store, session, now=now)
    else:
        path = held.path
        before = document = tree.read_document(f"{store.memory}/{path}")
        name = selector.text_of(header.read(document), "id")
    day = selector.text_of(header.read(document), "started_at") or selector.text_of(header.read(document), "created_at")
    bullet = model.Bullet(section, now, text)
    known = {each.text for each in sections.read(document, day=day[:10])[section]}
    merged = sections.merge(document, [bullet], day=day[:10]).document
    if before is not None and {each.text for each in sections.read(merged, day=day[:10])[section]} == known:
        fields = header.read(document)
        done = _keep(store, path, document, lineage.AUTOSAVE, fields, session, now=now)
        return Done(name, path, model.status_of(fields) or "", done.oid != done.parent, done.oid)
    fields = header.read(merged)
    if model.is_autosave(fields) and before is not None:
        stamp = stamps.utc_millis(max(now, selector.created_of(fields) or 0.0))
        for key in ("created_at", "updated_at"):
            if key in fields:
                merged = header.edit(merged, key, stamp)
    tree.write(f"{store.memory}/{path}", merged, expected=before, durable=store.durable)
    final = header.read(merged)
    event = lineage.AUTOSAVE if model.is_autosave(final) else lineage.WRITE
    done = _keep(store, path, merged, event, final, session, now=now)
    _point_cursor(store, session.id or selector.text_of(final, "session_id"), path, merged)
    return Done(name, path, model.status_of(final) or "", changed=True, commit=done.oid)


def _active(store: Store, session: Session) -> Candidate | None:
    """The session's active capsule, the one it saves into first, then a curated one; without a session the newest active one."""
    entries = [
        each for each in tree.entries(store.memory)[0] if each.fields and model.status_of(each.fields) == model.ACTIVE
    ]
    if session.id:
        saves = receipts.load_cursor(store.runtime, session.id).capsule
        entries = [each for each in entries if _of(each) == session.id or each.path == saves]
    else:
        saves = ""
    entries.sort(
        key=lambda each: (
            each.path == saves,
            bool(session.id) and not model.is_autosave(each.fields or {}),
            selector.created_of(each.fields or {}) or 0.0,
        )
    )
    return entries[-1] if entries else None


def _fresh(store: Store, session: Session, *, now: float) -> tuple[str, str, None, str]:
    """A new autosave for the session, in the form that the writer goes on with."""
    day = stamps.day(now)
    for number in range(1, NAMES):
        name = identity.autosave_id(session.id, day, n=number)
        path = f"capsules/{day[:7]}/{name}.md"
        if not os.path.lexists(f"{store.memory}/{path}"):
            break
    fields: dict[str, Value] = dict.fromkeys(model.FIELDS)
    fields.update(_stamps(store, session, [], {}, stamps.utc_millis(now)))
    fields.update(
        id=name,
        trigger=model.STOP_DELTA,
        tags=("capsule", model.AUTOSAVE),
        objective=NO_OBJECTIVE,
        waiting_on=NO_WAITING,
        next_valid_action=NO_ACTION,
    )
    return name, path, None, codec.render(codec.Capsule(fields, codec.blank_body()))
