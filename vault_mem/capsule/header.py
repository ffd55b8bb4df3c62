"""The header of a capsule: found, read, changed in one value, written.

`scan` knows the one form that we write ourselves and refuses everything else; that is the hook path. Any other legal YAML header goes to
`vault_mem.capsule.yamlheader`, imported when it is needed. Whatever `scan` accepts, `load` reads to the same values.
"""

from __future__ import annotations

from vault_mem import jsontext
from vault_mem.capsule import model
from vault_mem.capsule import text as texts
from vault_mem.errors import HeaderError
from vault_mem.record import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vault_mem.capsule.model import Value

LIMIT = 65536
"""Bytes of a header, fences not counted."""

BOM = "\ufeff"
FENCE = "---"
_FREE_TEXT = frozenset(("objective", "waiting_on", "next_valid_action"))
_FRAMING = frozenset(key for key, _ in model.FRAMING)
_KNOWN = frozenset((*model.FIELDS, *_FRAMING))
_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_PLAIN = _LETTERS | frozenset("0123456789_./-")
_KEY = _LETTERS | frozenset("0123456789_-")
_ITEM = _PLAIN | frozenset("+~ ")
_WORDS = frozenset(("null", "true", "false", "yes", "no", "on", "off", "y", "n"))
"""Words that YAML 1.1 or 1.2 turns into something else, in any case."""
_INDICATORS = frozenset("-?:,[]{}#&*!|>'\"%@`")
_CONFLICT = ("<<<<<<< ", "=======", ">>>>>>> ")
# Characters that a YAML reader refuses, takes for a line break, or that a terminal obeys.
_SPECIAL = dict.fromkeys(
    (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, 0xFEFF, 0xFFFE, 0xFFFF, *range(0xD800, 0xE000))
)


class Block(NamedTuple):
    """A header and where it stands.

    text: what is between the fences, its last line break included. start, end: its offsets in the document. body: the offset of the first
    character after the closing fence line. newline: the line break of the opening fence. bom: whether the document begins with a BOM.
    """

    text: str
    start: int
    end: int
    body: int
    newline: str
    bom: bool


