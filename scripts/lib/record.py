"""Drives each real client through one small session with a hook that only notes what it is given, and writes the notes, made anonymous, for the bench.

A session: start, a prompt with a file written, a compaction by hand, a second prompt with an automatic one in the middle, the end. What a client *accepts* as an answer cannot be seen in what it
sends; those rules are taken over from the recording before.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.clients.claudecode import Claude
from tests.clients.codexcli import Codex
from tests.clients.desk import rows
from tests.clients.loopback import Loopback, Tool

if TYPE_CHECKING:
    from collections.abc import Callable

RECORDED = Path("vault_mem/context/recorded")
STEPS = {
    "SessionStart": "session-start",
    "UserPromptSubmit": "user-prompt-submit",
    "PostToolUse": "post-tool-use",
    "Stop": "stop",
    "PreCompact": "pre-compact",
    "PostCompact": "post-compact",
    "SessionEnd": "session-end",
}
STATUS = "statusline"
FIRST, SECOND = "Let the program greet people by their name", "Write the tests as well"
LONGEST = 400
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
MADE = re.compile(r"\b(toolu|msg|call|fc)_[0-9a-f]{20,}")
DAY = re.compile(r"/sessions/\d{4}/\d\d/\d\d/rollout-[\dT-]+?-(?=[0-9a-f]{8}-)")
OFTEN = ("pid", "ppid")


class World:
    """A throw-away home with a project, a hook that notes, and the API."""

    def __init__(self, place: Path, api: Loopback) -> None:
        self.home, self.project, self.api = place / "home", place / "home/project", api
        self.project.mkdir(parents=True)
        self.notes = place / "notes"
        self.hook = place / "hook"
        self.hook.write_text(f"#!/bin/sh\nline=$(cat)\nprintf '%s\\n' \"$line\" >>'{self.notes}'\n", encoding="utf-8")
        self.hook.chmod(0o755)
        self.environ = {"HOME": str(self.home), "PATH": os.environ["PATH"], "TZ": "UTC", "USER": "user"}
        self.environ |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": str(place / "gitconfig")}
        subprocess.run(["git", "init", "-q"], cwd=self.project, env=self.environ, check=True)

    def wire(self, path: str, **more: Any) -> None:
        """Write a settings file in which every event goes to the hook that notes."""
        entry = {"type": "command", "command": str(self.hook), "timeout": 10}
        hooks = {event: [{"hooks": [entry]}] for event in STEPS}
        file = self.project / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"hooks": hooks, **more}), encoding="utf-8")

    def noted(self, event: str) -> int:
        return sum(row.get("hook_event_name") == event for row in rows(self.notes))


def claude(world: World) -> None:
    world.wire(".claude/settings.json", statusLine={"type": "command", "command": str(world.hook)})
    file = str(world.project / "greet.py")
    world.api.answers(FIRST, Tool("Write", {"file_path": file, "content": "print('hello')\n"}), "It does.")
    edit = {"file_path": file, "old_string": "hello", "new_string": "good day"}
    world.api.answers(SECOND, Tool("Edit", edit), "They are written.", tokens=199_000)
    client = Claude(os.environ["VAULT_MEM_TEST_CLAUDE"], world.project, world.home, world.api, world.environ)
    client.environ["CLAUDE_CODE_AUTO_COMPACT_WINDOW"] = "100000"
    with client.open(world.home / "s") as terminal:
        client.say(terminal, FIRST)
        terminal.type("/compact", lambda: world.noted("PostCompact"), "the compaction is done")
        client.say(terminal, SECOND)
        terminal.type("/exit", lambda: not terminal.open(), "the client has left")


def codex(world: World) -> None:
    world.wire(".codex/hooks.json")
    world.api.tolerated.add("raw.githubusercontent.com")
    world.api.answers(FIRST, Tool("exec_command", {"cmd": "echo hello > greet.py"}), "It does.")
    world.api.answers(SECOND, Tool("exec_command", {"cmd": "cat greet.py"}), "They are written.", tokens=60_000)
    client = Codex(os.environ["VAULT_MEM_TEST_CODEX"], world.project, world.home, world.api, world.environ)
    client.set("model_auto_compact_token_limit = 50000")
    with client.open(world.home / "s") as terminal:
        client.say(terminal, FIRST)
        terminal.type("/compact", lambda: world.noted("PostCompact"), "the compaction is done")
        client.say(terminal, SECOND)
        terminal.type("/quit", lambda: not terminal.open(), "the client has left")
    terminal.wait(lambda: world.noted("SessionEnd"), "the end is noted")


class Anonymous:
    """Takes ids, places and long texts of this run out of a payload; the same id becomes the same everywhere."""

    def __init__(self, home: Path) -> None:
        self.home, self.made = str(home), dict[str, str]()

    def of(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.of(item) for item in value]
        if isinstance(value, dict):
            return {key: self.of(item) for key, item in value.items() if key not in OFTEN}
        return value

    def text(self, text: str) -> str:
        text = text.replace(self.home, "/home/user").replace(self.home.replace("/", "-"), "-home-user")
        text = DAY.sub("/sessions/2026/11/30/rollout-2026-11-30T23-00-00-", text)
        text = UUID.sub(lambda found: self._mint(found[0], "00000000-0000-4000-8000-%012d"), text)
        text = MADE.sub(lambda found: self._mint(found[0], found[1] + "_%04d"), text)
        return text if len(text) <= LONGEST else f"{text[:LONGEST]}…[{len(text) - LONGEST} chars elided]"

    def _mint(self, name: str, form: str) -> str:
        if name not in self.made:
            self.made[name] = form % (1 + len(self.made))
        return self.made[name]


def steps(world: World) -> list[dict[str, Any]]:
    """The notes in order; of the status line, which comes all the time, the last one, before the end."""
    hide = Anonymous(world.home)
    noted = rows(world.notes)
    found = [
        {"hook": STEPS[row["hook_event_name"]], "payload": hide.of(row)} for row in noted if "hook_event_name" in row
    ]
    status = [row for row in noted if "hook_event_name" not in row]
    if status:
        found.insert(len(found) - 1, {"hook": STATUS, "payload": hide.of(status[-1])})
    return found


def record(name: str, drive: Callable[[World], None]) -> None:
    before = sorted(RECORDED.glob(f"{name}-*.json"))
    document = json.loads(before[-1].read_text(encoding="utf-8"))
    program = os.environ[f"VAULT_MEM_TEST_{name.upper()}"]
    with tempfile.TemporaryDirectory(prefix="rec") as place, Loopback() as api:
        world = World(Path(place).resolve(), api)
        said = subprocess.run([program, "--version"], env=world.environ, capture_output=True, text=True, check=True)
        version = re.search(r"\d+\.\d+\.\d+", said.stdout)
        if version is None:
            sys.exit(f"{program} --version names no version: {said.stdout}")
        drive(world)
        found = steps(world)
        if api.strangers:
            sys.exit(f"{name} asked other hosts: {api.strangers}")
    missing = document["outputs"].keys() - {step["payload"].get("hook_event_name") for step in found}
    if missing or found[-1]["hook"] != "session-end":
        sys.exit(f"{name} {version[0]}: not recorded: {', '.join(sorted(missing)) or 'an end at the end'}")
    for path in before:
        path.unlink()
    document |= {"version": version[0], "steps": found}
    target = RECORDED / f"{name}-{version[0]}.json"
    target.write_text(json.dumps(document, indent=1, ensure_ascii=True) + "\n", encoding="utf-8")
    print(f"{target}: {len(found)} calls")


if __name__ == "__main__":
    for wanted, how in (("claude", claude), ("codex", codex)):
        if sys.argv[1] in (wanted, "all"):
            record(wanted, how)
