"""The hook entries of a client's settings file: found, added, mended and removed in its text, with every other byte as it was. Pure.

`remove(install(text))` is the text again: what stood in containers that were empty or missing is kept as `Undo` beside it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vault_mem import jsonspans
from vault_mem.errors import VaultMemError
from vault_mem.jsonspans import Node

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PROGRAM = "vault-mem"
MODULE = "vault_mem"
FILE_TOOLS = "Edit|MultiEdit|Write|NotebookEdit"
BOM = b"\xef\xbb\xbf"


class SettingsError(VaultMemError):
    """A settings file cannot be understood, so nothing of it is changed; the message names the file and the place in it."""

    token = "bad-settings"


@dataclass(frozen=True, slots=True)
class Hook:
    """One entry to have: event, matcher (None: every one), arguments of our program, limit in seconds."""

    event: str
    matcher: str | None
    arguments: str
    timeout: int


HOOKS = (
    # No matcher: a list of sources would miss the next one that a client adds, as it did `fork`.
    Hook("SessionStart", None, "resume", 10),
    Hook("UserPromptSubmit", None, "hook user-prompt-submit", 5),
    Hook("PostToolUse", FILE_TOOLS, "hook post-tool-use", 5),
    Hook("Stop", None, "hook stop", 15),
    Hook("PreCompact", None, "hook pre-compact", 15),
    # Three seconds are the most that Codex grants, and more than the 1.5 s that Claude Code grants where nothing is said.
    Hook("SessionEnd", None, "hook session-end", 3),
)
CODEX_HOOKS = (*HOOKS[:-1], Hook("PostCompact", None, "hook post-compact", 5), HOOKS[-1])
"""Codex tells of the end of a compaction (0.171.0), and begins the session anew only with the next prompt."""


def hooks_of(harness: str) -> tuple[Hook, ...]:
    """The entries to have for a client. Older versions of Claude Code stop with a dialog at an event they do not know, so it gets the old ones."""
    return CODEX_HOOKS if harness == "codex" else HOOKS


@dataclass(frozen=True, slots=True)
class Entry:
    """A hook entry of ours as it stands in a file: where (`hooks.Stop[0].hooks[1]`), and what its command line consists of.

    *program* is the word that starts it as written, *arguments* what follows (`hook stop`), *mixed*: the person made it part of more.
    """

    event: str
    group: int
    index: int
    matcher: str
    command: str
    program: str
    arguments: str
    mixed: bool = False

    @property
    def where(self) -> str:
        """The JSON path."""
        return f"hooks.{self.event}[{self.group}].hooks[{self.index}]"


@dataclass(frozen=True, slots=True)
class Undo:
    """What a file was before we filled it.

    *blank*: it held no value; *former* is its text then (None: there was no file). *inner* is the text inside each container that we
    filled, by JSON path (None: there was none).
    """

    blank: bool = False
    former: str | None = None
    inner: Mapping[str, str | None] = field(default_factory=dict)

    def over(self, later: Undo) -> Undo:
        """This one, with what *later* knows beyond it."""
        return Undo(
            self.blank or later.blank, self.former if self.blank else later.former, {**later.inner, **self.inner}
        )


@dataclass(frozen=True, slots=True)
class Change:
    """A text with what was done to it, as sentences."""

    text: str
    undo: Undo
    done: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


# --- reading -------------------------------------------------------------------------------------------------------------------


def decoded(data: bytes, *, where: str) -> tuple[bytes, str]:
    """A file's byte order mark and its text; raises SettingsError."""
    mark = BOM if data.startswith(BOM) else b""
    try:
        return mark, data[len(mark) :].decode("utf-8")
    except UnicodeDecodeError as error:
        raise SettingsError(f"{where}: is not UTF-8; nothing was changed") from error


def parsed(text: str, *, where: str) -> Node | None:
    """The settings object; None: the text is blank. Raises SettingsError for anything a client would read in another way than we."""
    if not text.strip(" \t\r\n"):
        return None
    try:
        root = jsonspans.parse(text)
    except jsonspans.JsonSpanError as error:
        raise SettingsError(f"{where}: is not valid JSON: {error}; nothing was changed") from error
    problems = malformed(root)
    if problems:
        raise SettingsError(f"{where}: {'; '.join(problems)}; nothing was changed")
    return root


