"""Upkeep of a vault: capsules that nobody will ask for leave the tree, loose objects become packs. Nothing that was saved is lost by it.

A retired capsule stays in history, where `show`, `list --all`, `log` and the consumed check find it.
"""

from __future__ import annotations

import os

from vault_mem import files, jsontext, lock, processes, receipts, settings
from vault_mem.capsule import model, selector
from vault_mem.errors import GitRefusedError, LockBusyError
from vault_mem.record import NamedTuple
from vault_mem.repo import history, program
from vault_mem.vault import commits, past, tree, upkeep, vouched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vault_mem.capsule.selector import Candidate
    from vault_mem.vault.store import Store

WAIT = 5.0
PACK_LIMIT = 600.0
RECORD = "retiring.json"
OVER = (model.RESUMED, model.RESOLVED, model.ABANDONED, model.SUPERSEDED)


class Outcome(NamedTuple):
    """What came of it. token: `retired`, `nothing-to-retire`, `never`; retired: ids, oldest first; kept: why others stayed, by id."""

    token: str
    retired: tuple[str, ...] = ()
    kept: Mapping[str, str] = {}
    limit: int = 0


def limit_of(store: Store) -> int:
    """How many capsules may lie in the tree; 0: they never leave it. An adopted tree is left alone unless a limit was chosen for it."""
    chosen = settings.load(environ=store.environ, seat=os.path.basename(store.record.file).removesuffix(".json"))
    if chosen.retire_after is None or not store.keeps_history:
        return 0
    if store.record.mode == "adopted" and chosen.retire_after == settings.RETIRE_AFTER:
        return 0
    return chosen.retire_after


def retire(store: Store, *, now: float, dry_run: bool = False, slack: int = 0) -> Outcome:
    """Take what exceeds the limit out of the tree, oldest first, in one commit; with *slack* only when so many exceed it.

    Raises LockBusyError, GitRefusedError, OSError.
    """
    limit = limit_of(store)
    if not limit:
        return Outcome("never")
    files.make_dirs(store.runtime)
    with lock.Locked(store.lock, timeout=WAIT), processes.Deferred():
        if not dry_run:
            _finish(store)
        wanted, kept = _wanted(store, limit)
        if not wanted or len(wanted) < slack:
            return Outcome("nothing-to-retire", (), kept, limit)
        found, edited = _unedited(store, wanted)
        kept |= edited
        ids = tuple(wanted[path] for path in found)
        if ids and not dry_run:
            _leave(store, {path: wanted[path] for path in found}, found, now=now)
    return Outcome("retired" if ids else "nothing-to-retire", ids, kept, limit)


def _wanted(store: Store, limit: int) -> tuple[dict[str, str], dict[str, str]]:
    """Ids by path of the capsules that may go, oldest first, and why the others among the oldest stay."""
    candidates = tree.entries(store.memory)[0]
    ranked = sorted(
        ((created, selector.text_of(each.fields or {}, "id"), each) for each, created in _dated(candidates)),
        key=lambda row: row[:2],
    )
    owed = set(commits.pending(store))
    delivered = {intent.capsule for intent in receipts.intents(store.runtime)}
    wanted: dict[str, str] = {}
    kept: dict[str, str] = {}
    # What is counted is what lies in the tree; what cannot be read stays and is the doctor's business.
    for _, name, each in ranked[: max(0, len(ranked) - limit)]:
        status = model.status_of(each.fields or {})
        if status not in OVER and not (status == model.ACTIVE and model.is_autosave(each.fields or {})):
            kept[name] = status or "(absent)"
        elif each.path in owed or name in delivered:
            kept[name] = "not-settled"
        else:
            wanted[each.path] = name
    return wanted, kept


def _dated(candidates: Iterable[Candidate]) -> Iterable[tuple[Candidate, float]]:
    for each in candidates:
        created = selector.created_of(each.fields) if each.fields is not None else None
        if created is not None and each.fields is not None and selector.text_of(each.fields, "id"):
            yield each, created


