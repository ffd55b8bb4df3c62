"""Codex at the desk: its settings, how it is started, what it wrote."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

from tests.clients.desk import KEY, PATIENCE, Terminal, clean, rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.clients.loopback import Loopback

SETTINGS = """model = "gpt-mock"
model_provider = "here"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
{more}
[model_providers.here]
name = "here"
base_url = "http://127.0.0.1:{port}/v1"
wire_api = "responses"
env_key = "OPENAI_API_KEY"
[analytics]
enabled = false
[features]
daemon_auto_start = false
plugins = {plugins}
apps = false
[tui]
screen_reader_detection_done = true
animations = false
[projects."{project}"]
trust_level = "trusted"
"""


class Codex:
    """Codex in one project. `run` is headless, `open` gives a terminal."""

    def __init__(self, program: str, project: Path, home: Path, api: Loopback, environ: dict[str, str]) -> None:
        self.program, self.project, self.home, self.api = program, project, home, api
        self.environ = clean(environ, api, OPENAI_API_KEY=KEY)
        (home / "tmp").mkdir(exist_ok=True)
        (home / ".codex").mkdir()
        self.set()

    def set(self, more: str = "", *, plugins: bool = False) -> None:
        """Write the settings; *more* is TOML for the top of them. With *plugins* it also looks for those of its maker, on other hosts."""
        on = str(plugins).lower()
        text = SETTINGS.format(port=self.api.port, project=self.project, more=more, plugins=on)
        (self.home / ".codex/config.toml").write_text(text, encoding="utf-8")

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """One headless run; it has to end well. The review of hooks is a dialog, so it is passed over."""
        done = subprocess.run(
            [self.program, "exec", "--dangerously-bypass-hook-trust", *arguments],
            cwd=self.project,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done

    def open(self, socket: Path, *arguments: str) -> Terminal:
        argv = [self.program, "--dangerously-bypass-hook-trust", *arguments]
        terminal = Terminal(socket, argv, cwd=self.project, environ=self.environ)
        terminal.wait(lambda: "Ask Codex to do anything" in terminal.screen(), "the composer of Codex")
        return terminal

    def said(self, session: str) -> list[dict[str, Any]]:
        """The rows of a session's rollout."""
        found = [path for path in (self.home / ".codex/sessions").rglob("*.jsonl") if path.stem.endswith(session)]
        return rows(found[0]) if found else []

    def sessions_of(self, words: str) -> list[str]:
        """The sessions in which *words* were typed, in order."""
        return list(dict.fromkeys(request.session for request in self.api.asked(words)))

    def say(self, terminal: Terminal, words: str) -> str:
        """Type a prompt and wait until its turn is over, Stop hooks included. The session it went to."""
        before = len(self.sessions_of(words))
        session: str = terminal.type(words, lambda: self.sessions_of(words)[before:], f"a request with {words!r}")[0]
        terminal.wait(lambda: self.over(session, words), f"the turn of {words!r} is over")
        assert "Hook failed" not in terminal.screen(), terminal.screen()
        return session

    def over(self, session: str, words: str) -> bool:
        """Whether the rollout says that the turn of the prompt is complete."""
        said = self.said(session)
        typed = [at for at, row in enumerate(said) if words in json.dumps(row["payload"])]
        return bool(typed) and any(row["payload"].get("type") == "task_complete" for row in said[typed[0] :])
