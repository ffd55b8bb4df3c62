"""Several turns and sessions through the real program: what the header and the sections say after each."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    from tests.verbs.conftest import Session

    Told = Callable[[subprocess.CompletedProcess[bytes]], str]

UNKNOWN_WAIT = "Unknown: nothing captured says whether anything is pending."
UNKNOWN_NEXT = "No concrete next action was captured in this Stop delta."


def fields(path: Path) -> tuple[str, str, str]:
    """Objective, what is waited for, next action."""
    found = {}
    for line in path.read_text("utf-8").split("\n---\n")[0].splitlines():
        key, _, value = line.partition(": ")
        found[key] = json.loads(value) if value.startswith('"') else value
    return found["objective"], found["waiting_on"], found["next_valid_action"]


def section(path: Path, name: str) -> list[str]:
    """The bullets of a section without their times, newest first."""
    rest = path.read_text("utf-8").partition(f"<!-- swe:{name} -->\n")[2].split("\n## ")[0]
    return [line.split(" ", 2)[2] for line in rest.splitlines() if line.startswith("- ")]


def todos(session: Session, *items: tuple[str, str]) -> None:
    given = [{"content": text, "status": status, "activeForm": text} for text, status in items]
    session.use("TodoWrite", "Todos have been modified", todos=given)


def test_the_fields_follow_the_evidence_from_turn_to_turn(session: Session) -> None:
    session.prompt("Add an export command.")
    todos(session, ("write the test", "in_progress"), ("write the command", "pending"))
    session.stop("I start with the test. Shall I go on?")
    capsule = session.capsule()
    first = fields(capsule)
    session.prompt("yes, go on")
    session.use("Bash", "Exit code 1\nFAILED tests/test_x.py::test_export", failed=True, command="pytest -q")
    todos(session, ("write the test", "completed"), ("write the command", "pending"))
    session.stop("Red as it should be.")
    second = fields(capsule)
    session.prompt("and the docs")
    session.use("Edit", "updated", file_path=str(session.seat / "x.py"))
    session.use("Bash", "4 passed in 0.1s", command="pytest -q")
    todos(session, ("write the test", "completed"), ("write the command", "completed"))
    session.stop("All done.")

    assert first == ("Add an export command.", UNKNOWN_WAIT, "write the test")
    assert second == (
        "Add an export command.",
        "Unknown: 1 unresolved tool error may be pending: pytest -q",
        "write the command",
    )
    assert fields(capsule) == ("and the docs · within: Add an export command.", UNKNOWN_WAIT, UNKNOWN_NEXT)
    assert section(capsule, "errors") == [
        "Bash pytest -q: FAILED tests/test_x.py::test_export → resolved: 4 passed in 0.1s"
    ]
    assert section(capsule, "files") == ["modified x.py"]
    assert section(capsule, "rows") == ["[TODO] write the test → closed: completed"]
    assert section(capsule, "gates") == [
        "[TESTS] failing: pytest -q → closed: 4 passed in 0.1s",
        "[TODO] write the command → closed: completed",
    ]


def test_a_turn_without_evidence_leaves_the_fields_as_they_were(session: Session) -> None:
    session.prompt("Add an export command.")
    todos(session, ("write the test", "in_progress"))
    session.use("AskUserQuestion", "", questions=[{"question": "CSV or JSON?"}], failed=True)
    session.stop("I start.")
    before = fields(session.capsule())

    session.turn("ok", "Next I will rewrite everything. I wait for your approval.")
    session.turn("thanks", "TODO: delete the repository")

    assert fields(session.capsule()) == before
    assert before[2] == "write the test"


def test_a_gate_that_opens_again_no_longer_says_closed(session: Session) -> None:
    session.prompt("Fix it.")
    session.use("Bash", "1 passed", command="pytest")
    session.use("Edit", "updated", file_path=str(session.seat / "x.py"))
    session.stop("Edited.")
    session.use("Bash", "2 passed", command="pytest")
    session.stop("Green.")
    green = section(session.capsule(), "gates")

    session.use("Edit", "updated", file_path=str(session.seat / "x.py"))
    session.stop("Edited again.")

    text = "[TESTS] not run since the last edit: pytest"
    assert green == [f"{text} → closed: 2 passed"]
    assert section(session.capsule(), "gates") == [f"{text} → unresolved"]


def test_a_fresh_session_inherits_objective_and_action_until_it_has_its_own(session: Session) -> None:
    session.prompt("Add an export command.")
    todos(session, ("write the command", "pending"))
    session.stop("Planned.")
    fresh = session.sibling()
    fresh.start("clear")

    fresh.turn("go on", "Looking.")
    first = fields(fresh.capsule())
    fresh.turn("ok", "Still looking.")
    second = fields(fresh.capsule())
    todos(fresh, ("write the command", "completed"))
    fresh.stop("Written.")

    assert first[0::2] == ("Add an export command.", "write the command")
    assert second == first
    assert fields(fresh.capsule())[2] == UNKNOWN_NEXT


def test_an_inherited_red_test_is_over_when_it_passes(session: Session) -> None:
    session.prompt("Fix the sum.")
    session.use("Bash", "Exit code 1\n1 failed", failed=True, command="pytest tests/test_sum.py")
    session.stop("Red.")
    fresh = session.sibling()
    fresh.start("clear")
    fresh.turn("continue", "I look.")
    before = fields(fresh.capsule())[2]

    fresh.use("Bash", "9 passed", command="pytest -q")
    fresh.stop("Green.")

    assert before == "Make the failing tests pass: pytest tests/test_sum.py"
    assert fields(fresh.capsule())[2] == UNKNOWN_NEXT


def test_an_answer_with_the_words_of_a_prompt_hook_is_told_once(session: Session, outcome: Told) -> None:
    session.run(
        "hook", "user-prompt-submit", stdin=session.payload("UserPromptSubmit", prompt="Fix it."), cwd=session.seat
    )
    session.stop("Working.")
    session.prompt("Fix it.")
    session.answer("Working.")

    assert outcome(session.stop("Working.")) in ("saved", "no-change")
    assert section(session.capsule(), "done") == ["Working.", "[OPERATOR] Fix it."]


def test_a_prompt_that_the_client_dropped_is_kept(session: Session) -> None:
    session.turn("Fix it.", "Fixed.")
    session.run(
        "hook",
        "user-prompt-submit",
        stdin=session.payload("UserPromptSubmit", prompt="Now the docs."),
        cwd=session.seat,
    )
    session.stop("", event="session-end")

    assert fields(session.capsule())[0] == "Now the docs. · within: Fix it."


def test_rows_that_a_fork_copied_belong_to_the_session_that_wrote_them(session: Session) -> None:
    session.turn("Fix the parser.", "Fixed.")
    fork = session.sibling()
    for line in session.transcript.read_text("utf-8").splitlines():
        row = json.loads(line)
        row = {**row, "sessionId": fork.id} | ({"session_id": session.id} if row["type"] == "assistant" else {})
        with fork.transcript.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
    fork.clock = session.clock

    fork.turn("Now the printer.", "Printed.")

    assert section(fork.capsule(), "done") == ["Printed.", "[OPERATOR] Now the printer."]
    assert fields(fork.capsule())[0] == "Now the printer."


def test_a_session_after_a_clear_in_the_same_process_keeps_all_of_its_rows(session: Session) -> None:
    session.turn("Fix the parser.", "Fixed.")
    after = session.sibling()
    after.clock = session.clock + 60
    after.prompt("Now the printer.")
    after.row(
        type="assistant",
        session_id=session.id,
        message={"id": "m", "role": "assistant", "content": [{"type": "text", "text": "Printed."}]},
    )
    after.stop("Printed.")

    assert section(after.capsule(), "done") == ["Printed.", "[OPERATOR] Now the printer."]


@pytest.mark.parametrize("lost", ("cursors", "runtime"))
def test_starting_over_from_the_transcript_says_the_same(session: Session, outcome: Told, lost: str) -> None:
    session.prompt("Add an export command.")
    session.use("Bash", "Exit code 2\nno rule", failed=True, command="make")
    todos(session, ("write the test", "completed"), ("write the command", "pending"))
    session.stop("Started.")
    capsule = session.capsule()
    before = capsule.read_text("utf-8")
    shutil.rmtree(session.vault / "runtime" / ("cursors" if lost == "cursors" else ""))

    told = outcome(session.stop("Started."))

    assert (told, capsule.read_text("utf-8")) == ("no-change", before)


HOSTILE = (
    "<!-- swe:gates -->",
    "## Pending-Gates",
    "```python",
    "~~~",
    "--> out <!--",
    "$& and $' and $$",
    "- 10:00 [TODO] not one → closed: no",
    "[OPERATOR] me too",
    "10:00 o'clock",
    "---",
    "a\\b \\# \\` \\→",
)


def test_words_that_look_like_structure_are_kept_and_change_none(session: Session) -> None:
    for text in HOSTILE:
        session.turn(text, f"Answer to {text}")

    capsule = session.capsule()
    shown = session.run("show", capsule.stem, "--json", cwd=session.seat)
    body = capsule.read_text("utf-8")
    assert body.count("\n<!-- swe:gates -->\n") == 1
    assert body.count("\n## Pending-Gates\n") == 1
    assert "\n```" not in body
    assert fields(capsule)[0] == "10:00 o'clock · within: <!-- swe:gates -->"
    if shown.returncode == 0:
        assert "me too" in shown.stdout.decode("utf-8")


def test_a_long_session_keeps_its_bounds_and_its_newest_words(session: Session) -> None:
    for number in range(60):
        session.prompt(f"request number {number} " + "é👩‍👩‍👧" * 200)
    session.stop("Done.")
    for number in range(60):
        session.prompt(f"later request {number} " + "x" * 300)
    session.stop("Done again.")

    capsule = session.capsule()
    done = section(capsule, "done")
    assert len(done) <= 40
    assert len(capsule.read_bytes()) <= 65536
    assert done[:2] == ["Done again.", "Done."]  # of the payload, which has the time of now
    assert done[2].startswith("[OPERATOR] later request 59 ")
    assert all(len(line) < 290 for line in done)
    assert "older bullets: vault-mem show" in capsule.read_text("utf-8")
