"""Many writers at once, and a person who works in the same repository meanwhile: nothing is lost, nothing is swept up."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from vault_mem.repo import commit as engine
from vault_mem.repo import objects
from vault_mem.repo.commit import Change, Request

if TYPE_CHECKING:
    from collections.abc import Callable

    Git = Callable[..., str]

ROOT = Path(__file__).resolve().parents[2]
WRITERS, SAVES = 8, 12
WRITER = """
import os, sys
root, tree, state, name, saves, locked = sys.argv[1:7]
sys.path.insert(0, root)
from vault_mem import lock
from vault_mem.errors import GitRefusedError
from vault_mem.repo import commit as engine
class Free:
    def __init__(self, path, timeout): pass
    def __enter__(self): pass
    def __exit__(self, *_): pass
path = f"capsules/2026-12/{name}.md"
os.makedirs(os.path.join(tree, "capsules/2026-12"), exist_ok=True)
sys.stdin.read()
for number in range(int(saves)):
    with (lock.Locked if locked == "yes" else Free)(os.path.join(state, "vault.lock"), timeout=60):
        data = f"{name} {number}\\n".encode()
        with open(os.path.join(tree, path), "wb") as file:
            file.write(data)
        asked = engine.Request((engine.Change(path, data),), f"capsule: autosave {name} {number}", (), 1796083200.0)
        while True:
            try:
                engine.commit(tree, asked, environ=dict(os.environ), state=state if locked == "yes" else state + name, durable=False)
                break
            except GitRefusedError as refused:
                if refused.reason not in ("index-locked", "ref-locked"):
                    raise
"""


@pytest.fixture
def vault(tmp_path: Path, git: Git) -> Path:
    tree = tmp_path / "vault"
    tree.mkdir()
    git(tree, "init", "-q")
    (tree / "theirs").write_text("0\n", encoding="utf-8")
    git(tree, "add", ".")
    git(tree, "commit", "-qm", "start")
    return tree


def _started(
    vault: Path, environ: dict[str, str], *, saves: int, locked: bool, names: list[str]
) -> list[subprocess.Popen[bytes]]:
    """Writers that all begin when their stdin is closed."""
    state = str(vault.parent / "state")
    return [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(ROOT), str(vault), state, name, str(saves), "yes" if locked else "no"],
            env=environ,
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for name in names
    ]


def _ended(writers: list[subprocess.Popen[bytes]]) -> list[tuple[int, bytes]]:
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.close()
        writer.stdin = None
    return [(writer.wait(timeout=120), writer.communicate()[1]) for writer in writers]


# Without our own lock they only have git's, and each keeps a record of its own; with it they are as hooks are.
@pytest.mark.parametrize("locked", (True, False), ids=("under the vault lock", "under the locks of git alone"))
def test_eight_writers_lose_nothing(locked: bool, vault: Path, environ: dict[str, str], git: Git) -> None:
    names = [f"writer{number}" for number in range(WRITERS)]

    assert _ended(_started(vault, environ, saves=SAVES, locked=locked, names=names)) == [(0, b"")] * WRITERS

    subjects = git(vault, "log", "--format=%s").splitlines()
    assert sorted(subjects[:-1]) == sorted(
        f"capsule: autosave {name} {number}" for name in names for number in range(SAVES)
    )
    assert git(vault, "status", "--porcelain") == ""
    assert git(vault, "fsck", "--strict", "--no-dangling") == ""
    assert len(git(vault, "reflog", "main").splitlines()) == WRITERS * SAVES + 1
    assert not [name for name in os.listdir(vault / ".git") if "vault-mem" in name or name.endswith(".lock")]


def test_a_person_who_commits_meanwhile_loses_nothing_and_sweeps_nothing_up(
    vault: Path, environ: dict[str, str], git: Git
) -> None:
    (vault / "staged").write_text("s\n", encoding="utf-8")
    git(vault, "add", "staged")
    writers = _started(vault, environ, saves=40, locked=True, names=["writer"])
    assert writers[0].stdin is not None
    writers[0].stdin.close()
    writers[0].stdin = None
    kept = 0
    while writers[0].poll() is None:
        (vault / "theirs").write_text(f"{kept + 1}\n", encoding="utf-8")
        done = subprocess.run(
            ["git", "commit", "-q", "--only", "-m", f"person {kept + 1}", "--", "theirs"],
            cwd=vault,
            env=environ,
            capture_output=True,
            check=False,
        )
        kept += done.returncode == 0

    assert (writers[0].returncode, writers[0].communicate()[1]) == (0, b"")
    records = [record.split("\n") for record in git(vault, "log", "--format=%x01%s", "--name-only").split("\x01")[1:]]
    files = {lines[0]: [line for line in lines[1:] if line] for lines in records}
    assert {subject for subject in files if subject.startswith("person")} == {
        f"person {number + 1}" for number in range(kept)
    }
    assert len([subject for subject in files if subject.startswith("capsule")]) == 40
    assert all(names == ["theirs"] for subject, names in files.items() if subject.startswith("person"))
    assert all(
        names == ["capsules/2026-12/writer.md"] for subject, names in files.items() if subject.startswith("capsule")
    )
    (vault / "theirs").write_text(f"{kept}\n", encoding="utf-8")
    assert git(vault, "status", "--porcelain") == "A  staged"
    assert git(vault, "fsck", "--strict", "--no-dangling") == ""


def test_a_branch_that_moves_between_reading_and_writing_is_followed(
    vault: Path, environ: dict[str, str], git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    link, moved = os.link, []

    def slow(source: str, target: str, **more: bool) -> None:
        if target.endswith("main.lock") and not moved:
            moved.append(git(vault, "commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "faster"))
            (vault / ".git" / "HEAD.lock").unlink()
            git(vault, "update-ref", "refs/heads/main", moved[0])
        link(source, target, **more)

    monkeypatch.setattr(os, "link", slow)
    (vault / "a.md").write_bytes(b"a\n")

    done = engine.commit(
        str(vault),
        Request((Change("a.md", b"a\n"),), "capsule: autosave a", (), 1.0),
        environ=environ,
        state=str(vault.parent / "state"),
    )

    assert done.parent == moved[0]
    assert git(vault, "status", "--porcelain") == ""


def test_a_person_who_switches_branches_meanwhile_gets_no_commit_on_the_wrong_one(
    vault: Path, environ: dict[str, str], git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    link, before = os.link, git(vault, "rev-parse", "main")
    git(vault, "branch", "other")
    switched: list[str] = []

    def slow(source: str, target: str, **more: bool) -> None:
        if target.endswith("HEAD.lock") and not switched:
            switched.append(git(vault, "symbolic-ref", "HEAD", "refs/heads/other"))
        link(source, target, **more)

    monkeypatch.setattr(os, "link", slow)
    (vault / "a.md").write_bytes(b"a\n")
    asked = Request((Change("a.md", b"a\n"),), "capsule: autosave a", (), 1.0)

    done = engine.commit(str(vault), asked, environ=environ, state=str(vault.parent / "state"))

    assert git(vault, "rev-parse", "main") == before
    assert git(vault, "rev-parse", "other") == done.oid
    assert git(vault, "status", "--porcelain") == ""


def test_objects_that_are_packed_while_we_read_are_still_found(vault: Path, environ: dict[str, str], git: Git) -> None:
    head = git(vault, "rev-parse", "HEAD")
    with objects.opened(str(vault), environ=environ) as store:
        first = store.commit(head)
        git(vault, "repack", "-adq")
        git(vault, "prune-packed")

        assert store.commit(head) == first
        assert store.entry(first.tree, "theirs") is not None
