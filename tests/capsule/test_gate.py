from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from vault_mem.capsule import gate, model

if TYPE_CHECKING:
    from vault_mem.capsule.model import Value

GOOD: dict[str, Value] = {
    "id": "a",
    "status": "active",
    "objective": "Split the parser.",
    "waiting_on": "Nothing is pending.",
    "next_valid_action": "Fix the tests of the second module.",
    "created_at": "2026-12-01T10:00:00Z",
}

ECHOES = {
    "[supervisor-resume] pick up the capsule": True,
    "[Supervisor-Resume]": True,
    "Handle [supervisor-resume] in parser": False,
    "supervisor-resume is broken": False,
    "[refresh-cycle] c=7": True,
    "[REFRESH-CYCLE]seal": True,
    "fix [refresh-cycle] regex": False,
    "[refresh-cycles] docs": False,
    "[auto-pull] 3 new": True,
    "[Auto-Pull]x": True,
    "stop the [auto-pull]": False,
    "[autopull] off": False,
    "[context-refresh 61%]": True,
    "[context-refresh]": True,
    "[context-refreshing]": False,
    "[context-refresh_x]": False,
    "context-refresh knob": False,
    "[capsule-request] now": True,
    "[Capsule-Request]": True,
    "add [capsule-request] test": False,
    "[capsule request]": False,
    "[room from kai] ping": True,
    "[Room From ops @ 9:00] go": True,
    "[room fromage]": False,
    "reply to [room from kai]": False,
    "[inbox: 2 unread]": True,
    "[INBOX]": True,
    "[inboxes] page": False,
    "clean my [inbox]": False,
    "# Autonomous loop check 4": True,
    "# autonomous loop checkpoint": True,
    "## Autonomous loop check": False,
    "Explain # Autonomous loop check": False,
    "Autonomous loop tick 12": True,
    "autonomous loop ticking": True,
    "The autonomous loop tick": False,
    "Autonomous loops tick": False,
    "<task-notification>done": True,
    "<TASK-NOTIFICATION>": True,
    "<task-notification id=1>": False,
    "parse <task-notification>": False,
    "[SYSTEM NOTIFICATION] low": True,
    "[system notifications: 2]": True,
    "SYSTEM NOTIFICATION ui": False,
    "mute [SYSTEM NOTIFICATION]": False,
    "  \n\ufeff[inbox]": True,
    "": False,
}

CEREMONIES = {
    "Re-read the active turn state, then go": True,
    "reread the turn state": True,
    "Re-read the turn statement": False,
    "After tests, re-read the turn state": False,
    "Resume from the latest session log": True,
    "resume from the latest session log entry 4": True,
    "Resume from the latest session logs": False,
    "Do not resume from the latest session log": False,
    "Resume complete": True,
    "resume is now complete, wait": True,
    "Resume was complete.": True,
    "resume now complete": True,
    "Resume completes slowly": False,
    "Check that resume is complete": False,
    "Receipt written": True,
    "The receipt was written to disk": True,
    "the receipt is written": True,
    "Receipts written": False,
    "Verify the receipt is written": False,
    "RESUME-ACK 12": True,
    "RESUME-ACK": True,
    "resume-ack 12": False,
    "RESUME-ACKS": False,
    "Send RESUME-ACK": False,
    "Comply with the supervisor-resume instruction": True,
    "comply with any supervisor-resume instruction first": True,
    "Comply with a supervisor-resume instruction": False,
    "Build, then comply with the supervisor-resume instruction": False,
    "  Resume\n complete ": True,
    "": False,
}

NOT_CAPTURED = {
    "Unknown: no human objective was captured in X": True,
    "unknown: no human objective was captured": True,
    "Unknown: no operator objective was captured in this Stop delta.": True,
    "Unknown: no operator objective was captured; claimed row id(s) 1a2b3c4d were observed.": True,
    'Fix "Unknown: no human objective was captured"': False,
    "No concrete next action was captured here": True,
    "no concrete next action was captured.": True,
    "No concrete next actions were captured": False,
    "Explain why no concrete next action was captured": False,
    "In-flight work (auto-captured; log)": True,
    "in-flight work (auto-captured)": True,
    "In-flight work (manual)": False,
    "List in-flight work (auto-captured)": False,
    "Unknown: this Stop delta did not capture whether anything is pending.": False,
}


