"""More turns at once than a section keeps: what falls out of the capsule is in history."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from vault_mem.capsule import model, sections
from vault_mem.capsule.model import Bullet

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    from tests.verbs.conftest import Session

    Git = Callable[..., str]
    Outcome = Callable[[subprocess.CompletedProcess[bytes]], str]

MANY = 2 * sections.BULLETS + 15


def asked(session: Session, numbers: range) -> list[str]:
    texts = [f"Request number {number:03d} of this long day." for number in numbers]
    for text in texts:
        session.prompt(text)
        session.answer("Done.")
    return texts


def missing(session: Session, git: Git, texts: list[str]) -> list[str]:
    shown = git(session.vault, "log", "-p", "--format=", "--", "capsules")
    added = set(re.findall(r"Request number \d+ of this long day\.", shown))
    return [text for text in texts if text not in added]


def autosaves(session: Session, git: Git) -> int:
    return git(session.vault, "log", "--format=%s").count("capsule: autosave ")


@pytest.mark.parametrize("before", (0, 1, 30))
def test_every_turn_of_a_long_delta_is_in_history(before: int, session: Session, git: Git, outcome: Outcome) -> None:
    texts = asked(session, range(before))
    if before:
        assert outcome(session.stop()) == "saved"
    texts += asked(session, range(before, before + MANY))

    assert outcome(session.stop()) == "saved"

    assert missing(session, git, texts) == []
    assert autosaves(session, git) == 3 + bool(before)
    kept = session.capsule().read_text("utf-8").partition("\n---\n")[2]
    assert texts[-1] in kept
    assert texts[0] not in kept
    assert git(session.vault, "status", "--porcelain") == ""
    assert outcome(session.stop()) == "no-change"


def test_turns_saved_while_git_refused_are_all_in_history_afterwards(
    session: Session, git: Git, outcome: Outcome
) -> None:
    lock_file = session.vault / ".git/HEAD.lock"
    lock_file.touch()
    texts = []
    for start in range(0, MANY, 25):
        texts += asked(session, range(start, start + 25))
        assert outcome(session.stop()) == "git-refused:ref-locked"
        assert texts[-1] in session.capsule().read_text("utf-8")
    lock_file.unlink()

    # Another session pays the debt first: of the file it commits what is left of it.
    other = session.sibling()
    assert outcome(other.turn("Another piece of work.", "Done.")) == "saved"
    assert outcome(session.stop()) == "saved"

    assert missing(session, git, texts) == []
    assert git(session.vault, "status", "--porcelain") == ""
    assert outcome(session.stop()) == "no-change"


def test_a_long_delta_killed_halfway_is_gone_on_with(session: Session, git: Git, outcome: Outcome) -> None:
    texts = asked(session, range(MANY))
    assert outcome(session.stop()) == "saved"
    head = git(session.vault, "rev-parse", "HEAD~1").strip()
    # As if the hook had died behind its second commit: nothing on disk, no cursor.
    git(session.vault, "reset", "-q", "--soft", head)
    git(session.vault, "rm", "-q", "-f", "--cached", "-r", "capsules")
    git(session.vault, "reset", "-q")
    session.capsule().unlink()
    (session.vault / f"runtime/cursors/{session.id}.json").unlink()

    assert outcome(session.stop()) == "saved"

    assert git(session.vault, "rev-parse", "HEAD~1").strip() == head
    assert missing(session, git, texts) == []


def test_a_long_delta_keeps_what_was_inherited(session: Session, outcome: Outcome) -> None:
    session.prompt("Split the parser.")
    session.use("Bash", "FAILED tests/test_parser.py::test_split", failed=True, command="pytest tests/test_parser.py")
    assert outcome(session.stop()) == "saved"
    action = header_line(session, "next_valid_action")
    fresh = session.sibling()
    fresh.clock = session.clock + 60
    fresh.start("clear")

    asked(fresh, range(MANY))
    assert outcome(fresh.stop()) == "saved"

    assert header_line(fresh, "next_valid_action") == action


def header_line(session: Session, key: str) -> str:
    return next(line for line in session.capsule().read_text("utf-8").splitlines() if line.startswith(f"{key}: "))


@pytest.mark.parametrize(
    ("count", "length", "expected"),
    (
        pytest.param(0, 10, 1, id="none"),
        pytest.param(40, 10, 1, id="as many as fit"),
        pytest.param(41, 10, 2, id="one more"),
        pytest.param(40, 240, 2, id="long ones"),
    ),
)
def test_portions_bring_no_more_than_stays(count: int, length: int, expected: int) -> None:
    names = [section.name for section in model.SECTIONS]
    bullets = [
        Bullet(name, 1e9 + 60 * number, f"{number:03d} {name} " + "x" * (length - 10))
        for number in range(count)
        for name in names
    ]

    parts = sections.portions(bullets)

    assert len(parts) == expected
    assert [bullet for part in parts for bullet in part] == bullets
