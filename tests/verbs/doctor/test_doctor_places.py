"""Findings that need another kind of seat, another machine or a broken proof, and the parts the checks are made of."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from vault_mem.doctor import collect, lookhooks, prove
from vault_mem.doctor.checks import capsules, hooks, others, state
from vault_mem.doctor.examine import examine
from vault_mem.doctor.prove import Proof
from vault_mem.doctor.scene import Scene, State

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from vault_mem.report import Finding

    Run = Callable[..., subprocess.CompletedProcess[bytes]]


def look(seat: Path, environ: dict[str, str], **more: Any) -> Scene:
    options = {"explicit": "", "cwd": str(seat), "now": time.time(), "program": "/x/vault-mem", "run_hooks": False}
    return collect.look(environ=environ, **{**options, **more})[0]


def tokens(findings: Iterable[Finding]) -> list[str]:
    return [finding.token for finding in findings]


def test_an_adopted_tree_without_a_repository_is_said_and_works(
    project: Path, vault_mem: Run, environ: dict[str, str]
) -> None:
    (project / "vault/memory/capsules").mkdir(parents=True)
    vault_mem("init", "--adopt", cwd=project, check=True)

    found = {finding.token: finding.severity for finding in examine(look(project, environ))}

    assert found["vault-adopted-no-repo"] == "warn"
    assert "fail" not in found.values(), found


def test_a_mirror_remote_of_an_embedding_project_is_said(
    project: Path, vault_mem: Run, git: Callable[..., str], environ: dict[str, str]
) -> None:
    vault_mem("init", "--mode", "embedded", cwd=project, check=True)
    git(project, "config", "remote.backup.mirror", "true")

    assert "mirrored" in tokens(examine(look(project, environ)))

    git(project, "config", "--unset", "remote.backup.mirror")

    assert "mirrored" not in tokens(examine(look(project, environ)))


def test_the_project_around_an_embedded_vault_may_be_busy(
    project: Path, vault_mem: Run, git: Callable[..., str], environ: dict[str, str]
) -> None:
    vault_mem("init", "--mode", "embedded", cwd=project, check=True)
    git(project, "checkout", "-q", "--detach")
    (project / ".git/index.lock").write_text("")
    (project / ".git/MERGE_HEAD").write_text(git(project, "rev-parse", "HEAD") + "\n")

    found = {finding.token: finding.severity for finding in examine(look(project, environ))}

    assert "fail" not in found.values(), found
    assert "index-locked" not in found


@pytest.mark.parametrize(
    ("free", "names", "token"),
    (
        pytest.param(1 << 20, None, "disk-full", id="no bytes"),
        pytest.param(1 << 30, 10, "disk-full", id="no files"),
        pytest.param(32 << 20, 10**6, "disk-low", id="few bytes"),
        pytest.param(1 << 30, 500, "disk-low", id="few files"),
        pytest.param(1 << 30, None, "", id="room"),
    ),
)
def test_a_full_disk_is_said(seat: Path, environ: dict[str, str], free: int, names: int | None, token: str) -> None:
    scene = replace(look(seat, environ), state=State(runtime="/r", free=free, free_files=names))

    assert [each for each in tokens(state.check(scene)) if each.startswith("disk")] == [token] * bool(token)


def test_a_folder_that_cannot_be_written_is_said(seat: Path, environ: dict[str, str]) -> None:
    scene = replace(look(seat, environ), state=State(runtime="/r", read_only=("/v/capsules",)))

    assert tokens(state.check(scene)) == ["read-only"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_vault_is_seen(seat: Path, environ: dict[str, str]) -> None:
    (seat / "vault/memory").chmod(0o500)
    try:
        assert "read-only" in tokens(examine(look(seat, environ)))
    finally:
        (seat / "vault/memory").chmod(0o700)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look everywhere")
def test_a_root_that_cannot_be_looked_at_is_said(seat: Path, environ: dict[str, str]) -> None:
    (seat / "vault").chmod(0)
    try:
        assert "root-uninspectable" in tokens(examine(look(seat, environ)))
    finally:
        (seat / "vault").chmod(0o700)


def test_a_clock_before_this_program_was_written_is_said(seat: Path, environ: dict[str, str]) -> None:
    assert "clock" in tokens(capsules.check(look(seat, environ, now=1000.0)))


def test_a_part_that_cannot_be_looked_at_does_not_hide_the_others(
    seat: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: str) -> None:
        raise ValueError("odd")

    monkeypatch.setattr(os, "statvfs", refuse)
    scene, odd = collect.look(
        explicit="", environ=environ, cwd=str(seat), now=time.time(), program="/x/vault-mem", run_hooks=False
    )

    assert tokens(odd) == ["check-failed"]
    assert scene.git.head
    assert scene.wiring.files


@pytest.mark.parametrize("step", ("save", "resume", "undo"))
def test_a_step_of_the_proof_that_fails_is_named(seat: Path, environ: dict[str, str], step: str) -> None:
    told = list(prove._told(look(seat, environ), Proof({}, failed=step, problem="why")))

    assert [(finding.token, finding.severity, finding.what) for finding in told] == [(f"proof-{step}", "fail", "why")]


def test_a_proof_that_changed_anything_else_is_a_failure(seat: Path, environ: dict[str, str]) -> None:
    told = list(prove._told(look(seat, environ), Proof({"save": 0.1}, touched=("HEAD",))))

    assert tokens(told) == ["proof-touched", "proved"]


@pytest.mark.parametrize(
    ("matcher", "lacking"),
    (
        pytest.param("", (), id="none"),
        pytest.param("*", (), id="star"),
        pytest.param("startup|resume|clear|compact|fork", (), id="all by name"),
        pytest.param("startup|resume|clear|compact", ("fork",), id="no fork"),
        pytest.param("clear", ("startup", "resume", "compact", "fork"), id="one"),
        pytest.param("(", hooks.SOURCES, id="no pattern"),
        pytest.param(".*", (), id="everything"),
    ),
)
def test_what_a_matcher_leaves_out(matcher: str, lacking: tuple[str, ...]) -> None:
    assert hooks.not_matched(matcher) == lacking


@pytest.mark.parametrize(
    ("line", "unquoted"),
    (
        pytest.param("$CLAUDE_PROJECT_DIR/x.sh", True, id="bare variable"),
        pytest.param("${CLAUDE_PROJECT_DIR}/x.sh", True, id="bare variable in braces"),
        pytest.param('"$CLAUDE_PROJECT_DIR"/x.sh', False, id="quoted variable"),
        pytest.param("/my project/x.sh", True, id="bare path"),
        pytest.param("'/my project/x.sh'", False, id="quoted path"),
        pytest.param("/my\\ project/x.sh", False, id="escaped blank"),
    ),
)
def test_paths_without_quotes(line: str, unquoted: bool) -> None:
    assert others.is_unquoted(line, "/my project") is unquoted
    assert others.is_unquoted(line, "/project") is False


@pytest.mark.parametrize(
    ("word", "wanted"),
    (
        pytest.param("sh", "/bin/sh", id="on PATH"),
        pytest.param("/bin/sh", "/bin/sh", id="absolute"),
        pytest.param("'/bin/sh'", "/bin/sh", id="quoted"),
        pytest.param('"$TOP/sh"', "/bin/sh", id="variable"),
        pytest.param("${TOP}/sh", "/bin/sh", id="variable in braces"),
        pytest.param("'$TOP/sh'", "?", id="no variable within single quotes"),
        pytest.param("~/sh", "/bin/sh", id="home"),
        pytest.param("/bin/sh -m vault_mem", "/bin/sh", id="module"),
        pytest.param("/gone/sh", "", id="gone"),
        pytest.param("gone-program", "", id="not on PATH"),
        pytest.param("$(which sh)", "?", id="only a shell knows"),
        pytest.param("", "", id="nothing"),
    ),
)
def test_which_program_a_word_starts(word: str, wanted: str) -> None:
    assert lookhooks.resolved(word, environ={"PATH": "/bin", "TOP": "/bin", "HOME": "/bin"}) == wanted


def test_hooks_that_ran_lately_without_being_wired_are_a_note(seat: Path, environ: dict[str, str]) -> None:
    (seat / ".claude/settings.json").unlink()
    runtime = seat / "vault/memory/runtime"
    runtime.mkdir(exist_ok=True)
    row = {"at": "2026-01-01T00:00:00.000Z", "door": "stop", "outcome": "saved", "session": "s", "detail": ""}
    (runtime / "log.jsonl").write_text(json.dumps(row) + "\n")

    found = {
        finding.token: finding.severity
        for finding in examine(look(seat, environ, now=1_767_225_700.0))
        if finding.token == "hooks-missing"
    }

    assert found == {"hooks-missing": "info"}


def test_hooks_in_codex_configuration_are_seen(seat: Path, environ: dict[str, str], tmp_path: Path) -> None:
    home = tmp_path / "codex"
    home.mkdir()
    text = '[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = "command"\ncommand = "vault-mem hook stop"\ntimeout = 15000\n'
    (home / "config.toml").write_text(f"model_auto_compact_token_limit = 200000\n{text}")

    found = tokens(examine(look(seat, {**environ, "CODEX_HOME": str(home)})))

    assert {"hook-timeout-unit", "hook-missing", "ceiling-above-compaction"} <= set(found)


def test_a_failure_before_the_last_good_save_is_no_finding(seat: Path, environ: dict[str, str]) -> None:
    runtime = seat / "vault/memory/runtime"
    runtime.mkdir(exist_ok=True)
    rows = [
        {"at": "2026-01-01T00:00:00.000Z", "door": "stop", "outcome": "error:OSError", "session": "s", "detail": ""},
        {"at": "2026-01-01T00:01:00.000Z", "door": "stop", "outcome": "saved", "session": "s", "detail": ""},
    ]
    (runtime / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    assert "recent-failures" not in tokens(examine(look(seat, environ, now=1_767_225_700.0)))
