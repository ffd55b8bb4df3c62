"""`init` and `uninstall` as a whole: everything is looked at and refused before the first byte is written."""

from __future__ import annotations

import difflib
import os
import re
import shlex
import tomllib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vault_mem import clients, hooksfile
from vault_mem.install import seat, skills, wiring
from vault_mem.install.seat import RefusedError
from vault_mem.report import OK, WARN, Finding
from vault_mem.vault import adopted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vault_mem.clients import Place

# Hooks that do the same work as ours: two of them over one memory would hand out and save everything twice.
_FOREIGN = (
    (
        "aigent-OS",
        re.compile(
            r"(?:sessionstart-reinject|resume-verb|stop-capsule-writer|precompact-flush|sessionend-flush|userpromptsubmit-journal)\.[cm]?js\b"
        ),
    ),
    ("Harnery", re.compile(r"(?:^|[\s/\"'])agent-hook(?:\.\w+)?[\"']?\s+[a-z]")),
)


@dataclass(frozen=True, slots=True)
class Wish:
    """What a person asked for. *started_by*: the absolute path our program was started by."""

    started_by: str
    root: str = ""
    memory_root: str = ""
    harness: str = "claude"
    scope: str = "project"
    mode: str = ""
    adopt: bool = False
    replace_hooks: bool = False
    no_hooks: bool = False
    source: str = ""
    status_line: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """All that will be done, nothing of it done yet."""

    wish: Wish
    site: seat.Site | None
    target: seat.Target
    wires: tuple[wiring.Wire, ...]
    skills: tuple[skills.Skill, ...]
    findings: tuple[Finding, ...] = ()

    def diff(self) -> Iterator[str]:
        """A unified diff of every file that would change."""
        if self.site is not None:
            yield from _diff(self.site.marker, self.site.former, self.site.declaration)
        for wire in self.wires:
            yield from _diff(wire.place.path, wire.former, wire.later)
        for skill in self.skills:
            yield from _diff(skill.path, skill.former, skill.later)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was done, in sentences, and where backups lie."""

    done: tuple[str, ...] = ()
    backups: tuple[str, ...] = field(default=())


def harnesses(word: str) -> tuple[str, ...]:
    """The clients that a `--harness` names."""
    return clients.HARNESSES if word == "all" else (word,)


def plugin_hooks() -> str:
    """The hooks file of the plugin: what `init` wires, started through the plugin's own launcher."""
    frame = '{\n  "description": "Saves each turn to the vault and hands the capsule over after /clear"\n}\n'
    return hooksfile.install(frame, program='"${CLAUDE_PLUGIN_ROOT}/bin/vault-mem"').text


def planned(wish: Wish, *, environ: Mapping[str, str], cwd: str) -> Plan:
    """Everything `init` would do. Raises what its parts raise, and RefusedError `foreign-lifecycle`; nothing is written."""
    target = seat.chosen(explicit=wish.root, environ=environ, cwd=cwd)
    site = seat.looked_at(target, memory_root=wish.memory_root, mode=wish.mode, adopt=wish.adopt, environ=environ)
    if wish.source:
        site = seat.joining(site, wish.source, cwd=cwd)
    wanted = [
        clients.place(harness, wish.scope, project=target.project, environ=environ)
        for harness in harnesses(wish.harness)
        if not wish.no_hooks
    ]
    foreign = _foreign(wanted, target.project, environ=environ)
    program = wish.started_by
    wires = tuple(
        wiring.planned(
            place,
            program=program,
            environ=environ,
            without=[(event, group, index) for event, group, index, _, _ in foreign.get(place.path, ())],
            wire=place in wanted,
            status_line=wish.status_line and place in wanted,
        )
        for place in dict.fromkeys([*wanted, *_places(foreign, target.project, environ=environ)])
    )
    if foreign and not wish.replace_hooks:
        raise RefusedError("foreign-lifecycle", _foreign_text(foreign, wires))
    owned = frozenset(os.path.join(target.root, *name.split("/")) for name in adopted.operator_owned(target.root))
    kept = [wire.place.path for wire in wires if wire.changed and wire.place.path in owned]
    if kept:
        raise RefusedError(
            "operator-owned", f"{kept[0]} belongs to the operator ({adopted.OPERATOR_OWNED}); choose another --scope"
        )
    written: list[skills.Skill] = []
    for place in wanted:
        folder = clients.skills_dir(place.scope, project=target.project, environ=environ, harness=place.harness)
        written += skills.planned(folder, program=_spoken(program, environ=environ), owned=owned)
    findings = [Finding("note", OK, target.root, note) for note in (*target.notes, *site.notes)]
    findings += [Finding("skill-edited", WARN, skill.path, skill.note) for skill in written if skill.note]
    findings += [Finding("hook-mixed", WARN, wire.place.path, note) for wire in wires for note in wire.notes]
    if site.mode != seat.EMBEDDED and not seat.may_drive(site.memory, target.root, started_by=_word(program)):
        findings.append(
            Finding(
                "merge-driver-not-set",
                OK,
                site.memory,
                "the program lies inside the seat, or is started through Python, so the vault's git is not told to run it for plain `git merge`",
            )
        )
    if not wish.no_hooks:
        findings += _warnings(wish, target, environ=environ, cwd=cwd)
    return Plan(wish, site, target, wires, tuple(written), tuple(findings))