def malformed(root: Node) -> tuple[str, ...]:
    """What is wrong with the shape of a settings object and its hooks, each with its JSON path; () when nothing is."""
    if root.kind != "object":
        return (f"must hold an object, not {_kind(root)}",)
    twice = root.doubled()
    if twice is not None:
        return (f"the key {twice} stands twice",)
    hooks = root.get("hooks")
    if hooks is None:
        return ()
    if hooks.kind != "object":
        return (f"hooks must be an object, not {_kind(hooks)}",)
    twice = hooks.doubled()
    if twice is not None:
        return (f"the key hooks.{twice} stands twice",)
    return tuple(
        problem
        for key, groups in zip(hooks.keys, hooks.items, strict=True)
        for problem in _bad_event(f"hooks.{key.value}", groups)
    )


def _kind(node: Node) -> str:
    return {"word": str(json.dumps(node.value)), "array": "an array", "object": "an object"}.get(
        node.kind, f"a {node.kind}"
    )


def _bad_event(path: str, groups: Node) -> Iterator[str]:
    if groups.kind != "array":
        yield f"{path} must be an array, not {_kind(groups)}"
    for number, group in enumerate(groups.items if groups.kind == "array" else ()):
        here = f"{path}[{number}]"
        inner = group.get("hooks") if group.kind == "object" else None
        matcher = group.get("matcher") if group.kind == "object" else None
        if group.kind != "object":
            yield f"{here} must be an object, not {_kind(group)}"
        elif group.doubled() is not None:
            yield f"{here}: the key {group.doubled()} stands twice"
        elif inner is None:
            yield f"{here} has no hooks array"
        elif inner.kind != "array":
            yield f"{here}.hooks must be an array, not {_kind(inner)}"
        elif matcher is not None and matcher.kind != "string":
            yield f"{here}.matcher must be a string, not {_kind(matcher)}"
        else:
            for index, entry in enumerate(inner.items):
                yield from _bad_entry(f"{here}.hooks[{index}]", entry)


def _bad_entry(path: str, entry: Node) -> Iterator[str]:
    if entry.kind != "object":
        yield f"{path} must be an object, not {_kind(entry)}"
        return
    twice, kind, command = entry.doubled(), entry.get("type"), entry.get("command")
    if twice is not None:
        yield f"{path}: the key {twice} stands twice"
    elif kind is None or kind.kind != "string":
        yield f"{path}.type must be a string"
    elif kind.value == "command" and (command is None or command.kind != "string" or not str(command.value).strip()):
        yield f"{path}.command must be a string that is not empty"


def commands(root: Node | None) -> Iterator[tuple[str, int, int, str, str]]:
    """Event, group, index, matcher and command line of every command in a well-formed settings object."""
    hooks = root.get("hooks") if root else None
    for key, groups in zip(hooks.keys, hooks.items, strict=True) if hooks else ():
        for number, group in enumerate(groups.items):
            matcher, inner = group.get("matcher"), group.get("hooks")
            for index, entry in enumerate(inner.items if inner else ()):
                command, given = entry.get("command"), entry.get("args")
                if command is not None and command.kind == "string":
                    words = [str(each.value) for each in given.items] if given and given.kind == "array" else []
                    line = shlex.join([str(command.value), *words]) if words else str(command.value)
                    yield str(key.value), number, index, str(matcher.value) if matcher else "", line


def own(root: Node | None) -> tuple[Entry, ...]:
    """Our entries, in the order of the file."""
    found = []
    for event, group, index, matcher, command in commands(root):
        ours = recognised(command)
        if ours:
            program, arguments, mixed = ours
            found.append(Entry(event, group, index, matcher, command, program, arguments, mixed))
    return tuple(found)


