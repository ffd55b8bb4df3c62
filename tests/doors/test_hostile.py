"""What somebody else put into a project, a vault or a payload: nothing outside is read or written, and every hook ends."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    Git = Callable[..., str]
    Run = Callable[..., subprocess.CompletedProcess[bytes]]

EVENTS = ("stop", "user-prompt-submit", "pre-compact", "session-end")
NAMES = (
    pytest.param("../../x", id="upwards"),
    pytest.param("/etc/x", id="absolute"),
    pytest.param("..", id="parent"),
    pytest.param("a\0b", id="NUL"),
    pytest.param("x" * 5000, id="long"),
    pytest.param("\u202e\x1b[31m", id="terminal sequences"),
    pytest.param("\ud800", id="lone surrogate"),
    pytest.param("$(touch mark)`touch mark`; touch mark", id="shell"),
    pytest.param("-rf", id="option"),
    pytest.param("refs/heads/main", id="reference"),
)


def outside(folder: Path, vault: Path) -> set[str]:
    """Every path in *folder* but those of the vault."""
    return {str(path) for path in folder.rglob("*") if not path.is_relative_to(vault)}


def payload(seat: Path, **more: object) -> bytes:
    fields = {"session_id": "s-1", "transcript_path": "", "cwd": str(seat), "last_assistant_message": "Done.", **more}
    return json.dumps(fields).encode()


@pytest.mark.parametrize("name", NAMES)
def test_a_session_id_leads_nowhere(name: str, seat: Path, tmp_path: Path, vault_mem: Run) -> None:
    before = outside(tmp_path, seat / "vault/memory")

    for event in EVENTS:
        vault_mem("hook", event, stdin=payload(seat, session_id=name, prompt="Work."), cwd=seat, check=True)
    vault_mem("resume", stdin=payload(seat, session_id=name, source="clear"), cwd=seat, check=True)

    assert outside(tmp_path, seat / "vault/memory") == before
    assert vault_mem("list", cwd=seat, check=True).stdout.count(b"\n") == 1


@pytest.mark.parametrize(
    "place",
    ("/dev/zero", "/dev/tty", "/proc/self/mem", "/proc/self/environ", "{pipe}", "{folder}", "relative", "{secret}"),
)
def test_a_transcript_that_is_none_ends_the_hook_and_is_not_copied(
    place: str, seat: Path, tmp_path: Path, vault_mem: Run
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "secret").write_text("root:x:0:0:nobody may see this\n", encoding="utf-8")
    path = place.format(pipe=tmp_path / "pipe", folder=tmp_path, secret=tmp_path / "secret")

    for event in EVENTS:
        vault_mem("hook", event, stdin=payload(seat, transcript_path=path), cwd=seat, check=True, timeout=30)
    vault_mem("resume", stdin=payload(seat, transcript_path=path, source="clear"), cwd=seat, check=True, timeout=30)

    stored = b"".join(file.read_bytes() for file in (seat / "vault/memory").rglob("*") if file.is_file())
    assert b"nobody may see this" not in stored


def test_an_index_that_is_a_pipe_refuses_the_commit_by_name_and_the_next_hook_makes_it(
    seat: Path, vault_mem: Run, git: Git
) -> None:
    vault = seat / "vault/memory"
    index = vault / ".git/index"
    kept = index.read_bytes()
    index.unlink()
    os.mkfifo(index)

    refused = vault_mem("hook", "stop", stdin=payload(seat, prompt="Work."), cwd=seat, check=True, timeout=30)
    index.unlink()
    index.write_bytes(kept)
    vault_mem("hook", "stop", stdin=payload(seat, last_assistant_message="More."), cwd=seat, check=True)

    assert refused.stderr.startswith(b"vault-mem: git-refused:index-unreadable")
    assert git(vault, "status", "--porcelain") == ""


def test_a_declaration_that_would_be_written_elsewhere_is_refused(
    project: Path, tmp_path: Path, vault_mem: Run
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (project / ".aigent").symlink_to(elsewhere)

    done = vault_mem("init", cwd=project)

    assert done.returncode == 1
    assert done.stderr.startswith(b"vault-mem: declaration-outside:")
    assert list(elsewhere.iterdir()) == []
    assert not (project / "vault").exists()


@pytest.mark.parametrize("options", (("--upload-pack=touch mark",), ("ext::touch mark",), ("-uecho",), ("fd::3",)))
def test_an_address_starts_nothing(options: tuple[str, ...], project: Path, vault_mem: Run) -> None:
    done = vault_mem("init", f"--from={options[0]}", cwd=project)

    assert done.returncode == 1
    assert done.stderr.startswith((b"vault-mem: clone-failed:", b"vault-mem: unsafe-git-config:"))
    assert not list(project.rglob("mark"))
    assert not (project / ".claude").exists()
