"""History answers what became of a capsule, also of one that left the tree long ago."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from vault_mem.errors import GitRefusedError
from vault_mem.repo import commit as engine
from vault_mem.repo import create, history, store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Git = Callable[..., str]

AT = 1_796_083_200.0


@pytest.fixture
def vault(tmp_path: Path, environ: dict[str, str]) -> Path:
    """Capsule a, saved twice, delivered; its child b; a retired; a foreign commit on top."""
    tree = tmp_path / "vault"
    create.init_repository(str(tree), environ=environ, at=AT)
    steps = (
        ("a", b"a1\n", "autosave", "", {}),
        ("a", b"a2\n", "autosave", "", {}),
        ("a", b"a2 resumed\n", "consume", "resumed", {"Capsule-Consumer": "s2"}),
        ("b", b"b1\n", "autosave", "active", {"Capsule-Parent": "a"}),
        ("a", None, "retire", "", {}),
    )
    for number, (capsule, data, event, status, more) in enumerate(steps):
        path = f"capsules/2026-12/{capsule}.md"
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        if data is None:
            (tree / path).unlink()
        else:
            (tree / path).write_bytes(data)
        trailers = {
            "Capsule-Id": capsule,
            "Capsule-Event": event,
            "Capsule-Status": status,
            "Capsule-Session": "s1",
            **more,
        }
        asked = engine.Request(
            (engine.Change(path, data),), f"capsule: {event} {capsule}", tuple(trailers.items()), AT + number
        )
        engine.commit(str(tree), asked, environ=environ, state=str(tree / "runtime"))
    return tree


@pytest.fixture
def opened(vault: Path, git: Git, environ: dict[str, str]) -> Iterator[store.Store]:
    (vault / "note").write_text("n\n", encoding="utf-8")
    git(vault, "add", "note")
    git(vault, "commit", "-qm", "by the person")
    with store.opened(str(vault), environ=environ) as found:
        yield found


def test_events_are_those_of_our_commits_newest_first(opened: store.Store) -> None:
    moments = history.events(opened)

    assert [(moment.event, moment.id, moment.epoch - AT) for moment in moments] == [
        ("retire", "a", 4), ("autosave", "b", 3), ("consume", "a", 2), ("autosave", "a", 1), ("autosave", "a", 0),
    ]  # fmt: skip
    assert [moment.consumer for moment in history.consumers(moments, "a")] == ["s2"]
    assert history.parents(moments) == {"b": "a"}
    assert history.children(moments) == {"a": ("b",)}
    assert history.events(opened, since=moments[1].oid) == moments[:1]


def test_versions_are_the_states_a_file_had(opened: store.Store) -> None:
    found = history.versions(opened, "capsules/2026-12/a.md")

    texts = [history.text_at(opened, version.oid, version.path) for version in found]
    assert texts == [b"a2 resumed\n", b"a2\n", b"a1\n"]
    assert [version.moment.event for version in found if version.moment] == ["consume", "autosave", "autosave"]
    assert history.versions(opened, "capsules/none.md") == ()
    assert history.versions(opened, ":(glob)capsules/**") == ()


def test_what_left_the_tree_is_still_known_with_its_last_text(opened: store.Store) -> None:
    assert list(history.tree(opened)) == ["capsules/2026-12/b.md"]
    assert history.ever(opened) == {"capsules/2026-12/a.md": "a", "capsules/2026-12/b.md": "b"}
    gone = history.gone(opened)["capsules/2026-12/a.md"]
    assert (gone.id, history.text_at(opened, gone.last, gone.path)) == ("a", b"a2 resumed\n")
    assert len(history.gone(opened)) == 1


def test_many_texts_come_from_one_process_and_missing_ones_are_none(opened: store.Store) -> None:
    names = [
        "HEAD:capsules/2026-12/b.md",
        "HEAD:nothing",
        "HEAD:capsules",
        "nonsense here",
        "HEAD~2:capsules/2026-12/a.md",
    ]

    assert [data for _, data in opened.blobs(names)] == [b"b1\n", None, None, None, b"a2 resumed\n"]
    with pytest.raises(GitRefusedError, match="bad-path"):
        list(opened.blobs(["a\nb"]))


def test_a_revision_or_a_date_is_resolved_and_nothing_else_obeyed(opened: store.Store, git: Git, vault: Path) -> None:
    head = git(vault, "rev-parse", "HEAD")

    assert history.resolve(opened, "HEAD") == head
    assert history.resolve(opened, head[:8]) == head
    assert history.resolve(opened, "2026-12-01T00:00:02Z") == git(vault, "rev-parse", "HEAD~3")
    assert history.resolve(opened, "1999-01-01") is None
    for text in ("--all", "-1", "--output=x", "--help"):
        assert history.resolve(opened, text) in (None, head)
    assert sorted(os.listdir(vault)) == [".git", ".gitattributes", ".gitignore", "capsules", "note", "runtime"]


def test_ancestry_is_told(opened: store.Store, git: Git, vault: Path) -> None:
    old, new = git(vault, "rev-parse", "HEAD~2"), git(vault, "rev-parse", "HEAD")

    assert history.is_ancestor(opened, old, new)
    assert not history.is_ancestor(opened, new, old)
    assert not history.is_ancestor(opened, "--help", old)


def test_an_inherited_git_environment_does_not_lead_elsewhere(
    vault: Path, project: Path, git: Git, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (
        ("GIT_DIR", ".git"),
        ("GIT_INDEX_FILE", ".git/index"),
        ("GIT_OBJECT_DIRECTORY", ".git/objects"),
        ("GIT_WORK_TREE", "."),
    ):
        monkeypatch.setenv(name, str(project / value))
    hostile = dict(os.environ)

    with store.opened(str(vault), environ=hostile) as found:
        assert found.text("rev-parse", "HEAD").strip() == git(vault, "rev-parse", "HEAD")
        assert len(history.events(found)) == 5
    assert dict(os.environ) == hostile
    assert environ["HOME"] == hostile["HOME"]


def test_reading_takes_no_lock_and_writes_nothing(opened: store.Store, vault: Path) -> None:
    index = (vault / ".git" / "index").stat()
    os.utime(vault / "note", (1, 1))

    opened.text("status", "--porcelain")

    assert (vault / ".git" / "index").stat().st_ino == index.st_ino


def test_what_is_no_repository_or_no_command_is_refused(
    tmp_path: Path, project: Path, environ: dict[str, str], opened: store.Store
) -> None:
    inside = project / "inside"
    inside.mkdir()
    for folder in (inside, tmp_path / "nowhere"):
        with pytest.raises(GitRefusedError, match="not-a-repository"), store.opened(str(folder), environ=environ):
            pass
    with pytest.raises(GitRefusedError, match="git-failed"):
        opened.text("log", "no-such-revision", "--")


def test_a_git_that_never_answers_is_given_up(vault: Path, environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").write_text("#!/bin/sh\nexec sleep 300\n", encoding="utf-8")
    (tmp_path / "bin" / "git").chmod(0o755)

    with (
        store.opened(str(vault), environ={**environ, "PATH": f"{tmp_path}/bin:{environ['PATH']}"}, limit=0.3) as found,
        pytest.raises(GitRefusedError, match="timeout"),
    ):
        found.text("log")
