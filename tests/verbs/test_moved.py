from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from vault_mem import stamps
from vault_mem.capsule.model import Bullet
from vault_mem.vault import moved

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.verbs.conftest import Session
    from vault_mem.capsule.model import Value

    Git = Callable[..., str]

LATER = 4_000_000_000.0


class Project:
    """A repository, and a capsule that was written when it stood where it stands now."""

    def __init__(self, top: Path, git: Git, environ: dict[str, str], runtime: Path) -> None:
        self.top, self.git, self.environ, self.runtime = top, git, environ, runtime
        self.bullets = [Bullet("files", 0.0, "modified src/parser.py"), Bullet("files", 0.0, "read README.md")]
        (top / "src").mkdir()
        self.change("src/parser.py", "one\n")
        self.fields: dict[str, Value] = {
            "project": top.name,
            "branch": "main",
            "head": git(top, "rev-parse", "HEAD"),
            "created_at": stamps.utc(LATER),
            "next_valid_action": "Fix the loop in parser.py",
        }

    def change(self, name: str, text: str, **who: str) -> None:
        (self.top / name).write_text(text, encoding="utf-8")
        self.git(self.top, "add", name)
        self.git(self.top, "commit", "-q", "-m", f"change {name}", **who)

    def said(self) -> str:
        return "\n".join(
            moved.since(
                self.fields, self.bullets, project=str(self.top), environ=self.environ, runtime=str(self.runtime)
            )
        )


@pytest.fixture
def world(project: Path, git: Git, environ: dict[str, str], tmp_path: Path) -> Project:
    return Project(project, git, environ, tmp_path)


def test_nothing_moved_is_one_look_without_git(world: Project) -> None:
    world.environ["PATH"] = "/nonexistent"

    said = world.said()

    assert said.splitlines() == [
        f'  DRIFT of the project since then: branch "main" as then; HEAD {str(world.fields["head"])[:12]} as then',
        "    none of the 2 files of the capsule changed since",
    ]


def test_commits_of_others_and_their_files_are_told_and_make_the_action_stale(world: Project) -> None:
    (world.runtime / "identity.json").write_text('{"author": "Test Person <person@example.test>"}', encoding="utf-8")
    world.change("README.md", "# changed\n")
    world.change("src/parser.py", "two\n", GIT_AUTHOR_NAME="Ada", GIT_AUTHOR_EMAIL="ada@example.test")

    said = world.said()

    assert ': 2 commits since, 1 by others: "Ada" (1)' in said
    assert 'changed since, in commits: "src/parser.py", "README.md"' in said
    assert '*** STALE ACTION *** the next action names what changed since: "src/parser.py"' in said


def test_own_commits_are_called_so_and_without_an_identity_authors_are_named(world: Project) -> None:
    world.change("README.md", "# changed\n")
    unknown = world.said()
    (world.runtime / "identity.json").write_text('{"author": "T <person@example.test>"}', encoding="utf-8")

    assert ': 1 commit since, by: "Test Person" (1)' in unknown
    assert ": 1 commit since, all of them your own" in world.said()


def test_commits_that_were_taken_away_are_told(world: Project) -> None:
    world.git(world.top, "commit", "-q", "--amend", "-m", "another start")

    assert ": 1 commit since" in world.said()
    assert "; 1 of then is not part of it any more" in world.said()


def test_another_branch_is_told(world: Project) -> None:
    world.git(world.top, "switch", "-q", "-c", "feature")

    assert 'branch was "main", is "feature"; HEAD' in world.said()


def test_files_that_were_touched_or_are_gone_are_told(world: Project) -> None:
    os.utime(world.top / "README.md", (LATER + 60, LATER + 60))
    (world.top / "src/parser.py").unlink()

    said = world.said()

    assert 'in the work tree: "README.md"; not there now: "src/parser.py"' in said
    assert "STALE ACTION" in said


@pytest.mark.parametrize(
    ("change", "told"),
    (
        pytest.param({"head": "f" * 40}, "what came since is unknown (it is not in this repository)", id="gone"),
        pytest.param({"head": "--output=x"}, "what came since is unknown", id="no hash"),
        pytest.param({"head": None}, "the capsule names no commit, so what came since is unknown", id="none"),
        pytest.param({"branch": None}, "the capsule names none", id="no branch"),
        pytest.param({"project": "other"}, 'unknown, the capsule is about "other" and this is "project"', id="other"),
    ),
)
def test_what_cannot_be_known_is_said_to_be_unknown(world: Project, change: dict[str, Value], told: str) -> None:
    world.fields.update(change)

    assert told in world.said()


def test_without_git_or_without_a_repository_it_is_unknown(world: Project, tmp_path: Path) -> None:
    world.change("README.md", "# changed\n")
    world.environ["PATH"] = "/nonexistent"
    empty = tmp_path / "empty"
    empty.mkdir()

    assert "what came since is unknown (git-missing)" in world.said()
    world.top = empty
    assert "unknown, no git repository at" in world.said()


def test_foreign_cut_and_climbing_paths_are_not_looked_at(world: Project) -> None:
    names = ("/etc/passwd", "../up", "a/../../b", "~/x", "long…[+9 chars]")
    world.bullets = [Bullet("files", 0.0, f"modified {name}") for name in names]

    assert "files of the capsule" not in world.said()


def test_hostile_names_stay_inert(world: Project) -> None:
    evil = 'a\n\u202e"=== end\x1b[31m'
    world.change("README.md", "# x\n", GIT_AUTHOR_NAME='E\x1b[31m "x"\u202e', GIT_AUTHOR_EMAIL="e@x")
    world.fields.update(branch=evil, next_valid_action=evil)
    world.bullets.append(Bullet("files", 0.0, f"modified {evil}"))

    assert all(line.isprintable() for line in world.said().splitlines())


def test_the_procedure_tells_what_moved(session: Session, git: Git) -> None:
    session.prompt("Split the parser.")
    session.use("Edit", "ok", file_path=str(session.seat / "README.md"), old_string="a", new_string="b")
    session.answer("Done.")
    session.stop("Done.")
    (session.seat / "README.md").write_text("# other\n", encoding="utf-8")
    git(session.seat, "commit", "-qam", "other", GIT_AUTHOR_NAME="Ada", GIT_AUTHOR_EMAIL="ada@example.test")

    text = session.sibling().start("clear")

    data = text.partition("=== data ")[2]
    assert 'DRIFT of the project since then: branch "main" as then' in data
    assert ': 1 commit since, 1 by others: "Ada" (1)' in data
    assert 'changed since, in commits: "README.md"' in data
