"""A seat to break, and the doctor to ask about it."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from vault_mem import stamps
from vault_mem.cli import doctor as door
from vault_mem.cli import install
from vault_mem.doctor import collect, repair
from vault_mem.doctor.catalogue import KINDS
from vault_mem.doctor.examine import examine

if TYPE_CHECKING:
    from collections.abc import Callable

    from vault_mem.report import Finding

PROGRAM = str(Path(sys.executable).parent / "vault-mem")
SOUND = "echo 2.1.332 '(Claude Code)'"


class Box:
    """A seat to break, and the doctor to ask about it."""

    def __init__(self, seat: Path, environ: dict[str, str], git: Callable[..., str]) -> None:
        self.seat, self.environ, self.git = seat, environ, git
        self.vault = seat / "vault/memory"
        self.dot = self.vault / ".git"
        self.runtime = self.vault / "runtime"
        self.settings = seat / ".claude/settings.json"
        self.marker = seat / ".aigent/state.json"
        self.cwd = seat
        self.cleanup: list[Callable[[], Any]] = []

    def look(self, *, run_hooks: bool = False) -> tuple[Any, tuple[Finding, ...]]:
        scene, odd = collect.look(
            explicit="", environ=self.environ, cwd=str(self.cwd), now=time.time(), program=PROGRAM, run_hooks=run_hooks
        )
        return scene, (*examine(scene), *odd)

    def tokens(self, *, run_hooks: bool = False) -> dict[str, Finding]:
        return {found.token: found for found in self.look(run_hooks=run_hooks)[1]}

    def fix(self) -> tuple[repair.Mended, ...]:
        scene, findings = self.look()
        tools = door._tools(scene, environ=self.environ, now=time.time(), program=PROGRAM)
        return repair.mend(scene, findings, tools)

    def shell(self, command: str) -> None:
        path = f"{Path(PROGRAM).parent}{os.pathsep}{self.environ['PATH']}"
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=self.cwd,
            env={**self.environ, "PATH": path},
            capture_output=True,
            timeout=60,
            check=False,
            text=True,
        )
        assert done.returncode == 0, f"{command}: {done.stdout} {done.stderr}"

    def declare(self, value: Any) -> None:
        self.marker.write_text(json.dumps({"schemaVersion": 1, "memory_root": value}))

    def redeclare(self) -> None:
        self.declare("vault/memory")

    def hooks(self, change: Callable[[dict[str, Any]], Any]) -> None:
        value = json.loads(self.settings.read_text())
        change(value)
        self.settings.write_text(json.dumps(value, indent=2))

    def foreign(self, event: str, command: str, **more: Any) -> None:
        entry = {"type": "command", "command": command, **more}
        self.hooks(lambda value: value["hooks"].setdefault(event, []).append({"hooks": [entry]}))

    def capsule(self, name: str, *, commit: bool = True, body: str = "", **fields: str) -> Path:
        path = self.vault / "capsules" / f"{name}.md"
        header = {
            "id": name,
            "status": "active",
            "objective": "Split the parser",
            "waiting_on": "nothing",
            "next_valid_action": "Run the tests",
            "created_at": stamps.utc(time.time() - 60),
            **fields,
        }
        path.parent.mkdir(exist_ok=True)
        path.write_text("---\n" + "".join(f"{key}: {value}\n" for key, value in header.items()) + f"---\n{body}")
        if commit:
            self.git(self.vault, "add", "-f", "capsules")
            self.git(self.vault, "commit", "-q", "-m", name)
        return path

    def client(self, text: str = SOUND) -> Path:
        """A client program on PATH that answers with *text* of shell."""
        path = self.seat.parent / "clients/claude"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path

    def cured(self, token: str, make: Callable[[Any], Any], how: str | None, *, run_hooks: bool = False) -> None:
        """Makes the fault, sees it found, mends it *how* the row says, and sees it gone."""
        before = self.tokens(run_hooks=run_hooks)
        mend = make(self)
        found = self.tokens(run_hooks=run_hooks)

        assert token not in before
        assert token in found, sorted(found)
        assert found[token].severity == KINDS[token].severity
        assert found[token].what
        assert found[token].why

        if how == "fix":
            done = [each for each in self.fix() if each.token == token]
            assert all(each.done for each in done), done
        elif how == "command":
            self.shell(found[token].fix)
        elif how:
            self.shell(how)
        else:
            mend()
        after = self.tokens(run_hooks=run_hooks)

        assert token not in after, after[token]


@pytest.fixture
def box(project: Path, environ: dict[str, str], git: Callable[..., str]) -> Any:
    out = io.StringIO()
    code = install.run(
        "init",
        ["--harness", "claude", "--scope", "project"],
        environ=environ,
        cwd=str(project),
        now=time.time(),
        program=PROGRAM,
        out=out,
        err=out,
    )
    assert code == 0, out.getvalue()
    made = Box(project, environ, git)
    made.client()
    environ["PATH"] = f"{project.parent}/clients:{environ['PATH']}"
    yield made
    for act in reversed(made.cleanup):
        act()
