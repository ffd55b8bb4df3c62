"""A transcript is read backwards and only as far as needed; wakes are kept until they were shown; tunables that make no sense are findings."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from vault_mem import transcript, tunables, wakes
from vault_mem.reset import measure

if TYPE_CHECKING:
    from pathlib import Path

AT = "2026-11-30T10:00:00.000Z"


def person(text: str = "go") -> dict[str, Any]:
    return {"type": "user", "origin": {"kind": "human"}, "uuid": text, "timestamp": AT, "message": {"content": text}}


def answer(tokens: int, **more: Any) -> dict[str, Any]:
    return {"type": "assistant", "sessionId": "s", "message": {"usage": {"input_tokens": tokens}}, **more}


def written(path: Path, *rows: dict[str, Any] | str) -> str:
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def scan(path: str, tail: int = 1 << 21) -> measure.Scan:
    return measure.scan(path, session="s", ledger=(), client="1:a", tail=tail)


def test_the_last_measurement_and_the_last_person_are_found_among_odd_rows(tmp_path: Path) -> None:
    found = scan(
        written(tmp_path / "s.jsonl", person("a"), answer(5), answer(7), person("b"), "[1]", "5", "{cut", '{"type":')
    )

    assert found.tokens == 7
    assert found.human is not None
    assert found.human.uuid == "b"
    assert not found.problem


def test_a_compaction_after_the_last_answer_makes_the_size_unknown(tmp_path: Path) -> None:
    boundary = {"type": "system", "subtype": "compact_boundary"}

    assert scan(written(tmp_path / "s.jsonl", person(), answer(7), boundary)).stale
    assert scan(written(tmp_path / "s.jsonl", person(), answer(7), boundary)).tokens is None
    assert scan(written(tmp_path / "s.jsonl", person(), answer(7), boundary, answer(3))).tokens == 3


def test_a_transcript_of_another_session_measures_nothing(tmp_path: Path) -> None:
    found = scan(written(tmp_path / "t.jsonl", person(), answer(7, sessionId="t")))

    assert found.tokens is None
    assert "another session" in found.problem


def test_a_link_or_a_missing_file_is_a_problem_and_no_crash(tmp_path: Path) -> None:
    (tmp_path / "l.jsonl").symlink_to(written(tmp_path / "s.jsonl", answer(7)))

    assert scan(str(tmp_path / "l.jsonl")).problem
    assert scan(str(tmp_path / "none.jsonl")).problem
    assert scan(str(tmp_path)).problem


def test_only_as_much_as_needed_is_read(tmp_path: Path) -> None:
    noise = {"type": "progress", "x": "y" * 1000}
    path = written(tmp_path / "s.jsonl", *([noise] * 8000), person(), answer(7))

    found = scan(path, tail=4096)

    assert found.tokens == 7
    assert found.read < 64_000
    assert not found.whole


def test_a_person_far_back_is_still_found(tmp_path: Path) -> None:
    result = {
        "type": "user",
        "message": {"content": [{"type": "tool_result", "tool_use_id": "t", "content": "y" * 1000}]},
    }
    found = scan(written(tmp_path / "s.jsonl", person("far"), *([result] * 5000), answer(7)), tail=4096)

    assert found.human is not None
    assert found.human.uuid == "far"


def test_lines_come_backwards_whatever_the_blocks(tmp_path: Path) -> None:
    lines = [b"x" * n for n in (1, 5, 17, 64, 3, 200, 2)]
    path = tmp_path / "f"
    path.write_bytes(b"\n".join(lines) + b"\n")
    for block in (1, 7, 64, 4096):
        with path.open("rb") as file:
            got = [
                (at, line) for at, line in transcript.backwards(file.fileno(), path.stat().st_size, block=block) if line
            ]
        assert [line for _, line in got] == lines[::-1]
        data = path.read_bytes()
        assert all(data[at : at + len(line)] == line for at, line in got)


def test_wakes_wait_until_they_were_shown_and_only_for_their_session(tmp_path: Path) -> None:
    runtime = str(tmp_path)
    for number, session in enumerate(("a", "a", "b")):
        wakes.push(
            runtime, now=1e9 + number, session=session, key=wakes.CEILING, kind="ask", text=f"text {number}\nmore"
        )

    assert [wake.seq for wake in wakes.waiting(runtime, "a")] == [1, 2]
    assert [wake.text for wake in wakes.folded(wakes.waiting(runtime, "a"))] == ["text 1 more"]
    assert any("text 1 more" in line for line in wakes.lines(runtime, "a", now=1e9 + 5))
    assert not any("text 2" in line for line in wakes.lines(runtime, "a", now=1e9 + 5))
    wakes.drop(runtime, frozenset({1, 2}))
    assert [wake.seq for wake in wakes.waiting(runtime)] == [3]
    assert wakes.push(runtime, now=1e9, session="a", key="k", kind="k", text="t").seq == 4


def test_a_damaged_line_in_the_queue_is_passed_over(tmp_path: Path) -> None:
    wakes.push(str(tmp_path), now=1e9, session="a", key="k", kind="k", text="t")
    with (tmp_path / "wakes.jsonl").open("a") as file:
        file.write('{"seq": 2, "at"')

    assert len(wakes.waiting(str(tmp_path), "a")) == 1
    wakes.push(str(tmp_path), now=1e9, session="a", key="k", kind="k", text="u")
    assert [wake.text for wake in wakes.waiting(str(tmp_path), "a")] == ["t", "u"]


@pytest.mark.parametrize(
    ("name", "text", "field", "value", "bad"),
    (
        pytest.param("FM_CONTEXT_CEILING", "1000", "ceiling", 1000, False, id="the seed's name"),
        pytest.param("VAULT_MEM_CEILING", "2000", "ceiling", 2000, False, id="ours"),
        pytest.param("FM_CONTEXT_CEILING", "many", "ceiling", 300_000, True, id="a word"),
        pytest.param("VAULT_MEM_RESET_IDLE_SECS", "-1", "idle", 1800, True, id="negative"),
        pytest.param("VAULT_MEM_RESET_CHECK_INTERVAL", "nan", "interval", 300, True, id="nan"),
        pytest.param("FM_SEND_RETRIES", "5", "presses", 5, False, id="presses"),
        pytest.param("FM_SEND_RETRIES", "1e9", "presses", 3, True, id="too many presses"),
        pytest.param("FM_SEND_SLEEP", "soon", "wait", 0.4, True, id="wait"),
        pytest.param("FM_SEND_SETTLE", "0", "pause", 0, False, id="no pause"),
        pytest.param("FM_COMPOSER_GHOST_LUMA_MAX", "256", "luma", 128, True, id="brighter than white"),
        pytest.param("FM_BUSY_REGEX", "work(ing", "busy", "", True, id="no expression"),
        pytest.param("FM_BUSY_REGEX", "working", "busy", "working", False, id="an expression"),
        pytest.param("FM_COMPOSER_IDLE_RE", "Ask .*", "placeholder", "Ask .*", False, id="a placeholder"),
        pytest.param("FM_CONTEXT_ERROR_RESURFACE", "0", "resurface", 0, False, id="zero where it makes sense"),
    ),
)
def test_a_tunable_holds_or_is_a_finding(name: str, text: str, field: str, value: float | str, bad: bool) -> None:
    found = tunables.load(environ={name: text, "HOME": "/nowhere"})

    assert getattr(found, field) == value
    assert bool(found.findings) is bad