_WORD = r"""(?:[^\s'"\\;&|<>()`#]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")(?:[^\s'"\\;&|<>()`]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")*"""
_LINE = re.compile(
    rf"(?P<program>{_WORD})(?P<module>\s+(?:-\w+\s+)*-m\s+{MODULE})?"
    rf"(?P<options>(?:\s+--(?:root|harness)(?:=|\s+){_WORD})*)\s+(?P<verb>hook\s+[a-z][a-z-]*|resume)(?=\s|;|$)(?P<rest>.*)",
    re.DOTALL,
)
_BEFORE = re.compile(rf"\s*(?:(?:exec|env)\s+|[A-Za-z_]\w*={_WORD}?\s+)*", re.DOTALL)
# What people put behind a hook so that it cannot fail; still nothing but our hook.
_HARMLESS_REST = re.compile(
    r"(?:\s+(?:2>\s*(?:/dev/null|&1)|>\s*/dev/null|\|\|\s*(?:true|:|exit 0)|--?[\w-]+(?:=\S+)?))*\s*"
)


def recognised(command: str) -> tuple[str, str, bool] | None:
    """The program word, our arguments and whether more happens on this command line; None: it does not start our program."""
    before = _BEFORE.match(command)
    for start in dict.fromkeys((before.end() if before else 0, *_after_operators(command))):
        found = _LINE.match(command, start)
        if not found:
            continue
        try:
            words = shlex.split(found["program"])
        except ValueError:
            continue
        name = os.path.basename(words[0]) if len(words) == 1 else ""
        if name.removesuffix(".exe") != PROGRAM and not found["module"]:
            continue
        whole = start == (before.end() if before else 0) and not command[:start].strip()
        mixed = not whole or not _HARMLESS_REST.fullmatch(found["rest"])
        program = found["program"] + (found["module"] or "")
        return program, " ".join(found["verb"].split()), mixed
    return None


def _after_operators(command: str) -> tuple[int, ...]:
    return tuple(found.end() for found in re.finditer(r"(?:&&|\|\||[;|&(])\s*", command))


# --- writing -------------------------------------------------------------------------------------------------------------------


def install(text: str | None, *, program: str, hooks: Sequence[Hook] = HOOKS, where: str = "") -> Change:
    """The text with exactly one right entry for each of *hooks*; None: there is no file. *program* is what a shell starts us by, quoted.

    What is right already stays as it is. Raises SettingsError.
    """
    blank = text is None or parsed(text, where=where) is None
    undo = Undo(blank, text) if blank else Undo()
    text = "{}\n" if blank or text is None else text
    done: list[str] = []
    notes: list[str] = []
    wanted = {hook.event: hook for hook in hooks}
    kept: set[str] = set()
    surplus: list[Entry] = []
    for entry in own(parsed(text, where=where)):
        hook = wanted.get(entry.event)
        fits = hook is not None and entry.arguments == hook.arguments and _same_matcher(entry.matcher, hook.matcher)
        if entry.mixed:
            notes.append(
                f"{entry.where}: our hook is part of a longer command line; it was left alone: {entry.command}"
            )
            kept.add(entry.event)
        elif fits and entry.event not in kept:
            kept.add(entry.event)
            if entry.program != program:
                text = _with_program(text, entry, program)
                done.append(f"{entry.where}: starts {program} now, it was {entry.program}")
        else:
            surplus.append(entry)
            done.append(f"{entry.where}: removed, it was {'doubled' if fits else 'out of place'}: {entry.command}")
    text = _without(text, surplus, undo=None)
    inner: dict[str, str | None] = {}
    for hook in hooks:
        if hook.event not in kept:
            text = _add(text, hook, f"{program} {hook.arguments}", inner)
            done.append(f"hooks.{hook.event}: added {program} {hook.arguments}")
    return Change(text, Undo(undo.blank, undo.former, inner), tuple(done), tuple(notes))


def remove(text: str, undo: Undo | None = None, *, where: str = "") -> tuple[str | None, Change]:
    """The text without our entries, and without the containers that were made for them; None: the file was made for them.

    Without *undo* a container that becomes empty is taken for ours. Raises SettingsError.
    """
    entries = own(parsed(text, where=where))
    gone = [entry for entry in entries if not entry.mixed]
    notes = tuple(
        f"{entry.where}: left, it does more than our hook: {entry.command}" for entry in entries if entry.mixed
    )
    done = tuple(f"{entry.where}: removed {entry.command}" for entry in gone)
    text = _without(text, gone, undo=undo or Undo())
    change = Change(text, undo or Undo(), done, notes)
    root = jsonspans.parse(text) if text.strip(" \t\r\n") else None
    if done and undo and undo.blank and root is not None and not root.items:
        return undo.former, change
    return text, change


