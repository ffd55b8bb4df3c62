"""What other tools' hooks, the clients themselves and the skills would do to ours. Pure."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from vault_mem.doctor.catalogue import found
from vault_mem.doctor.checks.hooks import LONGEST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vault_mem.doctor.scene import Command, Scene
    from vault_mem.report import Finding

OLDEST = {"claude": (2, 1, 0), "codex": (0, 150, 0)}
_LIFECYCLES = re.compile(
    r"stop-capsule-writer|sessionstart-reinject|precompact-flush|sessionend-flush|userpromptsubmit-journal|resume-verb\.mjs|aigent[-_]?os|harnery",
    re.IGNORECASE,
)
_MEMORIES = re.compile(
    r"claude-mem\b|mem0|basic-memory|supermemory|truememory|claude-remember|memory-bank|\bletta\b|\bmemor(?:y|ies)\b|\brecall\b",
    re.IGNORECASE,
)
_INJECTING = ("SessionStart", "UserPromptSubmit")
_CLIENT = re.compile(
    r"(?:^|[;&|(]\s*|\bexec\s+|\bnohup\s+|\btimeout\s+\S+\s+)(?:\S*/)?(?:claude\s+(?:-p|--print)\b|codex\s+exec\b)"
)


def check(scene: Scene) -> Iterator[Finding]:
    """Findings about everything around our hooks."""
    for command in scene.wiring.commands:
        if not command.ours:
            yield from _foreign(scene, command)
    yield from _clients(scene)
    ceiling = scene.tunables.ceiling
    for where, tokens in scene.wiring.compaction:
        if tokens <= ceiling:
            yield found(
                "ceiling-above-compaction",
                where,
                f"the client compacts at {tokens} tokens, the ceiling is {ceiling}",
                f"export VAULT_MEM_CEILING={tokens * 8 // 10}   # or set ceiling in config.toml of vault-mem",
            )
    for skill in scene.wiring.skills:
        if skill.state in ("missing", "edited", "link"):
            fix = "" if skill.state == "edited" else f"vault-mem init --root {shlex.quote(scene.place.root)}"
            yield found(
                f"skill-{skill.state}",
                skill.path,
                f"{skill.name} is {'not there' if skill.state == 'missing' else 'not ours any more'}",
                fix,
            )


def _foreign(scene: Scene, command: Command) -> Iterator[Finding]:
    where, edit = command.file, f"edit {shlex.quote(command.file)}"
    here = f"{command.where}: {command.line[:200]}"
    if command.timeout is not None and command.timeout > LONGEST:
        yield found(
            "foreign-timeout-unit",
            where,
            f"{here}: timeout {command.timeout:g}",
            f"{edit}   # {command.where}.timeout is in seconds",
        )
    if _LIFECYCLES.search(command.line):
        yield found(
            "foreign-lifecycle",
            where,
            here,
            f"vault-mem init --root {shlex.quote(scene.place.root)} --replace-hooks --dry-run   # shows what it would take out",
        )
    elif command.event in _INJECTING and _MEMORIES.search(command.line):
        yield found("two-memories", where, here, f"{edit}   # keep one of the two")
    if _CLIENT.search(command.line):
        yield found(
            "foreign-recursion",
            where,
            here,
            f"{edit}   # start it with VAULT_MEM_OFF=1 and with hooks of its own switched off",
        )
    if is_unquoted(command.line, scene.place.root):
        yield found("foreign-unquoted", where, here, f"{edit}   # put the path in double quotes")
    elif command.program.strip("'\"").startswith(("/", "$", "~")) and not command.resolved:
        yield found("foreign-missing", where, f"{here}: {command.program} is not there", edit)


def is_unquoted(line: str, project: str) -> bool:
    """Whether a path with a blank stands in *line* without quotes: a variable for *project*, or the path written out."""
    if " " not in project:
        return False
    bare = re.sub(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"|\\.", "", line)
    return bool(re.search(r"\$\{?CLAUDE_PROJECT_DIR\b", bare)) or project in bare


def _clients(scene: Scene) -> Iterator[Finding]:
    clients = scene.wiring.clients
    if clients and not any(client.path for client in clients):
        yield found("client-missing", "PATH", f"neither {' nor '.join(client.name for client in clients)} is there")
    for client in clients:
        if client.problem:
            yield found("client-silent", client.path, client.problem, f"{shlex.quote(client.path)} --version")
        numbers = tuple(int(part) for part in client.version.split(".")) if client.version else ()
        if numbers and numbers < OLDEST.get(client.name, ()):
            oldest = ".".join(map(str, OLDEST[client.name]))
            yield found(
                "client-old",
                client.path,
                f"{client.name} {client.version}; tried from {oldest} on",
                f"update {client.name}",
            )
