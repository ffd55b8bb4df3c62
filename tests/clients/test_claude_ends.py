"""How a turn of the real Claude Code ends when nobody lets it: no Stop hook fires then, and what the person asked for is kept all the same."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from tests.clients.loopback import Silence, Tool

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.clients.claudecode import Claude
    from tests.clients.conftest import Vault
    from tests.clients.desk import Terminal
    from tests.clients.loopback import Loopback

    Socket = Callable[[], Path]

ASK = "Let the program greet people by their name"


def in_a_turn(claude: Claude, api: Loopback, terminal: Terminal) -> str:
    """A turn that did something and now waits for an answer that does not come. Its session."""
    file = str(claude.project / "greet.py")
    api.answers(ASK, Tool("Write", {"file_path": file, "content": "print('hello')\n"}), Silence())
    terminal.type(ASK, lambda: len(api.asked(ASK)) == 2, "the model is asked a second time")
    return claude.session_of(ASK)


def test_an_interrupted_turn_is_saved_when_the_person_leaves(
    claude: Claude, api: Loopback, vault: Vault, socket: Socket
) -> None:
    with claude.open(socket()) as terminal:
        session = in_a_turn(claude, api, terminal)
        terminal.tmux("send-keys", "Escape")
        terminal.wait(lambda: "Interrupted" in terminal.screen(), "the interruption shows")
        assert vault.events() == []
        terminal.type("/exit", lambda: not terminal.open(), "the client has left")

    (commit,) = vault.events()
    assert commit["Capsule-Session"] == session
    assert f"[OPERATOR] {ASK}" in vault.text(commit["Capsule-Id"])
    assert "modified greet.py" in vault.text(commit["Capsule-Id"])


def test_an_interrupted_turn_is_handed_over_by_a_clear(
    claude: Claude, api: Loopback, vault: Vault, socket: Socket
) -> None:
    api.answers("What is next?", "The tests.")

    with claude.open(socket()) as terminal:
        session = in_a_turn(claude, api, terminal)
        terminal.tmux("send-keys", "Escape")
        terminal.wait(lambda: "Interrupted" in terminal.screen(), "the interruption shows")
        terminal.type("/clear", lambda: vault.events("consume"), "a consume commit")
        claude.say(terminal, "What is next?")

    (handed,) = vault.events("consume")
    assert handed["Capsule-Session"] == session
    assert [ASK in request.text for request in api.asked("What is next?")] == [True]


@pytest.mark.parametrize("how", (signal.SIGHUP, signal.SIGKILL), ids=("SIGHUP", "SIGKILL"))
def test_what_a_killed_client_left_is_saved_at_the_latest_by_the_next_start(
    how: signal.Signals, claude: Claude, api: Loopback, vault: Vault, socket: Socket
) -> None:
    api.answers("Where were we?", "At the greeting.")

    with claude.open(socket()) as terminal:
        session = in_a_turn(claude, api, terminal)
        os.kill(int(terminal.tmux("list-panes", "-a", "-F", "#{pane_pid}")), how)
        terminal.wait(lambda: not terminal.open(), "the client is gone")
    with claude.open(socket()) as terminal:
        claude.say(terminal, "Where were we?")

    saves = [row for row in vault.events("autosave") if row["Capsule-Session"] == session]
    assert saves
    assert f"[OPERATOR] {ASK}" in vault.text(saves[-1]["Capsule-Id"])
    assert vault.clean()
