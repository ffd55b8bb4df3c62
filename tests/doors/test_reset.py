"""Wakes at the hooks, and what a person declares, through the real program; no tmux is needed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from vault_mem import wakes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SESSION = "5e551011"


def payload(event: str, **more: Any) -> bytes:
    return json.dumps({"session_id": SESSION, "hook_event_name": event, **more}).encode()


@pytest.fixture
def runtime(seat: Path) -> str:
    return str(seat / "vault/memory/runtime")


def test_prompt_hook_and_resume_show_a_sessions_wakes_and_stop_prints_nothing(
    seat: Path, runtime: str, vault_mem: Callable[..., Any]
) -> None:
    wakes.push(runtime, now=1e9, session=SESSION, key=wakes.CEILING, kind="ask", text="ask the person first")
    wakes.push(runtime, now=1e9, session="other", key=wakes.CEILING, kind="ask", text="not for you")

    prompt = vault_mem("hook", "user-prompt-submit", stdin=payload("UserPromptSubmit", prompt="go"), cwd=seat)
    start = vault_mem("resume", stdin=payload("SessionStart", source="startup"), cwd=seat)
    stop = vault_mem("hook", "stop", stdin=payload("Stop"), cwd=seat)

    shown = json.loads(prompt.stdout)["hookSpecificOutput"]
    assert shown["hookEventName"] == "UserPromptSubmit"
    for text in (shown["additionalContext"], start.stdout.decode()):
        assert "ask the person first" in text
        assert "not for you" not in text
    assert (prompt.returncode, stop.returncode, stop.stdout) == (0, 0, b"")


def test_a_prompt_hook_says_nothing_where_no_watcher_was_ever_set_up(seat: Path, vault_mem: Callable[..., Any]) -> None:
    done = vault_mem("hook", "user-prompt-submit", stdin=payload("UserPromptSubmit", prompt="go"), cwd=seat)

    assert (done.returncode, done.stdout) == (0, b"")


def test_a_watcher_that_stopped_is_said(seat: Path, runtime: str, vault_mem: Callable[..., Any]) -> None:
    assert vault_mem("reset", "watch", "--once", cwd=seat).returncode == 0
    with open(f"{runtime}/reset/beacon.json", "w", encoding="utf-8") as file:
        file.write('{"at": 1000}')

    done = vault_mem("hook", "user-prompt-submit", stdin=payload("UserPromptSubmit", prompt="go"), cwd=seat)

    assert b"watcher-stale" in done.stdout


def test_a_watcher_is_late_by_its_own_interval(seat: Path, vault_mem: Callable[..., Any]) -> None:
    slow = {"VAULT_MEM_RESET_CHECK_INTERVAL": "7200"}
    assert vault_mem("reset", "watch", "--once", cwd=seat, more=slow).returncode == 0
    path = seat / "vault/memory/runtime/reset/beacon.json"
    row = json.loads(path.read_text())
    assert row["interval"] == 7200

    for ago, said in ((7300, False), (14500, True)):
        path.write_text(json.dumps({**row, "at": row["at"] - ago}))
        prompt = vault_mem("hook", "user-prompt-submit", stdin=payload("UserPromptSubmit", prompt="go"), cwd=seat)
        start = vault_mem("resume", stdin=payload("SessionStart", source="startup"), cwd=seat)
        assert [b"watcher-stale" in done.stdout for done in (prompt, start)] == [said, said]


def test_what_is_declared_is_listed_until_it_is_over(seat: Path, vault_mem: Callable[..., Any]) -> None:
    def run(*words: str) -> int:
        return int(vault_mem("reset", *words, cwd=seat).returncode)

    assert run("away", "on") == 0
    assert run("hold", "deploy", "--why", "it runs") == 0
    assert run("decision", "open", "name", "--why", "which one") == 0
    shown = json.loads(vault_mem("reset", "status", "--json", cwd=seat, check=True).stdout)
    assert shown["away"]["on"]
    assert [(each["kind"], each["key"]) for each in shown["declared"]] == [("hold", "deploy"), ("decision", "name")]
    assert [run("away", "off"), run("release", "deploy"), run("decision", "resolve", "name")] == [0, 0, 0]
    assert [run("release", "deploy"), run("decision", "resolve", "name")] == [4, 4]
    assert run("hold", "../x", "--why", "no") == 64
    assert run("hold", "x") == 64
    assert json.loads(vault_mem("reset", "status", "--json", cwd=seat, check=True).stdout)["declared"] == []


def test_a_tunable_that_is_no_number_is_a_finding_and_no_crash(seat: Path, vault_mem: Callable[..., Any]) -> None:
    done = vault_mem("reset", "status", "--json", cwd=seat, more={"FM_CONTEXT_CEILING": "lots"}, check=True)

    assert b"bad-tunable" in done.stderr
    assert json.loads(done.stdout)["findings"][0]["token"] == "bad-tunable"


def test_there_is_no_force(seat: Path, vault_mem: Callable[..., Any]) -> None:
    assert vault_mem("reset", "clear", "--force", cwd=seat).returncode == 64
