"""The quick search for tokens says what the slow one says, which looks for every issuer in the whole text."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from vault_mem.redacttokens import ALNUM, ESCAPES, SHORTEST, TOKENS, has_token, has_token_anywhere

BODY = "FAKE0fake1FAKE2fake3FAKE4fake5FAKE6fake7FAKE8fake9FAKE0fake1FAKE2fake3FAKE4fake5FAKE6fake7"
UPPER_BODY = BODY.upper()
BEFORE = (
    "",
    "x",
    "0",
    "-",
    "_",
    "=",
    "/",
    '"',
    "\\n",
    "\\\\n",
    "%3D",
    "%3",
    "\\u003d",
    "\\x3d",
    "\x1b[31m",
    "é",
    "中",
    "\ud800",
    "ß",
    "İ",
)
ALONE = ("", "-", "=", '"', "\\n", "%3D", "\x1b[31m", "中")  # behind these a word begins

words = st.text(alphabet=st.characters(blacklist_categories=("Zs", "Zl", "Zp", "Cc")), max_size=40)
pieces = st.one_of(
    words,
    st.sampled_from([token[0] for token in TOKENS]),
    st.sampled_from([token[0][:3] for token in TOKENS]),
    st.sampled_from((BODY, UPPER_BODY, BODY.lower(), "0123456789abcdef" * 3)),
    st.sampled_from(BEFORE),
    st.text(alphabet=ALNUM + "-_.%\\=/:", max_size=60),
)
texts = st.lists(st.lists(pieces, max_size=6).map("".join), max_size=8).map(" ".join)


def both(text: str) -> tuple[bool, bool]:
    long = [word for word in text.split() if len(word) >= SHORTEST]
    return has_token(long), has_token_anywhere(" ".join(long))


@settings(max_examples=200)
@given(texts)
@example("-----\x1b[31mAKIA" + UPPER_BODY)
@example("aaaaaaaaaaaaaaaaaaaaaaaaa%3Dghp_" + BODY)
def test_both_searches_agree_on_any_text(text: str) -> None:
    quick, slow = both(text)

    assert quick == slow


@pytest.mark.parametrize("token", TOKENS, ids=[token[0] for token in TOKENS])
def test_every_issuer_is_found_behind_whatever_stands_before_it(token: tuple[str, str, str, int]) -> None:
    body = next((text for text in (BODY, UPPER_BODY, BODY.lower()) if not text.strip(token[2])), UPPER_BODY)
    for before in BEFORE:
        quick, slow = both(f"an-ordinary-word-of-some-length {before}{token[0]}{body} and-another-word-of-some-length")

        assert quick == slow
        assert quick or before not in ALONE


@pytest.mark.parametrize("escape", ESCAPES)
def test_an_escape_in_one_word_does_not_hide_a_token_in_another(escape: str) -> None:
    words = [f"a-word-with-an-escape{escape}in-it", "gh" + "p_FAKEfakeFAKEfakeFAKEfakeFAKEfake0000"]

    assert has_token(words)
