"""JSON with the place of every value in its text, so that one value can be changed and every other byte stays. Strict: no comments, no trailing commas."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import NoReturn

DEPTH = 100
_SPACE = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORDS = {"true": True, "false": False, "null": None}


class JsonSpanError(ValueError):
    """The text is no JSON; the message says where (line and column) and what was met."""


@dataclass(frozen=True, slots=True)
class Node:
    """A value: *kind* is object, array, string, number or word; *start* and *end* are its place in the text.

    *items* are the values of an array or object in order, *keys* the key nodes of an object, *value* that of a scalar.
    """

    kind: str
    start: int
    end: int
    items: tuple[Node, ...] = ()
    keys: tuple[Node, ...] = ()
    value: str | float | bool | None = None

    def get(self, name: str) -> Node | None:
        """The last member of that name, as JSON readers take it; None where there is none."""
        found = [item for key, item in zip(self.keys, self.items, strict=True) if key.value == name]
        return found[-1] if found else None

    def doubled(self) -> str | None:
        """The first name that an object has twice."""
        seen = set()
        for key in self.keys:
            if key.value in seen:
                return str(key.value)
            seen.add(key.value)
        return None

    def element_start(self, index: int) -> int:
        """Where the text of element *index* begins: its key in an object, itself in an array."""
        return self.keys[index].start if self.keys else self.items[index].start


def parse(text: str) -> Node:
    """The value of the whole text; raises JsonSpanError."""
    reader = _Reader(text)
    node = reader.value(reader.space(0), 0)
    rest = reader.space(node.end)
    if rest != len(text):
        reader.fail(rest, "something follows the end")
    return node


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text

    def fail(self, at: int, what: str) -> NoReturn:
        line = self.text.count("\n", 0, at) + 1
        column = at - (self.text.rfind("\n", 0, at) + 1) + 1
        raise JsonSpanError(f"line {line}, column {column}: {what}")

    def space(self, at: int) -> int:
        found = _SPACE.match(self.text, at)
        return found.end() if found else at

    def value(self, at: int, depth: int) -> Node:
        if depth > DEPTH:
            self.fail(at, f"more than {DEPTH} levels")
        char = self.text[at : at + 1]
        if char == "{":
            return self.container(at, depth, "}")
        if char == "[":
            return self.container(at, depth, "]")
        if char == '"':
            return self.string(at)
        number = _NUMBER.match(self.text, at)
        if number:
            return Node("number", at, number.end(), value=float(number.group()))
        for word, value in _WORDS.items():
            if self.text.startswith(word, at):
                return Node("word", at, at + len(word), value=value)
        return self.fail(at, self.unexpected(at))

    def unexpected(self, at: int) -> str:
        if at >= len(self.text):
            return "the text ends too early"
        if self.text.startswith(("//", "/*", "#"), at):
            return "a comment, which JSON does not have"
        if self.text[at] in "}]" and self.text[:at].rstrip(" \t\r\n").endswith(","):
            return "a trailing comma, which JSON does not have"
        return f"unexpected {self.text[at]!r}"

    def string(self, at: int) -> Node:
        found = _STRING.match(self.text, at)
        if not found:
            self.fail(at, "a string was expected" if self.text[at : at + 1] != '"' else "a broken string")
        return Node("string", at, found.end(), value=json.loads(found.group()))

    def container(self, at: int, depth: int, close: str) -> Node:
        start = at
        items: list[Node] = []
        keys: list[Node] = []
        at = self.space(at + 1)
        while self.text[at : at + 1] != close or items:
            if close == "}":
                if self.text[at : at + 1] != '"':
                    self.fail(at, self.unexpected(at))
                keys.append(self.string(at))
                at = self.space(keys[-1].end)
                if self.text[at : at + 1] != ":":
                    self.fail(at, "':' was expected")
                at = self.space(at + 1)
            items.append(self.value(at, depth + 1))
            at = self.space(items[-1].end)
            if self.text[at : at + 1] == close:
                break
            if self.text[at : at + 1] != ",":
                self.fail(at, "',' was expected" if at < len(self.text) else "the text ends too early")
            at = self.space(at + 1)
        kind = "object" if close == "}" else "array"
        return Node(kind, start, at + 1, tuple(items), tuple(keys))


def dumped(value: object) -> str:
    """A value as JSON on one line, characters as they are."""
    return json.dumps(value, ensure_ascii=False)


def cut(text: str, container: Node, index: int) -> str:
    """The text without one element and the comma that goes with it; the reverse of `appended` for the last of several."""
    if index:
        return text[: container.items[index - 1].end] + text[container.items[index].end :]
    if len(container.items) > 1:
        return text[: container.element_start(0)] + text[container.element_start(1) :]
    return text[: container.start + 1] + text[container.end - 1 :]


def appended(text: str, container: Node, value: object, key: str | None = None) -> str:
    """The text with *value* (under *key* in an object) behind the last element, in the hand of the file."""
    style = _Style.of(text)
    if container.items:
        at = container.items[-1].end
        last = len(container.items) - 1
        begin = container.start + 1 if not last else container.items[last - 1].end
        space = text[begin : container.element_start(last)].replace(",", "", 1 if last else 0)
        if "\n" not in space:
            space = style.gap if not last else space
            return text[:at] + "," + space + style.written(value, key, None) + text[at:]
        margin = space.rpartition("\n")[2]
        return text[:at] + "," + style.newline + margin + style.written(value, key, margin) + text[at:]
    former = text[container.start + 1 : container.end - 1]
    if style.flat:
        return text[: container.start + 1] + style.written(value, key, None) + former + text[container.end - 1 :]
    line = text[text.rfind("\n", 0, container.start) + 1 : container.start]
    outer = line[: len(line) - len(line.lstrip(" \t"))]
    margin = outer + style.unit
    closing = style.newline + outer if "\n" not in former else former
    body = style.newline + margin + style.written(value, key, margin)
    return text[: container.start + 1] + body + closing + text[container.end - 1 :]


@dataclass(frozen=True, slots=True)
class _Style:
    """How a file is written: line ends, one step of indentation, `: ` or `:`, all on one line or not."""

    newline: str
    unit: str
    colon: str
    gap: str
    flat: bool

    @classmethod
    def of(cls, text: str) -> _Style:
        root = parse(text)
        newline = "\r\n" if "\r\n" in text else "\n"
        unit, colon = "  ", ": "
        if root.keys:
            before = text[root.start + 1 : root.keys[0].start]
            own_line = text[text.rfind("\n", 0, root.start) + 1 : root.start]
            margin = before.rpartition("\n")[2]
            if "\n" in before and margin.startswith(own_line) and len(margin) > len(own_line):
                unit = margin[len(own_line) :]
            colon = text[root.keys[0].end : root.items[0].start]
            colon = colon if "\n" not in colon else ": "
        flat = bool(root.items) and "\n" not in text[root.start : root.end]
        return cls(newline, unit, colon, " " if colon != ":" else "", flat)

    def written(self, value: object, key: str | None, margin: str | None) -> str:
        """*value* as JSON; with *margin* on several lines of which all but the first begin with it."""
        if margin is None:
            text = json.dumps(value, ensure_ascii=False, separators=("," + self.gap, self.colon))
        else:
            text = json.dumps(value, ensure_ascii=False, indent=self.unit, separators=(",", self.colon))
            text = text.replace("\n", self.newline + margin)
        return text if key is None else json.dumps(key, ensure_ascii=False) + self.colon + text
