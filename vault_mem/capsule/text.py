"""Text inside a bullet: folded to one line, cut, escaped so that no anchor, comment end, heading, fence or state is made of it.

Laws: `unescape(escape(t)) == t`, `cut(cut(t)) == cut(t)`, `fold(fold(t)) == fold(t)`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT = 240
"""Characters of a bullet's text, its tag, time and state not counted."""

STATES = ("unresolved", "resolved", "closed")
ARROW = " → "

_LINE_BREAKS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_CONTROLS = {code: "\n" for code in (*range(0x20), *range(0x7F, 0xA0), *map(ord, _LINE_BREAKS)) if code != 0x09}
_ESCAPABLE = frozenset("\\!>→#`~[:-")
_TAG_MARKS = dict.fromkeys(map(ord, "_:./@+-"))
_OMITTED = "…[+"
_BACK_OFF = 32


def whole(text: str) -> str:
    """*text* with surrogate pairs joined and lone halves as U+FFFD, so that it can be written as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def fold(text: str) -> str:
    """*text* on one line: line breaks and control characters, with the blanks around them, become one space."""
    text = text.strip()
    if text.isascii() and text.isprintable():
        return text
    lines = whole(text).translate(_CONTROLS).split("\n")
    return " ".join(line for line in map(str.strip, lines) if line)


def omission(text: str) -> int:
    """Where the `…[+N chars]` at the end of *text* begins, -1 without one."""
    if not text.endswith(" chars]"):
        return -1
    start = text.rfind(_OMITTED)
    digits = text[start + len(_OMITTED) : -len(" chars]")]
    return start if start >= 0 and digits.isascii() and digits.isdigit() and len(digits) < 10 else -1


def cut(text: str, limit: int = LIMIT) -> str:
    """At most *limit* characters, cut between two graphemes, followed by `…[+N chars]` that counts what is left out."""
    if len(text) <= limit or 0 <= omission(text) <= limit:
        return text
    kept = boundary(text, limit)
    return f"{text[:kept]}{_OMITTED}{len(text) - kept} chars]"


def boundary(text: str, limit: int) -> int:
    """The last place at or before *limit* where *text* can be cut without splitting a character as a person sees it."""
    place = limit
    while place > 0 and place > limit - _BACK_OFF and _joined(text, place):
        place -= 1
    # A run of marks longer than any real character is cut anywhere, or a text of nothing else would vanish.
    return place if place > 0 and not _joined(text, place) else limit


def _joined(text: str, place: int) -> bool:
    before, after = text[place - 1], text[place]
    if after < "\u0300" and before < "\u0300":
        return False
    if before == "\u200d" or after in "\u200c\u200d" or "\U0001f3fb" <= after <= "\U0001f3ff":
        return True
    if "\U000e0020" <= after <= "\U000e007f" or after in "\uff9e\uff9f\u0e33\u0eb3":
        return True
    if "\U0001f1e6" <= after <= "\U0001f1ff" and "\U0001f1e6" <= before <= "\U0001f1ff":
        flags = place
        while flags and "\U0001f1e6" <= text[flags - 1] <= "\U0001f1ff":
            flags -= 1
        return (place - flags) % 2 == 1
    if "\u1100" <= before <= "\ud7fb" and "\u1100" <= after <= "\ud7fb" and _syllable(before, after):
        return True
    # Only a cut inside a text beyond Latin comes here, so an ordinary turn does not pay for the table.
    import unicodedata

    return unicodedata.category(after) in ("Mn", "Mc", "Me") or (
        unicodedata.combining(before) == 9 and unicodedata.category(after) == "Lo"
    )


def _syllable(before: str, after: str) -> bool:
    """Whether two Hangul characters are one syllable block."""
    first, second = _hangul(before), _hangul(after)
    return (first, second) in (
        ("L", "L"), ("L", "V"), ("L", "LV"), ("L", "LVT"),
        ("V", "V"), ("V", "T"), ("LV", "V"), ("LV", "T"), ("LVT", "T"), ("T", "T"),
    )  # fmt: skip


def _hangul(char: str) -> str:
    if "\u1100" <= char <= "\u115f" or "\ua960" <= char <= "\ua97c":
        return "L"
    if "\u1160" <= char <= "\u11a7" or "\ud7b0" <= char <= "\ud7c6":
        return "V"
    if "\u11a8" <= char <= "\u11ff" or "\ud7cb" <= char <= "\ud7fb":
        return "T"
    if "\uac00" <= char <= "\ud7a3":
        return "LV" if (ord(char) - 0xAC00) % 28 == 0 else "LVT"
    return ""


def is_state(text: str) -> bool:
    """Whether *text* is what may stand behind the arrow: one of STATES alone or followed by more."""
    for word in STATES:
        if text.startswith(word):
            return text[len(word) : len(word) + 1] in ("", " ", ":")
    return False


def state_at(text: str) -> int:
    """Where the first ` → state` of an escaped text begins, -1 without one."""
    place = text.find(ARROW)
    while place >= 0 and not is_state(text[place + len(ARROW) :]):
        place = text.find(ARROW, place + 1)
    return place


def escape(text: str, *, timed: bool = True, tagged: bool = True) -> str:
    """A folded text as it stands in a bullet.

    timed, tagged: whether a time and a tag stand before it; without one, a text that looks like one is guarded.
    """
    guarded = _guarded(text, timed=timed, tagged=tagged)
    if not guarded and "\\" not in text:
        return text
    parts: list[str] = []
    following = ""
    for place in range(len(text) - 1, -1, -1):
        char = text[place]
        if place in guarded or (char == "\\" and following in _ESCAPABLE):
            parts.append("\\" + char)
            following = "\\"
        else:
            parts.append(char)
            following = char
    return "".join(reversed(parts))


def _guarded(text: str, *, timed: bool, tagged: bool) -> set[int]:
    """The places of characters that need a backslash before them."""
    places: set[int] = set()
    for mark, offset in (("<!--", 1), ("-->", 2), ("--!>", 2)):
        place = text.find(mark)
        while place >= 0:
            places.add(place + offset)
            place = text.find(mark, place + 1)
    place = text.find(ARROW)
    while place >= 0:
        if is_state(text[place + len(ARROW) :]):
            places.add(place + 1)
        place = text.find(ARROW, place + 1)
    if text.startswith(("#", "```", "~~~")) or (not tagged and tag_end(f"{text} ")) or _is_arrow(text):
        places.add(0)
    if not timed and time_end(f"{text} "):
        places.add(text.index(":") if text[2] == ":" else 4)
    return places


def _is_arrow(text: str) -> bool:
    """Whether a text begins with a state; the blank before the arrow is then the one behind the time or the tag."""
    return text.startswith(ARROW[1:]) and is_state(text[len(ARROW) - 1 :])


def unescape(text: str) -> str:
    """The text that `escape` was given."""
    place = text.find("\\")
    if place < 0:
        return text
    parts: list[str] = []
    start = 0
    while place >= 0:
        if text[place + 1 : place + 2] in _ESCAPABLE:
            parts.append(text[start:place])
            start = place + 1
            place += 1  # an escaped backslash escapes nothing
        place = text.find("\\", place + 1)
    parts.append(text[start:])
    return "".join(parts)


def tag_end(text: str) -> int:
    """Behind `[TAG] ` at the start of *text*, 0 without one. A task list's `[x] ` and a link are no tags."""
    close = text.find("] ", 0, 68)
    return close + 2 if text.startswith("[") and is_tag(text[1:close]) else 0


