from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from vault_mem import worktree

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_branch_and_commit_are_those_of_the_work_tree(git: Callable[..., str], tmp_path: Path) -> None:
    main = tmp_path / "main"
    main.mkdir()
    git(main, "init", "-q", "-b", "trunk/1.0")
    unborn = worktree.here(str(main))
    git(main, "commit", "-q", "--allow-empty", "-m", "one")
    head = git(main, "rev-parse", "HEAD").strip()
    git(main, "worktree", "add", "-q", str(tmp_path / "linked"), "-b", "f1")
    (tmp_path / "linked/deep/er").mkdir(parents=True)

    assert unborn == (str(main), "trunk/1.0", "")
    assert worktree.here(str(main)) == (str(main), "trunk/1.0", head)
    assert worktree.here(str(tmp_path / "linked/deep/er")) == (str(tmp_path / "linked"), "f1", head)

    git(main, "pack-refs", "--all")
    assert worktree.here(str(main)).head == head

    git(main, "checkout", "-q", "--detach")
    assert worktree.here(str(main)) == (str(main), "", head)


@pytest.mark.parametrize("pointer", (None, "", "gitdir: ", "gitdir: /nowhere/at/all", "something else"))
def test_no_repository_is_no_branch(tmp_path: Path, pointer: str | None) -> None:
    if pointer is not None:
        (tmp_path / ".git").write_text(pointer, encoding="utf-8")

    assert (worktree.here(str(tmp_path)).branch, worktree.here(str(tmp_path)).head) == ("", "")
