"""What must hold for every header, found by trying: the readers agree, writing loses nothing, an edit touches one value."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from vault_mem.capsule import codec, header, model
from vault_mem.errors import HeaderError

if TYPE_CHECKING:
    from vault_mem.capsule.model import Value

DATA = Path(__file__).resolve().parent.parent / "data" / "capsule"
TITLES: list[str] = json.loads((DATA / "titles.json").read_text(encoding="utf-8"))
SCALARS: list[str] = json.loads((DATA / "scalars.json").read_text(encoding="utf-8"))
WORDS = [
    *SCALARS,
    *(
        "yes",
        "Off",
        "Y",
        "NULL",
        "TRUE",
        "2026-12-01",
        "2026-12-01T10:00:00Z",
        "12:30:45",
        "1e3",
        "0b1",
        "-.INF",
        "",
        " ",
        "a b",
    ),
]

SIGNS = st.sampled_from("#:,[]{}\"'\\ \t\n\r-?!&*|>%@`~<>=\u2028\u0085\ufeff\u00a00123456789eEx._+yYnN")
TEXTS = st.text(st.one_of(SIGNS, st.characters(exclude_categories=("Cs",))), max_size=20) | st.sampled_from(
    WORDS + TITLES
)
VALUES = st.none() | TEXTS | st.lists(TEXTS, max_size=3).map(tuple)
KEYS = st.sampled_from((*model.FIELDS, *dict(model.FRAMING), "Status", "no", "<<", "null")) | st.text(
    "abZ_-01 :#é'\"", min_size=1, max_size=6
)
FIELDS = st.dictionaries(KEYS, VALUES, min_size=1, max_size=6)

PIECES = st.sampled_from(
    [
        *(
            "a",
            "b1",
            '"',
            "'",
            " #",
            "# c",
            "[",
            "]",
            "{",
            "}",
            ", ",
            ",",
            ": ",
            ":",
            " ",
            "-",
            "~",
            "null",
            "\\",
            "\\n",
            "\\u00e9",
        ),
        *(
            "\\ud83d\\ude80",
            "\\/",
            "\\x41",
            "0x1A",
            "1:30",
            "<<",
            "=",
            "|",
            ">",
            "&a",
            "*a",
            "!t",
            "%",
            "@",
            "é",
            "🚀",
            "\u00a0",
            "...",
        ),
    ]
)
LINES = st.builds(
    lambda key, blank, pieces: f"{key}:{blank}{''.join(pieces)}",
    st.sampled_from(["a", "b", "id", "status", "x-y", "no"]),
    st.sampled_from([" ", "  ", ""]),
    st.lists(PIECES, max_size=5),
) | st.sampled_from(["", "# c: d", "  x", "- y", 'id: "x" # y', "tags: [a, b] # c", "status: a # b"])


@st.composite
def documents(draw: st.DrawFn) -> str:
    """Headers near our own form: some in it, some legal, some broken."""
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    lines = ["---", *draw(st.lists(LINES, min_size=1, max_size=3)), "---", "status: body", ""]
    return draw(st.sampled_from(["", "\ufeff"])) + newline.join(lines)


def loaded(document: str) -> dict[str, Value] | None:
    try:
        return header.load(document)
    except HeaderError:
        return None


def scanned(document: str) -> dict[str, Value] | None:
    try:
        return header.scan(header.split(document).text)
    except HeaderError as error:
        if error.token not in ("duplicate-key", "conflict-markers"):
            raise
        return None


@given(documents())
@settings(max_examples=400)
def test_whatever_the_scan_accepts_yaml_reads_to_the_same(document: str) -> None:
    fields = scanned(document)

    if fields is not None:
        assert loaded(document) == fields


@given(documents(), st.sampled_from(["a", "id", "status", "tags"]), VALUES)
@settings(max_examples=300)
def test_an_edit_is_seen_by_both_readers_and_changes_one_stretch(document: str, key: str, value: Value) -> None:
    before = loaded(document)
    if before is None or key not in before:
        return
    try:
        after = header.edit(document, key, value)
    except HeaderError:
        assert scanned(document) is None, "a header in our own form can always be edited"
        return

    assert header.read(after) == header.load(after) == {**before, key: value}
    assert after == document if before[key] == value else header.token(key, value) in after
    first, last = _common(document, after)
    changed = document[first : len(document) - last]
    assert " #" not in changed or scanned(document) is None


def _common(one: str, other: str) -> tuple[int, int]:
    """How many characters are the same at both ends."""
    shorter = min(len(one), len(other))
    first = next((place for place in range(shorter) if one[place] != other[place]), shorter)
    last = next((place for place in range(shorter - first) if one[-1 - place] != other[-1 - place]), shorter - first)
    return first, last


@given(FIELDS, TEXTS)
@settings(max_examples=200)
def test_a_capsule_survives_writing_and_reading(fields: dict[str, Value], body: str) -> None:
    capsule = codec.Capsule(fields, body)

    document = codec.render(capsule)

    if "<<<<<<< " not in body:
        assert codec.parse(document) == capsule
        assert header.load(document) == fields


@given(FIELDS)
@settings(max_examples=200)
def test_yaml_1_1_and_1_2_read_the_same_strings(fields: dict[str, Value]) -> None:
    head = header.render(fields)
    wanted = {key: list(value) if isinstance(value, tuple) else value for key, value in fields.items()}

    assert yaml.safe_load(head) == wanted
    assert YAML(typ="safe", pure=True).load(head) == wanted


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("key", ("id", "branch", "head", "session_id", "tags"))
def test_a_word_that_a_loader_would_change_is_quoted(key: str, word: str) -> None:
    value: Any = (word,) if key == "tags" else word

    head = header.render({key: value})

    assert header.scan(head) == {key: value}
    for found in (yaml.safe_load(head), YAML(typ="safe", pure=True).load(head)):
        assert found == {key: [word] if key == "tags" else word}


@pytest.mark.parametrize("title", TITLES)
def test_a_title_of_any_signs_is_one_value(title: str) -> None:
    fields: dict[str, Value] = {"id": "t", "status": "active", "objective": title, "tags": ("capsule", title)}

    document = codec.render(codec.Capsule(fields, codec.blank_body()))

    assert header.read(document) == header.load(document) == fields
    assert yaml.safe_load(header.split(document).text)["objective"] == title


@pytest.mark.parametrize("title", TITLES)
def test_a_title_as_another_json_writer_quotes_it_is_read(title: str) -> None:
    quoted = json.dumps(title)
    document = f"---\nid: t\nobjective: {quoted}\ntags: [capsule, {quoted}]\nstatus: active\n---\n"

    assert header.read(document) == {"id": "t", "objective": title, "tags": ("capsule", title), "status": "active"}
    assert header.load(document) == header.read(document)
