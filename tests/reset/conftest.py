"""A world for the reset: a seat, a stand-in client in a tmux pane on a private socket, a transcript over the ceiling, the real program."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HERE = Path(__file__).resolve().parent
TMUX = shutil.which("tmux")
CAPSULE = """---
id: "cap-sweep"
parent_capsule_id: null
status: active
objective: "Split the parser and keep the tests green."
waiting_on: "Nothing is pending."
resume_trigger: clear
expires: null
trigger: manual
next_valid_action: "Fix the tests of the second module."
success_criteria: []
tags: [capsule]
created_at: "{now}"
updated_at: "{now}"
resolved_at: null
session_id: "{session}"
harness: claude
framing: reference-only
instruction_authority: none
precedence: latest-live-state-wins
pending_policy: surface-never-auto-resume
reverse_signal_policy: cancels-in-flight-work
---

> [!info] [REFERENCE ONLY] A snapshot, not instructions; the latest memory wins.

## Done (don't redo)
<!-- swe:done -->
- 10:00 The parser is split in two modules.

## Historical-Errors → Resolutions
<!-- swe:errors -->

## Historical-Rejected-Approaches
<!-- swe:rejected -->

## Files-Read / Files-Modified
<!-- swe:files -->

## Operating-Facts
<!-- swe:facts -->

## Pending-Gates
<!-- swe:gates -->

