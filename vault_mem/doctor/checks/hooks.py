"""Are our hooks wired once, rightly, and do they start? Pure."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from vault_mem import hooksfile
from vault_mem.doctor.catalogue import NOTE, found

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vault_mem.doctor.scene import Command, Scene
    from vault_mem.report import Finding

LONGEST = 600.0
"""Seconds; a limit of a thousand or more is nearly always meant as milliseconds."""
SOURCES = ("startup", "resume", "clear", "compact", "fork")
_WANTED = {hook.event: hook for hook in hooksfile.CODEX_HOOKS}


def check(scene: Scene) -> Iterator[Finding]:
    """Findings about our own hooks."""
    wiring = scene.wiring
    if not scene.place.root:
        return
    if wiring.home_problem:
        yield found("bad-client-home", "the environment", wiring.home_problem, "unset CLAUDE_CONFIG_DIR CODEX_HOME")
        return
    yield from _files(scene)
    ours = [command for command in wiring.commands if command.ours]
    yield from _presence(scene, ours)
    yield from _doubled(scene, ours)
    for command in ours:
        yield from _entry(scene, command)
    yield from _runs(scene, ours)


def _init(scene: Scene, command: Command | None = None) -> str:
    scope = f" --harness {command.harness} --scope {command.scope}" if command else ""
    return f"vault-mem init --root {shlex.quote(scene.place.root)}{scope}"


def _files(scene: Scene) -> Iterator[Finding]:
    for file in scene.wiring.files:
        for problem in file.problems:
            if problem.startswith("unreadable: "):
                yield found(
                    "settings-unreadable",
                    file.path,
                    problem.removeprefix("unreadable: "),
                    f"ls -l {shlex.quote(file.path)}",
                )
            else:
                yield found(
                    "settings-malformed",
                    file.path,
                    f"malformed: {problem}",
                    f"edit {shlex.quote(file.path)}   # then: {_init(scene)}",
                )
        if file.disabled:
            yield found(
                "hooks-disabled",
                file.path,
                "disableAllHooks is true",
                f"edit {shlex.quote(file.path)}   # remove disableAllHooks",
            )


def _presence(scene: Scene, ours: list[Command]) -> Iterator[Finding]:
    wiring = scene.wiring
    if not ours and not wiring.plugins:
        lately = [row for row in scene.state.log if row.door]
        text = "no settings file of any scope starts vault-mem"
        if lately:
            # A plugin loaded for one start (`--plugin-dir`) stands in no settings file.
            text += f", but hooks ran lately ({lately[-1].door}): from a plugin, it seems"
        yield found("hooks-missing", scene.place.root, text, _init(scene), severity=NOTE if lately else "")
        return
    for harness in dict.fromkeys(command.harness for command in ours):
        have = [command for command in ours if command.harness == harness]
        if wiring.plugins and harness == "claude":
            continue
        for hook in hooksfile.hooks_of(harness):
            if not any(command.event == hook.event and command.ours == hook.arguments for command in have):
                yield found("hook-missing", have[0].file, f"{hook.event}: no `{hook.arguments}`", _init(scene, have[0]))
    below = scene.place.cwd != scene.place.root and scene.place.cwd.startswith(scene.place.root + "/")
    if below and not wiring.plugins and all(command.scope != "user" for command in ours):
        yield found(
            "started-below-root",
            scene.place.cwd,
            f"the hooks are in project settings of {scene.place.root}; a client started here does not read them",
            f"cd {shlex.quote(scene.place.root)}   # or: vault-mem init --scope user",
        )
    for place in wiring.unreviewed:
        yield found(
            "codex-unreviewed",
            place,
            "Codex has no record of a review",
            "codex   # start it once here and choose to trust the hooks",
        )


def _doubled(scene: Scene, ours: list[Command]) -> Iterator[Finding]:
    seen: dict[tuple[str, str, str], list[Command]] = {}
    for command in ours:
        seen.setdefault((command.harness, command.event, command.ours), []).append(command)
    reported = set()
    for (harness, event, _), commands in seen.items():
        scopes = list(dict.fromkeys(command.scope for command in commands)) + (
            ["plugin"] if scene.wiring.plugins and harness == "claude" else []
        )
        if len(commands) < 2 and len(scopes) < 2:
            continue
        files = tuple(
            dict.fromkeys(
                (*(command.file for command in commands), *(scene.wiring.plugins if "plugin" in scopes else ()))
            )
        )
        if len(scopes) > 1:
            if (harness, files) in reported:
                continue
            reported.add((harness, files))
            others = [scope for scope in scopes if scope != scopes[0]]
            drop = others[-1] if others[-1] != "plugin" else scopes[0]
            yield found(
                "hook-doubled",
                files[0],
                f"{harness}: registered twice, in scopes {' and '.join(scopes)} ({', '.join(files)})",
                f"vault-mem uninstall --root {shlex.quote(scene.place.root)} --harness {harness} --scope {drop}",
            )
        else:
            yield found(
                "hook-doubled",
                commands[1].file,
                f"{event}: registered twice in one file ({commands[0].where} and {commands[1].where})",
                _init(scene, commands[1]),
            )


def _entry(scene: Scene, command: Command) -> Iterator[Finding]:
    hook = _WANTED.get(command.event)
    if command.mixed:
        yield found("hook-mixed", command.file, f"{command.where}: {command.line}")
    if hook is None or hook.arguments != command.ours:
        yield found(
            "hook-wrong-place",
            command.file,
            f"{command.where}: `{command.ours}` on {command.event}",
            _init(scene, command),
        )
    elif command.event == "SessionStart" and not_matched(command.matcher):
        lacking = ", ".join(not_matched(command.matcher))
        yield found(
            "hook-matcher",
            command.file,
            f"{command.where}: matcher {command.matcher!r} leaves out {lacking}",
            _init(scene, command),
        )
    elif hook.matcher is None and command.matcher not in ("", "*") and command.event != "SessionStart":
        yield found(
            "hook-matcher",
            command.file,
            f"{command.where}: matcher {command.matcher!r} is not ours and may leave something out",
            _init(scene, command),
            severity="warn",
        )
    if not command.resolved:
        yield found(
            "hook-program-missing",
            command.file,
            f"{command.where}: {command.program} does not exist or is not executable",
            _init(scene, command),
        )
    if command.timeout is not None and command.timeout > LONGEST:
        yield found(
            "hook-timeout-unit",
            command.file,
            f"{command.where}: {command.timeout:g} seconds are {command.timeout / 3600:.1f} hours",
            _init(scene, command),
        )
    if command.background:
        yield found(
            "hook-background",
            command.file,
            f"{command.where}: async is true",
            f"edit {shlex.quote(command.file)}   # remove async",
        )


def not_matched(matcher: str) -> tuple[str, ...]:
    """The sources of SessionStart that a matcher leaves out."""
    if matcher in ("", "*"):
        return ()
    try:
        pattern = re.compile(matcher)
    except re.error:
        return SOURCES
    return tuple(source for source in SOURCES if not pattern.search(source))


def _runs(scene: Scene, ours: list[Command]) -> Iterator[Finding]:
    for run in scene.wiring.runs:
        if not run.problem:
            continue
        command = next((each for each in ours if each.line == run.line), None)
        where = command.file if command else scene.place.root
        what = f"{command.where if command else ''}: {run.line}: {run.detail}"
        if run.problem == "exit" and run.detail.startswith("exit code 2"):
            token = "hook-blocks"
        elif run.problem == "exit" and run.detail.startswith(("exit code 126", "exit code 127")):
            token = "hook-program-missing"
        else:
            token = "hook-fails"
        yield found(token, where, what, _init(scene, command))
