"""A vault's own repository is made without anything of the person's in it, and the project around it does not see it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from vault_mem.errors import GitRefusedError
from vault_mem.repo import commit as engine
from vault_mem.repo import create

if TYPE_CHECKING:
    from collections.abc import Callable

    Git = Callable[..., str]

AT = 1_796_083_200.0


@pytest.fixture
def make(environ: dict[str, str]) -> Callable[..., str]:
    def run(path: Path, **more: bool) -> str:
        return create.init_repository(str(path), environ=environ, at=AT, **more)

    return run


def test_a_vault_begins_with_one_commit_of_its_two_files(tmp_path: Path, git: Git, make: Callable[..., str]) -> None:
    vault = tmp_path / "new" / "vault"

    oid = make(vault)

    assert git(vault, "log", "--format=%H %s %at %an") == f"{oid} vault: begin 1796083200 Test Person"
    assert git(vault, "symbolic-ref", "HEAD") == "refs/heads/main"
    assert git(vault, "ls-files").splitlines() == [".gitattributes", ".gitignore"]
    assert git(vault, "check-attr", "text", "merge", "--", "a.md").splitlines() == [
        "a.md: text: unset",
        "a.md: merge: vault-mem",
    ]
    (vault / "capsules").mkdir()
    (vault / "capsules" / ".vault-mem-1-2.tmp").write_bytes(b"")
    assert git(vault, "status", "--porcelain") == ""
    assert git(vault, "fsck", "--strict") == ""


def test_defaults_templates_and_hooks_of_the_person_stay_outside(
    tmp_path: Path, git: Git, environ: dict[str, str], make: Callable[..., str]
) -> None:
    template = tmp_path / "template"
    (template / "hooks").mkdir(parents=True)
    (template / "hooks" / "pre-commit").write_text(f"#!/bin/sh\n: >'{tmp_path}/started'\nexit 1\n", encoding="utf-8")
    (template / "hooks" / "pre-commit").chmod(0o755)
    for key, value in (
        ("init.templateDir", str(template)), ("init.defaultBranch", "trunk"), ("init.defaultObjectFormat", "sha256"),
        ("core.hooksPath", str(template / "hooks")), ("commit.gpgSign", "true"), ("gpg.program", "false"), ("core.autocrlf", "true"),
    ):  # fmt: skip
        git(tmp_path, "config", "--global", key, value)
    before = Path(environ["GIT_CONFIG_GLOBAL"]).read_bytes()

    make(tmp_path / "vault")

    assert not (tmp_path / "vault" / ".git" / "hooks").exists()
    assert not (tmp_path / "started").exists()
    assert git(tmp_path / "vault", "symbolic-ref", "HEAD") == "refs/heads/main"
    assert len(git(tmp_path / "vault", "rev-parse", "HEAD")) == 40
    assert Path(environ["GIT_CONFIG_GLOBAL"]).read_bytes() == before


def test_making_it_again_changes_nothing(tmp_path: Path, git: Git, make: Callable[..., str]) -> None:
    first = make(tmp_path / "vault")

    assert make(tmp_path / "vault") == first
    assert git(tmp_path / "vault", "rev-list", "--count", "HEAD") == "1"


def test_one_that_was_begun_and_left_without_a_commit_is_finished(
    tmp_path: Path, git: Git, make: Callable[..., str]
) -> None:
    git(tmp_path, "init", "-q", "-b", "mine", "vault")
    (tmp_path / "vault" / "staged").write_text("s\n", encoding="utf-8")
    git(tmp_path / "vault", "add", "staged")

    make(tmp_path / "vault")

    assert git(tmp_path / "vault", "show", "--format=", "--name-only", "mine").splitlines() == [
        ".gitattributes",
        ".gitignore",
    ]
    assert git(tmp_path / "vault", "status", "--porcelain") == "A  staged"


def test_files_that_lie_there_are_kept_as_they_are(tmp_path: Path, git: Git, make: Callable[..., str]) -> None:
    (tmp_path / "vault").mkdir()
    (tmp_path / "vault" / ".gitignore").write_bytes(b"mine\r\n")
    (tmp_path / "vault" / "note.md").write_bytes(b"note\n")

    make(tmp_path / "vault")

    assert (tmp_path / "vault" / ".gitignore").read_bytes() == b"mine\r\n"
    assert git(tmp_path / "vault", "ls-files").splitlines() == [".gitattributes", ".gitignore"]
    assert git(tmp_path / "vault", "status", "--porcelain") == "?? note.md"


def test_a_tree_that_ships_nothing_gets_an_empty_commit(tmp_path: Path, git: Git, make: Callable[..., str]) -> None:
    make(tmp_path / "vault", ship=False)

    assert git(tmp_path / "vault", "ls-tree", "-r", "HEAD") == ""
    assert os.listdir(tmp_path / "vault") == [".git", "runtime"] or sorted(os.listdir(tmp_path / "vault")) == [
        ".git",
        "runtime",
    ]


def test_a_vault_inside_a_project_is_its_own_and_takes_saves(
    project: Path, git: Git, environ: dict[str, str], make: Callable[..., str]
) -> None:
    vault = project / "vault" / "memory"
    head = git(project, "rev-parse", "HEAD")
    make(vault)
    assert create.exclude(str(project), "vault/memory", environ=environ)
    (vault / "a.md").write_bytes(b"a\n")

    done = engine.commit(
        str(vault),
        engine.Request((engine.Change("a.md", b"a\n"),), "s", (), AT),
        environ=environ,
        state=str(vault / "runtime"),
    )

    assert done.backend == "light"
    assert git(vault, "status", "--porcelain") == ""
    assert (git(project, "rev-parse", "HEAD"), git(project, "status", "--porcelain")) == (head, "")


@pytest.mark.parametrize("relative", ("vault/memory", "a [b]*?", "-x", "#y", "!z", "trailing ", "ü/ß", "back\\slash"))
def test_a_folder_is_excluded_once_and_only_it(project: Path, git: Git, environ: dict[str, str], relative: str) -> None:
    for folder in (relative, f"other/{relative}"):
        (project / folder).mkdir(parents=True)
        (project / folder / "file").write_text("x\n", encoding="utf-8")
    path = project / ".git" / "info" / "exclude"
    path.write_bytes(path.read_bytes() + b"last line without an end")

    assert create.exclude(str(project), relative, environ=environ)
    assert not create.exclude(str(project), relative, environ=environ)

    listed = git(project, "-c", "core.quotePath=false", "ls-files", "-z", "--others", "--exclude-standard").split("\0")
    assert [name for name in listed if name] == [f"other/{relative}/file"]
    assert b"last line without an end\n" in path.read_bytes()


def test_a_linked_work_tree_and_a_repository_without_an_info_folder_have_their_exclusions_too(
    project: Path, git: Git, environ: dict[str, str], tmp_path: Path
) -> None:
    subprocess.run(["rm", "-r", str(project / ".git" / "info")], check=True)
    git(project, "worktree", "add", "-q", "-b", "other", str(tmp_path / "linked"))
    for tree in (project, tmp_path / "linked"):
        (tree / "memory").mkdir()
        (tree / "memory" / "x").write_text("x\n", encoding="utf-8")

    assert create.exclude(str(tmp_path / "linked"), "memory", environ=environ)

    assert git(project, "status", "--porcelain") == git(tmp_path / "linked", "status", "--porcelain") == ""
    assert not create.exclude(str(project), "memory", environ=environ)


@pytest.mark.parametrize("relative", ("", "/", "../x", "a\nb", ".git"))
def test_what_is_no_folder_below_is_not_excluded(project: Path, environ: dict[str, str], relative: str) -> None:
    before = (project / ".git" / "info" / "exclude").read_bytes()

    with pytest.raises(GitRefusedError):
        create.exclude(str(project), relative, environ=environ)

    assert (project / ".git" / "info" / "exclude").read_bytes() == before