def _unedited(store: Store, wanted: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The blobs by path of the files that are what the newest commit has, and the ids of the others."""
    blobs = history.tree(past.quick(store))
    found: dict[str, str] = {}
    edited: dict[str, str] = {}
    for path, name in wanted.items():
        blob = blobs.get(path, "")
        if blob and not _edited(f"{store.memory}/{path}", blob):
            found[path] = blob
        else:
            edited[name] = "edited-outside" if blob else "not-committed"
    return found, edited


def _edited(path: str, blob: str) -> bool:
    try:
        return vouched.differs(files.read(path), blob)
    except OSError:
        return True


def _leave(store: Store, gone: Mapping[str, str], blobs: Mapping[str, str], *, now: float) -> None:
    """Commit first, remove afterwards: a file that outlives us is found by the record, one that went too early would be missed."""
    data = (jsontext.dumps(dict(blobs)) + "\n").encode()
    files.write_atomic(f"{store.runtime}/{RECORD}", data, mode=0o600, durable=store.durable)
    try:
        commits.retire(store, gone, at=now)
    except GitRefusedError:
        files.remove(f"{store.runtime}/{RECORD}")
        raise
    _finish(store)


def _finish(store: Store) -> None:
    """Remove the files of capsules that a commit has taken out of the tree; one that was changed since is no longer ours to remove."""
    try:
        blobs = jsontext.loads(files.read(f"{store.runtime}/{RECORD}").decode())
    except (OSError, ValueError):
        return
    present = history.tree(past.quick(store))
    for path, blob in blobs.items() if isinstance(blobs, dict) else ():
        place = f"{store.memory}/{path}"
        if path not in present and not _edited(place, str(blob)):
            files.remove(place)
            try:
                os.rmdir(os.path.dirname(place))
            except OSError:
                pass  # others lie beside it
    files.remove(f"{store.runtime}/{RECORD}")


def pack(store: Store, *, limit: float = PACK_LIMIT) -> str:
    """Pack the loose objects of a vault of its own and write a commit graph with changed paths; a token. Takes no lock that a save needs.

    Raises GitRefusedError.
    """
    if store.record.mode != "dedicated":
        return "not-ours-to-pack"
    for arguments in (
        ("repack", "-d", "-l", "-q", "--geometric=2"),
        ("prune-packed", "-q"),
        ("commit-graph", "write", "--reachable", "--changed-paths", "--split", "--no-progress"),
    ):
        answer = program.run(arguments, worktree=store.memory, environ=store.environ, limit=limit)
        if answer.code and arguments[0] == "repack":
            # A git that knows no geometric packs.
            answer = program.run(arguments[:-1], worktree=store.memory, environ=store.environ, limit=limit)
        if answer.code:
            raise program.refusal(answer)
    return "packed"


def background(store: Store, *, now: float) -> tuple[str, ...]:
    """All upkeep that is due, never two at once; tokens of what was done."""
    files.make_dirs(store.runtime)
    try:
        with lock.Locked(f"{store.runtime}/{upkeep.LOCK}", timeout=0.0):
            return _due(store, now=now)
    except LockBusyError:
        return ("upkeep-running",)


def _due(store: Store, *, now: float) -> tuple[str, ...]:
    done = []
    limit, left = 0, upkeep.note(store.runtime).left
    try:
        outcome = retire(store, now=now, slack=upkeep.SLACK)
        limit = outcome.limit
        done.append(f"{outcome.token}:{len(outcome.retired)}" if outcome.retired else outcome.token)
        if outcome.retired:
            past.remember_gone(store)
            left = past.still_active(store)
    except (GitRefusedError, LockBusyError, OSError) as error:
        limit = upkeep.note(store.runtime).limit
        done.append(f"not-retired: {error}")
    if upkeep.loose(store) >= upkeep.LOOSE:
        try:
            done.append(pack(store))
        except GitRefusedError as error:
            done.append(f"not-packed: {error}")
    upkeep.store_note(store.runtime, upkeep.Note(now, upkeep.capsules(store.memory), limit, left))
    return tuple(done)
