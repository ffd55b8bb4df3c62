"""Claude Code, the real one, with nothing of ours replaced: what it asks the API, what it wrote, and what git says."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from tests.clients.loopback import SUMMARY, Tool

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.clients.claudecode import Claude
    from tests.clients.conftest import Vault
    from tests.clients.desk import Terminal
    from tests.clients.loopback import Loopback

    Socket = Callable[[], Path]

ORIENTATION = "[VAULT MEMORY] Orientation only"
PROCEDURE = "[RESUME VERB]"
BRIEFING = "[VAULT MEMORY] The context of this session was compacted"
ASK = "Let the program greet people by their name"


def scripted(api: Loopback, claude: Claude) -> None:
    """A piece of work: a file written and edited, a check that fails, and words at the end."""
    file = str(claude.project / "greet.py")
    api.answers(
        ASK,
        Tool("Write", {"file_path": file, "content": "def greet():\n    return 'hello'\n"}),
        Tool("Edit", {"file_path": file, "old_string": "greet()", "new_string": "greet(name)"}),
        Tool("Bash", {"command": "python3 -m greet_tests"}),
        "The name is a parameter now; its tests are missing.",
    )


def cleared(terminal: Terminal, vault: Vault, count: int = 1) -> dict[str, str]:
    """Type /clear and wait for the hand-over; the consume commit."""
    terminal.type("/clear", lambda: len(vault.events("consume")) == count, "a consume commit")
    return vault.events("consume")[-1]


def compacted(terminal: Terminal, claude: Claude, session: str) -> None:
    """Type /compact and wait until the client wrote that it is done."""
    terminal.type(
        "/compact",
        lambda: [row for row in claude.said(session) if row.get("subtype") == "compact_boundary"],
        "the compaction is done",
    )


def test_a_turn_with_edits_and_a_failing_tool_is_one_commit_and_the_next_turn_another(
    claude: Claude, api: Loopback, vault: Vault, socket: Socket
) -> None:
    scripted(api, claude)
    api.answers("Write the missing tests", "They are written.")

    with claude.open(socket()) as terminal:
        session = claude.say(terminal, ASK)
        (first,) = vault.events()
        text = vault.text(first["Capsule-Id"])
        claude.say(terminal, "Write the missing tests")

    assert (first["Capsule-Event"], first["Capsule-Session"], first["Capsule-Harness"]) == (
        "autosave",
        session,
        "claude",
    )
    assert f'objective: "{ASK}"' in text
    assert "modified greet.py" in text
    assert "python3 -m greet_tests" in text
    assert "The name is a parameter now; its tests are missing." in text
    assert [(row["Capsule-Event"], row["Capsule-Id"]) for row in vault.events()] == [
        ("autosave", first["Capsule-Id"])
    ] * 2
    assert "[OPERATOR] Write the missing tests" in vault.text(first["Capsule-Id"])
    assert vault.clean()


def test_a_start_is_oriented_once_and_no_hook_is_held_against_us(
    claude: Claude, api: Loopback, vault: Vault, socket: Socket
) -> None:
    api.answers(ASK, "Where?")
    api.answers("In the greeting", "Done.")

    with claude.open(socket()) as terminal:
        session = claude.say(terminal, ASK)
        claude.say(terminal, "In the greeting")
        terminal.type("/exit", lambda: not terminal.open(), "the client has left")

    assert [request.text.count(ORIENTATION) for request in api.asked(ASK) + api.asked("In the greeting")] == [1, 1]
    assert claude.faults() == []
    stops = [row for row in claude.said(session) if row.get("subtype") == "stop_hook_summary"]
    assert [(row["hookCount"], row["hasOutput"], row["preventedContinuation"]) for row in stops] == [
        (1, False, False)
    ] * 2
    assert vault.events("consume") == []


def test_a_clear_hands_the_capsule_to_the_new_session_and_never_twice(
    claude: Claude, api: Loopback, vault: Vault, socket: Socket
) -> None:
    scripted(api, claude)
    api.answers("What is next?", "The tests.")
    api.answers("Anything else?", "No.")

    with claude.open(socket()) as terminal:
        old = claude.say(terminal, ASK)
        handed = cleared(terminal, vault)
        new = claude.say(terminal, "What is next?")
        claude.say(terminal, "Anything else?")

    assert new != old
    assert (handed["Capsule-Session"], handed["Capsule-Consumer"], handed["Capsule-Status"]) == (old, new, "resumed")
    (request,) = api.asked("What is next?")
    assert request.text.count(PROCEDURE) == 1
    assert ASK in request.text
    assert handed["Capsule-Id"] in request.text
    assert "The name is a parameter now" not in "".join(text for role, text in request.told if role == "assistant")
    assert [later.text.count(PROCEDURE) for later in api.asked("Anything else?")] == [1]
    assert len(vault.events("consume")) == 1
    assert [row["Capsule-Parent"] for row in vault.events("autosave")[1:]] == [handed["Capsule-Id"]] * 2
    assert claude.faults() == []


def test_what_stands_in_the_new_transcript_is_what_git_says_was_told(
    claude: Claude, api: Loopback, vault: Vault, socket: Socket
) -> None:
    scripted(api, claude)
    api.answers("What is next?", "The tests.")

    with claude.open(socket()) as terminal:
        claude.say(terminal, ASK)
        handed = cleared(terminal, vault)
        new = claude.say(terminal, "What is next?")

    told = next(
        row["attachment"]["content"]
        for row in claude.said(new)
        if (row.get("attachment") or {}).get("type") == "hook_additional_context"
    )
    (text,) = [told] if isinstance(told, str) else told
    assert text.startswith(PROCEDURE)
    assert hashlib.sha256(text.encode()).hexdigest() == handed["Injected"]


def test_a_compaction_gets_a_checkpoint_and_the_next_request_one_briefing(
    claude: Claude, api: Loopback, vault: Vault, socket: Socket
) -> None:
    scripted(api, claude)
    api.answers("Go on with the tests", "They are written.")
    api.answers("And now the docs", "They are written, too.")

    with claude.open(socket()) as terminal:
        session = claude.say(terminal, ASK)
        compacted(terminal, claude, session)
        claude.say(terminal, "Go on with the tests")
        claude.say(terminal, "And now the docs")

    (checkpoint,) = vault.events("checkpoint")
    assert checkpoint["Capsule-Session"] == session
    for words in ("Go on with the tests", "And now the docs"):
        (request,) = api.asked(words)
        assert SUMMARY in request.text
        assert request.text.count(BRIEFING) == 1
        assert ASK in request.text
    assert vault.events("consume") == []
    assert SUMMARY not in vault.text(vault.capsule_of(session))
    assert claude.faults() == []


def test_a_resumed_session_goes_on_in_its_capsule_and_consumes_nothing(
    claude: Claude, api: Loopback, vault: Vault, socket: Socket
) -> None:
    scripted(api, claude)
    api.answers("Go on with the tests", "They are written.")

    with claude.open(socket()) as terminal:
        session = claude.say(terminal, ASK)
        terminal.type("/exit", lambda: not terminal.open(), "the client has left")
    with claude.open(socket(), "--resume", session) as terminal:
        assert claude.say(terminal, "Go on with the tests") == session

    assert {row["Capsule-Id"] for row in vault.events()} == {vault.capsule_of(session)}
    assert vault.events("consume") == []
    (request,) = api.asked("Go on with the tests")
    assert 1 <= request.text.count(ORIENTATION) <= 2
    assert PROCEDURE not in request.text
    assert "[OPERATOR] Go on with the tests" in vault.text(vault.capsule_of(session))


def test_of_two_sessions_each_clear_gets_its_own_capsule(
    claude: Claude, api: Loopback, vault: Vault, socket: Socket
) -> None:
    asks = ("Let the left side greet", "Let the right side greet")
    for ask in asks:
        api.answers(ask, "It does.")
        api.answers(ask.replace("Let", "What of"), "It greets.")

    with claude.open(socket()) as left, claude.open(socket()) as right:
        desks = (left, right)
        sessions = [claude.say(desk, ask) for desk, ask in zip(desks, asks, strict=True)]
        capsules = [vault.capsule_of(session) for session in sessions]
        handed = [cleared(desk, vault, count)["Capsule-Id"] for count, desk in enumerate(desks, 1)]
        for desk, ask in zip(desks, asks, strict=True):
            claude.say(desk, ask.replace("Let", "What of"))

    assert len({*sessions}) == 2
    assert handed == capsules
    for ask, other in (asks, asks[::-1]):
        (request,) = api.asked(ask.replace("Let", "What of"))
        assert f'objective: "{ask}"' in request.text
        assert f'objective: "{other}"' not in request.text
    assert vault.clean()


def test_a_headless_run_is_saved_and_can_be_gone_on_with(claude: Claude, api: Loopback, vault: Vault) -> None:
    scripted(api, claude)
    api.answers("Go on with the tests", "They are written.")

    claude.run(ASK)
    session = claude.session_of(ASK)
    claude.run("Go on with the tests", "--resume", session)

    assert claude.session_of("Go on with the tests") == session
    assert [row["Capsule-Session"] for row in vault.events("autosave")] == [session] * 2
    assert claude.faults() == []


def test_a_compaction_in_the_middle_of_a_turn_is_announced_and_told_of(
    claude: Claude, api: Loopback, vault: Vault
) -> None:
    api.answers("Look around first", Tool("Bash", {"command": "ls"}), "It is a small project.")
    api.answers(ASK, Tool("Bash", {"command": "ls"}), "Done.", tokens=199_000)

    claude.run("Look around first")
    session = claude.session_of("Look around first")
    claude.run(ASK, "--resume", session, CLAUDE_CODE_AUTO_COMPACT_WINDOW="100000")

    assert {row["Capsule-Session"] for row in vault.events("checkpoint")} == {session}
    (request,) = [request for request in api.requests if SUMMARY in request.text]
    assert request.text.count(BRIEFING) == 1
    assert ASK in request.text
    assert claude.faults() == []
