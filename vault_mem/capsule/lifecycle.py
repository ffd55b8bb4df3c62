"""The life of a capsule as a table: which event leads from which status to which. Drawn into the docs by a test."""

from __future__ import annotations

from vault_mem.capsule import model
from vault_mem.errors import VaultMemError

CONSUME, RESOLVE, PAUSE, ABANDON, REOPEN, SUPERSEDE = "consume", "resolve", "pause", "abandon", "reopen", "supersede"

TRANSITIONS = {
    (model.ACTIVE, CONSUME): model.RESUMED,
    (model.PAUSED, CONSUME): model.RESUMED,
    (model.RESUMED, CONSUME): model.RESUMED,
    (model.ACTIVE, RESOLVE): model.RESOLVED,
    (model.RESUMED, RESOLVE): model.RESOLVED,
    (model.PAUSED, RESOLVE): model.RESOLVED,
    (model.ACTIVE, PAUSE): model.PAUSED,
    (model.ACTIVE, ABANDON): model.ABANDONED,
    (model.RESUMED, ABANDON): model.ABANDONED,
    (model.PAUSED, ABANDON): model.ABANDONED,
    (model.ACTIVE, SUPERSEDE): model.SUPERSEDED,
    (model.PAUSED, REOPEN): model.ACTIVE,
    (model.RESUMED, REOPEN): model.ACTIVE,
    (model.RESOLVED, REOPEN): model.ACTIVE,
    (model.ABANDONED, REOPEN): model.ACTIVE,
}


class TransitionError(VaultMemError):
    """A capsule cannot go this way from where it is."""

    token = "transition-refused"

    def __init__(self, status: str, event: str) -> None:
        possible = sorted(name for (state, name) in TRANSITIONS if state == status)
        super().__init__(f"a capsule that is {status!r} cannot {event}; possible: {', '.join(possible) or 'nothing'}")


def step(status: str, event: str) -> str:
    """The status after *event*; raises TransitionError where the table has no row."""
    try:
        return TRANSITIONS[status, event]
    except KeyError as error:
        raise TransitionError(status, event) from error
