"""The client program a hook belongs to, found among its ancestors or named by the client itself."""

from __future__ import annotations

import os

from vault_mem import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

CLIENTS = frozenset({"claude", "codex"})
"""Process names of the clients we know. A script of another name counts only where the client says its own pid."""


def of(pid: int, *, environ: Mapping[str, str]) -> tuple[int, str]:
    """Pid and start time of the client above *pid*; (0, "") when no known client is there.

    A replay (`VAULT_MEM_NOW`) has none: the client that may run around it is not the one that was recorded.
    """
    if environ.get("VAULT_MEM_NOW"):
        return 0, ""
    named = environ.get("CLAUDE_PID", "")
    if pid != os.getpid():
        return _above(pid, named)
    # A hook asks twice for itself, and who stands above it does not change while it runs.
    if (pid, named) not in _OWN:
        _OWN[pid, named] = _above(pid, named)
    return _OWN[pid, named]


_OWN: dict[tuple[int, str], tuple[int, str]] = {}


def _above(pid: int, named: str) -> tuple[int, str]:
    for process in processes.ancestors(pid):
        if process.name in CLIENTS:
            return process.pid, process.start
    start = processes.start_time(int(named)) if named.isdigit() else None
    return (int(named), start) if start else (0, "")
