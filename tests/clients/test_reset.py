"""One whole context reset with the real client, nobody at the keyboard but the watcher."""

from __future__ import annotations

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
    "VAULT_MEM_RESET_IDLE_SECS": "0",
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


@pytest.fixture
def watcher(claude: Claude, tmp_path: Path) -> Iterator[Path]:
    """`reset watch` in its loop; the file with what it said."""
    claude.environ |= SETTINGS
    said = tmp_path / "watcher"
    with said.open("wb") as out:
        running = subprocess.Popen(
            program("reset", "watch"),
            cwd=claude.project,
            env=claude.environ,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    yield said
    running.terminate()
    running.wait(timeout=20)


def test_a_session_over_the_ceiling_is_swept_cleared_and_taken_up_again(
    claude: Claude, api: Loopback, vault: Vault, socket: Socket, watcher: Path
) -> None:
    api.answers(ASK, Tool("Bash", {"command": "echo hello > greet.txt"}), "The name is a parameter.", tokens=30_000)
    api.answers(
        "1 wakes pending",
        by_tool("wakes", "drain"),
        by_tool("capsule", "write", "-", stdin=CAPSULE),
        by_tool("reset", "receipt"),
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
    outcomes = [line.split("\t")[1] for line in (vault.path / "runtime/reset/reset.log").read_text().splitlines()]
    assert outcomes == ["requested", "attempt", "submitted", "confirmed"]
    assert "UNENFORCED" not in watcher.read_text()
    typed = [row for row in claude.said(old) if row["type"] == "user" and "wakes pending" in str(row["message"])]
    assert len(typed) == 1
    assert claude.faults() == []
