"""A seat that may be used: root resolved, trusted by this user, its git configuration harmless. Every door opens it here."""

from __future__ import annotations

from vault_mem import roots, trust
from vault_mem.errors import NoSeatError, UnsafeGitConfigError, UntrustedSeatError
from vault_mem.record import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from vault_mem.roots import Seat
    from vault_mem.trust import Record

LOCK = "vault.lock"


class Store(NamedTuple):
    """An opened seat. durable: whether files and commits are fsynced before a save counts."""

    seat: Seat
    record: Record
    environ: Mapping[str, str]
    durable: bool = True

    @property
    def memory(self) -> str:
        """The memory root, which is also the work tree of a dedicated vault."""
        return self.seat.memory.path

    @property
    def runtime(self) -> str:
        """Where the hooks keep their state; never committed."""
        return f"{self.memory}/runtime"

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
        raise NoSeatError(f"no seat at or above {cwd}; make one with `vault-mem init`")
    return seat


def opened(*, explicit: str, environ: Mapping[str, str], cwd: str) -> Store:
    """The seat, ready to be read and written. Raises NoSeatError, MemoryRootError, UntrustedSeatError, UnsafeGitConfigError."""
    seat = find(explicit=explicit, environ=environ, cwd=cwd)
    record = trust.trusted(seat.memory.path, environ=environ)
    if record is None:
        raise UntrustedSeatError(
            f"the seat {seat.root} is not trusted by this user; look at it, then run `vault-mem trust`"
        )
    unsafe = trust.unsafe_keys(seat.memory.path, record=record)
    if unsafe:
        raise UnsafeGitConfigError(
            f"unsafe-git-config: {', '.join(unsafe)}; remove them from the vault's git configuration"
        )
    return Store(seat, record, environ, durable=environ.get("VAULT_MEM_DURABLE") != "0")
