"""Retirement, packing and readers beside sessions that save: whole programs as processes, nothing lost."""

from __future__ import annotations

import json
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from tests.conftest import program, with_package

if TYPE_CHECKING:
    from collections.abc import Callable

SESSIONS, TURNS = 5, 6


def test_sessions_save_while_capsules_retire_and_packs_are_made(
    seat: Path, environ: dict[str, str], git: Callable[..., str], tmp_path: Path
) -> None:
    environ = with_package({**environ, "VAULT_MEM_RETIRE_AFTER": "3"})
    vault = seat / "vault/memory"
    problems: list[str] = []
    over = threading.Event()

    def run(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            program(*arguments), input=stdin, cwd=seat, env=environ, capture_output=True, check=False, timeout=120
        )

    def session(number: int) -> None:
        transcript = tmp_path / f"{number}.jsonl"
        for turn in range(TURNS):
            row = {
                "type": "user", "uuid": f"{number}-{turn}", "sessionId": f"s{number}", "cwd": str(seat),
                "isSidechain": False, "timestamp": f"2026-11-{10 + turn}T10:0{number}:00.000Z",
                "origin": {"kind": "human"}, "promptSource": "typed",
                "message": {"role": "user", "content": f"Please do piece {turn} of session {number} now."},
            }  # fmt: skip
            with transcript.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            payload = {"session_id": f"s{number}", "transcript_path": str(transcript), "cwd": str(seat)}
            done = run("hook", "stop", "--explain", stdin=json.dumps(payload).encode())
            if done.returncode or b"error:" in done.stderr:
                problems.append(done.stderr.decode())

    def others() -> None:
        while not over.is_set():
            for arguments in (("retire",), ("list", "--all"), ("gc",), ("log", "--graph")):
                done = run(*arguments)
                if done.returncode not in (0, 4) or b"Traceback" in done.stderr:
                    problems.append(f"{arguments}: {done.stderr.decode()}")

    beside = threading.Thread(target=others)
    saving = [threading.Thread(target=session, args=(number,)) for number in range(SESSIONS)]
    for thread in (*saving, beside):
        thread.start()
    for thread in saving:
        thread.join()
    over.set()
    beside.join()
    run("hook", "stop", stdin=b'{"session_id": "last", "transcript_path": "/nowhere", "cwd": "%s"}' % bytes(seat))

    history = git(vault, "log", "-p", "--format=", "--", "capsules")
    lost = [
        (number, turn)
        for number in range(SESSIONS)
        for turn in range(TURNS)
        if f"Please do piece {turn} of session {number} now." not in history
    ]
    assert not problems
    assert not lost
    git(vault, "fsck", "--strict")
    assert git(vault, "status", "--porcelain") == ""
    assert not [path for path in (vault / ".git").rglob("*.lock") if path.name != "vault.lock"]
    listed = json.loads(run("list", "--all", "--json").stdout)["capsules"]
    written = set(git(vault, "log", "--format=%(trailers:key=Capsule-Id,valueonly)").split())
    assert {row["id"] for row in listed} == written
