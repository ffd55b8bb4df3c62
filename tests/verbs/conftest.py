"""A stand-in for a client session: it writes transcript rows as the real client does and fires the real hooks as processes."""

from __future__ import annotations

import json
import sys
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

Run = "Callable[..., subprocess.CompletedProcess[bytes]]"


class Session:
    """One session in one seat; every method that fires a hook returns the finished process."""

    def __init__(
        self, seat: Path, home: Path, run: Callable[..., subprocess.CompletedProcess[bytes]], name: str = ""
    ) -> None:
        self.seat, self.run = seat, run
        self.id = name or str(uuid.uuid4())
        self.home = home
        self.vault = seat / "vault/memory"
        self.transcript = home / ".claude/projects/p" / f"{self.id}.jsonl"
        self.clock = time.time() - 3600

    def sibling(self, name: str = "") -> Session:
        """Another session of the same seat."""
        return Session(self.seat, self.home, self.run, name)

    def row(self, **fields: Any) -> dict[str, Any]:
        """Append one transcript row, a second after the one before."""
        self.clock += 1
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(self.clock))
        common = {
            "isSidechain": False,
            "cwd": str(self.seat),
            "sessionId": self.id,
            "gitBranch": "main",
            "uuid": str(uuid.uuid4()),
        }
        row = {**common, "timestamp": stamp, **fields}
        self.transcript.parent.mkdir(parents=True, exist_ok=True)
        with self.transcript.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
        return row

    def prompt(self, text: str) -> None:
        """The person types."""
        self.row(type="user", origin={"kind": "human"}, promptSource="typed", message={"role": "user", "content": text})

    def answer(self, text: str) -> None:
        """The agent says something."""
        self._assistant({"type": "text", "text": text})

    def use(self, name: str, result: str = "", *, failed: bool = False, **given: Any) -> None:
        """The agent uses a tool and gets an answer."""
        ref = f"toolu_{uuid.uuid4().hex[:12]}"
        self._assistant({"type": "tool_use", "id": ref, "name": name, "input": given})
        block = {"type": "tool_result", "tool_use_id": ref, "content": result, "is_error": failed}
        self.row(type="user", message={"role": "user", "content": [block]})

    def _assistant(self, block: dict[str, Any]) -> None:
        message = {
            "id": f"msg_{uuid.uuid4().hex[:8]}",
            "role": "assistant",
            "model": "m",
            "content": [block],
            "usage": {"input_tokens": 3},
        }
        self.row(type="assistant", message=message)

    def payload(self, event: str, **more: Any) -> bytes:
        """What the client writes to the hook's standard input."""
        base = {
            "session_id": self.id,
            "transcript_path": str(self.transcript),
            "cwd": str(self.seat),
            "hook_event_name": event,
        }
        return json.dumps({**base, **more}).encode()

    def stop(
        self, said: str = "", *, event: str = "stop", payload: bytes | None = None, **more: Any
    ) -> subprocess.CompletedProcess[bytes]:
        """The Stop hook, or another one that saves."""
        given = (
            self.payload("Stop", stop_hook_active=False, last_assistant_message=said, **more)
            if payload is None
            else payload
        )
        return self.run("hook", event, "--explain", stdin=given, cwd=self.seat)

    def turn(self, text: str, said: str) -> subprocess.CompletedProcess[bytes]:
        """A whole turn: prompt, answer, Stop."""
        self.prompt(text)
        self.answer(said)
        return self.stop(said)

    def start(self, source: str = "clear") -> str:
        """The SessionStart hook; the text the model would see."""
        done = self.run("resume", stdin=self.payload("SessionStart", source=source), cwd=self.seat, check=True)
        if not done.stdout:
            return ""
        document = json.loads(done.stdout)
        assert set(document) <= {"hookSpecificOutput", "systemMessage"}
        return str(document["hookSpecificOutput"]["additionalContext"])

    def capsules(self) -> list[Path]:
        """The files of this session, oldest name first."""
        found = sorted((self.vault / "capsules").rglob("*.md"))
        return [
            path
            for path in found
            if f"session_id: {self.id}\n" in (text := path.read_text("utf-8")) or f'session_id: "{self.id}"' in text
        ]

    def capsule(self) -> Path:
        """The one file of this session."""
        (only,) = self.capsules()
        return only


def token(done: subprocess.CompletedProcess[bytes]) -> str:
    """The outcome token that `--explain` put on standard error; standard output must be empty."""
    assert done.returncode == 0
    assert done.stdout == b""
    first = done.stderr.decode("utf-8").splitlines()[0]
    return first.removeprefix("vault-mem: ").split(": ")[0].split(":  ")[0].rstrip(":")


@pytest.fixture
def session(
    seat: Path, environ: dict[str, str], vault_mem: Callable[..., subprocess.CompletedProcess[bytes]]
) -> Session:
    return Session(seat, Path(environ["HOME"]), vault_mem)


@pytest.fixture
def outcome() -> Callable[[subprocess.CompletedProcess[bytes]], str]:
    return token


@pytest.fixture
def events(git: Callable[..., str], seat: Path) -> Callable[[], list[tuple[str, str, str]]]:
    """Event, capsule id and consumer of every commit about a capsule, oldest first."""

    def read() -> list[tuple[str, str, str]]:
        keys = ("Event", "Id", "Consumer")
        wanted = "%x1f".join(f"%(trailers:key=Capsule-{key},valueonly,separator=%x2c)" for key in keys)
        rows = git(seat / "vault/memory", "log", "--reverse", f"--format={wanted}").splitlines()
        return [(event, name, consumer) for event, name, consumer in (row.split("\x1f") for row in rows) if event]

    return read


@pytest.fixture
def program() -> Callable[..., list[str]]:
    """The command line of the installed program, for tests that start it themselves."""

    def build(*arguments: str) -> list[str]:
        return [sys.executable, str(Path(sys.executable).parent / "vault-mem"), *arguments]

    return build
