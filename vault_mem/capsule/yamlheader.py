"""Owner of python-frontmatter and ruamel.yaml: headers that a person wrote. Imported only for headers that `header.scan` refuses.

The values are taken from the parser's events, never constructed: no tag is resolved, no alias expanded, no recursion deeper than the bound,
and a number, a date or `yes` is the text that stands in the file.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from vault_mem.capsule import text as texts
from vault_mem.errors import HeaderError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vault_mem.capsule.model import Value

LIMIT = 65536
DEPTH = 20
_NULLS = ("", "~", "null", "Null", "NULL")
_SCALAR, _LIST, _MAPPING, _END = "scalar", "list", "mapping", "end"


class Node(NamedTuple):
    """An event of the parser: what begins, ends or stands there, its offsets, and how it is written.

    inline: a scalar in one place or a collection in brackets, as opposed to a block of lines. plain: a scalar without quotes.
    """

    kind: str
    text: str
    start: int
    end: int
    inline: bool
    plain: bool


class Entry(NamedTuple):
    """One top-level key: where the key ends, its value, where the value stands, and whether it can be replaced in place."""

    key_end: int
    value: Value
    start: int
    end: int
    inline: bool


def fields(head: str) -> dict[str, Value]:
    """The fields of the header *head*, read through a python-frontmatter handler. Raises HeaderError."""
    import frontmatter  # noqa: TID251 - the owner
    from frontmatter.default_handlers import BaseHandler  # noqa: TID251 - the owner

    found: dict[str, Value] = {}

    class Handler(BaseHandler):
        """ruamel.yaml for what is between the fences; the fences were found by `header.split`."""

        FM_BOUNDARY = re.compile("^---$")

        def split(self, text: str) -> tuple[str, str]:  # noqa: ARG002 - stripped by the library, which moves the offsets
            return head, ""

        def load(self, fm: str) -> dict[str, Any]:
            found.update((key, entry.value) for key, entry in entries(fm).items())
            return dict(found)

    frontmatter.parse(head, handler=Handler())
    return found


def span(head: str, key: str) -> tuple[int, int]:
    """The offsets of the value of *key* in *head*; equal ones, behind the colon, when there is no value. Raises HeaderError."""
    entry = entries(head)[key]
    if not entry.inline:
        raise HeaderError("invalid-frontmatter", f"{key} stands in lines that cannot be replaced in place")
    if entry.start < entry.end:
        return entry.start, entry.end
    colon = head.index(":", entry.key_end) + 1
    return colon, colon


def entries(head: str) -> dict[str, Entry]:
    """The top-level keys of a YAML mapping. Raises HeaderError: `header-too-large`, `duplicate-key`, `invalid-frontmatter`."""
    if len(head.encode("utf-8", "surrogatepass")) > LIMIT:
        raise HeaderError("header-too-large", f"more than {LIMIT} bytes")
    return _mapping(head, _nodes(head))


def _nodes(head: str) -> Iterator[Node]:
    """One document without aliases, anchors, tags, directives or deep nesting; whatever the parser raises is a HeaderError."""
    from ruamel.yaml import YAML  # noqa: TID251 - the owner
    from ruamel.yaml.error import YAMLError  # noqa: TID251 - the owner

    depth = documents = 0
    events = YAML(typ="safe", pure=True).parse(head)
    while True:
        try:
            event: Any = next(events, None)
        except YAMLError as error:
            raise HeaderError("invalid-frontmatter", _problem(error)) from error
        # The parser meets hostile text and fails in more ways than its own class names, such as a code point out of range.
        except (
            ArithmeticError,
            AssertionError,
            AttributeError,
            LookupError,
            RecursionError,
            TypeError,
            ValueError,
        ) as error:
            raise HeaderError("invalid-frontmatter", type(error).__name__) from error
        if event is None:
            return
        name = type(event).__name__
        _refused(event, name)
        documents += name == "DocumentStartEvent"
        depth += name in ("MappingStartEvent", "SequenceStartEvent")
        depth -= name in ("MappingEndEvent", "SequenceEndEvent")
        if documents > 1 or depth > DEPTH:
            raise HeaderError(
                "invalid-frontmatter", "two documents" if documents > 1 else f"nested deeper than {DEPTH}"
            )
        node = _node(event, name)
        if node is not None:
            yield node


def _problem(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    text = str(getattr(error, "problem", None) or type(error).__name__)
    return texts.fold(f"{text} in line {mark.line + 2}" if mark else text)


def _refused(event: Any, name: str) -> None:
    if name == "AliasEvent":
        raise HeaderError("invalid-frontmatter", "aliases are refused")
    if getattr(event, "anchor", None) is not None:
        raise HeaderError("invalid-frontmatter", "anchors are refused")
    if getattr(event, "tag", None) is not None:
        raise HeaderError("invalid-frontmatter", "tags are refused")
    if getattr(event, "version", None) or getattr(event, "tags", None):
        raise HeaderError("invalid-frontmatter", "directives are refused")


def _node(event: Any, name: str) -> Node | None:
    start, end = event.start_mark.index, event.end_mark.index
    if name == "ScalarEvent":
        return Node(_SCALAR, texts.whole(event.value), start, end, event.style not in ("|", ">"), event.implicit[0])
    if name in ("MappingStartEvent", "SequenceStartEvent"):
        kind = _MAPPING if name == "MappingStartEvent" else _LIST
        return Node(kind, "", start, end, bool(event.flow_style), plain=False)
    return (
        Node(_END, "", start, end, inline=True, plain=False)
        if name in ("MappingEndEvent", "SequenceEndEvent")
        else None
    )


def _mapping(head: str, nodes: Iterator[Node]) -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    root = next(nodes, None)
    if root is None or root.kind != _MAPPING or root.inline:
        raise HeaderError("invalid-frontmatter", "the header is no block of key: value lines")
    for node in nodes:
        if node.kind == _END:
            break
        key = _key(node, found)
        found[key] = _entry(head, node.end, nodes)
    for _ in nodes:  # a second document raises
        pass
    if not found:
        raise HeaderError("invalid-frontmatter", "the header has no fields")
    return found


def _key(node: Node, known: dict[str, Any]) -> str:
    if node.kind != _SCALAR or not node.text:
        raise HeaderError("invalid-frontmatter", "a key is empty or no text")
    if node.plain and node.text == "<<":
        raise HeaderError("invalid-frontmatter", "merge keys are refused")
    if node.text in known:
        raise HeaderError("duplicate-key", node.text)
    return node.text


def _entry(head: str, key_end: int, nodes: Iterator[Node]) -> Entry:
    node = next(nodes)
    if node.kind == _SCALAR:
        value = None if node.plain and node.text in _NULLS else node.text
        return Entry(key_end, value, node.start, node.end, node.inline)
    if node.kind == _MAPPING:
        end = _passed(node, nodes)
        return Entry(key_end, head[node.start : end].strip(), node.start, end, node.inline)
    items: list[str] = []
    for item in nodes:
        if item.kind == _END:
            return Entry(key_end, tuple(items), node.start, item.end, node.inline)
        items.append(item.text if item.kind == _SCALAR else head[item.start : _passed(item, nodes)].strip())
    raise HeaderError("invalid-frontmatter", "a list does not end")


def _passed(node: Node, nodes: Iterator[Node]) -> int:
    """Pass over a value, duplicate keys in it refused; the offset where it ends."""
    if node.kind == _SCALAR:
        return node.end
    keys: dict[str, None] = {}
    for child in nodes:
        if child.kind == _END:
            return child.end
        if node.kind == _MAPPING:
            keys[_key(child, keys)] = None
        _passed(next(nodes) if node.kind == _MAPPING else child, nodes)
    raise HeaderError("invalid-frontmatter", "a collection does not end")
