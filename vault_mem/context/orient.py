"""Where a session stands: itself, time, repository and drift, last commits, other live sessions, wakes. A section that fails says so, the others stand."""

from __future__ import annotations

from vault_mem import checkpoints, receipts, stamps, wakes, worktree
from vault_mem.capsule.inert import inert, plain
from vault_mem.context import gather, peers
from vault_mem.errors import GitRefusedError, VaultMemError
from vault_mem.repo import program
from vault_mem.session import briefing, drift

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from vault_mem.vault.store import Store

SECTIONS = ("session", "time", "repository", "commits", "sessions", "wakes")


def report(store: Store, *, session: str, cwd: str, now: float, only: Sequence[str] = ()) -> dict[str, Any]:
    """The sections as JSON values; one that cannot be made holds `error`."""
    made: dict[str, Any] = {}
    for name in SECTIONS:
        if only and name not in only:
            continue
        try:
            made[name] = _section(name, store, session=session, cwd=cwd, now=now)
        except (VaultMemError, OSError, ValueError) as error:
            made[name] = {"error": f"{type(error).__name__}: {error}"}
    return made


def _section(name: str, store: Store, *, session: str, cwd: str, now: float) -> Any:
    match name:
        case "session":
            return _session(store, session)
        case "time":
            return {"utc": stamps.utc(now)}
        case "repository":
            return _repository(store, session, cwd)
        case "commits":
            return _commits(store, cwd)
        case "sessions":
            return [
                {**each._asdict(), "at": stamps.utc(each.at), "files": list(each.files)}
                for each in peers.live(store, skip=session)
            ]
    return _wakes(store, session)


def _session(store: Store, session: str) -> dict[str, Any]:
    if not session:
        return {"id": None}
    cursor = receipts.load_cursor(store.runtime, session)
    capsule = gather.held(store, cursor)
    state = checkpoints.load(store.runtime, session)
    return {
        "id": session,
        "capsule": capsule.id or None,
        "status": capsule.status or None,
        "objective": capsule.fields.get("objective"),
        "next_valid_action": capsule.fields.get("next_valid_action"),
        "phase": state.phase if state else None,
        "generation": state.generation if state else None,
    }


def _repository(store: Store, session: str, cwd: str) -> dict[str, Any]:
    directory = store.environ.get("CLAUDE_PROJECT_DIR") or cwd
    record = checkpoints.newest(checkpoints.folder(store.runtime, session)) if session else None
    held = tuple(record["repo"].get("held", {})) if record else ()
    seen = gather.look(directory, changed=held, environ=store.environ)
    made: dict[str, Any] = {
        "position": drift.position(seen),
        "root": seen.root or None,
        "upstream": seen.upstream or None,
    }
    if record:
        moved, known = briefing.comparison(record, seen)
        made |= {"since_generation": record["generation"], "moved": list(moved), "known": known}
    return made


def _commits(store: Store, cwd: str) -> list[str]:
    top = worktree.here(store.environ.get("CLAUDE_PROJECT_DIR") or cwd).top
    if not top:
        return []
    answer = program.run(
        ["log", "-3", "--no-show-signature", "--format=%h %cI %s"], worktree=top, environ=store.environ, limit=2.0
    )
    if answer.code:
        raise GitRefusedError(program.refusal(answer).reason)
    return [line[:200] for line in answer.out.decode("utf-8", "replace").splitlines()]


def _wakes(store: Store, session: str) -> list[str]:
    return [f"{wake.kind}: {wake.text}" for wake in wakes.waiting(store.runtime, session)]


def text(made: dict[str, Any]) -> str:
    """The report for a person or a model, everything stored quoted."""
    lines = []
    for name, value in made.items():
        lines.append(f"[{name}]")
        rows = (
            value
            if isinstance(value, list)
            else [f"{key}: {_shown(held)}" for key, held in value.items() if held not in (None, [], "")]
        )
        lines.extend(
            f"  {_peer(row) if isinstance(row, dict) else plain(row, 300) if isinstance(value, list) else row}"
            for row in rows
        )
        if not rows:
            lines.append("  none")
    return "\n".join(lines) + "\n"


def _shown(value: object) -> str:
    if isinstance(value, list):
        return "; ".join(plain(item, 300) for item in value)
    return inert(value, limit=300) if isinstance(value, str) else str(value)


def _peer(row: dict[str, Any]) -> str:
    files = ", ".join(plain(path, 120) for path in row["files"][:8]) or "no files"
    return f"{plain(row['session'], 128)} ({plain(row['harness'], 20)}, since {row['at']}): {files}"