def carried_out(plan: Plan, *, environ: Mapping[str, str], now: float) -> Outcome:
    """Does what was planned."""
    done: list[str] = []
    backups: list[str] = []
    if plan.site is not None:
        done += seat.made(plan.site, started_by=_word(plan.wish.started_by), environ=environ, now=now)
    for wire in plan.wires:
        if wire.changed:
            backups.append(wiring.applied(wire, environ=environ, now=now))
            done += [f"{wire.place.path}: {line}" for line in wire.done]
    for skill in plan.skills:
        if skill.former != skill.later:
            skills.applied(skill)
            done.append(f"wrote {skill.path}")
    return Outcome(tuple(done), tuple(filter(None, backups)))


def planned_removal(wish: Wish, *, environ: Mapping[str, str], cwd: str) -> Plan:
    """Everything `uninstall` would do: our entries in every file a client started here reads, and our skills. Nothing is written."""
    target = seat.chosen(explicit=wish.root, environ=environ, cwd=cwd, lenient=True)
    wanted = [
        place
        for place in clients.places(project=target.project, environ=environ)
        if (not wish.harness or place.harness in harnesses(wish.harness))
        and (not wish.scope or place.scope == wish.scope)
    ]
    wires = tuple(
        wire for wire in (wiring.unplanned(place, environ=environ) for place in wanted) if wire.former is not None
    )
    removed: list[skills.Skill] = []
    for harness, scope in dict.fromkeys((place.harness, place.scope.replace("local", "project")) for place in wanted):
        removed += skills.unplanned(clients.skills_dir(scope, project=target.project, environ=environ, harness=harness))
    findings = [Finding("hook-mixed", WARN, wire.place.path, note) for wire in wires for note in wire.notes]
    findings += [Finding("skill-edited", WARN, skill.path, skill.note) for skill in removed if skill.note]
    return Plan(wish, None, target, wires, tuple(removed), tuple(findings))


def removed(plan: Plan, *, environ: Mapping[str, str], now: float) -> Outcome:
    """Does what `planned_removal` found."""
    done: list[str] = []
    backups: list[str] = []
    for skill in plan.skills:
        if skill.former != skill.later:
            skills.applied(skill)
            done.append(f"removed {skill.path}")
    for wire in plan.wires:
        backups.append(wiring.undone(wire, environ=environ, now=now))
        done += [f"{wire.place.path}: {line}" for line in wire.done]
    return Outcome(tuple(done), tuple(filter(None, backups)))


def _word(program: str) -> str:
    """The path of the program when its command line is nothing else; "" where Python starts it."""
    words = shlex.split(program)
    return words[0] if len(words) == 1 else ""


def _spoken(program: str, *, environ: Mapping[str, str]) -> str:
    """How a skill names the program: its name alone where PATH leads to the same one."""
    for folder in environ.get("PATH", "").split(os.pathsep):
        found = os.path.join(folder, hooksfile.PROGRAM)
        if os.path.isabs(found) and os.access(found, os.X_OK):
            word = _word(program)
            same = bool(word) and os.path.realpath(found) == os.path.realpath(word)
            return hooksfile.PROGRAM if same else program
    return program


Foreign = dict[str, tuple[tuple[str, int, int, str, str], ...]]


def _foreign(wanted: list[Place], project: str, *, environ: Mapping[str, str]) -> Foreign:
    """Hooks of other lifecycles in every file these clients read here: path -> (event, group, index, name, command)."""
    found: Foreign = {}
    for place in clients.places(project=project, environ=environ):
        if place.harness not in {each.harness for each in wanted}:
            continue
        data = wiring.read(place)[1]
        if data is None:
            continue
        try:
            root = hooksfile.parsed(hooksfile.decoded(data, where=place.path)[1], where=place.path)
        except hooksfile.SettingsError:
            if place in wanted:
                raise
            # Not a file we are asked to change; the doctor names what is wrong with it.
            continue
        rows = tuple(
            (event, group, index, name, command)
            for event, group, index, _, command in hooksfile.commands(root)
            for name, sign in _FOREIGN
            if sign.search(command)
        )
        if rows:
            found[place.path] = rows
    return found


def _places(foreign: Foreign, project: str, *, environ: Mapping[str, str]) -> list[Place]:
    return [place for place in clients.places(project=project, environ=environ) if place.path in foreign]