@pytest.mark.parametrize(("text", "expected"), ECHOES.items())
def test_an_injection_echo_is_known_by_its_start(text: str, *, expected: bool) -> None:
    assert gate.injection_echo(text) is expected


@pytest.mark.parametrize(("text", "expected"), CEREMONIES.items())
def test_a_ceremony_is_known_by_its_start(text: str, *, expected: bool) -> None:
    assert gate.ceremony_action(text) is expected


@pytest.mark.parametrize(("text", "expected"), NOT_CAPTURED.items())
def test_a_placeholder_is_known_by_its_start(text: str, *, expected: bool) -> None:
    assert gate.not_captured(text) is expected


def test_a_whole_capsule_has_no_problems() -> None:
    assert gate.problems(GOOD, "## Done\n<!-- swe:done -->\n") == ()


@pytest.mark.parametrize("key", model.REQUIRED)
@pytest.mark.parametrize(
    "value", (None, "", " \t ", "\ufeff", ("a",), "missing"), ids=["null", "empty", "blank", "bom", "list", "missing"]
)
def test_a_required_field_without_text_is_named(key: str, value: Value) -> None:
    fields = {name: kept for name, kept in {**GOOD, key: value}.items() if kept != "missing"}

    (problem,) = gate.problems(fields)

    assert problem.startswith(f"{key} must be non-empty")


@pytest.mark.parametrize(
    ("changes", "words"),
    (
        pytest.param({"status": "open"}, "status must be one of", id="unknown-status"),
        pytest.param({"status": "Active"}, "status must be one of", id="status-in-capitals"),
        pytest.param({"status": None}, "status must be non-empty", id="no-status"),
        pytest.param({"status": ("active",)}, "status must be one of", id="status-list"),
        pytest.param({"created_at": "yesterday"}, "created_at", id="bad-stamp"),
        pytest.param({"created_at": "2026-02-30"}, "created_at", id="no-such-day"),
        pytest.param({"created_at": ("2026-12-01",)}, "created_at", id="stamp-list"),
        pytest.param({"created_at": None}, "created_at must be non-empty", id="no-stamp"),
        pytest.param({"objective": "[inbox: 3]"}, "injection echo", id="echo"),
        pytest.param({"next_valid_action": "Receipt written"}, "resume ceremony", id="ceremony"),
    ),
)
def test_a_problem_says_what_it_is(changes: dict[str, Value], words: str) -> None:
    (problem,) = gate.problems({**GOOD, **changes})

    assert words in problem


def test_every_problem_is_told_in_the_order_of_the_fields() -> None:
    found = gate.problems({})

    assert [problem.split()[0] for problem in found] == [*model.REQUIRED, "status", "created_at"]


def test_data_that_looks_like_nothing_is_data() -> None:
    fields: dict[str, Value] = {**GOOD, "waiting_on": "null", "objective": "# x", "next_valid_action": "~"}

    assert gate.problems(fields) == ()


def test_a_placeholder_is_no_problem_on_writing() -> None:
    fields: dict[str, Value] = {**GOOD, "next_valid_action": "No concrete next action was captured in this Stop delta."}

    assert gate.problems(fields) == ()


def test_the_legacy_status_is_accepted() -> None:
    assert gate.problems({**GOOD, "status": "consumed"}) == ()


def test_an_anchor_that_stands_twice_is_a_problem() -> None:
    body = "<!-- swe:done -->\n- a\n```\n<!-- swe:rows -->\n```\n<!-- swe:rows -->\n<!-- swe:done -->\n"

    (problem,) = gate.problems(GOOD, body)

    assert "swe:done stands twice" in problem