def without(text: str, entries: Sequence[tuple[str, int, int]]) -> str:
    """The text without the entries at these places (event, group, index)."""
    return _without(text, [Entry(event, group, index, "", "", "", "") for event, group, index in entries], undo=None)


def _same_matcher(found: str, wanted: str | None) -> bool:
    return found in ("", "*") if wanted is None else found == wanted


def _with_program(text: str, entry: Entry, program: str) -> str:
    node = _entry_node(text, entry)
    command = node.get("command")
    if command is None:
        return text
    old = str(command.value)
    if node.get("args") is not None:
        # Started without a shell: the path as it is, not as a shell reads it.
        words = shlex.split(program)
        return text[: command.start] + jsonspans.dumped(words[0] if len(words) == 1 else old) + text[command.end :]
    new = old.replace(entry.program, program, 1) if entry.program in old else program
    return text[: command.start] + json.dumps(new, ensure_ascii=False) + text[command.end :]


def _entry_node(text: str, entry: Entry) -> Node:
    group = _groups(text, entry.event).items[entry.group]
    inner = group.get("hooks")
    if inner is None:
        raise AssertionError(entry.where)
    return inner.items[entry.index]


def _groups(text: str, event: str) -> Node:
    hooks = jsonspans.parse(text).get("hooks")
    groups = hooks.get(event) if hooks else None
    if groups is None:
        raise AssertionError(event)
    return groups


def _without(text: str, entries: Sequence[Entry], *, undo: Undo | None) -> str:
    """Removes from the end, so that the places of the others hold; *undo* None: emptied events stay, something is added to them next."""
    for entry in sorted(entries, key=lambda each: (each.event, each.group, each.index), reverse=True):
        groups = _groups(text, entry.event)
        inner = groups.items[entry.group].get("hooks")
        if inner is None:
            raise AssertionError(entry.where)
        if len(inner.items) > 1:
            text = jsonspans.cut(text, inner, entry.index)
            continue
        text = jsonspans.cut(text, groups, entry.group)
        if len(groups.items) == 1:
            text = _close(text, entry.event, undo or Undo())
    return text


def _close(text: str, event: str, undo: Undo) -> str:
    """Deals with an event that has no group left, then with `hooks` and the whole."""
    for path in ((*("hooks", event),), ("hooks",), ()):
        node = jsonspans.parse(text)
        parents = [node]
        for name in path:
            found = parents[-1].get(name)
            if found is None:
                raise AssertionError(path)
            parents.append(found)
        if parents[-1].items:
            return text
        former = undo.inner.get(".".join(path))
        if former is not None or not path:
            target = parents[-1]
            return text[: target.start + 1] + (former or "") + text[target.end - 1 :]
        owner = parents[-2]
        text = jsonspans.cut(text, owner, [key.value for key in owner.keys].index(path[-1]))
    return text


def _add(text: str, hook: Hook, command: str, inner: dict[str, str | None]) -> str:
    entry = {"type": "command", "command": command, "timeout": hook.timeout}
    group: dict[str, object] = (
        {"hooks": [entry]} if hook.matcher is None else {"matcher": hook.matcher, "hooks": [entry]}
    )
    root = jsonspans.parse(text)
    hooks = root.get("hooks")
    if hooks is None:
        inner.setdefault("hooks", None)
        return _append(text, root, "", {hook.event: [group]}, "hooks", inner)
    groups = hooks.get(hook.event)
    if groups is None:
        inner.setdefault(f"hooks.{hook.event}", None)
        return _append(text, hooks, "hooks", [group], hook.event, inner)
    return _append(text, groups, f"hooks.{hook.event}", group, None, inner)


def _append(text: str, container: Node, path: str, value: object, key: str | None, inner: dict[str, str | None]) -> str:
    """Puts *value* (under *key*) behind the last element and keeps in *inner* what an empty container held."""
    if not container.items:
        inner.setdefault(path, text[container.start + 1 : container.end - 1])
    return jsonspans.appended(text, container, value, key)
