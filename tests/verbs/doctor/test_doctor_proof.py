"""`doctor --prove`: a save, a resume and an undo land for real in each situation that stops a person's own commits."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., subprocess.CompletedProcess[bytes]]


def told(done: subprocess.CompletedProcess[bytes], token: str) -> list[str]:
    return [found["what"] for found in json.loads(done.stdout)["findings"] if found["token"] == token]


def own_commit_fails(vault: Path, environ: dict[str, str]) -> bool:
    """Whether a plain `git commit` of the person, with nothing of ours, fails in the vault."""
    done = subprocess.run(
        ["git", "commit", "--allow-empty", "-m", "mine"],
        cwd=vault,
        env=environ,
        capture_output=True,
        timeout=60,
        check=False,
    )
    return done.returncode != 0


def unusable_gpg(vault: Path, git: Callable[..., str], tmp_path: Path) -> None:
    signer = tmp_path / "gpg"
    signer.write_text("#!/bin/sh\necho 'gpg: signing failed: No secret key' >&2\nexit 2\n")
    signer.chmod(0o755)
    git(vault, "config", "--global", "commit.gpgSign", "true")
    git(vault, "config", "--global", "gpg.program", str(signer))


def failing_pre_commit(vault: Path, git: Callable[..., str], tmp_path: Path) -> None:
    hooks = tmp_path / "githooks"
    hooks.mkdir()
    (hooks / "pre-commit").write_text("#!/bin/sh\nexit 1\n")
    (hooks / "pre-commit").chmod(0o755)
    git(vault, "config", "--global", "core.hooksPath", str(hooks))


def no_identity(vault: Path, git: Callable[..., str], tmp_path: Path) -> None:
    del tmp_path
    for key in ("user.name", "user.email"):
        git(vault, "config", "--global", "--unset", key)
    git(vault, "config", "--global", "user.useConfigOnly", "true")


def stale_lock(vault: Path, git: Callable[..., str], tmp_path: Path) -> None:
    del git, tmp_path
    lock = vault / ".git/index.lock"
    lock.write_text("")
    then = time.time() - 3600
    os.utime(lock, (then, then))


def detached_head(vault: Path, git: Callable[..., str], tmp_path: Path) -> None:
    del tmp_path
    git(vault, "checkout", "-q", "--detach")


def diverged_remote(vault: Path, git: Callable[..., str], tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", str(tmp_path / "remote.git"))
    git(vault, "remote", "add", "origin", str(tmp_path / "remote.git"))
    git(vault, "push", "-q", "-u", "origin", "HEAD")
    git(vault, "commit", "-q", "--allow-empty", "-m", "there")
    git(vault, "push", "-q")
    git(vault, "reset", "-q", "--hard", "HEAD~1")
    git(vault, "commit", "-q", "--allow-empty", "-m", "here")


SITUATIONS = (
    pytest.param(unusable_gpg, "unusable signing", True, id="unusable gpg key"),
    pytest.param(failing_pre_commit, "pre-commit", True, id="failing global pre-commit hook"),
    pytest.param(no_identity, "no identity", True, id="no identity with useConfigOnly"),
    pytest.param(stale_lock, "index.lock", True, id="stale index.lock"),
    pytest.param(detached_head, "detached HEAD", False, id="detached head"),
    pytest.param(diverged_remote, "diverged", False, id="diverged remote"),
)


@pytest.mark.parametrize(("make", "named", "stops_a_person"), SITUATIONS)
def test_the_proof_lands_and_explains(
    seat: Path,
    vault_mem: Run,
    git: Callable[..., str],
    environ: dict[str, str],
    make: Callable[..., Any],
    named: str,
    stops_a_person: bool,
) -> None:
    vault = seat / "vault/memory"
    make(vault, git, seat.parent)
    before = {name: (vault / ".git" / name).read_bytes() for name in ("HEAD", "index", "config")}
    references = git(vault, "for-each-ref")

    done = vault_mem("doctor", "--prove", "--json", cwd=seat)

    assert len(told(done, "proved")) == 1, done.stdout
    assert "save" in told(done, "proved")[0]
    assert any(named in text for text in told(done, "proved-despite")), done.stdout
    assert {name: (vault / ".git" / name).read_bytes() for name in before} == before
    assert git(vault, "for-each-ref") == references
    assert own_commit_fails(vault, environ) is stops_a_person


def test_all_six_at_once_are_proved(seat: Path, vault_mem: Run, git: Callable[..., str], tmp_path: Path) -> None:
    vault = seat / "vault/memory"
    diverged_remote(vault, git, tmp_path)
    for make in (unusable_gpg, failing_pre_commit, stale_lock, no_identity):
        make(vault, git, tmp_path)

    done = vault_mem("doctor", "--prove", "--json", cwd=seat)

    assert len(told(done, "proved")) == 1
    assert "vault-mem <vault-mem@localhost>" in told(done, "proved")[0]
    assert len(told(done, "proved-despite")) == 5


def test_a_signer_that_hangs_does_not_hang_the_proof(
    seat: Path, vault_mem: Run, git: Callable[..., str], tmp_path: Path
) -> None:
    signer = tmp_path / "gpg"
    signer.write_text("#!/bin/sh\nsleep 300\n")
    signer.chmod(0o755)
    git(seat, "config", "--global", "commit.gpgSign", "true")
    git(seat, "config", "--global", "gpg.program", str(signer))

    done = vault_mem("doctor", "--prove", "--json", cwd=seat, timeout=50)

    assert len(told(done, "proved")) == 1
    assert "no signature within" in told(done, "proved-despite")[0]


def test_the_proof_works_in_a_vault_without_a_commit(seat: Path, vault_mem: Run, git: Callable[..., str]) -> None:
    git(seat / "vault/memory", "symbolic-ref", "HEAD", "refs/heads/fresh")

    done = vault_mem("doctor", "--prove", "--json", cwd=seat)

    assert len(told(done, "proved")) == 1, done.stdout


def test_nothing_is_proved_where_nothing_may_be_written(seat: Path, vault_mem: Run, git: Callable[..., str]) -> None:
    vault_mem("trust", "--revoke", cwd=seat, check=True)

    done = vault_mem("doctor", "--prove", "--json", cwd=seat)

    assert done.returncode == 1
    assert "untrusted" in told(done, "proof-save")[0]
    assert "vault-mem-proof" not in git(seat / "vault/memory", "for-each-ref")


def test_a_proof_that_cannot_land_says_which_step(seat: Path, vault_mem: Run, git: Callable[..., str]) -> None:
    objects = seat / "vault/memory/.git/refs/vault-mem-proof"
    objects.write_text("a file where the reference should be\n")

    done = vault_mem("doctor", "--prove", "--json", cwd=seat)

    assert done.returncode == 1
    assert len(told(done, "proof-save")) == 1
    del git
