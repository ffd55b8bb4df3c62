"""The only way stored text reaches stdout, a page or a tool answer: one line, quoted, nothing in it that a terminal or a client obeys."""

from __future__ import annotations

from vault_mem import jsontext
from vault_mem.capsule import text as texts

LIMIT = 500

_SPACE = dict.fromkeys((*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029), " ")
# What is invisible or turns the direction of what follows. Emoji lose their joiners and presentation marks and stay readable.
_INVISIBLE = (
    (0x00AD, 0x00AD),  # soft hyphen
    (0x034F, 0x034F),  # grapheme joiner
    (0x061C, 0x061C),  # Arabic letter mark
    (0x115F, 0x1160),  # Hangul fillers
    (0x17B4, 0x17B5),  # Khmer inherent vowels
    (0x180B, 0x180F),  # Mongolian selectors and vowel separator
    (0x200B, 0x200F),  # zero-width, direction marks
    (0x202A, 0x202E),  # bidi embedding and override
    (0x2060, 0x206F),  # word joiner, invisible operators, bidi isolates, deprecated format marks
    (0x3164, 0x3164),  # Hangul filler
    (0xFE00, 0xFE0F),  # variation selectors
    (0xFEFF, 0xFEFF),  # byte order mark
    (0xFFA0, 0xFFA0),  # halfwidth Hangul filler
    (0xFFF9, 0xFFFB),  # interlinear annotation
    (0x1D173, 0x1D17A),  # musical format marks
    (0xE0000, 0xE0FFF),  # tags, more variation selectors
)
_TABLE: dict[int, str | None] = {}
"""Filled by the first text that is not ASCII: four thousand entries take a millisecond, and most hooks never meet such a text."""
_LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_WRAPPERS = (
    "system",
    "local-command",
    "command-",
    "task-",
    "teammate",
    "user",
    "function",
    "antml",
    "invoke",
    "tool",
    "human",
    "assistant",
)


def inert(value: object, *, limit: int = LIMIT) -> str:
    """*value* as a JSON string on one line, at most *limit* characters of it; None is the empty string.

    A JSON reader gets the cleaned text back: the bracket of a closing tag is followed by an escaped slash, that of an opening tag which
    clients give a meaning to is written as its code point.
    """
    quoted = jsontext.quote(_cut(clean(value), limit))
    if "<" not in quoted:
        return quoted
    head, *rest = quoted.split("<")
    return head + "".join(_bracket(part) + part for part in rest)


def _bracket(part: str) -> str:
    if part.startswith("/"):
        return "<\\"
    return "\\u003c" if part[:16].lower().startswith(_WRAPPERS) else "<"


def plain(value: object, limit: int = 120) -> str:
    """The same without quotes, for names within a line of ours; it never begins or ends with a blank."""
    text = clean(value)
    if "<" in text:
        head, *rest = text.split("<")
        text = head + "".join(("< " if _bracket(part) != "<" else "<") + part for part in rest)
    return _cut(text, limit)


def _cut(text: str, limit: int) -> str:
    # On code points: what joins several of them to one character is gone already.
    return text if len(text) <= limit else f"{text[:limit]}…[+{len(text) - limit} chars]"


def clean(value: object) -> str:
    """*value* as text on one line: control, bidi, zero-width and ANSI characters gone, blanks squeezed."""
    if value is None:
        return ""
    if isinstance(value, (tuple, list)):
        value = ", ".join(map(str, value))
    text = value if isinstance(value, str) else str(value)
    if not (text.isascii() and text.isprintable()):
        text = texts.whole(text)
        if "\x1b" in text or "\x9b" in text or "\x9d" in text:
            text = _without_ansi(text)
        text = text.translate(_SPACE if text.isascii() else _table())
    return " ".join(text.split())


def _table() -> dict[int, str | None]:
    if not _TABLE:
        for first, last in _INVISIBLE:
            _TABLE.update(dict.fromkeys(range(first, last + 1)))
        _TABLE.update(_SPACE)
    return _TABLE


def _without_ansi(text: str) -> str:
    """*text* without terminal sequences; an unfinished one loses only its introducer, so that nothing readable is hidden by it."""
    text = text.replace("\x9b", "\x1b[").replace("\x9d", "\x1b]")
    head, *rest = text.split("\x1b")
    return head + "".join(map(_behind_sequence, rest, [*rest[1:], ""]))


def _behind_sequence(part: str, following: str) -> str:
    if part.startswith("["):
        place = 1
        while place < len(part) and " " <= part[place] <= "?":
            place += 1
        return part[place + 1 :] if place < len(part) and "@" <= part[place] <= "~" else part[1:]
    if part[:1] in ("]", "P", "X", "^", "_"):
        return _behind_string(part, following)
    return part[1:] if part[:1] in ("c", "7", "8", "=", ">", "\\") else part


def _behind_string(part: str, following: str) -> str:
    """What follows an operating system command or the like: it ends at BEL or ST, within the line."""
    bell = part.find("\x07")
    body = part[:bell] if bell >= 0 else part
    ended = bell >= 0 or following.startswith("\\")
    if not ended or any(char in _LINE_ENDS for char in body):
        return part[1:]
    return part[bell + 1 :] if bell >= 0 else ""
