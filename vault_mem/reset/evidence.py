"""The evidence that a sweep reached the disk: a curated capsule of the session, and the commit that wrote it."""

from __future__ import annotations

from dataclasses import dataclass

from vault_mem import stamps
from vault_mem.capsule import model, selector
from vault_mem.errors import GitRefusedError
from vault_mem.repo import program
from vault_mem.vault import tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vault_mem.vault.store import Store

DEPTH = 500
_KEYS = ("Event", "Id", "Time")
_FORMAT = "%H%x1f%ct%x1f" + "%x1f".join(f"%(trailers:key=Capsule-{key},valueonly,separator=%x2c)" for key in _KEYS)


@dataclass(frozen=True, slots=True)
class Evidence:
    """Id of the capsule, its commit, when it was written (epoch seconds)."""

    capsule: str
    commit: str
    at: float


def find(store: Store, session: str) -> Evidence | None:
    """The newest `capsule write` of this session (safe id) whose capsule is active; None without one. Raises GitRefusedError."""
    candidates, _ = tree.entries(store.memory)
    mine = {
        selector.text_of(found.fields, "id")
        for found in candidates
        if found.fields is not None
        and selector.text_of(found.fields, "session_id") == session
        and model.status_of(found.fields) == model.ACTIVE
        and not model.is_autosave(found.fields)
    }
    if not mine:
        return None
    if not store.keeps_history:
        raise GitRefusedError("adopted-no-repo", "without a repository no commit shows that the capsule was saved")
    out = program.checked(
        ["log", f"-n{DEPTH}", f"--format={_FORMAT}", store.rev, "--"], worktree=store.worktree, environ=store.environ
    )
    for line in out.decode("utf-8", "replace").splitlines():
        commit, seconds, event, capsule, at = line.split("\x1f")
        if event == "write" and capsule in mine:
            return Evidence(capsule, commit, stamps.epoch_of(at) or float(seconds))
    return None
