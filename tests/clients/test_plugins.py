"""The plugin of this checkout in the real clients: loaded from the folder, and installed from the checkout as a marketplace."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.clients.loopback import Tool

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.clients.claudecode import Claude
    from tests.clients.codexcli import Codex
    from tests.clients.conftest import Vault
    from tests.clients.loopback import Loopback

    Run = Callable[..., subprocess.CompletedProcess[bytes]]
    Socket = Callable[[], Path]

ROOT = Path(__file__).resolve().parent.parent.parent
PROCEDURE = "[RESUME VERB]"
ASK = "Let the program greet people by their name"


def ran(argv: list[str], environ: dict[str, str], cwd: Path) -> None:
    done = subprocess.run(
        argv, env=environ, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("how", ("folder", "marketplace"))
def test_claude_code_with_the_plugin_saves_hands_over_and_knows_the_skills(
    how: str,
    claude_here: Callable[[Path], Claude],
    project: Path,
    vault_mem: Run,
    api: Loopback,
    vault: Vault,
    socket: Socket,
) -> None:
    vault_mem("init", "--no-hooks", cwd=project, check=True)
    claude = claude_here(project)
    options = ["--plugin-dir", str(ROOT / "plugin")] if how == "folder" else []
    if how == "marketplace":
        ran([claude.program, "plugin", "marketplace", "add", str(ROOT)], claude.environ, project)
        ran([claude.program, "plugin", "install", "vault-mem@vault-mem"], claude.environ, project)
    api.answers(ASK, Tool("Bash", {"command": "echo hello > greet.txt"}), "It does.")
    api.answers("What is next?", "The tests.")

    with claude.open(socket(), *options) as terminal:
        old = claude.say(terminal, ASK)
        terminal.type("/clear", lambda: vault.events("consume"), "a consume commit")
        new = claude.say(terminal, "What is next?")

    (handed,) = vault.events("consume")
    assert (handed["Capsule-Session"], handed["Capsule-Consumer"]) == (old, new)
    (request,) = api.asked("What is next?")
    assert request.text.count(PROCEDURE) == 1
    assert ASK in request.text
    assert all(f"vault-mem:{skill}" in api.asked(ASK)[0].text for skill in ("context-capsule", "resume"))
    assert claude.faults() == []


@pytest.mark.usefixtures("installed")
def test_codex_loads_the_same_folder(
    codex_here: Callable[[Path], Codex], project: Path, vault_mem: Run, api: Loopback, vault: Vault, socket: Socket
) -> None:
    api.tolerated |= {"github.com", "chatgpt.com", "api.github.com"}  # it looks for plugins of its maker as well
    vault_mem("init", "--no-hooks", cwd=project, check=True)
    codex = codex_here(project)
    codex.set(plugins=True)
    ran([codex.program, "plugin", "marketplace", "add", str(ROOT)], codex.environ, project)
    ran([codex.program, "plugin", "add", "vault-mem@vault-mem"], codex.environ, project)
    api.answers(ASK, Tool("exec_command", {"cmd": "echo hello > greet.txt"}), "It does.")
    api.answers("What is next?", "The tests.")

    with codex.open(socket()) as terminal:
        old = codex.say(terminal, ASK)
        terminal.type("/clear", lambda: ASK not in terminal.screen(), "an empty screen")
        new = codex.say(terminal, "What is next?")

    (handed,) = vault.events("consume")
    assert (handed["Capsule-Session"], handed["Capsule-Consumer"]) == (old, new)
    assert [request.text.count(PROCEDURE) for request in api.asked("What is next?")] == [1]
    assert "vault-mem:context-capsule" in api.asked(ASK)[0].text
