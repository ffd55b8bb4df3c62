"""A seat that may be used: root resolved, trusted by this user, its git configuration harmless. Every door opens it here."""

from __future__ import annotations

import os

from vault_mem import roots, trust
from vault_mem.errors import MemoryRootError, UnsafeGitConfigError, UntrustedSeatError
from vault_mem.record import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from vault_mem.roots import Seat
    from vault_mem.trust import Record

LOCK = "vault.lock"
DEDICATED, EMBEDDED, ADOPTED = "dedicated", "embedded", "adopted"
# What a person's own repository may configure although it starts programs: nothing that we call there gets to it.
_REFUSED_IN_PLACE = ("unreadable:", "extensions.")
_PARTIAL = "extensions.partialclone"


class Store(NamedTuple):
    """An opened seat. durable: whether files and commits are fsynced before a save counts.

    worktree: top of the work tree whose repository has the history; for a vault of its own that is the memory root. ref: the private
    reference of an embedded vault, "" where HEAD is the vault's. notes: tokens of what opening it had to mend.
    """

    seat: Seat
    record: Record
    environ: Mapping[str, str]
    durable: bool = True
    place: str = ""
    top: str = ""
    notes: tuple[str, ...] = ()

    @property
    def memory(self) -> str:
        """The memory root, which is also the work tree of a dedicated vault."""
        return self.seat.memory.path

    @property
    def worktree(self) -> str:
        """The top of the work tree whose repository has the history."""
        return self.top or self.seat.memory.path

    @property
    def ref(self) -> str:
        """The private reference of an embedded vault, empty where the history is that of HEAD."""
        return self.record.ref

    @property
    def rev(self) -> str:
        """What to call the newest commit of the vault in a git command line, in `worktree`."""
        return self.record.ref or "HEAD"

    @property
    def keeps_history(self) -> bool:
        """Whether there is a repository to commit to; only an adopted tree may lack one (`adopted-no-repo`)."""
        return self.record.mode != ADOPTED or os.path.lexists(f"{self.memory}/.git")

    @property
    def runtime(self) -> str:
        """Where the hooks keep their state; never committed."""
        return self.place or f"{self.seat.memory.path}/runtime"

    @property
    def lock(self) -> str:
        """The one lock file of the vault."""
        return f"{self.runtime}/{LOCK}"


def find(*, explicit: str, environ: Mapping[str, str], cwd: str) -> Seat:
    """The seat that serves *cwd*. Raises NoSeatError, MemoryRootError."""
    seat = roots.find(
        explicit=explicit,
        environ=environ,
        cwd=cwd,
        is_trusted=lambda memory: trust.trusted(memory, environ=environ) is not None,
    )
    if seat is None:
        raise roots.nowhere(explicit=explicit, environ=environ, cwd=cwd)
    return seat


def opened(*, explicit: str, environ: Mapping[str, str], cwd: str) -> Store:
    """The seat, ready to be read and written. Raises NoSeatError, MemoryRootError, UntrustedSeatError, UnsafeGitConfigError."""
    try:
        seat = find(explicit=explicit, environ=environ, cwd=cwd)
    except MemoryRootError:
        seat = _without_tree(explicit=explicit, environ=environ, cwd=cwd)
    record = trust.trusted(seat.memory.path, environ=environ)
    if record is None:
        raise UntrustedSeatError(
            f"the seat {seat.root} is not trusted by this user; look at it, then run `vault-mem trust`"
        )
    if os.path.islink(f"{seat.memory.path}/runtime"):
        # Git carries links: in a cloned vault this one would lead everything hooks keep out of the vault.
        raise MemoryRootError(f"{seat.memory.path}/runtime: is a symlink")
    durable = bool(setting("durable", True, environ=environ, record=record))
    if record.mode == EMBEDDED:
        return _embedded(Store(seat, record, environ, durable))
    unsafe = trust.unsafe_keys(seat.memory.path, record=record)
    if unsafe:
        raise UnsafeGitConfigError(
            f"unsafe-git-config: {', '.join(unsafe)}; remove them from the vault's git configuration"
        )
    return Store(seat, record, environ, durable)


def setting(name: str, usual: object, *, environ: Mapping[str, str], record: Record) -> object:
    """The value of a setting for a seat, *usual* where nothing sets any: the settings are loaded only where there are some."""
    config = environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(config):
        config = f"{environ.get('HOME', '')}/.config"
    if f"VAULT_MEM_{name.upper()}" not in environ and not os.path.lexists(f"{config}/vault-mem/config.toml"):
        return usual
    from vault_mem import settings

    seat = os.path.basename(record.file).removesuffix(".json")
    return getattr(settings.load(environ=environ, seat=seat), name)


def _without_tree(*, explicit: str, environ: Mapping[str, str], cwd: str) -> Seat:
    """The seat of an embedded vault whose work tree is missing, to be restored; any other broken declaration is raised again."""
    seat = roots.find(
        explicit=explicit,
        environ=environ,
        cwd=cwd,
        is_trusted=lambda memory: trust.trusted(memory, environ=environ) is not None,
        allow_missing=True,
    )
    record = trust.trusted(seat.memory.path, environ=environ) if seat else None
    if seat is None or record is None or record.mode != EMBEDDED or os.path.lexists(seat.memory.path):
        return find(explicit=explicit, environ=environ, cwd=cwd)
    return seat


def _embedded(store: Store) -> Store:
    """An embedded vault, ready to be used: its tree is there, restored from the private reference when somebody cleaned it away."""
    from vault_mem.repo import create

    top = create.around(os.path.dirname(store.memory))
    unsafe = [
        key
        for key in trust.unsafe_keys(top, record=store.record)
        if key.startswith(_REFUSED_IN_PLACE) and key.lower() != _PARTIAL
    ]
    if unsafe:
        raise UnsafeGitConfigError(f"unsafe-git-config: {', '.join(unsafe)}; of the repository at {top}")
    store = store._replace(top=top, place=create.embedded_runtime(top, store.ref))
    if os.path.isdir(f"{store.memory}/capsules"):
        return store
    from vault_mem.vault import restore

    where = restore.Where(store.memory, store.worktree, store.ref, store.lock, store.environ, store.durable)
    return store._replace(notes=restore.tree(where))
