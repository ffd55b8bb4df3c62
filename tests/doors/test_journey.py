"""From `pip wheel` to `uninstall`: what a person does who follows the README, with nothing of the checkout but the wheel."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from vault_mem import hooksfile, version

if TYPE_CHECKING:
    from collections.abc import Callable

    Git = Callable[..., str]

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "tests/data/sessions/csv-importer"
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet"]
MISSING = [name for name in ("hatchling", "pip", "ensurepip") if importlib.util.find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"a wheel is built with hatchling and pip: {MISSING} missing")
PLACES = (pytest.param("env", id="plain path"), pytest.param("an env", id="blank in the path"))


def done(*command: str | Path, cwd: Path, environ: dict[str, str], code: int = 0) -> str:
    """Standard output of the command, which has to end with *code*; standard error goes into it."""
    found = subprocess.run(
        command,
        cwd=cwd,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=240,
        check=False,
    )
    assert found.returncode == code, found.stdout
    return found.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of this checkout, built without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in ("vault_mem", "scripts", "README.md", "LICENSE", "pyproject.toml"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, source / name)
    subprocess.run(
        [*PIP, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, source],
        env={**os.environ, "PIP_NO_INDEX": "1"},
        stdin=subprocess.DEVNULL,
        timeout=240,
        check=True,
    )
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture
def bin_of(wheel: Path, tmp_path: Path, environ: dict[str, str]) -> Callable[[str], Path]:
    """Installs the wheel into a virtual environment of this name; its `bin`. What it depends on comes from the environment of the tests."""

    def install(name: str) -> Path:
        place = tmp_path / name
        done(sys.executable, "-m", "venv", "--without-pip", place, cwd=tmp_path, environ=environ)
        python = place / "bin/python"
        done(
            *(*PIP, "--python", str(python), "install", "--no-index", "--no-deps", str(wheel)),
            cwd=tmp_path,
            environ=environ,
        )
        (packages,) = place.glob("lib/python*/site-packages")
        (packages / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
        return place / "bin"

    return install


def user(folder: Path, environ: dict[str, str]) -> dict[str, str]:
    """What a shell in which the environment is active hands on; nothing of the checkout."""
    kept = {
        name: value for name, value in environ.items() if name in ("HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM")
    }
    return {**kept, "PATH": f"{folder}:{environ['PATH']}", "TERM": "dumb"}


@pytest.mark.parametrize("name", PLACES)
def test_what_the_readme_promises_holds_for_an_installed_wheel(
    name: str, bin_of: Callable[[str], Path], project: Path, environ: dict[str, str], git: Git
) -> None:
    folder = bin_of(name)
    given = user(folder, environ)
    before = git(project, "status", "--porcelain", "--untracked-files=all")

    # The how-to: where the script cannot be started, its Python runs init once.
    first = ["vault-mem"] if " " not in name else [str(folder / "python"), "-m", "vault_mem"]
    shown = done(*first, "init", "--dry-run", cwd=project, environ=given)
    assert git(project, "status", "--porcelain", "--untracked-files=all") == before
    said = done(*first, "init", cwd=project, environ=given)
    again = done("vault-mem", "init", cwd=project, environ=given)

    token = "script-mended" if " " in name else "script-lean"
    assert token in said
    assert token in shown
    assert "nothing changed" in again
    assert done("vault-mem", "--version", cwd=project, environ=given) == f"vault-mem {version.__version__}\n"
    settings = json.loads((project / ".claude/settings.json").read_text(encoding="utf-8"))
    commands = [hook["command"] for groups in settings["hooks"].values() for group in groups for hook in group["hooks"]]
    assert len(commands) == len(hooksfile.HOOKS)
    for command in commands:
        assert f"{folder}/vault-mem" in command
        done("sh", "-c", command, cwd=project, environ={**given, "VAULT_MEM_OFF": "1"})

    done("vault-mem", "replay", RECORDED, cwd=project, environ=given)
    listed = json.loads(done("vault-mem", "list", "--json", cwd=project, environ=given))["capsules"]
    assert [capsule["status"] for capsule in listed] == ["active", "resumed"]
    assert listed[0]["objective"] in done("vault-mem", "show", listed[0]["id"], cwd=project, environ=given)
    assert listed[1]["id"] in done("vault-mem", "log", "--graph", cwd=project, environ=given)
    assert listed[0]["id"] in done("vault-mem", "explain", cwd=project, environ=given)
    found = json.loads(done("vault-mem", "doctor", "--json", cwd=project, environ=given))
    assert {each["severity"] for each in found["findings"]} <= {"info"}, found["findings"]

    done("vault-mem", "uninstall", cwd=project, environ=given)
    assert git(project, "status", "--porcelain", "--untracked-files=all").splitlines() == ["?? .aigent/state.json"]
    state = Path(environ["HOME"], ".local/state/vault-mem")
    assert [path.parent.name for path in state.rglob("*") if path.is_file()] == ["seats"]


def test_a_program_that_was_removed_ends_hooks_without_blocking_the_session(
    bin_of: Callable[[str], Path], project: Path, environ: dict[str, str]
) -> None:
    folder = bin_of("env")
    given = user(folder, environ)
    done("vault-mem", "init", cwd=project, environ=given)
    command = json.loads((project / ".claude/settings.json").read_text(encoding="utf-8"))["hooks"]["Stop"][0]["hooks"][
        0
    ]

    done(*PIP, "--python", str(folder / "python"), "uninstall", "--yes", "vault-mem", cwd=project, environ=environ)

    # Clients read 2 as "block"; 127 is what a shell says of a program that is not there.
    done("sh", "-c", command["command"], cwd=project, environ=given, code=127)


def test_the_wheel_has_what_runs_and_nothing_else(wheel: Path) -> None:
    import zipfile

    names = zipfile.ZipFile(wheel).namelist()

    assert [name for name in names if "scripts/" in name] == [f"vault_mem-{version.__version__}.data/scripts/vault-mem"]
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"vault_mem"}
    assert "vault_mem/skills/resume/SKILL.md" in names
    assert not [name for name in names if name.endswith((".pyc", ".image"))]
