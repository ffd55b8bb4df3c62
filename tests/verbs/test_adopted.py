"""Trees of aigent-OS are read and updated in place: name, folder and header dialect stay, legacy autosaves heal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.verbs.conftest import Session

SESSION = "abcd1234-0000-4000-8000-000000000001"
HEADINGS = (
    "Done (don't redo)",
    "Historical-Errors → Resolutions",
    "Historical-Rejected-Approaches",
    "Files-Read / Files-Modified",
)
HEADINGS += ("Operating-Facts", "Pending-Gates", "Claimed-Rows")
NAMES = ("done", "errors", "rejected", "files", "facts", "gates", "rows")
HEADER = """---
id: 2026-08-03-auto-abcd1234
parent_capsule_id: null
status: active
objective: "In-flight work (auto-captured; see latest session log)"
waiting_on: null
resume_trigger: compact
expires: null
trigger: stop-delta
next_valid_action: "No concrete next action was captured in this Stop delta."
success_criteria: []
tags: [capsule, autosave]
created_at: 2026-08-03T10:00:00.123Z
resolved_at: null
framing: reference-only
---
"""


def _legacy() -> str:
    bullets = {"done": "- 09:59 [OPERATOR] split the parser\n"}
    return HEADER + "".join(
        f"\n## {heading}\n<!-- swe:{name} -->\n{bullets.get(name, '')}"
        for heading, name in zip(HEADINGS, NAMES, strict=True)
    )


@pytest.fixture
def seat(project: Path, vault_mem: Any) -> Path:
    """A seat whose memory was made by aigent-OS: flat, no repository of its own."""
    folder = project / "memory" / "capsules"
    folder.mkdir(parents=True)
    (project / ".aigent").mkdir()
    (project / ".aigent" / "state.json").write_text('{"schemaVersion": 1, "memory_root": "memory"}\n', "utf-8")
    (folder / "2026-08-03-auto-abcd1234.md").write_text(_legacy(), "utf-8")
    vault_mem("init", "--adopt", "--harness", "claude", "--scope", "project", cwd=project, check=True)
    return project


@pytest.fixture
def adopted(seat: Path) -> Path:
    """The same, by a name that says what it is."""
    return seat


@pytest.fixture
def turn(session: Session, outcome: Callable[..., str]) -> Callable[..., str]:
    """A turn of a session in that seat; the outcome."""

    def run(text: str, said: str, name: str = SESSION) -> str:
        return outcome(session.sibling(name).turn(text, said))

    return run


def _only(seat: Path) -> Path:
    (path,) = (seat / "memory" / "capsules").rglob("*.md")
    return path


def test_the_autosave_of_the_session_is_found_by_its_name_and_updated_in_place(adopted: Path, turn: Any) -> None:
    turn("Port the parser to b.py", "Ported.")
    turn("Now its tests", "Done.")

    path = _only(adopted)
    text = path.read_text("utf-8")
    assert path.relative_to(adopted).as_posix() == "memory/capsules/2026-08-03-auto-abcd1234.md"
    assert 'objective: "Now its tests · within: Port the parser to b.py"' in text
    assert 'waiting_on: "Unknown' in text
    assert "[OPERATOR] Now its tests" in text


def test_the_header_keeps_its_fields_their_order_and_their_bare_words(adopted: Path, turn: Any) -> None:
    before = [row.partition(":")[0] for row in HEADER.splitlines()]

    turn("Port the parser to b.py", "Ported.")

    text = _only(adopted).read_text("utf-8")
    header = text.split("\n---\n")[0].splitlines()
    assert [row.partition(":")[0] for row in [*header, "---"]] == before
    assert "id: 2026-08-03-auto-abcd1234" in header
    assert "resume_trigger: compact" in header


def test_an_old_bullet_stays_on_the_day_of_its_capsule(adopted: Path, turn: Any) -> None:
    turn("Port the parser to b.py", "Ported.")
    turn("Now its tests", "Done.")

    done = _only(adopted).read_text("utf-8").partition("<!-- swe:done -->\n")[2].partition("\n\n")[0].splitlines()
    assert done[-1] == "- 09:59 [OPERATOR] split the parser"
    assert all(row.startswith("- 20") for row in done[:-1])


def test_another_session_does_not_get_into_it(adopted: Path, turn: Any) -> None:
    turn("Something else", "Done.", name="ffff1234-0000-4000-8000-000000000001")

    assert (adopted / "memory/capsules/2026-08-03-auto-abcd1234.md").read_text("utf-8") == _legacy()
    assert len(list((adopted / "memory/capsules").rglob("*.md"))) == 2


def test_a_curated_step_changes_one_line_of_a_flat_file(adopted: Path, vault_mem: Any) -> None:
    vault_mem("capsule", "pause", "2026-08-03", cwd=adopted, check=True)

    assert _only(adopted).read_text("utf-8") == _legacy().replace("status: active", "status: paused")
