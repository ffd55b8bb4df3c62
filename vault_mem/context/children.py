"""What sub-agents of a session did: a record of each, apart from the session's own, told as *delegated work*."""

from __future__ import annotations

import os

from vault_mem import checkpoints, files, jsontext, redact
from vault_mem.digest import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from vault_mem.session.event import HookEvent
    from vault_mem.vault.store import Store

MOST, PATHS = 20, 20
FIELDS = ("file_path", "notebook_path", "path")


def note(event: HookEvent, store: Store, session: str, *, now: float, hook: str) -> None:
    """Remember one hook call of a sub-agent: what kind it is, which file it changed, whether its own context was compacted."""
    clean = redact.environment_secrets(store.environ)
    directory = f"{checkpoints.folder(store.runtime, session)}/agents"
    path = f"{directory}/{sha256(event.agent_id.encode('utf-8', 'replace'))[:16]}.json"
    with checkpoints.locked(store.runtime, session, timeout=0.3):
        record = _load(path)
        given = event.given.get("tool_input")
        named = given if isinstance(given, dict) else {}
        touched = next((named[key] for key in FIELDS if isinstance(named.get(key), str)), "")
        paths = [item for item in _texts(record.get("files")) if item != touched]
        compactions = record.get("compactions")
        counted = compactions if type(compactions) is int else 0
        fresh: dict[str, Any] = {
            "agent": event.agent_id[:128],
            "type": redact.redact(event.agent_type[:120], clean),
            "at": now,
            "files": ([*paths, redact.redact(touched[:500], clean)] if touched else paths)[-PATHS:],
            "compactions": counted + (hook == "pre-compact"),
        }
        files.make_dirs(directory)
        files.write_atomic(path, (jsontext.dumps(fresh) + "\n").encode("utf-8", "replace"), durable=False)


def lines(runtime: str, session: str) -> tuple[str, ...]:
    """One line a sub-agent, the one heard of last at the end."""
    directory = f"{checkpoints.folder(runtime, session)}/agents"
    try:
        names = os.listdir(directory)
    except OSError:
        return ()
    found = []
    for name in names:
        record = _load(f"{directory}/{name}") if name.endswith(".json") else {}
        at = record.get("at")
        if isinstance(at, float | int) and isinstance(record.get("agent"), str):
            found.append((float(at), _line(record)))
    return tuple(line for _, line in sorted(found)[-MOST:])


def _line(record: dict[str, Any]) -> str:
    paths = _texts(record.get("files"))
    kind = record.get("type") if isinstance(record.get("type"), str) and record.get("type") else "sub-agent"
    changed = f"{len(paths)} files: {', '.join(paths[-6:])}" if paths else "no file that a hook saw"
    compacted = record.get("compactions")
    more = f"; its own context was compacted {compacted}x" if type(compacted) is int and compacted else ""
    return f"{kind} {record['agent'][:16]}: {changed}{more}"


def _load(path: str) -> dict[str, Any]:
    try:
        value = jsontext.loads(files.read(path, limit=1 << 16).decode("utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _texts(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
