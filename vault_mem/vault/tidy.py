"""Temporary files of writers that were killed: removed at the start of a session, never by a save."""

from __future__ import annotations

import os

from vault_mem import files, processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vault_mem.vault.store import Store

DEPTH = 2


def swept(store: Store) -> int:
    """How many were removed from `runtime/` and `capsules/`. One whose writer still runs stays; what cannot be removed stops nobody."""
    return sum(_swept(place, DEPTH) for place in (store.runtime, f"{store.memory}/capsules"))


def _swept(folder: str, depth: int) -> int:
    removed = 0
    try:
        with os.scandir(folder) as found:
            for entry in found:
                if files.is_temporary(entry.name):
                    removed += _gone(entry.name) and files.remove(entry.path)
                elif depth and entry.is_dir(follow_symlinks=False):
                    removed += _swept(entry.path, depth - 1)
    except OSError:
        pass
    return removed


def _gone(name: str) -> bool:
    pid = name[len(files.TEMP_PREFIX) :].partition("-")[0]
    return not pid.isdigit() or processes.start_time(int(pid)) is None