def is_tag(text: str) -> bool:
    """Whether *text* can stand in the brackets: two characters or more, a letter first, no blanks."""
    return 2 <= len(text) <= 64 and text[0].isalpha() and text.translate(_TAG_MARKS).isalnum()


def tag(text: str) -> str:
    """*text* made fit for the brackets; empty stays empty."""
    if not text or is_tag(text):
        return text
    kept = "".join(char if char.isalnum() or ord(char) in _TAG_MARKS else "-" for char in fold(text)[:62])
    return kept if is_tag(kept) else f"T-{kept}"


def time_end(text: str) -> int:
    """Behind `HH:MM ` or `YYYY-MM-DD HH:MM ` at the start of *text*, 0 without one."""
    if text[2:3] == ":":
        return 6 if _is_clock(text[:6]) else 0
    if text[4:5] == "-" and text[7:8] == "-" and text[10:11] == " " and _is_clock(text[11:17]):
        digits = text[:4] + text[5:7] + text[8:10]
        return 17 if digits.isascii() and digits.isdigit() else 0
    return 0


def _is_clock(text: str) -> bool:
    digits = text[:2] + text[3:5]
    return (
        text[2:3] == ":"
        and text[5:] == " "
        and digits.isascii()
        and digits.isdigit()
        and digits < "2400"
        and digits[2] < "6"
    )


def lines(rows: list[str]) -> Iterator[tuple[str, bool]]:
    """Every line, and whether it belongs to a code fence as CommonMark sees it, the fence lines themselves included."""
    fence, inset = "", 0
    for row in rows:
        if fence:
            if inset and row.strip() and not row.startswith(" " * inset):
                fence = ""  # the list item ended, and its fence with it
            else:
                yield row, True
                if _closes(row, fence, inset):
                    fence = ""
                continue
        fence, inset = _opens(row)
        yield row, bool(fence)


def _opens(row: str) -> tuple[str, int]:
    """The fence that *row* opens, and how far the list item is inset when it stands behind a bullet."""
    bare = row.lstrip(" ")
    inset = 0
    if bare.startswith(("- ", "* ", "+ ")) and len(row) - len(bare) <= 3:
        inner = bare[1:].lstrip(" ")
        inset = len(row) - len(inner)
        bare = inner
    elif len(row) - len(bare) > 3:
        return "", 0
    char = bare[:1]
    if char not in ("`", "~"):
        return "", 0
    rest = bare.lstrip(char)
    length = len(bare) - len(rest)
    return (char * length, inset) if length >= 3 and not (char == "`" and "`" in rest) else ("", 0)


def _closes(row: str, fence: str, inset: int) -> bool:
    bare = row.strip()
    return len(bare) >= len(fence) and not bare.strip(fence[0]) and len(row) - len(row.lstrip(" ")) <= inset + 3
