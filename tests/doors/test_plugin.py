from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from vault_mem import hooksfile, version
from vault_mem.install import setup, skills

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., subprocess.CompletedProcess[bytes]]

ROOT = Path(__file__).resolve().parent.parent.parent
PLUGIN = ROOT / "plugin"
LAUNCHER = PLUGIN / "bin/vault-mem"


def test_the_plugin_wires_what_init_wires() -> None:
    assert (PLUGIN / "hooks/hooks.json").read_text(encoding="utf-8") == setup.plugin_hooks()
    assert len(hooksfile.own(hooksfile.parsed(setup.plugin_hooks(), where="plugin"))) == len(hooksfile.HOOKS)


@pytest.mark.parametrize("name", skills.SKILLS)
def test_the_plugin_has_the_skills_that_init_writes(name: str) -> None:
    assert (PLUGIN / "skills" / name / skills.NAME).read_bytes() == skills.text(name)
    assert sorted(path.name for path in (PLUGIN / "skills").iterdir()) == sorted(skills.SKILLS)


def test_manifest_and_marketplace_agree_with_the_package() -> None:
    manifest = json.loads((PLUGIN / ".claude-plugin/plugin.json").read_text(encoding="utf-8"))
    (listed,) = json.loads((ROOT / ".claude-plugin/marketplace.json").read_text(encoding="utf-8"))["plugins"]

    assert manifest["version"] == version.__version__
    assert listed["name"] == manifest["name"] == "vault-mem"
    assert (ROOT / listed["source"]).resolve() == PLUGIN


@pytest.mark.parametrize("name", skills.SKILLS)
def test_a_skill_says_when_it_is_wanted_and_what_it_runs(name: str) -> None:
    text = skills.text(name, program="'/a b/vault-mem'").decode()
    head, body = text.removeprefix("---\n").split("\n---\n", 1)

    assert f"name: {name}\n" in head
    assert "Use when" in head
    assert "{program}" not in text
    assert "'/a b/vault-mem' " in body
    assert skills.is_ours(text.encode())
    assert not skills.is_ours(text.replace("work", "play", 1).encode())


def test_the_capsule_skill_ends_with_the_ack_and_then_the_literal() -> None:
    text = skills.text("context-capsule").decode()
    ack, literal = (
        text.index("vault-mem extension render capsule_ack --capsule-id ID"),
        text.index("Capsule Complete, Ready For Clear"),
    )

    assert text.index("\n6. ") < ack < text.index("\n7. ") < literal


def _launch(*arguments: str, path: str, home: Path) -> subprocess.CompletedProcess[bytes]:
    environ = {"PATH": path, "HOME": str(home)}
    return subprocess.run(
        [str(LAUNCHER), *arguments], env=environ, input=b"{}", capture_output=True, check=False, timeout=30
    )


def _program(folder: Path, says: str) -> None:
    folder.mkdir(parents=True)
    (folder / "vault-mem").write_text(f'#!/bin/sh\necho "{says} $*"\nexit 3\n')
    (folder / "vault-mem").chmod(0o755)


def test_the_launcher_passes_itself_over_and_starts_the_installed_program(tmp_path: Path) -> None:
    _program(tmp_path / "a b", "found")
    path = os.pathsep.join((str(LAUNCHER.parent), ".", str(tmp_path / "a b"), "/usr/bin", "/bin"))

    done = _launch("hook", "stop", path=path, home=tmp_path)

    assert (done.returncode, done.stdout) == (3, b"found hook stop\n")


def test_the_launcher_looks_where_programs_are_installed_for_one_user(tmp_path: Path) -> None:
    _program(tmp_path / ".local/bin", "local")

    assert _launch("list", path="/usr/bin:/bin", home=tmp_path).stdout == b"local list\n"


@pytest.mark.parametrize(
    ("arguments", "code"), ((("hook", "stop"), 0), (("resume",), 0), (("list",), 127)), ids=("hook", "start", "by hand")
)
def test_a_program_that_is_not_installed_fails_no_session(
    arguments: tuple[str, ...], code: int, tmp_path: Path
) -> None:
    if any(os.access(f"{folder}/vault-mem", os.X_OK) for folder in ("/usr/bin", "/bin", "/usr/local/bin")):
        pytest.skip("vault-mem is installed for everybody here")

    done = _launch(*arguments, path="/usr/bin:/bin", home=tmp_path)

    assert done.returncode == code
    assert b"vault-mem: program-missing" in done.stderr
    assert bool(done.stdout) == (arguments == ("resume",))
    if done.stdout:
        assert list(json.loads(done.stdout)) == ["systemMessage"]


def test_a_seat_without_hooks_leaves_the_settings_to_the_plugin(project: Path, vault_mem: Run) -> None:
    vault_mem("init", "--no-hooks", cwd=project, check=True)

    assert (project / "vault/memory/.git").is_dir()
    assert not (project / ".claude").exists()


def test_a_plugin_that_is_on_as_well_is_named(project: Path, vault_mem: Run, environ: dict[str, str]) -> None:
    settings = Path(environ["HOME"]) / ".claude/settings.json"
    settings.parent.mkdir()
    settings.write_text('{"enabledPlugins": {"vault-mem@vault-mem": true}}')

    assert b"plugin-as-well" in vault_mem("init", cwd=project, check=True).stdout


CLIENT = os.environ.get("VAULT_MEM_TEST_CLAUDE", "")


@pytest.mark.skipif(not CLIENT, reason="VAULT_MEM_TEST_CLAUDE names no Claude Code program")
@pytest.mark.parametrize("folder", (PLUGIN, ROOT), ids=("plugin", "marketplace"))
def test_the_real_client_accepts_the_plugin(folder: Path, environ: dict[str, str]) -> None:
    done = subprocess.run(
        [CLIENT, "plugin", "validate", "--strict", str(folder)],
        env={**environ, "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
        capture_output=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == 0, done.stdout.decode("utf-8", "replace")
