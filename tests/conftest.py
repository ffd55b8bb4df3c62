"""What every test gets: a throw-away home, a git that reads no configuration of this machine, and the real program to run.

`environ` is that environment as a dict, `git(directory, *arguments)` answers with git's standard output, `vault_mem(*arguments, stdin=b"")`
runs the program as a process of its own. `project` is a git repository with one commit, `seat` the same after `vault-mem init`.
"""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import hypothesis
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

ROOT = Path(__file__).resolve().parent.parent
FOREIGN = (
    "GIT_",
    "CLAUDE",
    "CODEX_",
    "VAULT_MEM_",
    "AIGENT_",
    "LIFECYCLE_",
    "GEMINI_",
    "XDG_",
    "TMUX",
    "PYTEST_ADDOPTS",
)
IDENTITY = "[user]\n\tname = Test Person\n\temail = person@example.test\n[init]\n\tdefaultBranch = main\n"

hypothesis.settings.register_profile("here", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "here")


def _refuse_real_home(*_: object) -> NoReturn:
    pytest.fail("this test resolves the home of the person who runs it")


@pytest.fixture(scope="session", autouse=True)
def _real_home_stays_as_it_was() -> Iterator[None]:
    """A test that makes configuration or state in the person's own home fails the run."""
    home = Path(os.path.expanduser("~"))
    watched = [
        home / ".claude" / "settings.json",
        home / ".config" / "vault-mem",
        home / ".local" / "state" / "vault-mem",
    ]
    absent = [path for path in watched if not path.exists()]
    yield
    assert not [path for path in absent if path.exists()], "a test wrote to the home of the person who runs it"


@pytest.fixture(autouse=True)
def _throw_away_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory, _real_home_stays_as_it_was: None
) -> None:
    home = tmp_path_factory.mktemp("home")
    for name in list(os.environ):
        if name.startswith(FOREIGN):
            monkeypatch.delenv(name)
    (home / ".gitconfig").write_text(IDENTITY, encoding="utf-8")
    monkeypatch.setenv("HOME", str(home))
    for name, place in (
        ("XDG_CONFIG_HOME", ".config"),
        ("XDG_STATE_HOME", ".local/state"),
        ("XDG_DATA_HOME", ".local/share"),
        ("XDG_CACHE_HOME", ".cache"),
    ):
        (home / place).mkdir(parents=True)
        monkeypatch.setenv(name, str(home / place))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(home / ".gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_TERMINAL_PROMPT", "0")
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("USER", "person")
    monkeypatch.setenv("LOGNAME", "person")
    # With HOME set nothing needs the password database; whoever asks it has lost HOME on the way.
    monkeypatch.setattr(pwd, "getpwuid", _refuse_real_home)
    monkeypatch.setattr(pwd, "getpwnam", _refuse_real_home)


@pytest.fixture
def environ(_throw_away_home: None) -> dict[str, str]:
    """The environment of this test, to change and to hand on."""
    return dict(os.environ)


@pytest.fixture
def git(environ: dict[str, str]) -> Callable[..., str]:
    """Runs git in a directory and answers with its standard output, the last line break cut; any failure fails the test."""

    def run(directory: Path | str, *arguments: str, stdin: str | None = None, **more: str) -> str:
        done = subprocess.run(
            ["git", *arguments],
            cwd=directory,
            env={**environ, **more},
            input="" if stdin is None else stdin,
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"git {' '.join(arguments)}: {done.stderr}"
        return done.stdout.removesuffix("\n")

    return run


@pytest.fixture
def vault_mem(environ: dict[str, str], tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[bytes]]:
    """Runs the real program: `vault_mem("hook", "stop", stdin=payload, cwd=project, environ={...})`.

    *environ* replaces the test's environment; *more* is added to it. With *check* (the default is off) another exit code than 0 fails the test.
    """

    def run(
        *arguments: str,
        stdin: bytes = b"",
        cwd: Path | str = tmp_path,
        environ: Mapping[str, str] = environ,
        more: Mapping[str, str] | None = None,
        check: bool = False,
        timeout: float = 60,
    ) -> subprocess.CompletedProcess[bytes]:
        done = subprocess.run(
            program(*arguments),
            input=stdin,
            cwd=cwd,
            env={**with_package(environ), **(more or {})},
            capture_output=True,
            timeout=timeout,
            check=False,
        )
        if check:
            assert done.returncode == 0, f"vault-mem {' '.join(arguments)}: {done.stderr.decode('utf-8', 'replace')}"
        return done

    return run


def program(*arguments: str) -> list[str]:
    """The command line that starts the program of this checkout: the installed script, else the package."""
    script = Path(sys.executable).parent / "vault-mem"
    start = [sys.executable, str(script)] if script.is_file() else [sys.executable, "-m", "vault_mem"]
    return [*start, *arguments]


def with_package(environ: Mapping[str, str]) -> dict[str, str]:
    """*environ* such that the package of this checkout is the one that is imported, installed or not."""
    path = [str(ROOT), *filter(None, [environ.get("PYTHONPATH", "")])]
    return {**environ, "PYTHONPATH": os.pathsep.join(path)}


@pytest.fixture
def project(tmp_path: Path, git: Callable[..., str]) -> Path:
    """A git repository with one commit, as a person has before any memory is set up."""
    directory = tmp_path / "project"
    directory.mkdir()
    git(directory, "init", "--quiet")
    (directory / "README.md").write_text("# project\n", encoding="utf-8")
    git(directory, "add", "README.md")
    git(directory, "commit", "--quiet", "-m", "start")
    return directory


@pytest.fixture
def seat(project: Path, vault_mem: Callable[..., subprocess.CompletedProcess[bytes]]) -> Path:
    """A project in which `vault-mem init` has run for Claude Code with project settings."""
    vault_mem("init", "--harness", "claude", "--scope", "project", cwd=project, check=True)
    return project


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Names what could not run on this machine, before the closing lines."""
    reasons: dict[str, int] = {}
    for report in terminalreporter.stats.get("skipped", []):
        where = report.longrepr
        text = str(where[2]) if isinstance(where, tuple) else str(where)
        text = text.removeprefix("Skipped: ")
        reasons[text] = reasons.get(text, 0) + 1
    terminalreporter.section("not run here")
    for text, count in sorted(reasons.items()):
        terminalreporter.write_line(f"{count} x {text}")
    if not reasons:
        terminalreporter.write_line("nothing: every collected test could run")
