from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vault_mem import jsontext

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
GOOD = [
    "{}",
    "[]",
    "null",
    "true",
    "0",
    "-0.0",
    "1e5",
    '""',
    ' \t\r\n {"a": [1, 2.5, "x\\n\\u00e9", {"b": null}]} \n',
    '{"a": 1, "a": 2}',
    '"\\ud83d\\ude00"',
    "[" * 400 + "]" * 400,
]
BAD = [
    "",
    "   ",
    "{",
    "[1,",
    '{"a"',
    '{"a":',
    "{'a': 1}",
    '"open',
    '"a\nb"',
    "nul",
    "{} {}",
    "1 2",
    '{"a": 1,}',
    "[1,]",
    "\ufeff{}",
    "\u00a0{}",
    "\x00",
    '"\\x"',
    "01",
    "[" * 200_000,
]


@pytest.mark.parametrize("text", GOOD)
def test_a_good_text_has_the_value_that_json_reads(text: str) -> None:
    assert jsontext.loads(text) == json.loads(text)


@pytest.mark.parametrize("text", BAD, ids=lambda text: repr(text[:12]))
def test_a_bad_text_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the class is the contract, the words are those of `json`
        jsontext.loads(text)


@pytest.mark.parametrize("text", BAD[:-1], ids=lambda text: repr(text[:12]))
def test_a_bad_text_is_a_value_error_in_a_fresh_interpreter(text: str) -> None:
    # The C scanner raises SystemError for a syntax error while json.decoder is not imported; under pytest it always is.
    program = (
        "import sys\nfrom vault_mem import jsontext\n"
        "assert 'json.decoder' not in sys.modules\n"
        "try:\n    jsontext.loads(sys.stdin.buffer.read().decode())\nexcept ValueError:\n    print('refused')\n"
    )

    done = subprocess.run([sys.executable, "-c", program], input=text.encode(), capture_output=True, check=False)

    assert done.stdout.strip() == b"refused", done.stderr


@given(VALUES)
def test_what_is_written_is_read_back(value: Any) -> None:
    text = jsontext.dumps(value)

    assert "\n" not in text
    assert jsontext.loads(text) == json.loads(text) == value


@given(VALUES)
def test_what_json_writes_in_any_layout_is_read(value: Any) -> None:
    assert jsontext.loads(json.dumps(value, indent=2, ensure_ascii=True)) == value


@given(st.text(max_size=40))
def test_any_text_is_read_as_json_reads_it_or_refused_where_json_refuses(text: str) -> None:
    try:
        expected = json.loads(text)
    except ValueError:
        with pytest.raises(ValueError):  # noqa: PT011 - see above
            jsontext.loads(text)
    else:
        assert repr(jsontext.loads(text)) == repr(expected)


@pytest.mark.parametrize(
    ("text", "value"),
    (
        pytest.param('"a\\ud800b"', "a\ufffdb", id="a lone high half"),
        pytest.param('"\\udc00"', "\ufffd", id="a lone low half"),
        pytest.param('{"\\uD800": ["\\uDFFF"]}', {"\ufffd": ["\ufffd"]}, id="in a key and in a list"),
        pytest.param('"\\ud83d\\ude00"', "\U0001f600", id="a whole pair"),
    ),
)
def test_a_lone_surrogate_becomes_the_replacement_character(text: str, value: object) -> None:
    assert jsontext.loads(text) == value
    jsontext.dumps(jsontext.loads(text)).encode("utf-8")


@pytest.mark.parametrize("value", ({1, 2}, b"x", object(), float("nan"), float("inf")), ids=str)
def test_a_value_that_is_no_json_is_refused(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        jsontext.dumps(value)


@given(st.text())
def test_a_quoted_text_is_one_line_and_the_same_text(text: str) -> None:
    quoted = jsontext.quote(text)

    assert quoted[0] == quoted[-1] == '"'
    assert "\n" not in quoted
    assert json.loads(quoted) == text


def test_the_hook_path_reads_and_writes_json_without_the_json_package() -> None:
    program = (
        "import sys\nfrom vault_mem import jsontext\n"
        "assert jsontext.loads(jsontext.dumps({'a': [1, 'b', None]})) == {'a': [1, 'b', None]}\n"
        "print(*sorted({'json', 're', 'enum'} & set(sys.modules)))\n"
    )

    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {ROOT!r})\n{program}"],
        capture_output=True,
        check=True,
    )

    assert done.stdout.split() == []


ROOT = jsontext.__file__.rpartition("vault_mem")[0]
