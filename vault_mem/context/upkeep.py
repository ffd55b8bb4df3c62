"""Looking at continuity, making its state anew, and letting old checkpoints go."""

from __future__ import annotations

import os
import shutil

from vault_mem import checkpoints
from vault_mem.errors import VaultMemError
from vault_mem.record import NamedTuple
from vault_mem.session import continuity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from vault_mem.session.continuity import State

KEEP, DAYS = 16, 30
DAY = 86400.0


class NoContextError(VaultMemError):
    """Nothing is known of the context of this session, or of any."""

    token = "no-context"
    exit_code = 4


class Rebuilt(NamedTuple):
    """One session's state made again. same: whether it was what had been kept; state: None when there was nothing to make it from."""

    folder: str
    session: str
    same: bool
    state: State | None


class Pruned(NamedTuple):
    """What went: generations of a session, or all of it."""

    session: str
    generations: tuple[int, ...]
    whole: bool


def states(runtime: str, session: str = "") -> tuple[State, ...]:
    """The sessions' states, the one that changed last first, or the one of *session*. Raises NoContextError."""
    if session:
        known = checkpoints.load(runtime, session)
        found: tuple[State, ...] = (known,) if known is not None else ()
    else:
        found = checkpoints.states(runtime)
    if not found:
        raise NoContextError(f"no context of {f'session {session}' if session else 'any session'} is known here")
    return found


def record(runtime: str, session: str, generation: int = 0) -> dict[str, Any]:
    """One checkpoint, the newest that can be read where no generation is named. Raises NoContextError."""
    directory = checkpoints.folder(runtime, session)
    found = checkpoints.read_checkpoint(directory, generation) if generation else checkpoints.newest(directory)
    if found is None:
        raise NoContextError(
            f"session {session} has no {f'generation {generation}' if generation else 'checkpoint'} that can be read"
        )
    return found


def listing(runtime: str, session: str) -> tuple[dict[str, Any], ...]:
    """The checkpoints of a session, newest first; one that cannot be read is listed as such."""
    directory = checkpoints.folder(runtime, session)
    rows = []
    for generation in reversed(checkpoints.generations(directory)):
        found = checkpoints.read_checkpoint(directory, generation)
        row: dict[str, Any] = {"session": session, "generation": generation, "readable": found is not None}
        if found is not None:
            row |= {key: found[key] for key in ("id", "created_at", "reason", "trigger", "cycle", "truncated")}
            row["capsule"] = found["capsule"].get("id", "")
        rows.append(row)
    return tuple(rows)


def rebuild(runtime: str, *, session: str = "", write: bool) -> tuple[Rebuilt, ...]:
    """Make the states again from events and checkpoint headers and compare with what was kept; *write* puts them in place."""
    directories = (checkpoints.folder(runtime, session),) if session else checkpoints.directories(runtime)
    found = []
    for directory in directories:
        kept = checkpoints.kept(directory)
        again = checkpoints.rebuilt(directory)
        name = again.state.session if again else ""
        same = (kept.state if kept else None) == (again.state if again else None)
        if write and again is not None:
            with checkpoints.locked(runtime, name, timeout=5.0):
                fresh = checkpoints.rebuilt(directory)
                if fresh is not None:
                    checkpoints.store(directory, fresh.state, fresh.size)
        found.append(Rebuilt(directory, name, same, again.state if again else None))
    return tuple(found)


def prune(runtime: str, *, now: float, keep: int = KEEP, days: int = DAYS, dry: bool = False) -> tuple[Pruned, ...]:
    """Let go of generations beyond the newest *keep*, and of sessions untouched for *days*; never of one whose briefing is owed."""
    gone = []
    for state in checkpoints.states(runtime):
        directory = checkpoints.folder(runtime, state.session)
        owed = not continuity.is_settled(state) and not (state.cycle is not None and state.cycle.injected)
        if owed:
            continue
        if now - state.updated > days * DAY:
            gone.append(Pruned(state.session, checkpoints.generations(directory), whole=True))
            if not dry:
                checkpoints.mark(runtime, state.session, wanted=False)
                shutil.rmtree(directory, ignore_errors=True)
            continue
        served = state.cycle.generation if state.cycle is not None else 0
        every = checkpoints.generations(directory)
        old = tuple(each for each in every[: max(0, len(every) - keep)] if each != served)
        if old:
            gone.append(Pruned(state.session, old, whole=False))
            for generation in () if dry else old:
                os.unlink(checkpoints.path_of(directory, generation))
    return tuple(gone)
