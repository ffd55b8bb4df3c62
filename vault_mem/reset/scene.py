"""Everything that is known about one session at one moment; the watcher, the receipt and the clear look at the same scene."""

from __future__ import annotations

import os
from dataclasses import dataclass

from vault_mem import checkpoints, clientprocess, processes, receipts, wakes, worktree
from vault_mem.errors import VaultMemError
from vault_mem.reset import measure, state, wiring
from vault_mem.session import presence, quiet, usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from vault_mem.receipts import SessionRecord
    from vault_mem.tunables import Tunables
    from vault_mem.vault.store import Store

GIT_MARKS = ("index.lock", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply")


class ResetError(VaultMemError):
    """The reset, or the receipt, was refused; *token* names the check."""

    token = "reset-refused"

    def __init__(self, token: str, text: str) -> None:
        self.token = token
        super().__init__(text)


@dataclass(frozen=True, slots=True)
class Scene:
    """One session: where it is stored, its record, its transcript's scan, the person, what is unfinished.

    window: as the client itself named it, None when it did not; ceiling: in tokens, the share of that window where it is lower.
    """

    store: Store
    record: SessionRecord
    scan: measure.Scan
    person: presence.Presence
    unfinished: tuple[quiet.Item, ...]
    now: float
    tunables: Tunables
    ceiling: int
    window: int | None = None

    @property
    def session(self) -> str:
        """The session's safe id."""
        return self.record.session

    @property
    def runtime(self) -> str:
        """The seat's runtime folder."""
        return self.store.runtime

    def path(self, name: str) -> str:
        """A file of this session's reset state."""
        return f"{state.folder(self.runtime, self.session)}/{name}"


def own(store: Store, *, environ: Mapping[str, str], pid: int) -> SessionRecord:
    """The session whose client started the process *pid*. Raises ResetError for the checks 1 to 5."""
    if not os.path.isdir(store.runtime):
        raise ResetError("no-runtime", f"{store.runtime} is missing; nothing was recorded here")
    running = state.live(store.runtime)
    if not running:
        raise ResetError("no-live-session", "no live session is recorded in this seat; does its SessionStart hook run?")
    above = {(process.pid, process.start) for process in processes.ancestors(pid)}
    mine = [record for record in running if (record.pid, record.started) in above]
    if not mine:
        held = ", ".join(f"{record.session} (pid {record.pid})" for record in running[:3])
        raise ResetError(
            "not-this-session",
            f"the live sessions here belong to other processes: {held}; only a session may reset itself",
        )
    nearest, start = clientprocess.of(pid, environ=environ)
    record = next((each for each in mine if (each.pid, each.started) == (nearest, start)), None)
    if record is None:
        raise ResetError(
            "record-mismatch", f"the nearest client process {nearest} is not the one a session is recorded for"
        )
    named = environ.get("CLAUDE_CODE_SESSION_ID", "").strip()
    if named and named != record.session and receipts.load_session(store.runtime, named) is not None:
        raise ResetError("record-mismatch", f"the client names session {named}, the record names {record.session}")
    usable(record)
    return record


def usable(record: SessionRecord) -> None:
    """Raises ResetError when the record cannot be measured by (check 4)."""
    path = record.transcript
    problem = ""
    if not path or not os.path.isabs(path):
        problem = "it names no transcript by an absolute path"
    elif not os.path.isfile(path):
        problem = f"its transcript {path} is not there"
    elif not record.started:
        problem = "it names no process"
    if problem:
        raise ResetError("record-unusable", f"the record of session {record.session} cannot be used: {problem}")


def look(store: Store, record: SessionRecord, tunables: Tunables, *, now: float) -> Scene:
    """Measure the session and find what is unfinished."""
    scan = measure.scan(
        record.transcript,
        session=record.session,
        ledger=state.ledger(store.runtime),
        client=state.client(record),
        tail=tunables.tail,
    )
    person = presence.judge(scan.human, now=now, idle=tunables.idle)
    known = checkpoints.load(store.runtime, record.session)
    window = usage.window_of(known.samples) if known is not None else None
    ceiling = min(tunables.ceiling, window * tunables.share // 100) if window else tunables.ceiling
    return Scene(store, record, scan, person, unfinished(store, record.session, scan), now, tunables, ceiling, window)


def unfinished(store: Store, session: str, scan: measure.Scan) -> tuple[quiet.Item, ...]:
    """What stands against a reset; the ceiling's own wakes do not."""
    rows, _ = state.decisions(store.runtime)
    found = [
        quiet.Item("wake", str(wake.seq), "", wake.at)
        for wake in wakes.waiting(store.runtime, session)
        if wake.key != wakes.CEILING
    ]
    found += [*state.holds(store.runtime), *quiet.open_decisions(rows)]
    found += [quiet.Item("background", name, "a task still runs") for name in scan.background]
    git_dir = worktree.directories(store.seat.root)[0]
    found += [
        quiet.Item("git", mark, "a git operation is under way")
        for mark in GIT_MARKS
        if git_dir and os.path.lexists(f"{git_dir}/{mark}")
    ]
    return tuple(found)


def broken(scene: Scene, *, environ: Mapping[str, str], capsule: str = "") -> str:
    """Why the way back in is broken, "" when it holds; with a *capsule* also whether a clear would hand that one over."""
    problem = wiring.broken(scene.store, environ=environ)
    if problem or not capsule:
        return problem
    return wiring.misses(scene.store, scene.session, capsule, now=scene.now)
