"""What a repository is, read from its files, agrees with what git says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vault_mem.errors import GitRefusedError
from vault_mem.repo import shape

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Git = Callable[..., str]

CONFIG = r"""
# comment
[core]
	repositoryformatversion = 0
	FileMode = true ; because
[remote "Or ig\"in]#"] url = "https://x#y" ; tail
	fetch = a \
b
[branch.Main]
	bare
[alias "x"] ; comment
	a = "tab\there" tail\\
	# b = c
	empty =
[Core]
	filemode = false
"""


def test_a_configuration_file_is_read_as_git_reads_it(tmp_path: Path, git: Git) -> None:
    (tmp_path / "config").write_text(CONFIG, encoding="utf-8")
    listed = git(tmp_path, "config", "--file", "config", "--list", "-z").split("\0")
    expected = {
        key: value if line else "true" for key, line, value in (entry.partition("\n") for entry in listed if entry)
    }

    found = shape.settings(CONFIG)

    assert {key: value for key, value in found.items() if key in expected} == expected
    assert len(found) == len(expected)


@given(st.text())
def test_any_text_is_read_without_failing(text: str) -> None:
    shape.settings(text)


@pytest.mark.parametrize("value", ("true", "yes", "on", "1", "TRUE", "2", "false", "no", "off", "0", ""))
def test_truth_is_that_of_git(tmp_path: Path, git: Git, value: str) -> None:
    (tmp_path / "config").write_text(f'[a]\n\tb = "{value}"\n', encoding="utf-8")

    assert shape.truth(value) == (git(tmp_path, "config", "--file", "config", "--type=bool", "a.b") == "true")


@pytest.mark.parametrize(
    ("key", "value", "why"),
    (
        ("core.bare", "true", "bare"),
        ("core.sharedRepository", "group", "shared"),
        ("extensions.refStorage", "reftable", "reftable"),
        ("extensions.objectFormat", "sha256", "object-format"),
        ("extensions.partialClone", "origin", "extension"),
        ("extensions.unheardOf", "1", "extension"),
        ("extensions.preciousObjects", "true", ""),
        ("extensions.worktreeConfig", "true", ""),
        ("core.worktree", "..", ""),
    ),
)
def test_what_we_do_not_know_how_to_write_is_left_to_git(
    project: Path, git: Git, environ: dict[str, str], key: str, value: str, why: str
) -> None:
    git(project, "config", key, value)

    assert shape.opened(str(project), environ=environ).why == why


def test_a_repository_of_another_work_tree_is_not_this_ones(
    project: Path, git: Git, environ: dict[str, str], tmp_path: Path
) -> None:
    git(project, "config", "core.worktree", str(tmp_path))

    with pytest.raises(GitRefusedError, match="not-a-repository"):
        shape.opened(str(project), environ=environ)


def test_a_head_that_names_no_branch_of_a_person_is_left_to_git(project: Path, environ: dict[str, str]) -> None:
    (project / ".git" / "HEAD").write_text("ref: refs/odd/place\n", encoding="utf-8")

    assert shape.opened(str(project), environ=environ).why == "odd-head"


def test_a_folder_in_place_of_the_configuration_is_refused(project: Path, environ: dict[str, str]) -> None:
    (project / ".git" / "config").unlink()
    assert shape.opened(str(project), environ=environ).config == {}
    (project / ".git" / "config").mkdir()

    with pytest.raises(GitRefusedError):
        shape.opened(str(project), environ=environ)


def test_a_branch_is_found_among_packed_ones_by_its_whole_name(
    project: Path, git: Git, environ: dict[str, str]
) -> None:
    git(project, "commit", "-q", "--allow-empty", "-m", "second")
    git(project, "branch", "not-main", "HEAD^")
    git(project, "tag", "-a", "-m", "x", "main")
    git(project, "pack-refs", "--all", "--prune")

    repository = shape.opened(str(project), environ=environ)

    assert shape.tip(repository) == git(project, "rev-parse", "refs/heads/main")
    assert shape.refusal(repository) == ""
