"""The work tree of an embedded vault, put back from its private reference after somebody cleaned it away (`git clean -fdx`)."""

from __future__ import annotations

import os
import stat

from vault_mem import files, lock
from vault_mem.errors import VaultMemError
from vault_mem.record import NamedTuple
from vault_mem.repo import light, objects

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

WAIT = 1.0
RESTORED, NOT_RESTORED = "tree-restored", "tree-missing"


class Where(NamedTuple):
    """What is to be restored (memory), from which reference of the repository at *worktree*, under which lock file."""

    memory: str
    worktree: str
    ref: str
    lock: str
    environ: Mapping[str, str]
    durable: bool


def tree(store: Where) -> tuple[str, ...]:
    """Writes every file of the reference that is missing, under the vault lock; the token of what was done, () for a vault that is empty.

    Nothing that lies there is replaced. `tree-missing` when it cannot be done now: the next hook tries again.
    """
    try:
        files.make_dirs(os.path.dirname(store.lock))
        with lock.Locked(store.lock, timeout=WAIT):
            made = sum(_put(store, path, oid, found) for path, oid, found in _files(store))
    except (VaultMemError, OSError):
        return (NOT_RESTORED,)
    return (RESTORED,) if made else ()


def _files(store: Where) -> Iterator[tuple[str, str, objects.Objects]]:
    """Path and blob of every file of the reference."""
    head = objects.head(store.worktree, environ=store.environ, ref=store.ref)
    if head is None:
        return
    with objects.opened(store.worktree, environ=store.environ) as found:
        folders = [("", found.commit(head).tree)]
        while folders:
            above, oid = folders.pop()
            for mode, name, entry in _entries(found.read(oid)[1], len(oid) // 2):
                path = above + name
                if mode == objects.TREE_MODE:
                    folders.append((f"{path}/", entry))
                elif stat.S_ISREG(int(mode, 8)):
                    yield path, entry, found


def _entries(body: bytes, width: int) -> Iterator[tuple[bytes, str, str]]:
    position = 0
    while position < len(body):
        space = body.index(b" ", position)
        end = body.index(b"\0", space)
        stop = end + 1 + width
        yield body[position:space], os.fsdecode(body[space + 1 : end]), body[end + 1 : stop].hex()
        position = stop


def _put(store: Where, path: str, oid: str, found: objects.Objects) -> bool:
    light.checked_path(path)
    place = f"{store.memory}/{path}"
    if os.path.lexists(place):
        return False
    files.make_dirs(os.path.dirname(place), 0o755)
    try:
        files.create(place, found.read(oid)[1], mode=0o644, durable=store.durable)
    except FileExistsError:
        return False
    return True
