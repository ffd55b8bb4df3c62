"""Other live sessions of the seat and the files they changed."""

from __future__ import annotations

import os

from vault_mem import processes, receipts
from vault_mem.capsule import header, sections, selector
from vault_mem.errors import HeaderError
from vault_mem.record import NamedTuple
from vault_mem.session.briefing import Peer
from vault_mem.vault import tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from vault_mem.vault.store import Store

MOST = 32
CHANGED = ("modified ", "modified? ")


class Live(NamedTuple):
    """A session whose client process runs. files: changed by it, relative to the project."""

    session: str
    harness: str
    at: float
    objective: str
    files: tuple[str, ...]


def live(store: Store, *, skip: str) -> tuple[Live, ...]:
    """The other sessions that this seat has seen start and whose client process lives, the one that started last first."""
    folder = f"{store.runtime}/sessions"
    try:
        with os.scandir(folder) as found:
            names = sorted(
                ((entry.stat().st_mtime, entry.name[:-5]) for entry in found if entry.name.endswith(".json")),
                reverse=True,
            )
    except OSError:
        return ()
    records = [receipts.load_session(store.runtime, name) for _, name in names[:MOST] if name != skip]
    newest: dict[tuple[int, str], str] = {}
    own = receipts.load_session(store.runtime, skip) if skip else None
    for record in (*([own] if own else []), *records):
        # A client process has one session at a time: the one it started last.
        if record is not None and record.pid:
            held = newest.get((record.pid, record.started))
            known = receipts.load_session(store.runtime, held) if held else None
            if known is None or known.at < record.at:
                newest[record.pid, record.started] = record.session
    rows = []
    for record in records:
        if (
            record is not None
            and record.pid
            and newest.get((record.pid, record.started)) == record.session
            and processes.alive(record.pid, record.started)
        ):
            objective, changed = _capsule(store, record.session)
            rows.append(Live(record.session, record.harness, record.at, objective, changed))
    return tuple(rows)


def _capsule(store: Store, session: str) -> tuple[str, tuple[str, ...]]:
    cursor = receipts.load_cursor(store.runtime, session)
    if not cursor.capsule:
        return "", ()
    try:
        document = tree.read_document(f"{store.memory}/{cursor.capsule}")
        fields = header.read(document)
        bullets = sections.read(document, day=selector.text_of(fields, "started_at")[:10]).get("files", ())
    except HeaderError:
        return "", ()
    paths = [bullet.text[len(prefix) :] for bullet in bullets for prefix in CHANGED if bullet.text.startswith(prefix)]
    return selector.text_of(fields, "objective"), tuple(dict.fromkeys(paths))


def sharing(store: Store, *, session: str, files: Iterable[str]) -> tuple[Peer, ...]:
    """The live sessions that changed any of *files*, each with those files."""
    mine = frozenset(files)
    if not mine:
        return ()
    found = ((each.session, tuple(path for path in each.files if path in mine)) for each in live(store, skip=session))
    return tuple(Peer(name, paths) for name, paths in found if paths)
