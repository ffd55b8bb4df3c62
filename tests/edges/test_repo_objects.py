"""Objects are read wherever git keeps them, and history is walked exactly between two commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vault_mem.errors import GitRefusedError
from vault_mem.repo import objects

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Git = Callable[..., str]


@pytest.fixture
def vault(tmp_path: Path, git: Git) -> Path:
    """A repository with five commits in a line."""
    tree = tmp_path / "vault"
    (tree / "capsules").mkdir(parents=True)
    git(tree, "init", "-q")
    for number in range(5):
        (tree / "capsules" / "a.md").write_text(f"{number}\n", encoding="utf-8")
        git(tree, "add", ".")
        git(tree, "commit", "-qm", f"commit {number}\n\nCapsule-Id: a{number}")
    return tree


def line(vault: Path, git: Git, *span: str) -> list[str]:
    return git(vault, "rev-list", "--reverse", "--topo-order", *span).splitlines()


def packed(vault: Path, git: Git) -> None:
    git(vault, "gc", "-q")


@pytest.mark.parametrize("prepare", (lambda *_: None, packed), ids=("loose", "packed"))
def test_objects_are_read_loose_or_packed(
    vault: Path, git: Git, environ: dict[str, str], prepare: Callable[[Path, Git], None]
) -> None:
    prepare(vault, git)
    head = objects.head(str(vault), environ=environ)

    assert head == git(vault, "rev-parse", "HEAD")
    with objects.opened(str(vault), environ=environ) as store:
        commit = store.commit(head)
        mode, blob = store.entry(commit.tree, "capsules/a.md") or (b"", "")
        assert (commit.tree, commit.parents) == (
            git(vault, "rev-parse", "HEAD^{tree}"),
            (git(vault, "rev-parse", "HEAD^"),),
        )
        assert commit.message == "commit 4\n\nCapsule-Id: a4\n"
        assert (mode, store.read(blob)) == (b"100644", (b"blob", b"4\n"))
        assert store.entry(commit.tree, "capsules/a.md/below") is None
        assert store.entry(commit.tree, "capsules/b.md") is None
    assert objects.blob_at(str(vault), head, "capsules/a.md", environ=environ) == blob
    assert objects.blob_at(str(vault), head, "capsules", environ=environ) is None
    assert objects.read(str(vault), blob, environ=environ) == (b"blob", b"4\n")


def test_an_object_that_is_missing_or_damaged_is_refused(vault: Path, git: Git, environ: dict[str, str]) -> None:
    oid = git(vault, "rev-parse", "HEAD:capsules/a.md")
    path = vault / ".git" / "objects" / oid[:2] / oid[2:]
    path.chmod(0o644)
    path.write_bytes(b"damaged")

    for name in (oid, "0" * 40):
        with pytest.raises(GitRefusedError, match="git-failed"), objects.opened(str(vault), environ=environ) as store:
            store.read(name)


def test_several_packed_objects_are_asked_of_one_helper_and_a_missing_one_does_not_end_it(
    vault: Path, git: Git, environ: dict[str, str]
) -> None:
    packed(vault, git)
    with objects.opened(str(vault), environ=environ) as store:
        found = [store.commit(oid).oid for oid in line(vault, git, "HEAD")]
        child = store._child
        with pytest.raises(GitRefusedError):
            store.read("0" * 40)
        assert store.commit(found[0]).oid == found[0]
        assert store._child is child


@pytest.mark.parametrize("prepare", (lambda *_: None, packed), ids=("loose", "packed"))
@pytest.mark.parametrize(("old", "new"), ((0, 4), (3, 4), (4, 4), (1, 2)))
def test_the_commits_after_one_up_to_another_come_oldest_first(
    vault: Path, git: Git, environ: dict[str, str], prepare: Callable[[Path, Git], None], old: int, new: int
) -> None:
    prepare(vault, git)
    oids = line(vault, git, "HEAD")

    found = list(objects.commits_between(str(vault), oids[old], oids[new], environ=environ))

    assert [oid for oid, _ in found] == oids[old + 1 : new + 1]
    assert [message.strip() for _, message in found] == [
        f"commit {number}\n\nCapsule-Id: a{number}" for number in range(old + 1, new + 1)
    ]


def test_from_nothing_all_commits_come(vault: Path, git: Git, environ: dict[str, str]) -> None:
    oids = line(vault, git, "HEAD")

    assert [oid for oid, _ in objects.commits_between(str(vault), "", oids[-1], environ=environ)] == oids
    packed(vault, git)
    assert [oid for oid, _ in objects.commits_between(str(vault), "", oids[-1], environ=environ)] == oids


def test_a_merge_brings_the_commits_of_both_sides(vault: Path, git: Git, environ: dict[str, str]) -> None:
    oids = line(vault, git, "HEAD")
    git(vault, "checkout", "-q", "-b", "side", oids[1])
    git(vault, "commit", "-q", "--allow-empty", "-m", "side")
    git(vault, "checkout", "-q", "main")
    git(vault, "merge", "-q", "--no-edit", "side")

    found = [
        oid for oid, _ in objects.commits_between(str(vault), oids[3], git(vault, "rev-parse", "HEAD"), environ=environ)
    ]

    assert sorted(found) == sorted(line(vault, git, "HEAD", f"^{oids[3]}"))


def test_a_long_line_is_the_same_as_a_short_one(vault: Path, git: Git, environ: dict[str, str]) -> None:
    first = git(vault, "rev-parse", "HEAD")
    tip = first
    for number in range(80):
        tip = git(vault, "commit-tree", "HEAD^{tree}", "-p", tip, "-m", f"{number}")

    assert [message.strip() for _, message in objects.commits_between(str(vault), first, tip, environ=environ)] == list(
        map(str, range(80))
    )


@pytest.mark.parametrize("prepare", (lambda *_: None, packed), ids=("loose", "packed"))
def test_a_commit_that_is_no_ancestor_is_said_so(
    vault: Path, git: Git, environ: dict[str, str], prepare: Callable[[Path, Git], None]
) -> None:
    oids = line(vault, git, "HEAD")
    other = git(vault, "commit-tree", "HEAD^{tree}", "-p", oids[0], "-m", "rewritten")
    git(vault, "branch", "other", other)
    prepare(vault, git)

    for old in (other, "1" * 40):
        with pytest.raises(objects.NotAnAncestorError):
            list(objects.commits_between(str(vault), old, oids[-1], environ=environ))


def test_a_branch_without_commits_has_no_head(tmp_path: Path, git: Git, environ: dict[str, str]) -> None:
    git(tmp_path, "init", "-q")

    assert objects.head(str(tmp_path), environ=environ) is None


def test_a_detached_head_and_an_aliased_branch_have_one(vault: Path, git: Git, environ: dict[str, str]) -> None:
    oid = git(vault, "rev-parse", "HEAD")
    git(vault, "symbolic-ref", "refs/heads/alias", "refs/heads/main")
    git(vault, "symbolic-ref", "HEAD", "refs/heads/alias")
    assert objects.head(str(vault), environ=environ) == oid

    git(vault, "checkout", "-q", "--detach", oid)
    assert objects.head(str(vault), environ=environ) == oid


NAMES = st.text(st.characters(blacklist_characters="/\0", blacklist_categories=["Cs"]), min_size=1, max_size=6).filter(
    lambda name: name not in (".", "..")
)


@given(st.dictionaries(NAMES, st.booleans(), max_size=8), st.data())
def test_a_tree_is_ordered_as_git_orders_it_whatever_enters_and_leaves(
    entries: dict[str, bool], data: st.DataObject
) -> None:
    tree = b""
    expected: dict[bytes, bytes] = {}
    for name, folder in entries.items():
        mode = b"40000" if folder else b"100644"
        tree = objects.with_entry(tree, name.encode(), (mode, "ab" * 20))
        expected[name.encode()] = mode
    for name in data.draw(st.lists(st.sampled_from(sorted(entries)), unique=True)) if entries else []:
        turned = data.draw(st.sampled_from((None, b"40000", b"100644")))
        tree = objects.with_entry(tree, name.encode(), (turned, "cd" * 20) if turned else None)
        if turned:
            expected[name.encode()] = turned
        else:
            del expected[name.encode()]

    order = sorted(expected, key=lambda name: name + b"/" if expected[name] == b"40000" else name)
    assert [(expected[name] + b" " + name) for name in order] == _entries(tree)
    assert all(objects.find(tree, name) is not None for name in expected)


def _entries(tree: bytes) -> list[bytes]:
    found = []
    while tree:
        entry, _, rest = tree.partition(b"\0")
        found.append(entry)
        tree = rest[20:]
    return found
