"""One look at real repositories, in the states that people leave them in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from vault_mem.context import gather
from vault_mem.session import drift

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Git = Callable[..., str]


def look(directory: Path, environ: dict[str, str], *changed: str) -> drift.Look:
    return gather.look(str(directory), changed=changed, environ=environ)


def test_a_clean_checkout_is_like_itself(project: Path, git: Git, environ: dict[str, str]) -> None:
    seen = look(project, environ)

    assert (seen.unknown, seen.branch, seen.head, seen.total, seen.stash) == (
        "", "main", git(project, "rev-parse", "HEAD"), 0, 0,
    )  # fmt: skip
    assert drift.compare(seen, look(project, environ)) == ()


def test_from_a_folder_below_the_whole_repository_is_seen(project: Path, environ: dict[str, str]) -> None:
    (project / "sub").mkdir()
    (project / "new.txt").write_text("1")

    assert look(project / "sub", environ).dirty == (("??", "new.txt"),)


def test_a_merge_that_stopped_a_stash_and_an_upstream_are_seen(
    project: Path, git: Git, environ: dict[str, str], tmp_path: Path
) -> None:
    git(tmp_path, "clone", "--quiet", str(project), "clone")
    clone = tmp_path / "clone"
    before = look(clone, environ)
    (clone / "README.md").write_text("stashed\n")
    git(clone, "stash")
    git(clone, "commit", "--quiet", "--allow-empty", "-m", "ahead")
    git(clone, "checkout", "--quiet", "-b", "side")
    (clone / "README.md").write_text("side\n")
    git(clone, "commit", "--quiet", "-am", "side")
    git(clone, "checkout", "--quiet", "main")
    (clone / "README.md").write_text("main\n")
    git(clone, "commit", "--quiet", "-am", "main")
    with pytest.raises(AssertionError):
        git(clone, "merge", "side")

    seen = look(clone, environ)

    assert (seen.operation, seen.stash, seen.upstream, seen.ahead, seen.behind) == ("merge", 1, "origin/main", 2, 0)
    assert seen.dirty == (("UU", "README.md"),)
    lines = drift.compare(before, seen)
    assert "operation under way: was none, is merge" in lines
    assert "stash entries: were 0, are 1" in lines


def test_a_linked_worktree_is_another_work_tree_of_the_same_repository(
    project: Path, git: Git, environ: dict[str, str], tmp_path: Path
) -> None:
    git(project, "worktree", "add", "--quiet", str(tmp_path / "linked"), "-b", "linked")

    lines = drift.compare(look(project, environ), look(tmp_path / "linked", environ))

    assert lines[0].startswith("another work tree of the same repository: ")
    assert "branch: was main, is linked" in lines


def test_what_cannot_be_known_is_unknown_by_name(project: Path, environ: dict[str, str], tmp_path: Path) -> None:
    assert look(tmp_path / "gone", environ).unknown == "directory-missing"
    assert look(tmp_path, environ).unknown == drift.NOT_A_REPOSITORY
    assert look(project, {**environ, "PATH": "/nowhere"}).unknown == "git-missing"
    (project / ".git" / "HEAD").write_text("garbage")
    assert look(project, environ).unknown


def test_a_repository_without_a_commit_is_known(tmp_path: Path, git: Git, environ: dict[str, str]) -> None:
    git(tmp_path, "init", "--quiet")
    (tmp_path / "a.txt").write_text("1")

    seen = look(tmp_path, environ)

    assert (seen.unknown, seen.branch, seen.head, seen.total) == ("", "main", "", 1)


def test_the_content_of_held_files_is_marked(project: Path, environ: dict[str, str]) -> None:
    (project / "big.bin").write_bytes(b"x" * (gather.WHOLE + 1))
    before = look(project, environ, "README.md", "big.bin", "missing.py")
    (project / "README.md").write_text("edited\n")
    (project / "big.bin").write_bytes(b"y" * (gather.WHOLE + 2))
    (project / "missing.py").write_text("there\n")

    lines = drift.compare(before, look(project, environ, "README.md", "big.bin", "missing.py"))

    assert "content changed since, of files this session changed: README.md, big.bin" in lines
    assert "there again, of files this session changed: missing.py" in lines
