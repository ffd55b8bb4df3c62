from __future__ import annotations

import pytest

from vault_mem import stamps
from vault_mem.capsule import model, provenance
from vault_mem.capsule.model import Bullet
from vault_mem.capsule.text import cut

AT = stamps.epoch_of("2026-12-01T10:03:00Z") or 0.0
AUTOSAVE: dict[str, model.Value] = {
    "id": "b",
    "parent_capsule_id": "2026-11-30-a",
    "trigger": "stop-delta",
    "tags": ("capsule", "autosave"),
    "objective": "Split the parser and keep the tests green.",
    "waiting_on": "Which name shall the second module have?",
    "next_valid_action": "Move the tokens to their own module",
}
LONG = "Split the parser of the importer into two modules, and keep the tests of both of them green " * 6


def sections(*bullets: Bullet) -> dict[str, tuple[Bullet, ...]]:
    return {section.name: tuple(each for each in bullets if each.section == section.name) for section in model.SECTIONS}


@pytest.mark.parametrize(
    ("key", "value", "bullet", "told"),
    (
        pytest.param("objective", "Split it.", Bullet("done", AT, "Split it.", "OPERATOR"), "operator request, recorded 2026-12-01T10:03Z", id="request"),
        pytest.param("objective", "And the docs. · within: Split it.", Bullet("done", AT, "And the docs.", "OPERATOR"), "operator request, recorded 2026-12-01T10:03Z", id="follow-up"),
        pytest.param("objective", cut(LONG, 300), Bullet("done", AT, cut(LONG), "OPERATOR"), "operator request, recorded 2026-12-01T10:03Z", id="cut"),
        pytest.param("waiting_on", "Which name? / Which folder?", Bullet("gates", AT, "Which folder?", "QUESTION", "unresolved"), "question to the person, not answered, recorded 2026-12-01T10:03Z", id="question"),
        pytest.param("waiting_on", "Unknown: 1 unresolved tool error may be pending: make", Bullet("errors", AT, "make: no rule", "", "unresolved"), "tool errors that nothing resolved, recorded 2026-12-01T10:03Z", id="errors"),
        pytest.param("waiting_on", "Unknown: nothing captured says whether anything is pending.", None, "none, this is unknown; unknown is not the same as nothing", id="unknown"),
        pytest.param("next_valid_action", "Move it", Bullet("rows", AT, "Move it", "TODO", "unresolved"), "todo in progress, recorded 2026-12-01T10:03Z", id="doing"),
        pytest.param("next_valid_action", "Move it", Bullet("gates", AT, "Move it", "TODO", "unresolved"), "todo pending, recorded 2026-12-01T10:03Z", id="pending"),
        pytest.param("next_valid_action", "Re-verify claimed row(s) r-1 before acting on them", Bullet("rows", AT, "r-1", "CLAIM", "unresolved"), "rows claimed on the board, recorded 2026-12-01T10:03Z", id="claim"),
        pytest.param("next_valid_action", "Make the failing tests pass: pytest -q", Bullet("gates", AT, "failing: pytest -q", "TESTS", "unresolved"), "failing tests, recorded 2026-12-01T10:03Z", id="tests"),
        pytest.param("next_valid_action", "No concrete next action was captured in this Stop delta.", None, "none, this is unknown; unknown is not the same as nothing", id="no action"),
    ),
)  # fmt: skip
def test_a_field_names_the_record_it_comes_from(key: str, value: str, bullet: Bullet | None, told: str) -> None:
    found = provenance.evidence({**AUTOSAVE, key: value}, sections(*([bullet] if bullet else [])), None)

    assert found[key] == told


def test_the_newest_of_several_records_is_named() -> None:
    asked = [Bullet("done", AT + 60 * n, "Split it.", "OPERATOR") for n in (0, 2, 1)]

    assert provenance.evidence({**AUTOSAVE, "objective": "Split it."}, sections(*asked), None)["objective"].endswith(
        "T10:05Z"
    )


def test_a_closed_record_is_no_evidence() -> None:
    closed = Bullet("rows", AT, "Move the tokens to their own module", "TODO", "closed: completed")

    found = provenance.evidence(AUTOSAVE, sections(closed), {"next_valid_action": "Another"})

    assert found["next_valid_action"] == provenance.NO_RECORD


@pytest.mark.parametrize("theirs", (AUTOSAVE["objective"], LONG[:80]))
def test_an_inherited_field_is_labelled_and_names_the_parent(theirs: str) -> None:
    fields = {**AUTOSAVE, "objective": theirs if theirs == AUTOSAVE["objective"] else LONG}

    found = provenance.evidence(fields, sections(), {"id": "2026-11-30-a", "objective": theirs})

    assert found["objective"] == ('INHERITED from the parent capsule "2026-11-30-a"; nothing in this session says so')


def test_a_parent_that_is_not_there_is_said_to_be_unknown() -> None:
    assert "perhaps INHERITED from the parent capsule" in provenance.evidence(AUTOSAVE, sections(), None)["objective"]


def test_the_author_of_a_curated_capsule_is_its_evidence_and_a_record_is_added() -> None:
    fields = {**AUTOSAVE, "trigger": "manual", "session_id": "s", "created_at": "2026-12-01T11:00:00Z"}
    todo = Bullet("rows", AT, "Move the tokens to their own module", "TODO", "unresolved")

    found = provenance.evidence(fields, sections(todo), None)

    author = 'stated by the author of this capsule in session "s", "2026-12-01T11:00:00Z"'
    assert found["objective"] == author
    assert found["next_valid_action"] == f"{author}; todo in progress, recorded 2026-12-01T10:03Z"


def test_an_empty_field_has_no_line() -> None:
    assert "waiting_on" not in provenance.evidence({**AUTOSAVE, "waiting_on": None}, sections(), None)


def test_hostile_names_stay_quoted() -> None:
    evil = 'p"\n\x1b[31m=== end\u2028\u202e'
    found = provenance.evidence({**AUTOSAVE, "parent_capsule_id": evil, "session_id": evil}, sections(), None)
    curated = provenance.evidence({**AUTOSAVE, "trigger": "manual", "session_id": evil, "created_at": evil}, {}, None)

    for line in (*found.values(), *curated.values()):
        assert line.isprintable()
