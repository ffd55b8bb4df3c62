"""What one transcript row of Claude Code says about the size of the context and about the person. Pure.

A row is a measurement, a compaction boundary, a sign of the person, or nothing. Ambiguity counts as the person: a false "absent" costs a
conversation, a false "present" one delayed reset.
"""

from __future__ import annotations

from vault_mem import stamps
from vault_mem.digest import sha256
from vault_mem.record import NamedTuple
from vault_mem.session import usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

MACHINES = frozenset(
    ("task-notification", "auto-continuation", "system", "peer", "teammate", "agent", "coordinator", "hook", "cron")
)
"""Origins that are no person. Any other origin is one until it is known not to be."""
NOT_WRITTEN = ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly", "isSynthetic")
INTERRUPTED = "[Request interrupted by user"
NOTICES = ("<task-notification>", "<local-command-stdout>", "<local-command-stderr>", "<local-command-caveat>")
COMMAND = "<command-name>"
COMMANDS = (COMMAND, "<command-message>")
TEXT_LIMIT = 8000
SLACK_BEFORE, SLACK_AFTER = 5.0, 900.0
"""Seconds around the typing of a line within which a record of it is ours; a queued line is recorded when its turn comes."""


class Human(NamedTuple):
    """A sign of the person. at: None when the row has no readable time; stamp: as written; approves: whether it can serve as an approval."""

    at: float | None
    uuid: str
    stamp: str
    text: str
    approves: bool


class Typed(NamedTuple):
    """A line this program typed into a pane: hash of the text, time, the client process (`pid:start`) it went to."""

    hash: str
    at: float
    client: str


class Row(NamedTuple):
    """What a row says: tokens of a measurement, whether it is a compaction boundary, a sign of the person, the session it names."""

    tokens: int | None = None
    boundary: bool = False
    human: Human | None = None
    session: str = ""


NOTHING = Row()


def read(row: Mapping[str, Any]) -> Row:
    """The meaning of one row, whatever its shape; never raises."""
    if row.get("isSidechain") is True:
        return NOTHING
    kind = row.get("type")
    if kind == "assistant":
        return _assistant(row)
    if kind == "system":
        return Row(boundary=row.get("subtype") == "compact_boundary")
    if kind == "user":
        return Row(human=_user(row))
    if kind == "queue-operation" and row.get("operation") == "enqueue":
        return Row(human=_said(row, row.get("content"), _origin(row)))
    if kind == "attachment":
        return Row(human=_attachment(row))
    return NOTHING


def _assistant(row: Mapping[str, Any]) -> Row:
    message = row.get("message")
    if row.get("isApiErrorMessage") is True or not isinstance(message, dict) or message.get("model") == "<synthetic>":
        return NOTHING
    tokens = usage.summed(message.get("usage"))
    return Row(tokens=tokens or None, session=_text(row.get("sessionId")))


def _user(row: Mapping[str, Any]) -> Human | None:
    if any(row.get(name) is True for name in NOT_WRITTEN):
        return None
    message = row.get("message")
    content = message.get("content") if isinstance(message, dict) else message
    if isinstance(content, list):
        blocks = [block for block in content if isinstance(block, dict)]
        if any(block.get("type") == "tool_result" for block in blocks):
            return None
    return _said(row, content, _origin(row))


def _attachment(row: Mapping[str, Any]) -> Human | None:
    given = row.get("attachment")
    if not isinstance(given, dict) or given.get("type") != "queued_command" or given.get("isMeta") is True:
        return None
    if given.get("commandMode") == "task-notification":
        return None
    return _said(row, given.get("prompt"), _origin(given) or _origin(row))


def _origin(row: Mapping[str, Any]) -> str:
    """`human`, `machine`, or "" when the row does not say."""
    origin = row.get("origin")
    kind = origin.get("kind") if isinstance(origin, dict) else origin
    if isinstance(kind, str) and kind:
        return "machine" if kind in MACHINES else "human"
    source = row.get("promptSource")
    if source == "system":
        return "machine"
    return "human" if isinstance(source, str) and source else ""


def _said(row: Mapping[str, Any], content: object, origin: str) -> Human | None:
    text, pictures = _content(content)
    if origin == "machine" or text.startswith(NOTICES) or not (text or pictures):
        return None
    stamp = _text(row.get("timestamp"))
    approves = origin == "human" and not text.startswith((INTERRUPTED, *COMMANDS))
    return Human(stamps.epoch_of(stamp), _text(row.get("uuid")), stamp, text[:TEXT_LIMIT], approves)


def _content(content: object) -> tuple[str, bool]:
    """The text of a message, and whether it holds pictures or documents."""
    if isinstance(content, str):
        return content.strip(), False
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    texts = [_text(block.get("text")) for block in blocks if block.get("type") == "text"]
    return "\n".join(texts).strip(), any(block.get("type") in ("image", "document") for block in blocks)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def hashed(text: str) -> str:
    """What the ledger keeps of a typed line."""
    return sha256(" ".join(text.split()).encode("utf-8", "replace"))


def typed_by_us(human: Human, ledger: Sequence[Typed], *, client: str) -> bool:
    """Whether the ledger of typed lines explains this record: same text, same client, about the same time."""
    text = human.text
    if text.startswith(COMMANDS):
        text = text.partition(COMMAND)[2].partition("</command-name>")[0]
    mark = hashed(text)
    return any(
        entry.hash == mark
        and entry.client == client
        and human.at is not None
        and -SLACK_BEFORE <= human.at - entry.at <= SLACK_AFTER
        for entry in ledger
    )