## Claimed-Rows
<!-- swe:rows -->
"""


def stamp(epoch: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(epoch))


class World:
    """One seat and one client."""

    def __init__(self, seat: Path, home: Path, environ: dict[str, str]) -> None:
        self.seat, self.environ = seat, environ
        self.sid = str(uuid.uuid4())
        self.folder = home / ".claude/projects/p"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.transcript = self.folder / f"{self.sid}.jsonl"
        self.runtime = seat / "vault/memory/runtime"
        self.reset = self.runtime / "reset"
        self.mine = self.reset / self.sid
        self.socket = str(home / f"t{uuid.uuid4().hex[:6]}")
        self.ctl = home / "ctl"
        self.ctl.mkdir(exist_ok=True)
        self.pane = ""
        self.words = [sys.executable, str(Path(sys.executable).parent / "vault-mem")]
        self.command = shlex.join(self.words)

    def row(self, kind: str, content: Any, *, ago: float, **more: Any) -> str:
        name = str(uuid.uuid4())
        message: dict[str, Any] = {"role": kind, "content": content}
        message |= more.pop("message", {})
        row = {
            "type": kind,
            "isSidechain": False,
            "sessionId": self.sid,
            "uuid": name,
            "timestamp": stamp(time.time() - ago),
        }
        with self.transcript.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**row, "message": message, **more}) + "\n")
        return name

    def person(self, text: str, *, ago: float = 10800) -> str:
        return self.row("user", text, ago=ago, origin={"kind": "human"}, promptSource="typed")

    def answer(self, tokens: int = 400_003, *, ago: float = 10700) -> None:
        counts = {"input_tokens": 3, "cache_creation_input_tokens": 2000, "cache_read_input_tokens": tokens - 2003}
        self.row(
            "assistant",
            [{"type": "text", "text": "Done."}],
            ago=ago,
            message={"model": "m", "id": "x", "usage": counts},
        )

    def tmux(self, *arguments: str, check: bool = True) -> str:
        done = subprocess.run(
            ["tmux", "-u", "-S", self.socket, *arguments],
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=20,
        )
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout

    def up(self, *options: str) -> World:
        words = [sys.executable, str(HERE / "standin.py"), "--ctl", str(self.ctl), "--sid", self.sid]
        words += ["--transcript", str(self.transcript), "--hook", f"{self.command} resume", *options]
        start = ["-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "24", "-c", str(self.seat)]
        self.tmux(*start, f"exec {shlex.join(words)}")
        until((self.ctl / "ready").exists)
        self.pane = self.tmux("list-panes", "-a", "-F", "#{pane_id}").splitlines()[0]
        return self

    def inside(self, text: str, kind: str = "tool") -> tuple[int, str]:
        """Run a command as a child of the client; exit code and everything it said."""
        name = f"{time.time_ns()}"
        (self.ctl / f"{name}.tmp").write_text(text)
        (self.ctl / f"{name}.tmp").rename(self.ctl / f"{name}.{kind}")
        until((self.ctl / f"{name}.rc").exists)
        until(lambda: (self.ctl / f"{name}.rc").read_text() != "")
        return int((self.ctl / f"{name}.rc").read_text()), (self.ctl / f"{name}.out").read_text()

    def vm(self, *words: str, **more: str) -> tuple[int, str]:
        setting = " ".join(f"{name}={shlex.quote(value)}" for name, value in more.items())
        return self.inside(f"{setting} {self.command} {shlex.join(words)}")

    def outside(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.words, *words],
            cwd=self.seat,
            env={**self.environ, **more},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def watch(self, **more: str) -> str:
        done = self.outside("reset", "watch", "--once", **more)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def sweep(self) -> None:
        text = CAPSULE.format(now=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), session=self.sid)
        path = self.ctl / "sweep.md"
        path.write_text(text, encoding="utf-8")
        code, said = self.inside(f"{self.command} capsule write - < {shlex.quote(str(path))}")
        assert code == 0, said

    def receipt(self) -> None:
        """Wake, sweep, drain and receipt, as the autonomous path goes."""
        self.watch()
        time.sleep(0.01)
        self.sweep()
        assert self.vm("wakes", "drain")[0] == 0
        code, said = self.vm("reset", "receipt")
        assert code == 0, said

    def turn_end(self) -> None:
        payload = {
            "session_id": self.sid,
            "transcript_path": str(self.transcript),
            "cwd": str(self.seat),
            "hook_event_name": "Stop",
        }
        path = self.ctl / "stop.json"
        path.write_text(json.dumps(payload))
        code, said = self.inside(f"{self.command} hook stop < {shlex.quote(str(path))}", "hook")
        assert (code, said) == (0, "")

    @property
    def submitted(self) -> list[str]:
        path = self.ctl / "submitted"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def bytes(self) -> bytes:
        path = self.ctl / "bytes"
        return path.read_bytes() if path.exists() else b""

    @property
    def log(self) -> list[list[str]]:
        path = self.reset / "reset.log"
        return [line.split("\t") for line in path.read_text().splitlines()] if path.exists() else []

    @property
    def outcomes(self) -> list[str]:
        return [row[1] for row in self.log]

    def screen(self) -> str:
        return self.tmux("capture-pane", "-p", "-t", self.pane)


def until(holds: Callable[[], bool], seconds: float = 40.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


@pytest.fixture
def world(seat: Path, environ: dict[str, str], tmp_path: Path) -> Iterator[World]:
    """A client is not up yet: `world.up()` starts it. Over the ceiling, the person silent for three hours."""
    if TMUX is None:
        pytest.skip("tmux is not installed")
    (tmp_path / "h").mkdir()
    made = World(
        seat,
        tmp_path / "h",
        {**environ, "PYTHONPATH": str(HERE.parent.parent), "LC_ALL": "C.UTF-8", "FM_SEND_SLEEP": "3"},
    )
    made.person("Split the parser and keep the tests green.")
    made.answer()
    yield made
    made.tmux("kill-server", check=False)


@pytest.fixture
def eventually() -> Callable[..., None]:
    return until


def edit(path: Path, **fields: Any) -> None:
    """Change fields of a JSON file; None takes one out."""
    value = {**json.loads(path.read_text()), **fields}
    path.write_text(json.dumps({key: item for key, item in value.items() if item is not None}))


@pytest.fixture
def edited() -> Callable[..., None]:
    return edit
