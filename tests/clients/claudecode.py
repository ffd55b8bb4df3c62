"""Claude Code at the desk: how it is started, what it wrote, whose requests are whose."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

from tests.clients.desk import GLYPHS, KEY, PATIENCE, Terminal, clean, rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.clients.loopback import Loopback


class Claude:
    """Claude Code in one project. `run` is headless, `open` gives a terminal."""

    def __init__(self, program: str, project: Path, home: Path, api: Loopback, environ: dict[str, str]) -> None:
        self.program, self.project, self.home, self.api = program, project, home, api
        self.environ = clean(
            environ,
            api,
            ANTHROPIC_API_KEY=KEY,
            ANTHROPIC_BASE_URL=f"http://127.0.0.1:{api.port}",
            DISABLE_TELEMETRY="1",
            DISABLE_ERROR_REPORTING="1",
            DISABLE_AUTOUPDATER="1",
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
            # A first interactive start fetches the vendor's plugins whatever the line above says.
            CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL="1",
        )
        # Without these answers the first start asks them, and offline it never goes on.
        known = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True, "allowedTools": []}
        told = {
            "hasCompletedOnboarding": True,
            "theme": "dark",
            "customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []},
            "projects": {str(project): known},
        }
        (home / ".claude.json").write_text(json.dumps(told), encoding="utf-8")
        (home / "tmp").mkdir(exist_ok=True)

    def argv(self, *arguments: str) -> list[str]:
        return [self.program, "--permission-mode", "acceptEdits", "--allowedTools=Write,Edit,Read,Bash", *arguments]

    def open(self, socket: Path, *arguments: str) -> Terminal:
        terminal = Terminal(socket, self.argv(*arguments), cwd=self.project, environ=self.environ)
        terminal.wait(lambda: GLYPHS[0] in terminal.screen(), "the composer of Claude Code")
        return terminal

    def run(self, prompt: str, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        """One headless run, *more* in its environment; it has to end well."""
        done = subprocess.run(
            self.argv("-p", prompt, *arguments),
            cwd=self.project,
            env={**self.environ, **more},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done

    def transcripts(self) -> dict[str, Path]:
        """Session id -> transcript, oldest first."""
        found = sorted((self.home / ".claude/projects").glob("*/*.jsonl"), key=lambda path: path.stat().st_mtime)
        return {path.stem: path for path in found}

    def said(self, session: str) -> list[dict[str, Any]]:
        """The rows of a session's transcript."""
        path = self.transcripts().get(session)
        return rows(path) if path else []

    def session_of(self, words: str) -> str:
        """The session in which *words* were typed; "" while no request with them came."""
        return next((request.session for request in self.api.asked(words)), "")

    def say(self, terminal: Terminal, words: str) -> str:
        """Type a prompt and wait until its turn is over, Stop hooks included. The session it went to."""
        session: str = terminal.type(words, lambda: self.session_of(words), f"a request with {words!r}")
        terminal.wait(lambda: self._over(session, words), f"the turn of {words!r} is over")
        return session

    def _over(self, session: str, words: str) -> bool:
        """Whether a Stop summary follows the prompt in the transcript."""
        said = self.said(session)
        typed = [at for at, row in enumerate(said) if row["type"] == "user" and words in json.dumps(row.get("message"))]
        return bool(typed) and any(row.get("subtype") == "stop_hook_summary" for row in said[typed[-1] :])

    def faults(self) -> list[str]:
        """What the client holds against our hooks, in any transcript."""
        faults = []
        for session in self.transcripts():
            for row in self.said(session):
                kind = str((row.get("attachment") or {}).get("type", ""))
                if kind.startswith("hook_") and kind not in ("hook_success", "hook_additional_context"):
                    faults.append(json.dumps(row["attachment"]))
                if row.get("hookErrors"):
                    faults.append(json.dumps(row["hookErrors"]))
        return faults
