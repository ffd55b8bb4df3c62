"""Codex, the real one, with nothing of ours replaced: what it asks the API, what it wrote, what it says of our hooks, and what git says."""

from __future__ import annotations

import hashlib
import os
import re
import signal
from typing import TYPE_CHECKING, Any

from tests.clients.loopback import SUMMARY, Silence, Tool

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    from tests.clients.codexcli import Codex
    from tests.clients.conftest import Vault
    from tests.clients.loopback import Loopback

    Socket = Callable[[], Path]

ORIENTATION = "[VAULT MEMORY] Orientation only"
PROCEDURE = "[RESUME VERB]"
BRIEFING = "[VAULT MEMORY] The context of this session was compacted"
ASK = "Let the program greet people by their name"
HOOK = re.compile(r"^hook: (\w+) (\w+)$", re.MULTILINE)


def scripted(api: Loopback, **more: Any) -> None:
    """A piece of work: a file written, a check that fails, and words at the end."""
    api.answers(
        ASK,
        Tool("exec_command", {"cmd": "echo 'def greet(name): ...' > greet.py"}),
        Tool("exec_command", {"cmd": "python3 -m greet_tests"}),
        "The name is a parameter now; its tests are missing.",
        **more,
    )


def hooks(done: subprocess.CompletedProcess[str]) -> list[tuple[str, str]]:
    """What a headless run says of each hook: its event, and Completed or Failed."""
    return HOOK.findall(done.stderr)


def test_a_turn_is_one_commit_and_every_hook_of_it_completes(codex: Codex, api: Loopback, vault: Vault) -> None:
    scripted(api)

    done = codex.run(ASK)

    assert hooks(done) == [(event, "Completed") for event in ("SessionStart", "UserPromptSubmit", "Stop")]
    (commit,) = vault.events()
    assert commit["Capsule-Event"] == "autosave"
    assert [commit["Capsule-Session"]] == codex.sessions_of(ASK)
    assert commit["Capsule-Harness"] == "codex"
    text = vault.text(commit["Capsule-Id"])
    assert f'objective: "{ASK}"' in text
    assert "python3 -m greet_tests" in text
    assert [request.text.count(ORIENTATION) for request in api.asked(ASK)] == [1, 1, 1]
    assert vault.clean()


def test_a_resumed_session_goes_on_in_its_capsule_and_consumes_nothing(
    codex: Codex, api: Loopback, vault: Vault
) -> None:
    scripted(api)
    api.answers("Go on with the tests", "They are written.")

    codex.run(ASK)
    (session,) = codex.sessions_of(ASK)
    done = codex.run("resume", session, "Go on with the tests")

    assert codex.sessions_of("Go on with the tests") == [session]
    assert {how for _, how in hooks(done)} == {"Completed"}
    assert len({row["Capsule-Id"] for row in vault.events("autosave")}) == 1
    assert vault.events("consume") == []
    assert "[OPERATOR] Go on with the tests" in vault.text(vault.capsule_of(session))
    (request,) = api.asked("Go on with the tests")
    assert PROCEDURE not in request.text


def test_a_clear_hands_the_capsule_to_the_new_session_with_its_first_prompt(
    codex: Codex, api: Loopback, vault: Vault, socket: Socket
) -> None:
    scripted(api)
    api.answers("What is next?", "The tests.")

    with codex.open(socket()) as terminal:
        old = codex.say(terminal, ASK)
        terminal.type("/clear", lambda: ASK not in terminal.screen(), "an empty screen")
        new = codex.say(terminal, "What is next?")

    assert new != old
    (handed,) = vault.events("consume")
    assert (handed["Capsule-Session"], handed["Capsule-Consumer"], handed["Capsule-Status"]) == (old, new, "resumed")
    (request,) = api.asked("What is next?")
    (text,) = [text for role, text in request.told if role == "developer" and PROCEDURE in text]
    assert ASK in text
    assert hashlib.sha256(text.encode()).hexdigest() == handed["Injected"]
    assert vault.events("autosave")[-1]["Capsule-Parent"] == handed["Capsule-Id"]


def test_a_compaction_in_the_middle_of_a_turn_gets_a_checkpoint_and_a_briefing(
    codex: Codex, api: Loopback, vault: Vault
) -> None:
    codex.set("model_auto_compact_token_limit = 50000")
    scripted(api, tokens=60_000)

    done = codex.run(ASK)

    assert {how for _, how in hooks(done)} == {"Completed"}
    (session,) = codex.sessions_of(ASK)
    assert {row["Capsule-Session"] for row in vault.events("checkpoint")} == {session}
    told = [request for request in api.requests if SUMMARY in request.text]
    assert told
    assert told[-1].text.count(BRIEFING) == 1


def test_a_compaction_by_hand_is_told_with_the_next_prompt(
    codex: Codex, api: Loopback, vault: Vault, socket: Socket
) -> None:
    scripted(api)
    api.answers("Go on with the tests", "They are written.")

    with codex.open(socket()) as terminal:
        session = codex.say(terminal, ASK)
        terminal.type(
            "/compact",
            lambda: [row for row in codex.said(session) if row["type"] == "compacted"],
            "the compaction is done",
        )
        codex.say(terminal, "Go on with the tests")

    (checkpoint,) = vault.events("checkpoint")
    assert checkpoint["Capsule-Session"] == session
    (request,) = api.asked("Go on with the tests")
    assert request.text.count(BRIEFING) == 1
    assert vault.events("consume") == []


def test_of_two_sessions_each_clear_gets_its_own_capsule(
    codex: Codex, api: Loopback, vault: Vault, socket: Socket
) -> None:
    asks = ("Let the left side greet", "Let the right side greet")
    nexts = ("What of the left side?", "What of the right side?")
    for words in (*asks, *nexts):
        api.answers(words, "It greets.")

    with codex.open(socket()) as left, codex.open(socket()) as right:
        desks = (left, right)
        sessions = [codex.say(desk, ask) for desk, ask in zip(desks, asks, strict=True)]
        capsules = [vault.capsule_of(session) for session in sessions]
        for desk, ask, words in zip(desks, asks, nexts, strict=True):
            desk.type("/clear", lambda desk=desk, ask=ask: ask not in desk.screen(), "an empty screen")
            codex.say(desk, words)

    assert [row["Capsule-Id"] for row in vault.events("consume")] == capsules
    assert vault.clean()


def test_a_killed_client_loses_nothing_that_was_asked(
    codex: Codex, api: Loopback, vault: Vault, socket: Socket
) -> None:
    api.answers(ASK, Tool("exec_command", {"cmd": "echo hello > greet.py"}), Silence())
    api.answers("Where were we?", "At the greeting.")

    with codex.open(socket()) as terminal:
        (session,) = terminal.type(
            ASK, lambda: len(api.asked(ASK)) == 2 and codex.sessions_of(ASK), "the model is asked a second time"
        )
        os.kill(int(terminal.tmux("list-panes", "-a", "-F", "#{pane_pid}")), signal.SIGKILL)
        terminal.wait(lambda: not terminal.open(), "the client is gone")
    codex.run("Where were we?")

    saves = [row for row in vault.events("autosave") if row["Capsule-Session"] == session]
    assert saves
    assert f"[OPERATOR] {ASK}" in vault.text(saves[-1]["Capsule-Id"])
