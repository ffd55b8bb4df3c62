"""The installed script, started as a client starts it: by its own first line, in surroundings that belong to somebody else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    Git = Callable[..., str]
    Start = Callable[..., str]

ROOT = Path(__file__).resolve().parents[2]
PLAIN = "from vault_mem.entry import script\n\nscript()\n"


class Installation:
    """A virtual environment with the script as an installer leaves it, and its package in a folder that a `.pth` file names."""

    def __init__(self, folder: Path, environ: dict[str, str]) -> None:
        self.source = folder / "source"
        self.environ = environ
        shutil.copytree(ROOT / "vault_mem", self.source / "vault_mem", ignore=shutil.ignore_patterns("__pycache__"))
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "env"], env=environ, check=True)
        self.python = folder / "env/bin/python"
        self.program = folder / "env/bin/vault-mem"
        (self.packages,) = (folder / "env").glob("lib/python*/site-packages")
        self.found_in(self.source)
        self.begin_plainly()

    def begin_plainly(self) -> None:
        self.program.write_text(f"#!{self.python}\n{PLAIN}", encoding="utf-8")
        self.program.chmod(0o755)

    def found_in(self, folder: Path) -> None:
        named = f"{folder}\n{sysconfig.get_path('purelib')}\n"
        (self.packages / "libraries.pth").write_text(named, encoding="utf-8")

    def __call__(self, *arguments: str, cwd: Path, stdin: str = "", code: int = 0, **more: str) -> str:
        """Standard output and error of the program, which has to end with *code*."""
        done = subprocess.run(
            [self.program, *arguments],
            cwd=cwd,
            env={**self.environ, **more},
            input=stdin.encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=60,
            check=False,
        )
        said = done.stdout.decode("utf-8", "replace")
        assert done.returncode == code, said
        return said


@pytest.fixture
def installed(tmp_path: Path, environ: dict[str, str]) -> Installation:
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    return Installation(tmp_path, environ)


@pytest.fixture
def seat(installed: Installation, project: Path) -> Path:
    installed("init", "--harness", "claude", cwd=project)
    return project


def stop(cwd: Path) -> str:
    """The payload of a turn that said something."""
    return json.dumps(
        {
            "hook_event_name": "Stop",
            "session_id": str(uuid.uuid4()),
            "cwd": str(cwd),
            "last_assistant_message": "It is done.",
        }
    )


def loaded(installed: Installation, *arguments: str, cwd: Path, stdin: str = "") -> set[str]:
    """What the program imports when it is started as its first line says."""
    options = installed.program.read_text(encoding="utf-8").partition("\n")[0].split()[1:]
    done = subprocess.run(
        [installed.python, *options, "-X", "importtime", installed.program, *arguments],
        cwd=cwd,
        env=installed.environ,
        input=stdin,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=True,
    )
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}


def test_init_gives_the_script_a_beginning_that_loads_no_packages(installed: Installation, project: Path) -> None:
    before = installed.program.read_bytes()
    shown = installed("init", "--harness", "claude", "--dry-run", cwd=project)
    assert installed.program.read_bytes() == before
    assert "site" in loaded(installed, "hook", "stop", cwd=project, stdin=stop(project))

    said = installed("init", "--harness", "claude", cwd=project)

    assert "script-lean" in shown
    assert "script-lean" in said
    assert installed.program.stat().st_mode & 0o777 == 0o755
    assert "script-lean" not in installed("init", cwd=project)
    for hook in ("stop", "user-prompt-submit"):
        modules = loaded(installed, "hook", hook, cwd=project, stdin=stop(project))
        assert "vault_mem" in modules
        assert "site" not in modules


@pytest.mark.parametrize("command", ("stop", "user-prompt-submit"))
@pytest.mark.parametrize("broken", ("PYTHONHOME", "PYTHONPATH", "PYTHONPLATLIBDIR"))
def test_what_a_project_sets_for_its_own_python_is_not_for_ours(
    broken: str, command: str, installed: Installation, seat: Path, git: Git
) -> None:
    trap = seat / "lib"
    (trap / "vault_mem").mkdir(parents=True)
    for name in ("os.py", "json.py", "vault_mem/__init__.py", "zlib.py", "sitecustomize.py"):
        (trap / name).write_text("raise SystemExit(3)\n", encoding="utf-8")

    said = installed("hook", command, cwd=seat, stdin=stop(seat), **{broken: str(trap)})

    assert "error" not in said
    if command == "stop":
        shown = installed("list", cwd=seat, **{broken: str(trap)})
        assert len(git(seat / "vault/memory", "log", "--format=%s", "--", "capsules").splitlines()) == 1
        assert "active" in shown


def test_a_hook_that_needs_a_library_finds_it(installed: Installation, seat: Path) -> None:
    installed("hook", "stop", cwd=seat, stdin=stop(seat))
    (capsule,) = (seat / "vault/memory/capsules").rglob("*.md")
    text = capsule.read_text(encoding="utf-8")
    # Only a YAML parser reads this, and only an ordinary Python has one.
    lines = [
        "objective: >-\n  Keep the folded\n  words together" if line.startswith("objective:") else line
        for line in text.splitlines()
    ]
    capsule.write_text("\n".join(lines) + "\n", encoding="utf-8")
    given = json.dumps(
        {"hook_event_name": "SessionStart", "source": "clear", "session_id": str(uuid.uuid4()), "cwd": str(seat)}
    )

    said = installed("resume", cwd=seat, stdin=given)

    assert "Keep the folded words together" in said


def test_a_package_that_has_moved_is_found_the_usual_way(installed: Installation, seat: Path) -> None:
    moved = installed.source.with_name("elsewhere")
    installed.source.rename(moved)
    installed.found_in(moved)

    assert installed("--version", cwd=seat).startswith("vault-mem ")
    said = installed("hook", "stop", cwd=seat, stdin=stop(seat))

    assert "error" not in said
    assert list((seat / "vault/memory/capsules").rglob("*.md"))
    # And the next init names the new place.
    assert "script-lean" in installed("init", cwd=seat)
    assert str(moved) in installed.program.read_text(encoding="utf-8")


def test_a_package_that_is_gone_ends_with_an_error_that_blocks_nobody(installed: Installation, seat: Path) -> None:
    shutil.rmtree(installed.source)

    said = installed("hook", "stop", cwd=seat, stdin=stop(seat), code=1)

    assert "No module named 'vault_mem'" in said


def test_the_wish_for_no_byte_code_is_heard(installed: Installation, seat: Path) -> None:
    caches = list(installed.source.rglob("__pycache__"))
    assert caches
    for cache in caches:
        shutil.rmtree(cache)

    # The one file that is read before anybody can ask is the package itself.
    installed("hook", "stop", cwd=seat, stdin=stop(seat), PYTHONDONTWRITEBYTECODE="1")

    assert not list(installed.source.rglob("__pycache__"))


@pytest.mark.parametrize("kind", ("link", "foreign", "not executable"))
def test_a_script_that_is_not_an_installers_stays(kind: str, installed: Installation, project: Path) -> None:
    # Run by its Python, as a person does where the script is in the way.
    if kind == "link":
        target = installed.program.rename(installed.program.with_name("real"))
        installed.program.symlink_to(target)
    elif kind == "foreign":
        installed.program.write_text(f"#!{installed.python}\nprint('mine')\n", encoding="utf-8")
    else:
        installed.program.chmod(0o644)
    before = installed.program.read_bytes()

    done = subprocess.run(
        [installed.python, "-m", "vault_mem", "init", "--harness", "claude"],
        cwd=project,
        env=installed.environ,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=True,
    )

    assert "script-" not in done.stdout
    assert installed.program.read_bytes() == before
    assert installed.program.is_symlink() == (kind == "link")


def test_a_user_who_may_not_write_the_environment_still_gets_a_seat(installed: Installation, project: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    installed.program.parent.chmod(0o555)

    said = installed("init", "--harness", "claude", cwd=project)

    installed.program.parent.chmod(0o755)
    assert "script-" not in said
    assert (project / ".claude/settings.json").is_file()
