"""Lines of JSON, without the parts that nobody needs: types are peeked at, huge strings are cut out before parsing."""

from __future__ import annotations

from vault_mem import jsontext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LONG_LINE = 1 << 20
LONG_STRING = 1 << 16
KEPT_OF_STRING = 1 << 14
MOST_KEYS = 32
BLANKS = b" \t\r\n"


def peek(line: bytes, wanted: tuple[bytes, ...]) -> dict[bytes, bytes]:
    """Scalar values (raw) of *wanted* top-level keys that stand before the first nested value; that one's key is under b"".

    The order of keys differs between row types, so a key that is not in the answer may still be in the row.
    """
    found: dict[bytes, bytes] = {}
    at = line.find(b"{") + 1
    for _ in range(MOST_KEYS):
        opened = line.find(b'"', at)
        closed = line.find(b'"', opened + 1)
        if opened < 0 or closed < 0:
            break
        key = line[opened + 1 : closed]
        at = line.find(b":", closed) + 1
        while line[at : at + 1] in (b" ", b"\t") and at < len(line):
            at += 1
        first = line[at : at + 1]
        if first in (b"{", b"["):
            found[b""] = key
            break
        if first == b'"':
            end = _end_of_string(line, at + 1)
            value, at = line[at + 1 : end], end + 1
        else:
            end = line.find(b",", at)
            end = len(line) if end < 0 else end
            value, at = line[at:end].rstrip(b"} \t\r\n"), end
        if key in wanted:
            found[key] = value
            if len(found) == len(wanted):
                break
        at = line.find(b",", at)
        if at < 0:
            break
    return found


def _end_of_string(line: bytes, at: int) -> int:
    while True:
        end = line.find(b'"', at)
        if end < 0:
            return len(line)
        escapes = 0
        while line[end - 1 - escapes : end - escapes] == b"\\":
            escapes += 1
        if escapes % 2 == 0:
            return end
        at = end + 1


def parsed(line: bytes) -> dict[str, Any] | None:
    """The object in *line*; None when there is none. NUL bytes of a crash are passed over, invalid UTF-8 becomes U+FFFD."""
    if b"\0" in line:
        line = line.replace(b"\0", b"")
    if len(line) > LONG_LINE:
        line = _slim(line)
    if not line.strip(BLANKS):
        return None
    try:
        value = jsontext.loads(line.decode("utf-8", "replace"))
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _slim(line: bytes) -> bytes:
    """*line* with very long strings (pictures as base64, whole files) cut."""
    parts = line.split(b'"')
    del line
    for index, part in enumerate(parts):
        if len(part) > LONG_STRING:
            head = part[:KEPT_OF_STRING]
            escape = head.rfind(b"\\", KEPT_OF_STRING - 12)
            if escape >= 0:  # never half an escape, nor half of a pair of them
                head = head[:escape].rstrip(b"\\")
            parts[index] = head + (b"\\" if part.endswith(b"\\") and _odd_end(part) else b"")
    return b'"'.join(parts)


def _odd_end(part: bytes) -> bool:
    return (len(part) - len(part.rstrip(b"\\"))) % 2 == 1


def text(value: Any) -> str:
    """*value* when it is text, else nothing."""
    return value if isinstance(value, str) else ""


def table(value: Any) -> dict[str, Any]:
    """*value* when it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def rows_of(value: Any) -> list[dict[str, Any]]:
    """The objects in the list *value*."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def blocks_text(value: Any, kinds: tuple[str, ...] = ("text",)) -> str:
    """The text of a message content: a string, or the text blocks of a list, a line break between."""
    if isinstance(value, str):
        return value
    return "\n".join(text(block.get("text")) for block in rows_of(value) if block.get("type") in kinds)
