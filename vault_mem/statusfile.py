"""The status line in Claude Code's settings: a person's own is wrapped, so that both show, and given back as it was. Pure."""

from __future__ import annotations

import os
import re
import shlex
from typing import TYPE_CHECKING

from vault_mem import jsonspans

if TYPE_CHECKING:
    from vault_mem.jsonspans import Node

KEY = "statusLine"
_PROGRAM = re.compile(
    r"""((?:[^\s'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+(?:\s+-P)?(?:\s+-m\s+vault_mem)?)\s+statusline(?=\s|$)"""
)


class StatusLineError(ValueError):
    """The status line of the file has a shape that we do not wrap; the message names it."""


def wrapped(text: str, *, program: str) -> str:
    """The settings with our status line: around the one that is there, else alone. Raises StatusLineError."""
    root = jsonspans.parse(text)
    node = root.get(KEY)
    if node is None:
        return jsonspans.appended(text, root, {"type": "command", "command": f"{program} statusline"}, KEY)
    command = _command(node)
    line = str(command.value)
    ours = _ours(line)
    later = f"{program}{line[ours:]}" if ours else f"{program} statusline -- sh -c {shlex.quote(line)}"
    return _with(text, command, later)


def unwrapped(text: str) -> str:
    """The settings with the person's own status line again, or with none where ours stood alone."""
    root = jsonspans.parse(text)
    node = root.get(KEY)
    try:
        command = _command(node) if node else None
    except StatusLineError:
        return text
    if command is None or not _ours(str(command.value)):
        return text
    words = shlex.split(str(command.value))
    own = words[words.index("--") + 1 :] if "--" in words else []
    if not own:
        return jsonspans.cut(text, root, [key.value for key in root.keys].index(KEY))
    return _with(text, command, own[2] if own[:2] == ["sh", "-c"] and len(own) == 3 else shlex.join(own))


def is_ours(text: str) -> bool:
    """Whether our status line is in the settings."""
    node = jsonspans.parse(text).get(KEY)
    command = node.get("command") if node and node.kind == "object" else None
    return command is not None and bool(_ours(str(command.value)))


def _command(node: Node) -> Node:
    command = node.get("command") if node.kind == "object" else None
    if command is None or command.kind != "string" or not str(command.value).strip():
        raise StatusLineError(f"{KEY} has no command that could be wrapped")
    return command


def _ours(line: str) -> int:
    """How long the word that starts our program is; 0: this is not ours."""
    found = _PROGRAM.match(line)
    if not found:
        return 0
    try:
        words = shlex.split(found[1])
    except ValueError:
        return 0
    ours = os.path.basename(words[0]).removesuffix(".exe") == "vault-mem" or words[-2:] == ["-m", "vault_mem"]
    return found.end(1) if ours else 0


def _with(text: str, node: Node, value: str) -> str:
    return text[: node.start] + jsonspans.dumped(value) + text[node.end :]
