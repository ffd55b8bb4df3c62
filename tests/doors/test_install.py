from __future__ import annotations

import difflib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from vault_mem import hooksfile, trust
from vault_mem.install import launcher

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., subprocess.CompletedProcess[bytes]]
    Git = Callable[..., str]

SETTINGS = ".claude/settings.json"
MINE = (
    '{\n    "model": "opus",\n    "hooks": {\n        "Stop": [\n            {"hooks": [{"type": "command", "command": "say done"}]}\n'
    '        ]\n    },\n    "zzz_unknown": {"keep": true}\n}\n'
)


def _snapshot(*folders: Path) -> dict[str, tuple[str, bytes]]:
    """Every path below the folders with its kind and bytes, git's own files left out."""
    found = {}
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if ".git" in path.relative_to(folder).parts:
                continue
            if path.is_symlink():
                found[str(path)] = ("link", os.readlink(path).encode())
            elif path.is_dir():
                found[str(path)] = ("folder", b"")
            else:
                found[str(path)] = (oct(path.stat().st_mode), path.read_bytes())
    return found


def _own(path: Path) -> list[hooksfile.Entry]:
    return list(hooksfile.own(hooksfile.parsed(path.read_text("utf-8-sig"), where=str(path))))


def _json(done: subprocess.CompletedProcess[bytes]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture
def home(environ: dict[str, str]) -> Path:
    return Path(environ["HOME"])


def test_init_makes_a_seat_that_git_does_not_see(
    project: Path, vault_mem: Run, git: Git, environ: dict[str, str]
) -> None:
    done = vault_mem("init", cwd=project, check=True)

    memory = project / "vault/memory"
    assert json.loads((project / ".aigent/state.json").read_text()) == {
        "schemaVersion": 1,
        "memory_root": "vault/memory",
    }
    assert git(memory, "log", "--format=%s") == "vault: begin"
    assert git(memory, "status", "--porcelain") == ""
    assert "vault/" not in git(project, "status", "--porcelain", "--untracked-files=all")
    assert len(_own(project / SETTINGS)) == len(hooksfile.HOOKS)
    assert (project / ".claude/skills/resume/SKILL.md").is_file()
    record = trust.trusted(str(memory), environ=environ)
    assert record is not None
    assert record.anchor == git(memory, "rev-parse", "HEAD")
    assert b"vault/memory" in done.stdout
    assert not done.stderr


def test_init_again_changes_no_byte(project: Path, vault_mem: Run, home: Path) -> None:
    vault_mem("init", "--harness", "all", cwd=project, check=True)
    before = _snapshot(project, home)

    done = vault_mem("init", "--harness", "all", cwd=project, check=True)

    assert _snapshot(project, home) == before
    assert b"nothing changed" in done.stdout


@pytest.mark.parametrize(
    "text", (None, "", "{}", '{ "hooks": { } }\r\n', MINE), ids=("none", "empty", "bare", "blank hooks", "mine")
)
@pytest.mark.parametrize("scope", ("project", "local", "user"))
def test_uninstall_leaves_nothing_but_the_seat(
    text: str | None, scope: str, project: Path, vault_mem: Run, home: Path
) -> None:
    vault_mem("init", cwd=project, check=True)
    vault_mem("uninstall", cwd=project, check=True)
    folder = home if scope == "user" else project
    settings = folder / ".claude" / ("settings.local.json" if scope == "local" else "settings.json")
    if text is not None:
        settings.parent.mkdir()
        settings.write_bytes(text.encode())
    before = _snapshot(project, home)

    vault_mem("init", "--scope", scope, cwd=project, check=True)
    wired = _own(settings)
    vault_mem("uninstall", cwd=project, check=True)

    after = _snapshot(project, home)
    backups = {path for path in after if "/vault-mem/backups" in path}
    assert len(wired) == len(hooksfile.HOOKS)
    assert {path: what for path, what in after.items() if path not in backups} == before
    assert len(backups) == (0 if text is None else 2)


def test_what_changed_meanwhile_survives_the_uninstall(project: Path, vault_mem: Run) -> None:
    settings = project / SETTINGS
    settings.parent.mkdir()
    settings.write_text(MINE)
    vault_mem("init", cwd=project, check=True)
    settings.write_text(settings.read_text().replace('"opus"', '"other"'))

    vault_mem("uninstall", cwd=project, check=True)

    assert settings.read_text() == MINE.replace('"opus"', '"other"')


def test_without_its_record_uninstall_still_takes_out_exactly_our_entries(
    project: Path, vault_mem: Run, home: Path
) -> None:
    settings = project / SETTINGS
    settings.parent.mkdir()
    settings.write_text(MINE)
    vault_mem("init", cwd=project, check=True)
    shutil.rmtree(home / ".local/state/vault-mem/installed")

    vault_mem("uninstall", cwd=project, check=True)

    assert settings.read_text() == MINE


def test_dry_run_shows_a_diff_and_changes_nothing(project: Path, vault_mem: Run, home: Path) -> None:
    before = _snapshot(project, home)

    done = vault_mem("init", "--dry-run", cwd=project, check=True)

    assert _snapshot(project, home) == before
    assert b"+++ " in done.stdout
    assert b"hook stop" in done.stdout
    assert not (project / ".git/info/exclude").read_text().count("vault")


def test_the_diff_of_a_dry_run_is_what_happens(project: Path, vault_mem: Run) -> None:
    settings = project / SETTINGS
    settings.parent.mkdir()
    settings.write_text(MINE)
    promised = _json(vault_mem("init", "--dry-run", "--json", cwd=project, check=True))["diff"]

    vault_mem("init", cwd=project, check=True)

    made = list(
        difflib.unified_diff(
            MINE.splitlines(), settings.read_text().splitlines(), str(settings), str(settings), lineterm=""
        )
    )
    assert "\n".join(made) in "\n".join(promised)


def test_the_document_of_init_names_seat_changes_and_findings(project: Path, vault_mem: Run) -> None:
    document = _json(vault_mem("init", "--json", cwd=project, check=True))

    assert {"schema", "command", "ok", "findings", "seat", "done", "backups", "diff"} <= set(document)
    assert document["ok"] is True
    assert document["seat"] == {
        "root": str(project),
        "memory_root": str(project / "vault/memory"),
        "relative": "vault/memory",
        "mode": "dedicated",
    }
    assert {"token", "severity", "where", "what", "fix"} == set(document["findings"][0])


@pytest.mark.parametrize(
    "text",
    (
        pytest.param("null", id="null"),
        pytest.param("[]", id="array"),
        pytest.param('{"a": 1,}', id="trailing comma"),
        pytest.param('{"hooks": {}} // x', id="comment"),
        pytest.param('{"hooks": 1}', id="hooks"),
        pytest.param('{"hooks": {"Stop": {}}}', id="event"),
        pytest.param('{"hooks": {"Stop": [{}]}}', id="group"),
        pytest.param('{"hooks": {"Stop": [{"hooks": [{"type": "command"}]}]}}', id="command"),
        pytest.param('{"hooks": {"Stop": []}, "hooks": {}}', id="doubled"),
    ),
)
def test_settings_that_cannot_be_understood_stop_everything_before_the_first_byte(
    text: str, project: Path, vault_mem: Run, home: Path
) -> None:
    (home / ".claude").mkdir()
    (home / SETTINGS).write_text(text)
    before = _snapshot(project, home)

    done = vault_mem("init", "--scope", "user", cwd=project)

    assert done.returncode == 1
    assert str(home / SETTINGS).encode() in done.stderr
    assert done.stderr.startswith(b"vault-mem: bad-settings: ")
    assert _snapshot(project, home) == before
    assert not (project / "vault").exists()


@pytest.mark.parametrize("kind", ("folder", "parent is a file", "dangling link to a file's child", "no utf-8", "pipe"))
def test_what_is_no_settings_file_is_refused(kind: str, project: Path, vault_mem: Run) -> None:
    settings = project / SETTINGS
    if kind == "parent is a file":
        settings.parent.write_text("x")
    else:
        settings.parent.mkdir()
    if kind == "folder":
        settings.mkdir()
    elif kind == "dangling link to a file's child":
        settings.symlink_to(project / "README.md/x.json")
    elif kind == "no utf-8":
        settings.write_bytes(b"\xff{}")
    elif kind == "pipe":
        os.mkfifo(settings)

    done = vault_mem("init", cwd=project)

    assert done.returncode == 1
    assert b"settings.json" in done.stderr
    assert b"Traceback" not in done.stderr
    assert not (project / ".aigent").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write and read everything")
@pytest.mark.parametrize("mode", (0o000, 0o500))
def test_a_place_that_cannot_be_read_or_written_is_refused_first(mode: int, project: Path, vault_mem: Run) -> None:
    settings = project / SETTINGS
    settings.parent.mkdir()
    settings.write_text("{}")
    settings.parent.chmod(mode)

    done = vault_mem("init", cwd=project)

    settings.parent.chmod(0o700)
    assert done.returncode == 1
    assert settings.read_text() == "{}"
    assert not (project / ".aigent").exists()


def test_links_permissions_byte_order_mark_and_line_ends_survive(project: Path, vault_mem: Run, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles/settings.json"
    real.parent.mkdir()
    former = b"\xef\xbb\xbf" + MINE.replace("\n", "\r\n").encode()
    real.write_bytes(former)
    real.chmod(0o640)
    (project / ".claude").mkdir()
    (project / SETTINGS).symlink_to(real)

    vault_mem("init", cwd=project, check=True)

    data = real.read_bytes()
    assert (project / SETTINGS).is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert data.startswith(b"\xef\xbb\xbf")
    assert b"\n" not in data.replace(b"\r\n", b"")
    assert len(_own(real)) == len(hooksfile.HOOKS)
    vault_mem("uninstall", cwd=project, check=True)
    assert real.read_bytes() == former
    assert (project / SETTINGS).is_symlink()


def test_another_name_of_the_settings_file_is_not_cut_off(project: Path, vault_mem: Run, tmp_path: Path) -> None:
    (project / ".claude").mkdir()
    (project / SETTINGS).write_text(MINE)
    os.link(project / SETTINGS, tmp_path / "second")

    vault_mem("init", cwd=project, check=True)

    assert (tmp_path / "second").read_text() == (project / SETTINGS).read_text()


def test_the_former_bytes_are_kept_for_their_owner_alone(project: Path, vault_mem: Run) -> None:
    (project / ".claude").mkdir()
    (project / SETTINGS).write_text(MINE)

    document = _json(vault_mem("init", "--json", cwd=project, check=True))

    (backup,) = map(Path, document["backups"])
    assert backup.read_text() == MINE
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("command", "name"),
    (
        pytest.param('node "/x/.claude/hooks/stop-capsule-writer.mjs"', "aigent-OS", id="aigent-OS"),
        pytest.param("bun /x/harnery/bin/agent-hook stop --harness claude", "Harnery", id="Harnery"),
    ),
)
def test_another_lifecycle_is_refused_with_the_diff_and_taken_out_when_asked(
    command: str, name: str, project: Path, vault_mem: Run, home: Path
) -> None:
    former = json.dumps(
        {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": command}]}], "PreToolUse": []}}, indent=2
    )
    (home / ".claude").mkdir()
    (home / SETTINGS).write_text(former)

    refused = vault_mem("init", cwd=project)

    assert refused.returncode == 1
    assert b"foreign-lifecycle" in refused.stderr
    assert name.encode() in refused.stderr
    assert re.search(rb"^-.*" + re.escape(json.dumps(command).encode()), refused.stderr, flags=re.MULTILINE)
    assert not (project / ".aigent").exists()
    assert (home / SETTINGS).read_text() == former

    vault_mem("init", "--replace-hooks", cwd=project, check=True)

    assert command not in (home / SETTINGS).read_text()
    assert len(_own(project / SETTINGS)) == len(hooksfile.HOOKS)
    assert not _own(home / SETTINGS)

    vault_mem("uninstall", cwd=project, check=True)

    assert (home / SETTINGS).read_text() == former
    assert not (project / SETTINGS).exists()


def test_a_broken_declaration_is_never_answered_with_a_default(project: Path, vault_mem: Run) -> None:
    (project / ".aigent").mkdir()
    (project / ".aigent/state.json").write_text('{"memory_root": "../outside"}')
    before = _snapshot(project)

    done = vault_mem("init", cwd=project)

    assert done.returncode == 1
    assert b"MEMORY-ROOT:" in done.stderr
    assert _snapshot(project) == before


@pytest.mark.parametrize(
    ("text", "expected"),
    (
        pytest.param(
            '{"status": "ok", "n": [1, 2]}\n',
            '{"status": "ok", "n": [1, 2], "memory_root": "mem", "schemaVersion": 1}\n',
            id="one line",
        ),
        pytest.param(
            '{\n\t"schemaVersion": 3,\n\t"x": 1\n}',
            '{\n\t"schemaVersion": 3,\n\t"x": 1,\n\t"memory_root": "mem"\n}',
            id="tabs",
        ),
        pytest.param(
            '{"memory_root": null, "schemaVersion": 1}', '{"memory_root": "mem", "schemaVersion": 1}', id="null"
        ),
    ),
)
def test_foreign_keys_of_the_declaration_stay(text: str, expected: str, project: Path, vault_mem: Run) -> None:
    (project / ".aigent").mkdir()
    (project / ".aigent/state.json").write_text(text)

    vault_mem("init", "--memory-root", "mem", cwd=project, check=True)

    assert (project / ".aigent/state.json").read_text() == expected


def test_a_declared_memory_root_is_not_changed_by_an_option(seat: Path, vault_mem: Run) -> None:
    done = vault_mem("init", "--memory-root", "elsewhere", cwd=seat)

    assert done.returncode == 1
    assert b"memory-root-declared" in done.stderr


@pytest.mark.parametrize("relative", ("/abs", "a/../b", "a//b", "./a", "a\\b", "~", " "))
def test_a_memory_root_that_could_lead_outside_is_refused(relative: str, project: Path, vault_mem: Run) -> None:
    done = vault_mem("init", "--memory-root", relative, cwd=project)

    assert done.returncode == (0 if relative == "~" else 1)
    assert (project / "~").exists() == (relative == "~")


def test_tracked_files_in_the_memory_root_are_refused_unless_adopted(project: Path, vault_mem: Run, git: Git) -> None:
    (project / "memory").mkdir()
    (project / "memory/notes.md").write_text("mine\n")
    git(project, "add", ".")
    git(project, "commit", "-qm", "notes")

    refused = vault_mem("init", cwd=project)

    assert refused.returncode == 1
    assert b"root-tracked" in refused.stderr
    assert not (project / ".aigent").exists()

    vault_mem("init", "--adopt", cwd=project, check=True)

    assert (project / "memory/notes.md").read_text() == "mine\n"
    assert not (project / "memory/.git").exists()
    assert "memory" not in git(project, "status", "--porcelain")


def test_a_full_folder_is_not_taken_for_a_memory_root(project: Path, vault_mem: Run) -> None:
    (project / "src").mkdir()
    (project / "src/a.py").write_text("x")

    done = vault_mem("init", "--memory-root", "src", cwd=project)

    assert done.returncode == 1
    assert b"root-not-empty" in done.stderr


def test_an_adopted_tree_becomes_a_repository_only_when_asked(
    project: Path, vault_mem: Run, environ: dict[str, str], git: Git
) -> None:
    memory = project / "memory"
    memory.mkdir()
    (memory / "notes.md").write_text("mine\n")
    vault_mem("init", "--adopt", cwd=project, check=True)
    without = trust.trusted(str(memory), environ=environ)

    vault_mem("init", "--adopt", "--mode", "dedicated", cwd=project, check=True)

    record = trust.trusted(str(memory), environ=environ)
    assert without is not None
    assert record is not None
    assert (without.mode, without.anchor) == ("adopted", "")
    assert (record.mode, record.anchor) == ("adopted", git(memory, "rev-parse", "HEAD"))
    assert not (memory / ".gitattributes").exists()


def test_an_embedded_vault_leaves_the_repository_of_the_person_alone(
    project: Path, vault_mem: Run, git: Git, environ: dict[str, str]
) -> None:
    head, config = git(project, "rev-parse", "HEAD"), (project / ".git/config").read_bytes()

    vault_mem("init", "--mode", "embedded", cwd=project, check=True)
    again = vault_mem("init", cwd=project, check=True)

    record = trust.trusted(str(project / "vault/memory"), environ=environ)
    assert record is not None
    assert (record.mode, record.ref) == ("embedded", "refs/vault-mem/vault-memory")
    assert git(project, "rev-parse", record.ref) == record.anchor
    assert git(project, "rev-parse", "HEAD") == head
    assert (project / ".git/config").read_bytes() == config
    assert b"nothing changed" in again.stdout


def test_a_vault_whose_configuration_runs_programs_is_refused_before_git_reads_it(
    seat: Path, vault_mem: Run, git: Git, tmp_path: Path
) -> None:
    git(seat / "vault/memory", "config", "core.sshCommand", f"touch {tmp_path}/ran")
    vault_mem("trust", "--revoke", cwd=seat, check=True)

    for command in ("init", "trust"):
        done = vault_mem(command, cwd=seat)

        assert done.returncode == 1
        assert b"unsafe-git-config: core.sshcommand" in done.stderr
    assert not (tmp_path / "ran").exists()


def test_trust_and_its_end(seat: Path, vault_mem: Run, environ: dict[str, str], git: Git) -> None:
    memory = str(seat / "vault/memory")
    git(memory, "config", "core.pager", "less")

    gone = _json(vault_mem("trust", "--revoke", "--json", cwd=seat, check=True))
    distrusted = trust.trusted(memory, environ=environ)
    back = _json(vault_mem("trust", "--json", cwd=seat, check=True))

    assert (gone["trusted"], distrusted) == (False, None)
    assert back["anchor"] == git(memory, "rev-parse", "HEAD")
    assert back["findings"][0]["token"] == "git-config-ignored"
    assert trust.trusted(memory, environ=environ) is not None
    assert vault_mem("trust", cwd=seat.parent).returncode == 1


def test_a_subdirectory_belongs_to_the_top_of_its_repository(project: Path, vault_mem: Run) -> None:
    (project / "src/deep").mkdir(parents=True)

    done = vault_mem("init", cwd=project / "src/deep", check=True)

    assert (project / ".aigent/state.json").is_file()
    assert not (project / "src/deep/.aigent").exists()
    assert b"project-settings-not-read" in done.stdout
    assert b"--scope user" in done.stdout


def test_root_names_the_seat_exactly(project: Path, vault_mem: Run, git: Git) -> None:
    (project / "part").mkdir()

    vault_mem("init", "--root", "part", cwd=project, check=True)

    assert (project / "part/vault/memory/.git").is_dir()
    assert not (project / ".aigent").exists()
    assert "part/vault" not in git(project, "status", "--porcelain", "--untracked-files=all")


def test_inside_the_vault_init_means_the_seat_around_it(seat: Path, vault_mem: Run) -> None:
    before = _snapshot(seat)

    vault_mem("init", cwd=seat / "vault/memory", check=True)

    assert _snapshot(seat) == before


def test_a_linked_worktree_gets_hooks_and_shares_the_memory(
    seat: Path, vault_mem: Run, git: Git, tmp_path: Path
) -> None:
    git(seat, "worktree", "add", "-q", str(tmp_path / "linked"))

    document = _json(vault_mem("init", "--json", cwd=tmp_path / "linked", check=True))

    assert document["seat"]["root"] == str(seat)
    assert len(_own(tmp_path / "linked" / SETTINGS)) == len(hooksfile.HOOKS)
    assert not (tmp_path / "linked/vault").exists()


def test_a_folder_without_git_becomes_a_seat(tmp_path: Path, vault_mem: Run) -> None:
    (tmp_path / "plain").mkdir()

    vault_mem("init", cwd=tmp_path / "plain", check=True)

    assert (tmp_path / "plain/vault/memory/.git").is_dir()


def test_a_home_that_is_a_repository_is_not_taken_for_the_project(home: Path, vault_mem: Run, git: Git) -> None:
    git(home, "init", "-q")
    (home / "work").mkdir()

    vault_mem("init", cwd=home / "work", check=True)

    assert (home / "work/.aigent").is_dir()
    assert not (home / ".aigent").exists()


@pytest.mark.parametrize("name", ("with blank", "it's", 'a"b', "a$HOME b", "a\nb", "a;b&c", "`id`", "ünï"))
def test_the_installed_command_line_survives_any_path(
    name: str, project: Path, vault_mem: Run, tmp_path: Path, environ: dict[str, str]
) -> None:
    program = tmp_path / name / "vault-mem"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m vault_mem "$@"\n')
    program.chmod(0o755)
    package = {**environ, "PYTHONPATH": str(Path(hooksfile.__file__).parent.parent)}
    line = f"import sys; sys.argv[0] = {str(program)!r}; from vault_mem.entry import script; script()"
    subprocess.run([sys.executable, "-c", line, "init"], cwd=project, env=package, check=True, capture_output=True)
    (stop,) = [entry for entry in _own(project / SETTINGS) if entry.event == "Stop"]

    done = subprocess.run(
        ["/bin/sh", "-c", stop.command], cwd=project, env=package, input=b"", capture_output=True, check=False
    )

    assert done.returncode == 0
    assert b"bad-payload" in done.stderr
    assert stop.arguments == "hook stop"

    program.unlink()
    gone = subprocess.run(["/bin/sh", "-c", stop.command], cwd=project, input=b"", capture_output=True, check=False)

    assert gone.returncode == 127
    vault_mem("init", cwd=project, check=True)
    assert [entry.event for entry in _own(project / SETTINGS)] == [hook.event for hook in hooksfile.HOOKS]
    assert str(program.parent) not in "".join(entry.command for entry in _own(project / SETTINGS))


def test_an_edited_skill_is_left_alone_and_the_new_text_lies_beside(project: Path, vault_mem: Run) -> None:
    vault_mem("init", cwd=project, check=True)
    skill = project / ".claude/skills/resume/SKILL.md"
    skill.write_text("mine\n")

    done = vault_mem("init", cwd=project, check=True)

    assert skill.read_text() == "mine\n"
    assert (skill.parent / "SKILL.md.vault-mem-new").is_file()
    assert b"skill-edited" in done.stdout
    vault_mem("uninstall", cwd=project, check=True)
    assert [path.name for path in skill.parent.iterdir()] == ["SKILL.md"]


def test_a_skill_of_an_older_version_is_replaced(project: Path, vault_mem: Run) -> None:
    from vault_mem.install import skills

    vault_mem("init", cwd=project, check=True)
    skill = project / ".claude/skills/resume/SKILL.md"
    former = skill.read_bytes()
    body = b"---\nname: resume\n---\nolder"
    skill.write_bytes(body + b"\n<!-- vault-mem " + skills._digest(body) + b" -->\n")

    vault_mem("init", cwd=project, check=True)

    assert skill.read_bytes() == former


@pytest.mark.parametrize("value", ("", "  "), ids=("empty", "blank"))
def test_an_unset_client_folder_is_the_usual_one(value: str, project: Path, vault_mem: Run, home: Path) -> None:
    vault_mem("init", "--scope", "user", cwd=project, more={"CLAUDE_CONFIG_DIR": value}, check=True)

    assert _own(home / SETTINGS)


@pytest.mark.parametrize("harness", ("claude", "codex"))
def test_the_folder_that_the_client_names_gets_the_hooks_and_no_other(
    harness: str, project: Path, vault_mem: Run, home: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "alt conf"
    more = {"CLAUDE_CONFIG_DIR": str(folder), "CODEX_HOME": str(folder)}

    vault_mem("init", "--scope", "user", "--harness", harness, cwd=project, more=more, check=True)

    file = folder / ("settings.json" if harness == "claude" else "hooks.json")
    assert len(_own(file)) == len(hooksfile.hooks_of(harness))
    assert not (home / ".claude").exists()
    assert not (home / ".codex").exists()
    for value in ("~/x", "relative"):
        done = vault_mem("init", "--scope", "user", "--harness", harness, cwd=project, more=dict.fromkeys(more, value))
        assert done.returncode == 1
        assert b"bad-client-home" in done.stderr


def test_codex_hooks_hold_nothing_that_codex_refuses_and_the_review_is_explained(project: Path, vault_mem: Run) -> None:
    done = vault_mem("init", "--harness", "codex", cwd=project, check=True)

    document = json.loads((project / ".codex/hooks.json").read_text())
    assert set(document) == {"hooks"}
    assert document["hooks"]["PostCompact"][0]["hooks"][0]["command"].endswith("hook post-compact")
    assert document["hooks"]["SessionEnd"][0]["hooks"][0]["timeout"] <= 3
    assert b"codex-trust" in done.stdout
    assert b"/hooks" in done.stdout
    assert (project / ".codex/skills/resume/SKILL.md").is_file()
    assert not (project / ".codex/config.toml").exists()
    assert not (project / ".claude").exists()


def test_a_codex_configuration_that_switches_hooks_off_is_named_and_left_alone(
    project: Path, vault_mem: Run, home: Path
) -> None:
    config = home / ".codex/config.toml"
    config.parent.mkdir()
    config.write_text("# mine\n[features]\nhooks = false\n")

    done = vault_mem("init", "--harness", "codex", cwd=project, check=True)

    assert b"codex-hooks-off" in done.stdout
    assert config.read_text() == "# mine\n[features]\nhooks = false\n"


@pytest.mark.parametrize(
    "arguments", (("init", "--harness", "cursor"), ("init", "--nope"), ("uninstall", "x"), ("trust", "--scope", "user"))
)
def test_a_wrong_word_is_usage_and_changes_nothing(arguments: tuple[str, ...], project: Path, vault_mem: Run) -> None:
    before = _snapshot(project)

    done = vault_mem(*arguments, cwd=project)

    assert done.returncode == 64
    assert _snapshot(project) == before


@pytest.mark.parametrize("command", ("init", "install", "uninstall", "trust", "root"))
def test_help_has_an_example(command: str, vault_mem: Run) -> None:
    assert b"example: vault-mem" in vault_mem(command, "--help", check=True).stdout


def test_a_refusal_is_a_document_too(project: Path, vault_mem: Run) -> None:
    (project / ".claude").mkdir()
    (project / SETTINGS).write_text("[]")

    done = vault_mem("init", "--json", cwd=project)

    assert done.returncode == 1
    document = _json(done)
    assert (document["ok"], document["findings"][0]["token"]) == (False, "bad-settings")


def test_hooks_in_a_second_scope_are_named(seat: Path, vault_mem: Run) -> None:
    done = vault_mem("init", "--scope", "user", cwd=seat, check=True)

    assert b"wired-twice" in done.stdout
    assert b"--scope project" in done.stdout


def test_uninstall_needs_no_sound_seat(seat: Path, vault_mem: Run) -> None:
    (seat / ".aigent/state.json").write_text("{")

    vault_mem("uninstall", cwd=seat, check=True)

    assert not (seat / ".claude").exists()


def test_uninstall_can_be_narrowed(project: Path, vault_mem: Run, home: Path) -> None:
    vault_mem("init", "--harness", "all", "--scope", "user", cwd=project, check=True)

    vault_mem("uninstall", "--harness", "codex", cwd=project, check=True)

    assert not (home / ".codex").exists()
    assert len(_own(home / SETTINGS)) == len(hooksfile.HOOKS)


def test_the_merge_driver_is_set_once_and_never_to_a_program_inside_the_seat(
    project: Path, vault_mem: Run, git: Git, environ: dict[str, str]
) -> None:
    inside = project / ".venv/bin/vault-mem"
    inside.parent.mkdir(parents=True)
    inside.write_text("#!/bin/sh\n")
    inside.chmod(0o755)
    package = {**environ, "PYTHONPATH": str(Path(hooksfile.__file__).parent.parent)}
    line = f"import sys; sys.argv[0] = {str(inside)!r}; from vault_mem.entry import script; script()"

    done = subprocess.run(
        [sys.executable, "-c", line, "init"], cwd=project, env=package, capture_output=True, check=True
    )
    config = (project / "vault/memory/.git/config").read_text()
    vault_mem("init", cwd=project, check=True)

    assert b"merge-driver-not-set" in done.stdout
    assert "merge-driver" not in config
    if Path(sys.executable).with_name("vault-mem").is_file():
        driver = git(project / "vault/memory", "config", "merge.vault-mem.driver")
        assert driver.endswith("vault-mem merge-driver %O %A %B %P")
        assert vault_mem("list", cwd=project).stderr.count(b"unsafe-git-config") == 0


def test_another_machine_joins_with_the_address_of_the_vault(
    seat: Path, vault_mem: Run, git: Git, tmp_path: Path, environ: dict[str, str]
) -> None:
    (seat / "vault/memory/capsules/2026-11").mkdir(parents=True)
    (seat / "vault/memory/capsules/2026-11/a.md").write_text("---\nid: a\n---\n")
    git(seat / "vault/memory", "add", "capsules")
    git(seat / "vault/memory", "commit", "-qm", "capsule: write a")
    (tmp_path / "second").mkdir()

    vault_mem("init", "--from", "../project/vault/memory", cwd=tmp_path / "second", check=True)

    memory = tmp_path / "second/vault/memory"
    record = trust.trusted(str(memory), environ=environ)
    assert (memory / "capsules/2026-11/a.md").is_file()
    assert record is not None
    assert record.anchor == git(seat / "vault/memory", "rev-parse", "HEAD")
    assert git(memory, "config", "remote.origin.url") == str(seat / "vault/memory")
    assert git(memory, "status", "--porcelain") == ""
    assert vault_mem("init", "--from", "x", cwd=tmp_path / "second").returncode == 1


@pytest.mark.parametrize(
    ("address", "token"),
    (
        pytest.param("ext::sh -c 'touch ran'", b"unsafe-git-config", id="helper"),
        pytest.param("../nowhere", b"clone-failed", id="nowhere"),
        pytest.param("../project", b"no-vault", id="no vault"),
    ),
)
def test_what_cannot_be_joined_leaves_nothing(
    address: str, token: bytes, project: Path, tmp_path: Path, vault_mem: Run
) -> None:
    second = tmp_path / "second"
    second.mkdir()

    done = vault_mem("init", "--from", address, cwd=second)

    assert done.returncode == 1
    assert token in done.stderr
    assert not [path for path in second.rglob("*") if path.is_file()]
    assert project.is_dir()


@pytest.mark.parametrize(
    ("first", "usable"),
    (
        pytest.param("#!{python}", True, id="plain"),
        pytest.param("#!/usr/bin/env python3", True, id="env"),
        pytest.param("#!/bin/sh\n'''exec' \"/a b/python\" \"$0\"", True, id="through a shell"),
        pytest.param("#!/nowhere/my env/bin/python", False, id="blank in the path"),
        pytest.param("#!/nowhere/bin/python", False, id="interpreter gone"),
        pytest.param("#!{python}" + " " * 200, False, id="too long for a kernel"),
    ),
)
def test_a_script_that_cannot_be_started_is_not_wired(first: str, usable: bool, tmp_path: Path) -> None:
    program = tmp_path / "vault-mem"
    program.write_text(first.replace("{python}", sys.executable) + "\n")
    program.chmod(0o755)

    line = launcher.program_line(str(program), str(tmp_path / "elsewhere/../other/python"))

    # -P: the folder a hook runs in is the project, whose own `vault_mem` must not be taken for ours.
    assert line == (str(program) if usable else f"{tmp_path}/other/python -P -m vault_mem")
    assert hooksfile.recognised(f"{line} hook stop") == (line, "hook stop", False)


def test_a_vault_that_was_deleted_is_made_and_trusted_anew(
    seat: Path, vault_mem: Run, git: Git, environ: dict[str, str]
) -> None:
    shutil.rmtree(seat / "vault")

    vault_mem("init", cwd=seat, check=True)

    record = trust.trusted(str(seat / "vault/memory"), environ=environ)
    assert record is not None
    assert record.anchor == git(seat / "vault/memory", "rev-parse", "HEAD")


def test_a_client_that_runs_no_hooks_at_all_is_named(project: Path, vault_mem: Run) -> None:
    (project / ".claude").mkdir()
    (project / SETTINGS).write_text('{"disableAllHooks": true}')

    assert b"hooks-disabled" in vault_mem("init", cwd=project, check=True).stdout


@pytest.mark.parametrize("name", ("with blank", "it's", 'a"b', "a$HOME b", "a\nb", "ünï", "-dash", "{program}"))
def test_a_project_may_have_any_name(name: str, tmp_path: Path, vault_mem: Run, git: Git) -> None:
    folder = tmp_path / name
    folder.mkdir()
    git(folder, "init", "-q")

    vault_mem("init", cwd=folder, check=True)

    assert git(folder / "vault/memory", "log", "--format=%s") == "vault: begin"
    assert "vault/" not in git(folder, "status", "--porcelain", "--untracked-files=all")
    assert b"nothing changed" in vault_mem("init", cwd=folder, check=True).stdout
    vault_mem("uninstall", cwd=folder, check=True)
    assert not (folder / ".claude").exists()


def test_a_path_that_is_no_text_is_refused_before_anything_is_made(tmp_path: Path, vault_mem: Run) -> None:
    folder = os.fsencode(tmp_path) + b"/x\xff"
    try:
        os.mkdir(folder)
    except OSError:
        pytest.skip("this file system takes only UTF-8 names")

    done = vault_mem("init", cwd=os.fsdecode(folder))

    assert done.returncode == 1
    assert b"bad-path" in done.stderr
    assert not os.listdir(folder)


def test_the_status_line_is_touched_only_when_asked_and_comes_back(project: Path, vault_mem: Run) -> None:
    former = '{"statusLine": {"type": "command", "command": "~/s.sh"}}\n'
    settings = project / SETTINGS
    settings.parent.mkdir()
    settings.write_text(former)
    vault_mem("init", cwd=project, check=True)
    untouched = json.loads(settings.read_text())["statusLine"]

    vault_mem("init", "--status-line", cwd=project, check=True)
    again = vault_mem("init", cwd=project, check=True)

    assert untouched == {"type": "command", "command": "~/s.sh"}
    assert json.loads(settings.read_text())["statusLine"]["command"].endswith("vault-mem statusline -- sh -c '~/s.sh'")
    assert b"nothing changed" in again.stdout
    settings.write_text(settings.read_text() + "\n")
    vault_mem("uninstall", cwd=project, check=True)
    assert settings.read_text() == former + "\n"


def test_what_belongs_to_the_operator_is_never_written(project: Path, vault_mem: Run) -> None:
    skill = project / ".claude/skills/resume/SKILL.md"
    (project / ".aigent").mkdir()
    (project / ".aigent/operator-owned.json").write_text(json.dumps([SETTINGS]))

    refused = vault_mem("init", cwd=project)

    assert refused.returncode == 1
    assert b"operator-owned" in refused.stderr
    assert not (project / ".claude").exists()

    (project / ".aigent/operator-owned.json").write_text(json.dumps([".claude/skills/resume/SKILL.md"]))
    done = vault_mem("init", cwd=project, check=True)

    assert not skill.exists()
    assert skill.with_name("SKILL.md.vault-mem-new").is_file()
    assert b"belongs to the operator" in done.stdout


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_project_that_cannot_be_written_is_refused_with_a_token(project: Path, vault_mem: Run) -> None:
    project.chmod(0o500)

    done = vault_mem("init", cwd=project)

    project.chmod(0o700)
    assert done.returncode == 1
    assert b"not-writable" in done.stderr
    assert not (project / ".aigent").exists()
