"""Can the hooks write, do they owe something, did they fail lately? Pure."""

from __future__ import annotations

import shlex
from collections import Counter
from typing import TYPE_CHECKING

from vault_mem import stamps, wakes
from vault_mem.doctor.catalogue import found

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vault_mem.doctor.scene import Scene
    from vault_mem.report import Finding

FULL, LOW = 4 << 20, 64 << 20
FULL_FILES, LOW_FILES = 100, 2000
_BAD = (
    "error:",
    "git-refused:",
    "lock-unusable",
    "unsafe-git-config",
    "changed-meanwhile",
    "consume-unrecordable",
    "bad-memory-root",
)
SHOWN = 5


def check(scene: Scene) -> Iterator[Finding]:
    """Findings about room, locks, owed work and settings."""
    for problem in scene.settings.problems:
        where, _, what = problem.partition(": ")
        yield found(
            "bad-settings", where, what, f"edit {shlex.quote(where)}" if where.startswith("/") else f"unset {where}"
        )
    yield from (found("bad-tunable", each.where, each.what, f"unset {each.where}") for each in scene.tunables.findings)
    if scene.place.token:
        return
    yield from _room(scene)
    yield from _locking(scene)
    yield from _owed(scene)
    yield from _failures(scene)
    yield from _watching(scene)
    yield from scene.state.context


def _room(scene: Scene) -> Iterator[Finding]:
    state = scene.state
    if state.runtime_problem:
        yield found(
            "runtime-unusable",
            state.runtime,
            state.runtime_problem,
            f"mv {shlex.quote(state.runtime)} {shlex.quote(state.runtime + '.aside')}",
        )
    for path in state.read_only:
        yield found(
            "read-only",
            path,
            "this user cannot write there",
            f"ls -ld {shlex.quote(path)}   # then chmod u+rwx, or mount it for writing",
        )
    free, names = state.free, state.free_files
    text = f"{(free or 0) >> 20} MB and {'any number of' if names is None else names} files are free"
    fix = f"df -h {shlex.quote(scene.place.memory)}   # make room"
    if (free is not None and free < FULL) or (names is not None and names < FULL_FILES):
        yield found("disk-full", scene.place.memory, text, fix)
    elif (free is not None and free < LOW) or (names is not None and names < LOW_FILES):
        yield found("disk-low", scene.place.memory, text, fix)


def _locking(scene: Scene) -> Iterator[Finding]:
    state = scene.state
    path = f"{state.runtime}/vault.lock"
    if state.lock_held:
        yield found(
            "vault-lock-held",
            path,
            f"{state.lock_held} holds it",
            "vault-mem doctor   # again in a moment; if it stays, look at that process",
        )
    if state.lock_problem:
        yield found("lock-unusable", path, state.lock_problem, f"mv {shlex.quote(path)} {shlex.quote(path + '.aside')}")


def _owed(scene: Scene) -> Iterator[Finding]:
    state = scene.state
    if state.unfinished:
        yield found("unfinished-commit", state.unfinished, "its writer is gone", "vault-mem doctor --fix")
    if state.pending:
        yield found("commit-owed", f"{state.runtime}/pending.json", _list(state.pending), "vault-mem doctor --fix")
    for session, capsule, at in state.intents:
        is_recorded = (session, capsule) in scene.memory.delivered
        token = "delivery-stale" if is_recorded else "delivery-unfinished"
        text = f"capsule {capsule} to session {session} at {stamps.utc(at)}"
        yield found(
            token,
            f"{state.runtime}/deliveries/{session}.json",
            text,
            "vault-mem doctor --fix" if is_recorded else "vault-mem resume --peek",
        )
    if state.spool:
        yield found("spooled", f"{state.runtime}/spool", f"{state.spool} files")
    if state.bad_files:
        yield found("state-damaged", state.runtime, _list(state.bad_files), "vault-mem doctor --fix")
    if state.temporaries:
        yield found("leftovers", scene.place.memory, _list(state.temporaries), "vault-mem doctor --fix")
    if state.unsaved:
        yield found(
            "unsaved-work", f"{state.runtime}/cursors", f"{len(state.unsaved)} sessions, {_list(state.unsaved)}"
        )


def _failures(scene: Scene) -> Iterator[Finding]:
    bad = [row for row in scene.state.log if row.outcome.startswith(_BAD)]
    # A hook that went well after the last failure of its kind says that it is mended.
    last_good = max((row.at for row in scene.state.log if row.outcome in ("saved", "delivered")), default=0.0)
    bad = [row for row in bad if row.at > last_good]
    if not bad:
        return
    counts = Counter(row.outcome for row in bad)
    text = ", ".join(f"{token} ({count} times)" if count > 1 else token for token, count in counts.most_common(SHOWN))
    newest = max(bad, key=lambda row: row.at)
    yield found(
        "recent-failures",
        f"{scene.state.runtime}/log.jsonl",
        f"{text}; the last at {stamps.utc(newest.at)} in {newest.door}: {newest.detail[:200]}",
        f"tail {shlex.quote(scene.state.runtime + '/log.jsonl')}",
    )


def _watching(scene: Scene) -> Iterator[Finding]:
    """Whether a watcher that was ever set up still runs, and whether somebody takes its wakes."""
    state = scene.state
    if state.watcher:
        root = shlex.quote(scene.place.root)
        yield found(
            "watcher-stale",
            f"{state.runtime}/{wakes.BEACON}",
            state.watcher.partition(": ")[2],
            f"vault-mem reset watch --once --root {root}   # and let it run: docs/how-to/context-reset.md",
        )
    for wake in state.overdue[:SHOWN]:
        command = f"vault-mem wakes drain --session {shlex.quote(wake.session)} --root {shlex.quote(scene.place.root)}"
        text = f"session {wake.session}, since {stamps.utc(wake.at)}: {wake.kind}"
        yield found("wake-undrained", f"{state.runtime}/{wakes.QUEUE}", text, command)


def _list(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
