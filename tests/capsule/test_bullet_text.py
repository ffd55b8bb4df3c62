from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vault_mem.capsule import text as texts

FRAGMENTS = st.sampled_from(
    [
        *(
            "<!--",
            "-->",
            "--!>",
            "<!-- swe:done -->",
            " → ",
            "→ ",
            " → closed",
            " → resolved: x",
            " → unresolved",
            "#",
            "## ",
            "```",
            "~~~",
        ),
        *(
            "[X",
            "[AB] ",
            "] ",
            "\\",
            "`",
            "\n",
            "\r\n",
            "10:00 ",
            "2026-12-01 10:00 ",
            "- ",
            "\t",
            "\u2028",
            "\x00",
            "e\u0301",
            "a",
            " ",
        ),
    ]
)
TEXTS = st.lists(FRAGMENTS | st.text(max_size=2), max_size=7).map("".join)


@given(TEXTS, st.booleans(), st.booleans())
def test_an_escaped_text_is_read_back_and_holds_no_mark(text: str, timed: bool, tagged: bool) -> None:
    folded = texts.fold(text)

    escaped = texts.escape(folded, timed=timed, tagged=tagged)

    assert texts.unescape(escaped) == folded
    assert texts.state_at(f"x {escaped}") < 0 or texts.ARROW in f" {escaped}"
    assert texts.state_at(escaped) < 0
    assert "<!--" not in escaped
    assert "-->" not in escaped
    assert not escaped.startswith(("#", "```", "~~~"))
    assert timed or not texts.time_end(f"{escaped} ")
    assert tagged or not texts.tag_end(f"{escaped} ")


@given(TEXTS)
def test_a_folded_text_is_one_line_and_stays_as_it_is(text: str) -> None:
    folded = texts.fold(text)

    assert texts.fold(folded) == folded
    assert len(folded.splitlines()) <= 1
    assert folded.encode().decode() == folded


@given(TEXTS, st.integers(min_value=1, max_value=20))
def test_a_cut_text_is_not_cut_again(text: str, limit: int) -> None:
    cut = texts.cut(text, limit)

    assert texts.cut(cut, limit) == cut
    assert len(cut) <= limit + len("…[+1000 chars]")


@pytest.mark.parametrize(
    ("text", "folded"),
    (
        ("a\nb", "a b"),
        ("a  \r\n\t b", "a b"),
        ("a\u2028\u2029\x85\v\f\x1c\x1d\x1eb", "a b"),
        ("a\x00b\x1b[0m", "a b [0m"),
        ("  a  b\tc  ", "a  b\tc"),
        ("half \ud83d!", "half \ufffd!"),
        ("\n\n", ""),
    ),
)
def test_line_breaks_and_control_characters_become_one_space(text: str, folded: str) -> None:
    assert texts.fold(text) == folded


@pytest.mark.parametrize(
    ("text", "escaped"),
    (
        ("C:\\Users\\x and \\d+", "C:\\Users\\x and \\d+"),
        ("\\\\server\\[x]", "\\\\\\server\\\\[x]"),
        ("a <!-- b --> c", "a <\\!-- b --\\> c"),
        ("## Done", "\\## Done"),
        ("```python print(1)", "\\```python print(1)"),
        ("it works → closed the issue", "it works \\→ closed the issue"),
        ("a → b", "a → b"),
        ("[OPERATOR] hello", "\\[OPERATOR] hello"),
        ("[link](x)", "[link](x)"),
        ("$& $' \\1 $$", "$& $' \\1 $$"),
    ),
)
def test_only_what_would_be_misread_is_escaped(text: str, escaped: str) -> None:
    assert texts.escape(text, tagged=False) == escaped
    assert texts.unescape(escaped) == text


@pytest.mark.parametrize(
    "whole",
    (
        pytest.param("👩\u200d👩\u200d👧", id="family"),
        pytest.param("🇩🇪", id="flag"),
        pytest.param("e\u0301", id="accent"),
        pytest.param("👍🏽", id="skin-tone"),
        pytest.param("1\ufe0f\u20e3", id="keycap"),
        pytest.param("\u1112\u1161\u11ab", id="jamo"),
        pytest.param("क्षि", id="conjunct"),
        pytest.param("🏴\U000e0067\U000e0062\U000e007f", id="tag-flag"),
        pytest.param("กำ", id="thai-vowel"),
    ),
)
def test_a_cut_leaves_a_character_whole(whole: str) -> None:
    head = "x" * 10
    for limit in range(11, 10 + len(whole)):
        assert texts.cut(f"{head}{whole}{'y' * 20}", limit) == f"{head}…[+{len(whole) + 20} chars]"
    assert texts.cut(f"{head}{whole}y", 10 + len(whole)).startswith(f"{head}{whole}…")


def test_flags_are_cut_between_pairs() -> None:
    flags = "🇩🇪🇫🇷🇮🇹"

    assert texts.cut(flags, 3).startswith("🇩🇪…")
    assert texts.cut(flags, 4).startswith("🇩🇪🇫🇷…")


def test_a_heap_of_marks_is_cut_anyway() -> None:
    assert texts.cut("a" + "\u0301" * 500, 240) == "a" + "\u0301" * 239 + "…[+261 chars]"


def test_a_forged_omission_does_not_lift_the_bound() -> None:
    assert len(texts.cut("x" * 300 + "…[+5 chars]", 240)) < 260
    assert len(texts.cut("x…[+" + "9" * 5000 + " chars]", 240)) < 260


@pytest.mark.parametrize(
    ("given_tag", "written"),
    (
        ("", ""),
        ("OPERATOR", "OPERATOR"),
        ("RELAY:kai", "RELAY:kai"),
        ("PEER:a b]\nc", "PEER:a-b--c"),
        ("x", "T-x"),
        ("[", "T--"),
    ),
)
def test_a_tag_is_made_fit_for_its_brackets(given_tag: str, written: str) -> None:
    assert texts.tag(given_tag) == written
    assert not written or texts.tag_end(f"[{written}] x") == len(written) + 3


@pytest.mark.parametrize("row", ("```", "```python", "   ~~~~ x", "````md", "- ```", "* ~~~"))
def test_a_fence_opens(row: str) -> None:
    assert [fenced for _, fenced in texts.lines([row, "  x"])] == [True, True]


@pytest.mark.parametrize("row", ("    ```", "``", "```a`b", "> ```", "x ```", "-```"))
def test_what_only_looks_like_a_fence_opens_none(row: str) -> None:
    assert [fenced for _, fenced in texts.lines([row, "x"])] == [False, False]


@pytest.mark.parametrize(
    ("rows", "after"),
    (
        (["```", "x", "```"], False),
        (["```", "x", "````"], False),
        (["```", "x", "   ```  "], False),
        (["````", "x", "```"], True),
        (["```", "x", "~~~"], True),
        (["```", "x", "``` y"], True),
        (["```", "x", "    ```"], True),
        (["- ```", "  x", "  ```"], False),
        (["- ```", "  x"], False),
        (["~~~", "```", "~~~"], False),
    ),
)
def test_a_fence_closes_as_commonmark_says(rows: list[str], *, after: bool) -> None:
    assert list(texts.lines([*rows, "text"]))[-1] == ("text", after)
