"""Faults of hooks, clients and other tools: each is made for real, found, mended the way the doctor says, and gone.

`command` runs the command of the finding in a shell, `fix` is `--fix`; a function mends what only a person can.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

PROGRAM = str(Path(sys.executable).parent / "vault-mem")
OLD = 3600


def replaced(path: Path, make: Callable[[Path], Any]) -> Callable[[], None]:
    """Puts something else in the place of *path*; calling the answer puts the old back."""
    aside = path.with_name(path.name + ".kept")
    path.rename(aside)
    make(path)

    def back() -> None:
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
        aside.rename(path)

    return back


def variable(name: str, value: str) -> Callable[[Any], Any]:
    def make(box: Any) -> Any:
        box.environ[name] = value
        return lambda: box.environ.pop(name)

    return make


def variables(**values: str) -> Callable[[Any], Any]:
    def make(box: Any) -> Any:
        box.environ.update(values)
        return lambda: [box.environ.pop(name) for name in values]

    return make


def no_hooks(box: Any) -> None:
    box.settings.unlink()


def one_hook_gone(box: Any) -> None:
    box.hooks(lambda value: value["hooks"].pop("Stop"))


def in_two_scopes(box: Any) -> Any:
    path = Path(box.environ["HOME"]) / ".claude/settings.json"
    path.parent.mkdir()
    shutil.copy(box.settings, path)
    return path.unlink


def twice_in_one_file(box: Any) -> None:
    box.hooks(lambda value: value["hooks"]["Stop"].append(value["hooks"]["Stop"][0]))


def narrow_matcher(box: Any) -> None:
    box.hooks(lambda value: value["hooks"]["SessionStart"][0].update(matcher="startup|resume|clear"))


def wrong_place(box: Any) -> None:
    def change(value: dict[str, Any]) -> None:
        value["hooks"]["Notification"] = value["hooks"]["Stop"]

    box.hooks(change)


def entry_of(value: dict[str, Any], event: str = "Stop") -> Any:
    return value["hooks"][event][0]["hooks"][0]


def program_gone(box: Any) -> None:
    box.hooks(lambda value: entry_of(value).update(command="/gone/venv/bin/vault-mem hook stop"))


def program_not_executable(box: Any) -> None:
    path = box.seat.parent / "bin dir/vault-mem"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\n")
    box.hooks(lambda value: entry_of(value).update(command=f"{shlex.quote(str(path))} hook stop"))


def script(text: str) -> Callable[[Any], Any]:
    def make(box: Any) -> None:
        path = box.seat.parent / "bin dir/vault-mem"
        path.parent.mkdir()
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        box.hooks(lambda value: entry_of(value).update(command=f"{shlex.quote(str(path))} hook stop"))

    return make


def milliseconds(box: Any) -> None:
    box.hooks(lambda value: entry_of(value).update(timeout=15000))


def background(box: Any) -> None:
    box.hooks(lambda value: entry_of(value).update({"async": True}))


def mixed(box: Any) -> Any:
    before = box.settings.read_text()
    box.hooks(lambda value: entry_of(value).update(command=f"{PROGRAM} hook stop; echo done"))
    return lambda: box.settings.write_text(before)


def settings_text(text: str) -> Callable[[Any], Any]:
    def make(box: Any) -> Any:
        path = box.seat / ".claude/settings.local.json"
        path.write_text(text)
        return path.unlink

    return make


def settings_is_a_folder(box: Any) -> Any:
    path = box.seat / ".claude/settings.local.json"
    path.mkdir()
    return path.rmdir


def below(box: Any) -> Any:
    box.cwd = box.seat / "src"
    box.cwd.mkdir()
    return lambda: setattr(box, "cwd", box.seat)


def codex_unreviewed(box: Any) -> Any:
    path = box.seat / ".codex/hooks.json"
    path.parent.mkdir()
    shutil.copy(box.settings, path)
    events = ("session_start", "user_prompt_submit", "post_tool_use", "stop", "pre_compact", "session_end")

    def review() -> None:
        home = Path(box.environ["HOME"]) / ".codex"
        home.mkdir()
        rows = [f'[hooks.state."{path}:{event}:0:0"]\ntrusted_hash = "x"\n' for event in events]
        (home / "config.toml").write_text("".join(rows))

    return review


def client(text: str) -> Callable[[Any], Any]:
    def make(box: Any) -> Any:
        box.client(text)
        return box.client

    return make


def no_clients(box: Any) -> Any:
    box.client().chmod(0o644)
    return box.client


def other_tool(event: str, command: str, **more: Any) -> Callable[[Any], Any]:
    def make(box: Any) -> Any:
        before = box.settings.read_text()
        box.foreign(event, command, **more)
        return lambda: box.settings.write_text(before)

    return make


def unquoted(box: Any) -> Any:
    moved = box.seat.with_name("my project")
    box.seat.rename(moved)
    box.__init__(moved, box.environ, box.git)  # type: ignore[misc] # the same box at another place
    box.shell("vault-mem trust")
    return other_tool("Stop", "$CLAUDE_PROJECT_DIR/x.sh")(box)


def no_skill(box: Any) -> None:
    shutil.rmtree(box.seat / ".claude/skills/resume")


def edited_skill(box: Any) -> Any:
    path = box.seat / ".claude/skills/resume/SKILL.md"
    before = path.read_text()
    path.write_text(before.replace("resume", "go on", 1))
    return lambda: path.write_text(before)


def linked_skill(box: Any) -> Any:
    return replaced(box.seat / ".claude/skills/resume", lambda path: path.symlink_to(path.name + ".kept"))


def rows() -> tuple[Any, ...]:
    return tuple(
        pytest.param(token, make, how, id=f"{token}-{number}") for number, (token, make, how) in enumerate(FAULTS)
    )


FIX, COMMAND = "fix", "command"
FAULTS = (
    ("hooks-missing", no_hooks, COMMAND),
    ("hook-missing", one_hook_gone, FIX),
    ("hook-missing", one_hook_gone, COMMAND),
    ("hook-doubled", in_two_scopes, None),
    ("hook-doubled", twice_in_one_file, FIX),
    ("hook-matcher", narrow_matcher, FIX),
    ("hook-wrong-place", wrong_place, FIX),
    ("hook-program-missing", program_gone, FIX),
    ("hook-program-missing", program_gone, COMMAND),
    ("hook-program-missing", program_not_executable, FIX),
    ("hook-fails", script("exit 3"), "vault-mem init"),
    ("hook-fails", script("echo hello"), "vault-mem init"),
    ("hook-blocks", script("exit 2"), "vault-mem init"),
    ("hook-timeout-unit", milliseconds, FIX),
    ("hook-background", background, FIX),
    ("hook-mixed", mixed, None),
    ("settings-malformed", settings_text("{"), None),
    ("settings-malformed", settings_text('{"hooks": {"Stop": "echo"}}'), None),
    ("settings-malformed", settings_text('{"hooks": {"Stop": [{"type": "command", "command": "x"}]}}'), None),
    ("settings-malformed", settings_text('{"hooks": []}'), None),
    ("settings-unreadable", settings_is_a_folder, None),
    ("hooks-disabled", settings_text('{"disableAllHooks": true}'), None),
    ("started-below-root", below, None),
    ("bad-client-home", variable("CLAUDE_CONFIG_DIR", "relative"), None),
    ("codex-unreviewed", codex_unreviewed, None),
    ("ceiling-above-compaction", variable("CLAUDE_CODE_AUTO_COMPACT_WINDOW", "100000"), None),
    ("ceiling-above-compaction", variable("CLAUDE_CODE_AUTO_COMPACT_WINDOW", "300000"), None),
    (
        "ceiling-above-compaction",
        variables(CLAUDE_CODE_AUTO_COMPACT_WINDOW="400000", FM_CONTEXT_CEILING="500000"),
        None,
    ),
    ("client-missing", no_clients, None),
    ("client-silent", client("exit 1"), None),
    ("client-old", client("echo 1.0.3"), None),
    ("foreign-timeout-unit", other_tool("Stop", "true", timeout=10000), None),
    ("foreign-unquoted", unquoted, None),
    ("foreign-missing", other_tool("Stop", "/nonexistent/tool"), None),
    ("foreign-recursion", other_tool("Stop", "claude -p 'sum up'"), None),
    ("foreign-lifecycle", other_tool("Stop", "node .claude/hooks/stop-capsule-writer.mjs"), None),
    ("two-memories", other_tool("SessionStart", "npx claude-mem context"), None),
    ("skill-missing", no_skill, COMMAND),
    ("skill-edited", edited_skill, None),
    ("skill-link", linked_skill, None),
)


@pytest.mark.parametrize(
    ("token", "make", "how"),
    tuple(pytest.param(*row, id=f"{row[0]}-{number}") for number, row in enumerate(FAULTS)),
)
def test_a_fault_is_found_mended_and_gone(box: Any, token: str, make: Callable[[Any], Any], how: str | None) -> None:
    box.cured(token, make, how, run_hooks=token in ("hook-fails", "hook-blocks"))
