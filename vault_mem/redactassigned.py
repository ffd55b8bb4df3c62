"""Values given to names that say secret: `PASSWORD=…`, `"apiKey": "…"`, `--token …`, `password: …`.

The name decides how much the value has to look like a secret; how it is written (quoted, tight, as code, as prose) decides the rest.
"""

from __future__ import annotations

from vault_mem.redactnames import PASSWORD, level_of
from vault_mem.redacttokens import KEYWORDS, WORD, lowered, run, stands_alone
from vault_mem.redactvalues import CODE, FLAG, LISTED, PROSE, QUOTED, TIGHT, Found, is_secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    Span = tuple[int, int, str]

NAME_LIMIT = 64
VALUE_LIMIT = 512
BLANK = " \t"


def assigned(text: str) -> list[Span]:
    """Where the values of telling names stand in *text*."""
    low = lowered(text)
    spans: list[Span] = []
    for keyword in KEYWORDS:
        done = -1
        at = low.find(keyword)
        while at >= 0:
            after = at + len(keyword)
            if at >= done:
                begin, done = _name(text, at, after)
                level = level_of(text[begin:done], text[max(0, begin - 12) : begin])
                if level:
                    spans += [
                        (found.begin, found.end, _kind(level))
                        for found in _values(text, begin, done)
                        if is_secret(text, found, level)
                    ][:1]
            at = low.find(keyword, after)
    return spans


def _kind(level: int) -> str:
    return "password" if level == PASSWORD else "secret"


def _name(text: str, at: int, after: int) -> tuple[int, int]:
    """Where the name around a keyword begins and ends."""
    head = text[max(0, at - NAME_LIMIT) : at]
    begin = at - len(head) + len(head.rstrip(WORD))
    while begin < at and not stands_alone(text, begin):
        begin += 1
    return begin, after + len(run(text, after, WORD, NAME_LIMIT))


def _values(text: str, begin: int, end: int) -> Iterator[Found]:
    """The readings of what follows the name, the most telling first."""
    name = text[begin:end]
    at = end + len(run(text, end, "\"'`]\\*)", 6))
    closed = at > end
    space = len(run(text, at, BLANK, 16))
    sign = _sign(text, at + space)
    if sign:
        yield from _behind_sign(text, name, at + space + len(sign), tight=sign == "=" and not space)
        return
    if text[at : at + 1] == ">" and text[begin - 1 : begin] in ("<", '"', ":"):
        value = text[at + 1 : at + 1 + VALUE_LIMIT].partition("<")[0]
        yield Found(at + 1, at + 1 + len(value), QUOTED, name)
        return
    yield from _named_value(text, at, name)
    if closed and text[at : at + 1] == ",":
        place = at + 1 + len(run(text, at + 1, " \n\t", 32))
        if text[place : place + 1] in ("'", '"'):
            yield from _quoted(text, place, LISTED, name)
    if space:
        yield from _behind_space(text, begin, at + space, name)


def _sign(text: str, at: int) -> str:
    for sign in ("===", "==", "=>", "=", ":=", "::", ":"):
        if text.startswith(sign, at):
            return "" if sign == "::" else sign
    return ""


def _behind_sign(text: str, name: str, at: int, *, tight: bool) -> Iterator[Found]:
    at += len(run(text, at, "*_" if text[at : at + 2] in ("**", "__") else "", 2))
    line = text[at : at + 64].partition("\n")[0]
    head, equals, _ = line.partition(" = ")
    if equals and head.strip() and " " not in head.strip().replace(" | ", "|") and not tight:
        at += len(head) + 3  # name: type = value
    blank = run(text, at, BLANK, 16)
    place = at + len(blank)
    if text[place : place + 1] in ("\n", "\r"):
        yield from _next_line(text, place, name)
        return
    how = TIGHT if tight and not blank else CODE
    if text[place : place + 1] in ("b", "f", "r", "u", "B", "F", "R", "@") and text[place + 1 : place + 2] in (
        "'",
        '"',
    ):
        place += 1
    if text[place : place + 1] in ('"', "'", "`") or text[place : place + 2] in ('\\"', "\\'"):
        yield from _quoted(text, place, QUOTED, name)
        return
    yield _bare(text, place, how, name)


def _next_line(text: str, at: int, name: str) -> Iterator[Found]:
    """A value that stands alone on the line after its name."""
    at += len(run(text, at, " \t\r\n`", 16))
    found = _bare(text, at, PROSE, name)
    if text[found.end : found.end + 1] in ("", "\n", "\r", "`"):
        yield found


def _named_value(text: str, at: int, name: str) -> Iterator[Found]:
    """`name: API_TOKEN` and behind it `value: …`, as in manifests."""
    place = at + len(run(text, at, " \t\r\n\"'`,;/\\", 48))
    if text[place : place + 5].lower() == "value" and place > at:
        place += 5
        place += len(run(text, place, "\"'`\\ \t", 6))
        if _sign(text, place):
            yield from _behind_sign(text, name, place + 1, tight=False)


def _behind_space(text: str, begin: int, at: int, name: str) -> Iterator[Found]:
    """`--name value`, `NAME 'value'`, `the name is value`, `the name value`."""
    if text[at : at + 1] in ('"', "'", "`"):
        yield from _quoted(text, at, PROSE, name)
        return
    if name.startswith("-"):
        yield _bare(text, at, FLAG, name)
        return
    for verb in ("is: ", "is ", "was ", "are ", "to "):
        if text.startswith(verb, at):
            at += len(verb) + len(run(text, at + len(verb), BLANK + "\n", 8))
            if text[at : at + 1] in ('"', "'", "`"):
                yield from _quoted(text, at, PROSE, name)
                return
            break
    if name.lower() == "password" and "login " in text[max(0, begin - 200) : begin]:
        yield _bare(text, at, FLAG, "--netrc")
        return
    yield _bare(text, at, PROSE, name)


def _quoted(text: str, at: int, how: str, name: str) -> Iterator[Found]:
    escape = "\\" if text[at] == "\\" else ""
    quote = text[at + len(escape)]
    begin = at + len(escape) + 1
    if text.startswith(quote * 2, begin):
        begin += 2
    line = text[begin : begin + VALUE_LIMIT * 8].partition("\n")[0]
    end = line.find(escape + quote)
    while not escape and end > 0 and line[end - 1] == "\\" and quote != "`":
        end = line.find(quote, end + 1)
    if end < 0:
        yield _bare(text, begin, how if how != QUOTED else TIGHT, name)
        return
    yield Found(begin, begin + end, how, name)


def _bare(text: str, at: int, how: str, name: str) -> Found:
    window = text[at : at + VALUE_LIMIT]
    word = (window.split(None, 1) or [""])[0] if window[:1].strip() else ""
    tight = how == TIGHT and name.isupper()
    for stop in (
        ('"', "'", "`", "\\n", "\\r", "\\t", "&", "<", ";", "|")
        if tight
        else ('"', "'", "`", "\\n", "\\r", "\\t", "&", "<", ";", "|", ",")
    ):
        if stop == "<" and word.startswith("<"):
            continue
        word = word.partition(stop)[0]
    end = at + len(word)
    if len(word) == VALUE_LIMIT:
        while end < len(text) and not text[end].isspace() and text[end] not in "\"'`&<;|,":
            end += 1
        return Found(at, end, how, name)
    return Found(
        at,
        at + len(word.rstrip(",;.:!?)]}\\*" if how == PROSE else ",;.:)]}\\*" if how != TIGHT else ",)]}\\")),
        how,
        name,
    )