def _foreign_text(foreign: Foreign, wires: tuple[wiring.Wire, ...]) -> str:
    names = sorted({row[3] for rows in foreign.values() for row in rows})
    lines = [
        f"hooks of {' and '.join(names)} are wired; two lifecycles over one project save and hand out everything twice."
    ]
    lines += [
        f"  {path}: hooks.{event}[{group}].hooks[{index}]: {command}"
        for path, rows in foreign.items()
        for event, group, index, _, command in rows
    ]
    lines.append("Nothing was changed. `vault-mem init --replace-hooks` would make these changes:")
    lines += [line for wire in wires for line in _diff(wire.place.path, wire.former, wire.later)]
    return "\n".join(lines)


def _warnings(wish: Wish, target: seat.Target, *, environ: Mapping[str, str], cwd: str) -> Iterator[Finding]:
    if wish.scope != "user" and os.path.realpath(cwd) != os.path.realpath(target.project):
        yield Finding(
            "project-settings-not-read",
            WARN,
            target.project,
            f"a client reads these hooks only when it is started in {target.project} itself, not in {cwd}",
            fix="vault-mem init --scope user",
        )
    elif wish.scope != "user":
        yield Finding(
            "project-settings-not-read",
            OK,
            target.project,
            "a client that is started in a sub-directory does not read these hooks",
            fix="vault-mem init --scope user",
        )
    yield from _twice(wish, target, environ=environ)
    if "claude" in harnesses(wish.harness):
        yield from _claude(target, environ=environ)
    if "codex" in harnesses(wish.harness):
        yield from _codex(wish, target, environ=environ)


def _twice(wish: Wish, target: seat.Target, *, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Other files these clients read that have our entries as well."""
    for place in clients.places(project=target.project, environ=environ):
        wired = [
            clients.place(each, wish.scope, project=target.project, environ=environ) for each in harnesses(wish.harness)
        ]
        if place.harness in harnesses(wish.harness) and place.path not in {each.path for each in wired}:
            try:
                root = hooksfile.parsed(
                    hooksfile.decoded(wiring.read(place)[1] or b"", where=place.path)[1], where=place.path
                )
            except hooksfile.SettingsError:
                continue
            if hooksfile.own(root):
                yield Finding(
                    "wired-twice",
                    WARN,
                    place.path,
                    f"{place.path} has our hooks as well, so they run twice",
                    fix=f"vault-mem uninstall --harness {place.harness} --scope {place.scope}",
                )


def _claude(target: seat.Target, *, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Whether Claude Code runs hooks at all, and our plugin as well: its hooks and those of the settings file would both run."""
    for place in clients.places(project=target.project, environ=environ):
        try:
            root = hooksfile.parsed(
                hooksfile.decoded(wiring.read(place)[1] or b"", where=place.path)[1], where=place.path
            )
        except hooksfile.SettingsError:
            continue
        switch = root.get("disableAllHooks") if root else None
        if switch is not None and switch.value is True:
            what = f"{place.path} switches all hooks off: disableAllHooks"
            yield Finding("hooks-disabled", WARN, place.path, what)
        enabled = root.get("enabledPlugins") if root else None
        for key, value in zip(enabled.keys, enabled.items, strict=True) if enabled and enabled.keys else ():
            if str(key.value).startswith(f"{hooksfile.PROGRAM}@") and value.value is True:
                yield Finding(
                    "plugin-as-well",
                    WARN,
                    place.path,
                    f"the plugin {key.value} is on in {place.path}: its hooks and these both run",
                    fix="vault-mem uninstall, then vault-mem init --no-hooks",
                )


def _codex(wish: Wish, target: seat.Target, *, environ: Mapping[str, str]) -> Iterator[Finding]:
    """What Codex wants before it runs a hook, and what in its configuration keeps it from that; the configuration is never changed."""
    layer = "" if wish.scope == "user" else f" (Codex reads {target.project}/.codex only in a project it trusts)"
    yield Finding(
        "codex-trust",
        WARN,
        target.project,
        f"Codex runs a new or changed hook only after you reviewed it: start `codex` here, open /hooks and trust these entries{layer}",
    )
    home = clients.codex_home(environ)
    for path in dict.fromkeys(
        os.path.join(folder, "config.toml") for folder in (home, os.path.join(target.project, ".codex"))
    ):
        try:
            with open(path, "rb") as file:
                features = tomllib.load(file).get("features")
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            yield Finding("codex-config-unreadable", WARN, path, f"{path}: {error}")
            continue
        off = [name for name in ("hooks", "codex_hooks") if isinstance(features, dict) and features.get(name) is False]
        if off:
            yield Finding("codex-hooks-off", WARN, path, f"{path} switches hooks off: features.{off[0]} = false")


def _diff(path: str, former: bytes | None, later: bytes | None) -> Iterator[str]:
    if former == later:
        return
    before, after = ((data or b"").decode("utf-8", "replace").splitlines() for data in (former, later))
    names = [path if data is not None else "/dev/null" for data in (former, later)]
    yield from difflib.unified_diff(before, after, names[0], names[1], lineterm="")
