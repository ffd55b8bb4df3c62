"""JSON without the `json` package, which pulls in `re` (6 ms of CPU a hook, docs/explanation/performance.md).

The C scanner and encoder that `json` itself uses are called directly. The scanner is private to CPython, with traps: a syntax error is a
SystemError on 3.11 while `json.decoder` is not imported, end of input is StopIteration, trailing data is not reported. So a result counts
only when it ends where the text ends; everything else is asked again of `json`. `tests/test_jsontext.py` compares the two on good and bad inputs.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SPACE = " \t\n\r"


class _Context:
    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float
    memo: dict[str, str] = {}  # noqa: RUF012 - the scanner clears it after every call


_scan: Any = None
_make_encoder: Any = None
_encode_string: Any = None
_encode_ascii: Any = None
try:
    import _json
except ImportError:  # another implementation of Python
    pass
else:
    _make_scanner: Any = _json.make_scanner
    _scan, _make_encoder = _make_scanner(_Context), _json.make_encoder
    _encode_string, _encode_ascii = _json.encode_basestring, _json.encode_basestring_ascii


def loads(text: str) -> Any:
    """The value of a JSON text. Raises ValueError; a text of too many levels is a ValueError too.

    A lone surrogate (half of an escaped pair) becomes U+FFFD, so that every string of the result can be written as UTF-8.
    """
    value = _parsed(text)
    return _whole(value) if "\\ud" in text or "\\uD" in text else value


def _parsed(text: str) -> Any:
    if _scan is not None:
        stripped = text.strip(SPACE)
        try:
            value, end = _scan(stripped, 0)
        except (StopIteration, SystemError, ValueError):
            pass
        except RecursionError as error:
            raise ValueError("too many levels") from error
        else:
            if end == len(stripped):
                return value
    import json

    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("too many levels") from error


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_whole(item) for item in value]
    if isinstance(value, dict):
        return {_whole(key): _whole(item) for key, item in value.items()}
    return value


def dumps(value: Any, *, escaped: bool = False) -> str:
    r"""*value* as one line of JSON, keys in the order given.

    Characters beyond ASCII stand as they are in our own files; *escaped* ones (`\\u202e`) are harmless on every terminal and read back the same,
    and so is the bracket that begins a tag (`\\u003c`): no client takes it for one of its own.
    """
    if _make_encoder is None:
        import json

        text = json.dumps(value, ensure_ascii=escaped)
        return text.replace("<", "\\u003c") if escaped else text
    # markers, default, string encoder, indent, separators, sort_keys, skipkeys, allow_nan
    encoder = _make_encoder(
        {}, _refuse, _encode_ascii if escaped else _encode_string, None, ": ", ", ", False, False, False
    )
    text = "".join(encoder(value, 0))
    # Brackets stand only within strings there.
    return text.replace("<", "\\u003c") if escaped else text


def _refuse(value: object) -> Any:
    raise TypeError(f"{type(value).__name__} is no JSON value")


def quote(text: str) -> str:
    """*text* as a JSON string."""
    return dumps(text)