def split(document: str) -> Block:
    """The header block of *document*; raises HeaderError when there is none, it is too large, or a merge conflict was left in the file."""
    bom = document.startswith(BOM)
    first = len(BOM) if bom else 0
    if not document.startswith(FENCE, first):
        raise HeaderError("conflict-markers" if document.startswith(_CONFLICT[0], first) else "no-frontmatter")
    newline, start = _line_break(document, first)
    if document[first:start].rstrip(" \t\r\n") != FENCE or not newline:
        raise HeaderError("no-frontmatter", "the first line is no fence")
    end, body = _closing(document, start, newline)
    text = document[start:end]
    if len(text) > LIMIT or (len(text) > LIMIT // 4 and len(text.encode("utf-8", "surrogatepass")) > LIMIT):
        raise HeaderError("header-too-large", f"more than {LIMIT} bytes")
    if _CONFLICT[0] in document and _conflicted(document, text, newline):
        raise HeaderError("conflict-markers")
    return Block(text, start, end, body, newline, bom)


def _line_break(document: str, place: int) -> tuple[str, int]:
    """The first line break at or behind *place*, and the offset behind it."""
    feed = document.find("\n", place)
    back = document.find("\r", place, feed if feed >= 0 else len(document))
    if back < 0:
        return ("\n", feed + 1) if feed >= 0 else ("", len(document))
    return ("\r\n", feed + 1) if back + 1 == feed else ("\r", back + 1)


def _closing(document: str, start: int, newline: str) -> tuple[int, int]:
    """Where the closing fence line begins and where the line after it does."""
    mark = "\r" if newline == "\r" else "\n"
    stop = start + LIMIT + 1024
    place = start
    while place >= 0 and place <= stop:
        if document.startswith(FENCE, place):
            finish = document.find(mark, place)
            line = document[place:finish] if finish >= 0 else document[place:]
            if line.rstrip(" \t\r") == FENCE:
                return place, finish + 1 if finish >= 0 else len(document)
        place = document.find(mark + FENCE, place)
        place += 1 if place >= 0 else 0
    if place > stop or len(document) > stop:
        raise HeaderError("header-too-large", f"no closing fence within {LIMIT} bytes")
    raise HeaderError("no-frontmatter", "the closing fence is missing")


def _conflicted(document: str, text: str, newline: str) -> bool:
    """Whether the three marks of a merge conflict stand at line starts, in their order; in a header the first is enough."""
    mark = "\r" if newline == "\r" else "\n"
    if text.startswith(_CONFLICT[0]) or mark + _CONFLICT[0] in text:
        return True
    wanted = 0
    for line, fenced in texts.lines(document.split(mark)):
        if not fenced and line.startswith(_CONFLICT[wanted]):
            wanted += 1
            if wanted == len(_CONFLICT):
                return True
    return False


def read(document: str) -> dict[str, Value]:
    """The fields of *document*: strictly scanned, or loaded as YAML where a person wrote the header. Raises HeaderError."""
    block = split(document)
    fields = scan(block.text)
    return _loaded(block) if fields is None else fields


def load(document: str) -> dict[str, Value]:
    """The fields of any legal YAML header, values of other types as their source text. Raises HeaderError."""
    return _loaded(split(document))


def _loaded(block: Block) -> dict[str, Value]:
    from vault_mem.capsule import yamlheader

    return yamlheader.fields(block.text)


def scan(block: str) -> dict[str, Value] | None:
    """The fields of a header in our own form, one `key: value` a line; None for any other form, nothing is guessed.

    Raises HeaderError('duplicate-key').
    """
    if "\r" in block:
        block = block.replace("\r\n", "\n").replace("\r", "\n")
    if not _ordinary(block.replace("\n", "")):
        return None
    fields: dict[str, Value] = {}
    for line in block.split("\n"):
        key, _, rest = line.partition(": ")
        value: Value
        # The two commonest forms without a call: this loop runs for every capsule of a tree.
        if key in _KNOWN and rest[:1] in _LETTERS and " " not in rest and rest[-1] != ":":
            value = None if rest in _NULLS else rest
        elif key in _KNOWN and rest[:1] == rest[-1:] == '"' and "\\" not in rest and rest.count('"') == 2:
            value = rest[1:-1]
        else:
            key, colon, rest = line.partition(":")
            if not colon or (rest and rest[0] != " ") or not _is_key(key):
                if not line.strip(" ") or line[0] == "#":
                    continue
                return None
            value, understood = _value(rest.strip(" "))
            if not understood:
                return None
        if key in fields:
            raise HeaderError("duplicate-key", key)
        fields[key] = value
    return fields or None


def _is_key(key: str) -> bool:
    return key[:1] in _LETTERS and _KEY.issuperset(key) and len(key) <= 128 and key != ""


def _ordinary(text: str) -> bool:
    """Whether every character is one that YAML reads as it stands."""
    return text.isprintable() or len(text.translate(_SPECIAL)) == len(text)


def _value(rest: str) -> tuple[Value, bool]:
    """The value of what follows a colon, and whether all of it was understood."""
    first = rest[:1]
    if first == '"':
        end = _string_end(rest, 0)
        return _string(rest[:end]) if end and _is_comment(rest[end:]) else (None, False)
    if first == "[":
        return _list(rest)
    if first == "#":
        return None, True
    if first in _INDICATORS:
        return None, False
    if " #" in rest:
        rest = rest[: rest.index(" #")].rstrip(" ")
    if ": " in rest or rest[-1:] == ":":
        return None, False
    return (None if rest in _NULLS else rest), True


def _string_end(text: str, place: int) -> int:
    """Behind the closing quote of the JSON string that begins at *place*, 0 when it is not closed."""
    end = text.find('"', place + 1)
    while end > 0:
        slash = end - 1
        while text[slash] == "\\":
            slash -= 1
        if (end - slash) % 2 == 1:
            return end + 1
        end = text.find('"', end + 1)
    return 0


def _string(token: str) -> tuple[Value, bool]:
    if "\\" not in token:
        return token[1:-1], True
    try:
        return jsontext.loads(token), True
    except ValueError:
        return None, False


def _is_comment(rest: str) -> bool:
    return rest == "" or (rest[0] == " " and rest.lstrip(" ")[:1] in ("", "#"))


def _list(rest: str) -> tuple[Value, bool]:
    """An inline list of plain words and JSON strings."""
    if rest == "[]":
        return (), True
    words = rest[1:-1].split(", ")
    if rest[-1] == "]" and all(word[:1] in _LETTERS and _PLAIN.issuperset(word) for word in words):
        return tuple(words), True
    items: list[str] = []
    place = 1
    while True:
        while rest[place : place + 1] == " ":
            place += 1
        if rest[place : place + 1] == "]" and not items:
            break
        item, place = _item(rest, place)
        if not place:
            return None, False
        items.append(item)
        if rest[place : place + 1] == "]":
            break
        place += 1
    return (tuple(items), True) if _is_comment(rest[place + 1 :]) else (None, False)


def _item(rest: str, place: int) -> tuple[str, int]:
    """The item at *place* and the offset of the comma or bracket behind it; 0 when it is not in our form."""
    if rest[place : place + 1] == '"':
        end = _string_end(rest, place)
        value, whole = _string(rest[place:end]) if end else (None, False)
        while end and rest[end : end + 1] == " ":
            end += 1
        return (value, end) if whole and isinstance(value, str) and rest[end : end + 1] in ("]", ",") else ("", 0)
    comma, close = rest.find(",", place), rest.find("]", place)
    end = comma if 0 <= comma < close else close
    item = rest[place:end].rstrip(" ") if end > 0 else ""
    return (item, end) if item and item[0] not in "-+ " and _ITEM.issuperset(item) else ("", 0)


def render(fields: Mapping[str, Value]) -> str:
    """The text of a block with exactly these *fields*: the known ones in their order, then others, then the framing constants.

    Nothing is added: a caller that wants the framing passes `{**fields, **dict(model.FRAMING)}`.
    """
    return "".join(f"{_key(key)}: {token(key, fields[key])}\n" for key in _order(fields))


def _order(fields: Mapping[str, Value]) -> Iterator[str]:
    yield from (key for key in model.FIELDS if key in fields)
    yield from (key for key in fields if key not in _KNOWN)
    yield from (key for key, _ in model.FRAMING if key in fields)


def _key(key: str) -> str:
    if key in _KNOWN or (_is_key(key) and key.lower() not in _WORDS):
        return key
    if not key or len(key) > 128:
        raise HeaderError("invalid-frontmatter", "a key is empty or longer than 128 characters")
    return _quote(key)


def token(key: str, value: Value) -> str:
    """*value* as it is written behind `key:`."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return value if key not in _FREE_TEXT and _is_plain(value) else _quote(value)
    return "[" + ", ".join(item if _is_plain(item) else _quote(item) for item in value) + "]"


def _is_plain(text: str) -> bool:
    """Whether YAML 1.1 and 1.2 both read *text* without quotes as this text; what begins with a letter is no number and no date."""
    return text[:1] in _LETTERS and _PLAIN.issuperset(text) and text != "" and text.lower() not in _WORDS


def _quote(text: str) -> str:
    """*text* as a JSON string that is a YAML string of the same characters."""
    # An anchor in a value would be a second one to whoever looks for it in the whole file.
    quoted = jsontext.quote(texts.whole(text)).replace("<!-- swe:", "\\u003c!-- swe:")
    if _ordinary(quoted):
        return quoted
    return "".join(f"\\u{ord(char):04x}" if ord(char) in _SPECIAL else char for char in quoted)


def edit(document: str, key: str, value: Value) -> str:
    """*document* with only the value of *key* changed: comments, BOM, line ends and everything else stay byte for byte.

    Raises HeaderError: `missing-key` when there is no such key, `invalid-frontmatter` when its value cannot be replaced in place.
    """
    block = split(document)
    scanned = scan(block.text)
    before = _loaded(block) if scanned is None else scanned
    if key not in before:
        raise HeaderError("missing-key", key)
    if before[key] == value:
        return document
    start, end = _foreign_span(block.text, key) if scanned is None else _span(block.text, key)
    written = token(key, value)
    if start == end:
        written = " " + written
    text = block.text[:start] + written + block.text[end:]
    after = document[: block.start] + text + document[block.end :]
    if read(after) != {**before, key: value}:
        raise HeaderError("invalid-frontmatter", f"{key} cannot be changed in place")
    return after


def put(document: str, key: str, value: Value) -> str:
    """As `edit`; a key that is not there is added as the last line of the header."""
    block = split(document)
    if key in read(document):
        return edit(document, key, value)
    line = f"{_key(key)}: {token(key, value)}{block.newline}"
    after = document[: block.end] + line + document[block.end :]
    if read(after).get(key, "") != value:
        raise HeaderError("invalid-frontmatter", f"{key} cannot be added")
    return after


def _foreign_span(text: str, key: str) -> tuple[int, int]:
    from vault_mem.capsule import yamlheader

    return yamlheader.span(text, key)


def _span(text: str, key: str) -> tuple[int, int]:
    """The offsets of the value of *key* in a block of our own form; equal ones, behind the colon, when there is no value."""
    unified = text.replace("\r", "\n")
    place = 0 if unified.startswith(f"{key}:") else unified.index(f"\n{key}:") + 1
    start = place + len(key) + 1
    finish = unified.find("\n", start)
    rest = unified[start : finish if finish >= 0 else len(unified)]
    value = rest.lstrip(" ")
    if value == "" or value[0] == "#":
        return start, start
    start += len(rest) - len(value)
    return start, start + _token_length(value)


def _token_length(value: str) -> int:
    if value[0] == '"':
        return _string_end(value, 0)
    if value[0] == "[":
        return _list_length(value)
    return len((value[: value.index(" #")] if " #" in value else value).rstrip(" "))


def _list_length(value: str) -> int:
    place = 1
    while value[place] != "]":
        place = _string_end(value, place) if value[place] == '"' else place + 1
    return place + 1
