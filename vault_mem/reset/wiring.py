"""Whether a cleared session finds its way back: a SessionStart hook that fires on `clear` runs our program, and a clear would choose the capsule."""

from __future__ import annotations

import json
import os
import re
import shutil

from vault_mem import clients, files, hooksfile
from vault_mem.capsule import selector
from vault_mem.errors import VaultMemError
from vault_mem.vault import choice, tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from vault_mem.vault.store import Store

LIMIT = 4 << 20


def broken(store: Store, *, environ: Mapping[str, str]) -> str:
    """Why no SessionStart entry brings a cleared session back, "" when one does."""
    project = store.seat.root
    own = {**environ, "CLAUDE_PROJECT_DIR": project}
    seen = ""
    try:
        for path in _files(project, environ):
            value = _read(path)
            if value.get("disableAllHooks") is True:
                return f"hooks are switched off in {path}"
            for matcher, line in _starts(value):
                ours = hooksfile.recognised(line)
                plugin = "CLAUDE_PLUGIN_ROOT" in line and "resume" in line
                if ours is None and not plugin:
                    continue
                if ours is not None and not ours[1].startswith("resume"):
                    continue
                if not fires(matcher):
                    seen = f"the matcher {matcher!r} in {path} does not fire on clear"
                elif plugin or _executable(ours[0] if ours else "", own):
                    return ""
                else:
                    seen = f"the program in {path} is gone or cannot be started"
    except VaultMemError as error:
        return str(error)
    return seen or "no SessionStart hook runs vault-mem; `vault-mem init` wires it"


def fires(matcher: object) -> bool:
    """Whether a matcher fires on `clear`: absent, empty, `*`, a list of words, or a regular expression that matches the whole word."""
    if matcher is None or matcher in ("", "*"):
        return True
    if not isinstance(matcher, str):
        return False
    if "clear" in [word.strip() for word in re.split(r"[|,]", matcher)]:
        return True
    try:
        return re.fullmatch(matcher, "clear") is not None
    except re.error:
        return False


def _files(project: str, environ: Mapping[str, str]) -> Iterator[str]:
    home = clients.claude_home(environ)
    yield from (place.path for place in clients.places(project=project, environ=environ) if place.harness == "claude")
    enabled: set[str] = set()
    for place in clients.places(project=project, environ=environ):
        plugins = _read(place.path).get("enabledPlugins")
        if isinstance(plugins, dict):
            enabled |= {name for name, on in plugins.items() if on is True}
    known = _read(os.path.join(home, "plugins", "installed_plugins.json")).get("plugins")
    for name, rows in known.items() if isinstance(known, dict) else ():
        for row in rows if isinstance(rows, list) else [rows]:
            folder = row.get("installPath") if isinstance(row, dict) else None
            if name in enabled and isinstance(folder, str):
                yield os.path.join(folder, "hooks", "hooks.json")


def _read(path: str) -> dict[str, Any]:
    try:
        value = json.loads(files.read_followed(path, limit=LIMIT).decode("utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _starts(value: dict[str, Any]) -> Iterator[tuple[object, str]]:
    hooks = value.get("hooks")
    groups = hooks.get("SessionStart") if isinstance(hooks, dict) else None
    for group in groups if isinstance(groups, list) else ():
        inner = group.get("hooks") if isinstance(group, dict) else None
        for entry in inner if isinstance(inner, list) else ():
            line = entry.get("command") if isinstance(entry, dict) else None
            if isinstance(line, str):
                yield group.get("matcher"), line


def _executable(word: str, environ: Mapping[str, str]) -> bool:
    bare = word.strip().strip("'\"")
    bare = re.sub(r"\$\{?([A-Z_]+)\}?", lambda found: environ.get(found.group(1), ""), bare)
    bare = os.path.expanduser(bare) if bare.startswith("~") else bare
    if os.sep in bare:
        return os.path.isfile(bare) and os.access(bare, os.X_OK)
    return shutil.which(bare, path=environ.get("PATH")) is not None


def misses(store: Store, session: str, capsule: str, *, now: float) -> str:
    """Why a clear of this session would not hand over *capsule*, "" when it would."""
    book, faults = choice.book(store)
    if book is None:
        return faults[0]
    candidates, unavailable = tree.entries(store.memory)
    facts = choice.facts_of(candidates, book, started=now, bound=session)
    chosen = selector.select(candidates, now=now, facts=facts, unavailable=unavailable).chosen
    got = selector.text_of(chosen.fields or {}, "id") if chosen is not None else ""
    return "" if got == capsule else f"a clear would choose {got or 'nothing'}, not {capsule}"
