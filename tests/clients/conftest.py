"""The real clients, from .clients or where VAULT_MEM_TEST_CLAUDE and VAULT_MEM_TEST_CODEX say; without them these tests are not run, in CI they fail."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.clients.claudecode import Claude
from tests.clients.codexcli import Codex
from tests.clients.desk import executable
from tests.clients.loopback import Loopback
from tests.conftest import program, with_package

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator

    Run = Callable[..., subprocess.CompletedProcess[bytes]]

ROOT = Path(__file__).resolve().parent.parent.parent
MODULES = ROOT / ".clients/node_modules"
# Read here: the environment of a test has lost these names.
CLAUDE = os.environ.get("VAULT_MEM_TEST_CLAUDE") or executable(MODULES.glob("@anthropic-ai/claude-code-*/claude"))
CODEX = os.environ.get("VAULT_MEM_TEST_CODEX") or executable(MODULES.glob("@openai/codex-*/vendor/*/bin/codex"))
WHY = os.environ.get("NO_CLIENTS") or "scripts/test installs them"
TMUX = shutil.which("tmux")
OFF = bool(os.environ.get("VAULT_MEM_NO_CLIENTS"))
CI = bool(os.environ.get("CI"))


def _needed(found: str | None, what: str) -> str:
    if found and not OFF:
        return found
    if CI:
        pytest.fail(f"{what} has to run in CI, and is not there: {WHY}")
    pytest.skip(f"{what} is not there: {WHY}")


class Vault:
    """A vault as plain git shows it."""

    def __init__(self, path: Path, git: Callable[..., str]) -> None:
        self.path, self.git = path, git

    def events(self, kind: str = "") -> list[dict[str, str]]:
        """The trailers of our commits, oldest first; of one kind of event only where *kind* says so."""
        found = []
        for message in self.git(self.path, "log", "--reverse", "--format=%(trailers:only,unfold)%x00").split("\0"):
            row = dict(line.split(": ", 1) for line in message.strip().splitlines() if ": " in line)
            if row and kind in ("", row.get("Capsule-Event")):
                found.append(row)
        return found

    def text(self, capsule: str, revision: str = "HEAD") -> str:
        """A capsule as it is committed."""
        names = self.git(self.path, "ls-tree", "-r", "--name-only", revision, "capsules").splitlines()
        (name,) = [name for name in names if name.endswith(f"/{capsule}.md")]
        return self.git(self.path, "show", f"{revision}:{name}")

    def capsule_of(self, session: str) -> str:
        """The id of the capsule a session saved last."""
        return next(row["Capsule-Id"] for row in reversed(self.events("autosave")) if row["Capsule-Session"] == session)

    def clean(self) -> bool:
        """Whether tree, index and HEAD agree, and git finds nothing wrong with the objects."""
        self.git(self.path, "fsck", "--strict", "--no-dangling")
        return self.git(self.path, "status", "--porcelain") == ""


@pytest.fixture
def api() -> Iterator[Loopback]:
    """The API; at the end nobody but us may have been asked for anything."""
    with Loopback() as opened:
        yield opened
    assert opened.strangers == []


@pytest.fixture
def socket(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Names a new tmux socket each time."""
    folder = tmp_path_factory.mktemp("t")  # short: a socket's path has some hundred bytes
    count = iter(range(99))
    return lambda: folder / f"s{next(count)}"


@pytest.fixture
def claude_here(api: Loopback, environ: dict[str, str]) -> Callable[[Path], Claude]:
    """Claude Code for a project, whatever is or is not wired there."""
    client = _needed(CLAUDE, "Claude Code")
    _needed(TMUX, "tmux")
    return lambda project: Claude(client, project, Path(environ["HOME"]), api, with_package(environ))


@pytest.fixture
def codex_here(api: Loopback, environ: dict[str, str]) -> Callable[[Path], Codex]:
    """Codex for a project, whatever is or is not wired there."""
    client = _needed(CODEX, "Codex")
    _needed(TMUX, "tmux")
    # Its terminal looks there for announcements; no setting stops that.
    api.tolerated.add("raw.githubusercontent.com")
    return lambda project: Codex(client, project, Path(environ["HOME"]), api, with_package(environ))


@pytest.fixture
def codex(codex_here: Callable[[Path], Codex], project: Path, vault_mem: Run) -> Codex:
    """Codex in a seat that `vault-mem init` wired."""
    vault_mem("init", "--harness", "codex", cwd=project, check=True)
    return codex_here(project)


@pytest.fixture
def installed(environ: dict[str, str]) -> Path:
    """vault-mem where `pipx` puts it for one person: the plugin starts what is installed."""
    path = Path(environ["HOME"]) / ".local/bin/vault-mem"
    path.parent.mkdir(parents=True)
    path.write_text(f'#!/bin/sh\nexec {shlex.join(program())} "$@"\n', encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture
def vault(project: Path, git: Callable[..., str]) -> Vault:
    """What git says of the memory of the project."""
    return Vault(project / "vault/memory", git)


@pytest.fixture
def claude(claude_here: Callable[[Path], Claude], seat: Path) -> Claude:
    """Claude Code in a seat that `vault-mem init` wired."""
    return claude_here(seat)
