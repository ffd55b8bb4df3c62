"""One whole context reset with the real client, nobody at the keyboard but the watcher."""

from __future__ import annotations

import re
import shlex
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.clients.loopback import Tool
from tests.conftest import program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.clients.claudecode import Claude
    from tests.clients.conftest import Vault
    from tests.clients.loopback import Loopback

    Socket = Callable[[], Path]

PROCEDURE = "[RESUME VERB]"
ASK = "Let the program greet people by their name"
SETTINGS = {
    "VAULT_MEM_CEILING": "20000",
    "VAULT_MEM_RESET_CHECK_INTERVAL": "2",
    "VAULT_MEM_RESET_POLL": "0.2",
}
CAPSULE = """---
objective: "Let the program greet people by their name"
waiting_on: "none"
next_valid_action: "Write the tests of greet.py"
---
## Done
- the name is a parameter
"""


def by_tool(*arguments: str, stdin: str = "") -> Tool:
    """The model runs our program."""
    line = shlex.join(program(*arguments))
    return Tool("Bash", {"command": f"{line} <<'END'\n{stdin}END" if stdin else line})


SWEEP = (by_tool("wakes", "drain"), by_tool("capsule", "write", "-", stdin=CAPSULE), by_tool("reset", "receipt"))
PHRASE = re.compile(r'"(reset approved \w+)"')


@pytest.fixture
def watching(claude: Claude, tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Starts the loop of `reset watch`, for which so many seconds of silence are absence; answers with the file that takes what it says."""
    said = tmp_path / "watcher"
    running = []

    def start(idle: int) -> Path:
        claude.environ |= {**SETTINGS, "VAULT_MEM_RESET_IDLE_SECS": str(idle)}
        with said.open("wb") as out:
            running.append(
                subprocess.Popen(
                    program("reset", "watch"),
                    cwd=claude.project,
                    env=claude.environ,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                )
            )
        return said

    yield start
    for process in running:
        process.terminate()
        process.wait(timeout=20)


def outcomes(vault: Vault) -> list[str]:
    """The second column of the reset log."""
    path = vault.path / "runtime/reset/reset.log"
    return [line.split("\t")[1] for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def test_a_session_over_the_ceiling_is_swept_cleared_and_taken_up_again(
    claude: Claude, api: Loopback, vault: Vault, socket: Socket, watching: Callable[[int], Path]
) -> None:
    watcher = watching(0)
    api.answers(ASK, Tool("Bash", {"command": "echo hello > greet.txt"}), "The name is a parameter.", tokens=30_000)
    api.answers(
        "1 wakes pending",
        *SWEEP,
        by_tool("reset", "clear"),
        "Capsule Complete, Ready For Clear",
        tokens=30_000,
    )
    api.answers("0 wakes pending", "Going on with the tests.")

    with claude.open(socket()) as terminal:
        old = claude.say(terminal, ASK)
        terminal.wait(lambda: api.asked("0 wakes pending"), lambda: f"a fresh session: {watcher.read_text()}")

    (request,) = api.asked("0 wakes pending")
    new = request.session
    assert new != old
    assert request.text.count(PROCEDURE) == 1
    assert "Write the tests of greet.py" in request.text
    (handed,) = vault.events("consume")
    assert (handed["Capsule-Session"], handed["Capsule-Consumer"]) == (old, new)
    assert next(row["Capsule-Event"] for row in vault.events() if row["Capsule-Id"] == handed["Capsule-Id"]) == "write"
    # On a busy machine the client may still be at its last words when it is first looked at: that look is refused, and types nothing.
    begun, *looks, attempt, submitted, confirmed = outcomes(vault)
    assert (begun, attempt, submitted, confirmed) == ("requested", "attempt", "submitted", "confirmed")
    assert set(looks) <= {"refused"}
    assert "UNENFORCED" not in watcher.read_text()
    typed = [row for row in claude.said(old) if row["type"] == "user" and "wakes pending" in str(row["message"])]
    assert len(typed) == 1
    assert claude.faults() == []


def test_a_person_who_is_there_is_asked_and_their_phrase_clears(
    claude: Claude, api: Loopback, vault: Vault, socket: Socket, watching: Callable[[int], Path]
) -> None:
    watcher = watching(1800)
    api.answers(ASK, Tool("Bash", {"command": "echo hello > greet.txt"}), "The name is a parameter.", tokens=30_000)
    api.answers("What is next?", "The tests.")

    with claude.open(socket()) as terminal:
        old = claude.say(terminal, ASK)
        asked = terminal.wait(lambda: PHRASE.search(watcher.read_text()), lambda: f"ASK: {watcher.read_text()}")
        answer = f"Yes, {asked[1]}"
        api.answers(
            answer,
            *SWEEP,
            by_tool("reset", "clear"),
            by_tool("reset", "clear", "--approved"),
            "Capsule Complete, Ready For Clear",
            tokens=30_000,
        )
        claude.say(terminal, answer)
        terminal.wait(lambda: outcomes(vault)[-1:] == ["confirmed"], lambda: f"confirmed: {watcher.read_text()}")
        new = claude.say(terminal, "What is next?")

    results = [text for role, text in api.asked(answer)[-1].told if role == "result"]
    assert "person-present" in results[-2]
    assert outcomes(vault)[-4:] == ["requested", "attempt", "submitted", "confirmed"]
    assert [(row["Capsule-Session"], row["Capsule-Consumer"]) for row in vault.events("consume")] == [(old, new)]
    (request,) = api.asked("What is next?")
    assert request.text.count(PROCEDURE) == 1
    assert "Write the tests of greet.py" in request.text
