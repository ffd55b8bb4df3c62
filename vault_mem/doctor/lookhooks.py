"""Looks at every settings file a client reads hooks from, and runs our own commands there exactly as the client would, with hooks switched off.

A command that is not ours is never started. Ours is started only from a seat this user trusts or from the user's own settings, with
`VAULT_MEM_OFF=1`: the program says `killed` and does nothing, which proves that shell, path and interpreter are in order.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
from typing import TYPE_CHECKING, Any

from vault_mem import clients, files, hooksfile, jsonspans
from vault_mem.doctor.lookgit import which
from vault_mem.doctor.scene import Client, Command, Run, SettingsFile, Skill, Wiring
from vault_mem.errors import GitRefusedError, VaultMemError
from vault_mem.repo import program

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vault_mem.clients import Place

RUN_LIMIT = 5.0
VERSION_LIMIT = 5.0
FILE_LIMIT = 4 << 20
SKILLS = ("context-capsule", "resume")
_SHELL = "/bin/sh"
_WINDOW = "CLAUDE_CODE_AUTO_COMPACT_WINDOW"
_SEAL = re.compile(rb"\n<!-- vault-mem ([0-9a-f]{16}) -->\n?\Z")


def look(*, project: str, environ: Mapping[str, str], run_hooks: bool, trusted: bool) -> Wiring:
    """All settings files, what their commands start, how ours ran, the clients on PATH and our skills."""
    try:
        places = clients.places(project=project, environ=environ)
    except VaultMemError as error:
        return Wiring(home_problem=str(error), clients=tuple(_clients(environ)))
    own = {**environ, "CLAUDE_PROJECT_DIR": project}
    config = f"{clients.codex_home(environ)}/config.toml"
    table = _toml(config)
    found = (*(_settings(place, environ=own) for place in places), *_codex_config(config, table, environ=own))
    plugins = tuple(_plugins(found))
    runs = tuple(_runs(found, project=project, environ=own, trusted=trusted)) if run_hooks else ()
    return Wiring(
        found,
        runs,
        tuple(_clients(environ)),
        tuple(_skills(found, project=project, environ=environ)),
        plugins=plugins,
        unreviewed=tuple(_unreviewed(found, table)),
        compaction=tuple(_compaction(found, config, table, environ)),
    )


# --- settings files ------------------------------------------------------------------------------------------------------------


def _settings(place: Place, *, environ: Mapping[str, str]) -> SettingsFile:
    link = os.path.islink(place.path)
    try:
        data = files.read_followed(place.path, limit=FILE_LIMIT)
    except FileNotFoundError:
        return SettingsFile(
            place.harness,
            place.scope,
            place.path,
            os.path.lexists(place.path),
            link=link,
            problems=("is a link to nothing",) if link else (),
        )
    except NotADirectoryError:
        return SettingsFile(place.harness, place.scope, place.path, exists=False)
    except OSError as error:
        return SettingsFile(
            place.harness, place.scope, place.path, True, (f"unreadable: {error.strerror or error}",), link=link
        )
    try:
        text = hooksfile.decoded(data, where=place.path)[1]
        root = jsonspans.parse(text) if text.strip(" \t\r\n") else None
        problems = hooksfile.malformed(root) if root else ()
        value: Any = json.loads(text) if root else {}
    except (VaultMemError, ValueError, RecursionError) as error:
        return SettingsFile(place.harness, place.scope, place.path, True, (f"is not valid JSON: {error}",), link=link)
    commands = tuple(_commands(place, value, environ=environ))
    disabled = isinstance(value, dict) and value.get("disableAllHooks") is True
    return SettingsFile(place.harness, place.scope, place.path, True, problems, commands, disabled, link)


def _commands(place: Place, value: Any, *, environ: Mapping[str, str]) -> Iterator[Command]:
    """Every command of a settings object, however odd the rest of it is."""
    hooks = value.get("hooks") if isinstance(value, dict) else None
    for event, groups in hooks.items() if isinstance(hooks, dict) else ():
        for number, group in enumerate(groups if isinstance(groups, list) else ()):
            inner = group.get("hooks") if isinstance(group, dict) else None
            for index, entry in enumerate(inner if isinstance(inner, list) else ()):
                line = entry.get("command") if isinstance(entry, dict) else None
                if isinstance(line, str) and line.strip():
                    given = entry.get("args")
                    words = [str(each) for each in given] if isinstance(given, list) else []
                    line = shlex.join([line, *words]) if words else line
                    where = f"hooks.{event}[{number}].hooks[{index}]"
                    yield _command(place, where, str(event), group.get("matcher"), line, entry, environ=environ)


def _command(
    place: Place, where: str, event: str, matcher: Any, line: str, entry: dict[str, Any], *, environ: Mapping[str, str]
) -> Command:
    ours = hooksfile.recognised(line)
    timeout = entry.get("timeout")
    word = ours[0] if ours else _first_word(line)
    return Command(
        place.harness,
        place.scope,
        place.path,
        where,
        event,
        matcher if isinstance(matcher, str) else "",
        line,
        float(timeout) if isinstance(timeout, int | float) and not isinstance(timeout, bool) else None,
        entry.get("async") is True,
        ours[1] if ours else "",
        word,
        resolved(word, environ=environ),
        ours[2] if ours else False,
    )


def _first_word(line: str) -> str:
    """The program word as it is written, quotes included; "" where the line is more than one simple command."""
    found = re.match(r"""\s*((?:[^\s'"\\;&|<>()`#]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+)""", line)
    return found.group(1) if found else ""


def resolved(written: str, *, environ: Mapping[str, str]) -> str:
    """The absolute path that a shell would start for this word, "" when there is none, "?" when only a shell can tell."""
    word = (
        written.split(" -m ", maxsplit=1)[0].split(maxsplit=1)[0]
        if " -m " in written and written[:1] not in "'\""
        else written
    )
    if "`" in word or "$(" in word:
        return "?"
    plain = re.sub(
        r"\$(?:\{(\w+)\}|(\w+))",
        lambda found: environ.get(found.group(1) or found.group(2), ""),
        "" if word.startswith("'") else word,
    )
    try:
        words = shlex.split(plain or word)
    except ValueError:
        return "?"
    name = words[0] if words else ""
    if name.startswith("~/"):
        name = environ.get("HOME", "~") + name[1:]
    if any(sign in name for sign in "${}*?"):
        return "?"
    return which(name, environ=environ)


# --- running our own -----------------------------------------------------------------------------------------------------------


def _runs(found: tuple[SettingsFile, ...], *, project: str, environ: Mapping[str, str], trusted: bool) -> Iterator[Run]:
    lines = dict.fromkeys(
        command.line
        for file in found
        for command in file.commands
        if command.ours and not command.mixed and command.resolved and (trusted or file.scope == "user")
    )
    for line in lines:
        yield _run(line, project=project, environ=environ)


def _run(line: str, *, project: str, environ: Mapping[str, str]) -> Run:
    """Starts a hook of ours by its exact command line, switched off, with empty input."""
    own = {**environ, "VAULT_MEM_OFF": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    own.pop("VAULT_MEM_HOOK", None)
    try:
        done = _bounded(["-c", line], cwd=project, environ=own, limit=RUN_LIMIT)
    except GitRefusedError as error:
        return Run(line, error.reason, f"it did not end within {RUN_LIMIT:g} seconds")
    said = done.err.decode("utf-8", "replace").strip()
    last = said.splitlines()[-1] if said else ""
    if done.code:
        return Run(line, "exit", f"exit code {done.code}{': ' + last[:200] if last else ''}")
    if done.out.strip():
        return Run(line, "output", "it printed something although hooks were switched off")
    if "killed" not in said and "2>" not in line:
        return Run(line, "other", f"it is not this program, or an old one{': ' + last[:200] if last else ''}")
    return Run(line)


def _bounded(arguments: list[str], *, cwd: str, environ: Mapping[str, str], limit: float) -> program.Finished:
    """A shell in a session of its own, ended as a whole when the time is up; GitRefusedError `timeout`."""
    start = [_SHELL, "-c", 'cd "$0" && exec /bin/sh "$@"', cwd, *arguments]
    return program.Child(start, dict(environ)).finish(b"", limit=limit)


# --- clients, skills, plugins --------------------------------------------------------------------------------------------------


def _clients(environ: Mapping[str, str]) -> Iterator[Client]:
    for name in clients.HARNESSES:
        path = which(name, environ=environ)
        if not path:
            yield Client(name)
            continue
        try:
            done = _bounded(
                ["-c", 'exec "$0" --version', path],
                cwd="/",
                environ={**environ, "VAULT_MEM_OFF": "1"},
                limit=VERSION_LIMIT,
            )
        except GitRefusedError:
            yield Client(name, path, problem=f"no answer within {VERSION_LIMIT:g} seconds")
            continue
        told = re.search(r"\d+\.\d+(?:\.\d+)?", done.out.decode("utf-8", "replace"))
        yield Client(name, path, told.group() if told else "", "" if told else f"exit code {done.code}, no version")


def _skills(found: tuple[SettingsFile, ...], *, project: str, environ: Mapping[str, str]) -> Iterator[Skill]:
    """Our skills in the folders of those scopes in which Claude Code has our hooks; one of them is enough."""
    scopes = [
        file.scope for file in found if file.harness == "claude" and any(command.ours for command in file.commands)
    ]
    for name in SKILLS if scopes else ():
        states = []
        for scope in scopes:
            path = f"{clients.skills_dir(scope, project=project, environ=environ)}/{name}/SKILL.md"
            link = os.path.islink(path) or os.path.islink(os.path.dirname(path))
            text = _bytes(path)
            state = "link" if link else "missing" if text is None else "same" if _is_sealed(text) else "edited"
            states.append(Skill(name, path, state))
        yield next((each for each in states if each.state != "missing"), states[0])


def _is_sealed(data: bytes) -> bool:
    """Whether the last line of a skill carries the hash of what stands above it, as `init` writes it."""
    seal = _SEAL.search(data)
    return (
        bool(seal) and hashlib.sha256(data[: seal.start()]).hexdigest()[:16].encode() == seal.group(1)
        if seal
        else False
    )


def _bytes(path: str) -> bytes | None:
    try:
        return files.read_followed(path, limit=FILE_LIMIT)
    except OSError:
        return None


def _plugins(found: tuple[SettingsFile, ...]) -> Iterator[str]:
    """Settings that enable our plugin: its hooks count as one more scope."""
    for file in found:
        value = _json(file.path) if file.harness == "claude" and file.exists else None
        enabled = value.get("enabledPlugins") if isinstance(value, dict) else None
        for name, on in enabled.items() if isinstance(enabled, dict) else ():
            if on and str(name).partition("@")[0] == hooksfile.PROGRAM:
                yield file.path


def _toml(path: str) -> dict[str, Any]:
    """Codex's configuration; empty when there is none or it cannot be read."""
    import tomllib

    try:
        return tomllib.loads(files.read_followed(path, limit=FILE_LIMIT).decode("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}


def _codex_config(path: str, table: dict[str, Any], *, environ: Mapping[str, str]) -> Iterator[SettingsFile]:
    """Hooks that stand in Codex's configuration instead of a hooks file."""
    place = clients.Place("codex", "config", path)
    commands = tuple(_commands(place, table, environ=environ))
    if commands:
        yield SettingsFile("codex", "config", path, exists=True, commands=commands)


def _compaction(
    found: tuple[SettingsFile, ...], config: str, table: dict[str, Any], environ: Mapping[str, str]
) -> Iterator[tuple[str, int]]:
    """The places that tell a client at how many tokens it compacts by itself."""
    limit = table.get("model_auto_compact_token_limit")
    if isinstance(limit, int) and limit > 0:
        yield config, limit
    told = [("the environment", environ.get(_WINDOW))]
    for file in found:
        value = _json(file.path) if file.harness == "claude" and file.exists else None
        own = value.get("env") if isinstance(value, dict) else None
        told.append((file.path, own.get(_WINDOW) if isinstance(own, dict) else None))
    for where, text in told:
        if isinstance(text, str | int) and str(text).isdigit() and int(text):
            yield where, int(text)


def _json(path: str) -> Any:
    try:
        return json.loads(files.read_followed(path, limit=FILE_LIMIT).decode("utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return None


def _unreviewed(found: tuple[SettingsFile, ...], table: dict[str, Any]) -> Iterator[str]:
    """Codex entries of ours that its configuration knows no review of."""
    ours = [(file, command) for file in found if file.harness == "codex" for command in file.commands if command.ours]
    hooks = table.get("hooks")
    state = hooks.get("state") if isinstance(hooks, dict) else None
    known = set(state) if isinstance(state, dict) else set()
    for file, command in ours:
        place = re.fullmatch(r"hooks\.\w+\[(\d+)\]\.hooks\[(\d+)\]", command.where)
        event = re.sub(r"(?<!^)(?=[A-Z])", "_", command.event).lower()
        if place and f"{file.path}:{event}:{place.group(1)}:{place.group(2)}" not in known:
            yield f"{file.path}: {command.where}"
