"""A change of one capsule as one commit: the commit, the anchor of trust, the book of deliveries, in this order."""

from __future__ import annotations

from vault_mem import files, index, jsontext, trust, version
from vault_mem.capsule import lineage
from vault_mem.errors import GitRefusedError
from vault_mem.repo import commit as engine
from vault_mem.repo import objects

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vault_mem.capsule.lineage import Event
    from vault_mem.capsule.selector import Candidate
    from vault_mem.repo.commit import Committed
    from vault_mem.vault.store import Store

PENDING = "pending.json"
ADOPTED, NO_REPOSITORY = "adopted", "adopted-no-repo"


def keep(store: Store, path: str, data: bytes | None, event: Event, *, allow_empty: bool = False) -> Committed:
    """Commit the bytes of one capsule (None: it leaves the tree). The caller holds the lock and has written the file.

    Raises GitRefusedError; the path is then noted, and the next save of any session commits it. In an adopted tree without a repository
    nothing is committed and nothing is owed: the back end is `adopted-no-repo`.
    """
    if not store.keeps_history:
        from vault_mem.vault import adopted

        adopted.note(store, path, data, event)
        _sync(store, path)
        return engine.Committed("", "", NO_REPOSITORY, {})
    request = engine.Request(
        changes=(engine.Change(path, data),),
        subject=lineage.subject(event),
        trailers=lineage.trailers(event, version=version.__version__),
        at=event.at,
        allow_empty=allow_empty,
    )
    try:
        done = engine.commit(
            store.worktree,
            request,
            environ=store.environ,
            state=store.runtime,
            durable=store.durable,
            ref=store.ref,
        )
    except GitRefusedError:
        _sync(store, path)
        _note_pending(store, path, event)
        raise
    rows = pending(store)
    if rows.pop(path, None) is not None:
        _store_pending(store, rows)
    if done.oid != done.parent:
        trust.advance(store.record, done.parent, done.oid, durable=False)
        index.note(store.runtime, parent=done.parent, commit=done.oid, event=event)
        if store.record.mode == ADOPTED:
            from vault_mem.vault import adopted

            adopted.point(store, path, data, event)
    return done


def retire(store: Store, gone: Mapping[str, str], *, at: float) -> Committed:
    """Take capsules (their ids by path) out of the tree in one commit. The caller holds the lock and removes the files afterwards.

    Raises GitRefusedError; nothing is owed then.
    """
    names = tuple(("Capsule-Id", " ".join(name.split())) for name in gone.values())
    event = lineage.Event(id=names[-1][1], event=lineage.RETIRE, at=at)
    # The trailers of one event, with a name for every capsule.
    trailers = names[:-1] + lineage.trailers(event, version=version.__version__)
    request = engine.Request(
        changes=tuple(engine.Change(path, None) for path in gone),
        subject=lineage.subject(event) if len(gone) == 1 else f"capsule: retire {len(gone)} capsules",
        trailers=trailers,
        at=at,
    )
    done = engine.commit(
        store.worktree, request, environ=store.environ, state=store.runtime, durable=store.durable, ref=store.ref
    )
    if done.oid != done.parent:
        trust.advance(store.record, done.parent, done.oid, durable=False)
        index.note(store.runtime, parent=done.parent, commit=done.oid, event=event)
    return done


def _sync(store: Store, path: str) -> None:
    """Makes the name of a file last that no commit will."""
    if store.durable:
        try:
            files.sync_directory(f"{store.memory}/{path.rpartition('/')[0]}")
        except OSError:
            pass


def pending(store: Store) -> dict[str, Event]:
    """Paths that were written and could not be committed, with the event each still owes."""
    try:
        rows = jsontext.loads(files.read(f"{store.runtime}/{PENDING}").decode("utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(rows, dict):
        return {}
    return {
        path: lineage.Event(**row)
        for path, row in rows.items()
        if isinstance(row, dict) and set(row) == set(lineage.Event._fields)
    }


def _store_pending(store: Store, rows: dict[str, Event]) -> None:
    if not rows:
        files.remove(f"{store.runtime}/{PENDING}")
        return
    text = jsontext.dumps({path: event._asdict() for path, event in rows.items()})
    files.make_dirs(store.runtime)
    files.write_atomic(f"{store.runtime}/{PENDING}", text.encode("utf-8"), mode=0o600, durable=store.durable)


def _note_pending(store: Store, path: str, event: Event) -> None:
    rows = pending(store)
    if rows.get(path) != event:
        _store_pending(store, {**rows, path: event})


def settle(store: Store, *, skip: Iterable[str] = ()) -> tuple[str, ...]:
    """Commit what earlier saves had to leave uncommitted, one commit a capsule; the paths that were committed now."""
    settled = []
    for path, event in pending(store).items():
        if path in skip:
            continue
        try:
            data: bytes | None = files.read(f"{store.memory}/{path}")
        except FileNotFoundError:
            rows = pending(store)
            del rows[path]
            _store_pending(store, rows)
            continue
        keep(store, path, data, event)
        settled.append(path)
    return tuple(settled)


def book(store: Store, candidates: tuple[Candidate, ...] | None = None) -> index.Book:
    """The book of deliveries, complete up to HEAD; *candidates* as for `adopted.book`. Raises GitRefusedError when HEAD or history cannot be read."""
    if not store.keeps_history:
        from vault_mem.vault import adopted

        return adopted.book(store, candidates)
    head = objects.head(store.worktree, environ=store.environ, ref=store.ref)
    if head is None:
        return index.Book(b"")
    return index.current(
        store.runtime,
        head=head,
        commits=lambda old, new: _between(store, old, new),
    )


def _between(store: Store, old: str, new: str) -> Iterable[tuple[str, str]] | None:
    """The commits after *old*; None when it is no ancestor (rewritten, rolled back), and the book is made anew."""
    try:
        return objects.commits_between(store.worktree, old, new, environ=store.environ)
    except objects.NotAnAncestorError:
        return None
