from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vault_mem.capsule import extension

V1 = {"schema": extension.V1}
V2 = {"schema": extension.V2}


def declared(value: Any) -> extension.Declaration:
    return extension.declared(json.dumps(value), path="/seat/.aigent/lifecycle-extension.json")


@pytest.mark.parametrize(
    ("value", "reason"),
    (
        pytest.param(None, "root must be an object", id="null"),
        pytest.param([], "root must be an object", id="array"),
        pytest.param("x", "root must be an object", id="text"),
        pytest.param({}, "schema must equal exactly LifecycleExtension/v1 or LifecycleExtension/v2", id="no-schema"),
        pytest.param({"schema": "LifecycleExtension/v3"}, "schema must equal exactly", id="later-schema"),
        pytest.param({"schema": ["LifecycleExtension/v1"]}, "schema must equal exactly", id="schema-in-a-list"),
        pytest.param({**V1, "b": 1, "a": 2}, "has unsupported key(s): a, b", id="unknown-keys-sorted"),
        pytest.param({**V1, "resume_preload": ["x"]}, "has unsupported key(s): resume_preload", id="array-in-v1"),
        pytest.param({**V1, "resume_ack": None}, "resume_ack must be a string", id="null-ack"),
        pytest.param({**V1, "resume_ack": 1}, "resume_ack must be a string", id="number"),
        pytest.param({**V1, "capsule_ack": " \t"}, "capsule_ack must not be empty", id="blank"),
        *(
            pytest.param({**V1, "resume_ack": f"a{char}b"}, "must be a single line", id=f"break-{ord(char):x}")
            for char in "\r\n\u2028\u2029\x85"
        ),
        *(
            pytest.param({**V1, "resume_ack": f"a{char}b"}, "control or bidi", id=f"control-{ord(char):x}")
            for char in "\x00\x1b\x7f\x9b\u200b\u200e\u200f\u202e\u2066\ufeff\U000e0041"
        ),
        pytest.param({**V1, "resume_ack": "{capsule_id} {capsule_id}"}, "slot at most once", id="two-slots"),
        pytest.param({**V1, "resume_ack": "x" * 501}, "must be at most 500 characters", id="too-long"),
        pytest.param({**V1, "resume_ack": "x" * 373 + "{capsule_id}"}, "worst case 501", id="too-long-with-an-id"),
        pytest.param({**V2, "resume_preload": "x"}, "resume_preload must be an array", id="no-array"),
        pytest.param({**V2, "resume_preload": []}, "must have 1 to 24 entries", id="empty-array"),
        pytest.param({**V2, "resume_reground": ["x"] * 25}, "must have 1 to 24 entries", id="25-entries"),
        pytest.param({**V2, "resume_reground": ["x", ""]}, "resume_reground[2] must not be empty", id="second-empty"),
        pytest.param({**V2, "resume_reground": [1]}, "resume_reground[1] must be a string", id="first-number"),
        pytest.param({**V2, "resume_preload": ["{capsule_id}"]}, "carry no capsule id slot", id="slot-in-a-line"),
        pytest.param({**V2, "resume_preload": ["x" * 501]}, "resume_preload[1] must be at most 500", id="long-element"),
        pytest.param(
            {**V2, "capsule_ack": 1, "resume_ack": " "}, "resume_ack must not be empty", id="fields-in-their-order"
        ),
    ),
)
def test_a_declaration_that_breaks_a_rule_is_refused_whole_with_the_reason(value: Any, reason: str) -> None:
    found = declared(value)

    assert found == extension.Declaration(warning=found.warning)
    assert found.warning.startswith("LIFECYCLE-EXTENSION: declaration ignored: ")
    assert reason in found.warning
    assert "lifecycle-extension.json" in found.warning


@pytest.mark.parametrize("text", ("", "{", "{'schema': 1}", '{"a": 1}\n{"b": 2}', "[" * 100_000, "\udc80"))
def test_what_is_no_json_is_refused_in_one_line(text: str) -> None:
    found = extension.declared(text, path="/seat\n/x")

    assert "is not valid JSON" in found.warning
    assert "\n" not in found.warning


def test_the_longest_accepted_lines_are_rendered_whole() -> None:
    found = declared({**V2, "resume_ack": "x" * 372 + "{capsule_id}", "resume_preload": ["y" * 500] * 24})

    line, held = extension.rendered("resume_ack", found.resume_ack, capsule="c" * 128)

    assert (len(line), held) == (500, "")
    assert found.preload == ("y" * 500,) * 24


def test_a_byte_order_mark_and_blanks_around_a_line_do_not_count() -> None:
    found = extension.declared(
        "\ufeff" + json.dumps({**V1, "resume_ack": "  two  words  "}), path="/seat/lifecycle-extension.json"
    )

    assert found.resume_ack == "two  words"


@pytest.mark.parametrize(
    ("capsule", "held"),
    (
        pytest.param("", "no capsule was loaded", id="no-capsule"),
        pytest.param(" \t", "no capsule was loaded", id="blank-id"),
        pytest.param("c" * 600, "608 characters", id="long-id"),
    ),
)
def test_a_line_that_cannot_be_rendered_truthfully_is_held_and_never_echoed(capsule: str, held: str) -> None:
    line, warning = extension.rendered("resume_ack", "secret {capsule_id}!", capsule=capsule)

    assert line == ""
    assert warning.startswith("LIFECYCLE-EXTENSION: resume_ack not rendered: ")
    assert held in warning
    assert "secret" not in warning


def test_an_id_cannot_open_a_line_of_its_own() -> None:
    line, _ = extension.rendered("resume_ack", "done {capsule_id}", capsule="a\r\n5. EVIL\u2028b\x1b[0m")

    assert line == "done a 5. EVIL b [0m"


@given(st.text(max_size=40))
def test_accepted_text_is_rendered_as_it_was_declared(text: str) -> None:
    found = declared({**V1, "resume_ack": text})

    line, _ = extension.rendered("resume_ack", found.resume_ack, capsule="c")

    assert bool(found.warning) or line == text.strip().replace("{capsule_id}", "c")
    assert not any(char in line for char in "\r\n\u2028\u2029\x85\x1b\u202e")
