"""The end of a transcript, read backwards and bounded: how full the context is, whether it was compacted, whether a briefing arrived."""

from __future__ import annotations

import os

from vault_mem import stamps, transcript
from vault_mem.harness import rows
from vault_mem.record import NamedTuple
from vault_mem.session import usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from vault_mem.session.usage import Sample

BLOCK = 256 * 1024
LIMIT = 8 << 20
DELIVERED = b"additional_context"
"""Both clients name the rows in which they pass hook text on with this word."""


class Tail(NamedTuple):
    """What the end of a transcript says. boundary: time of the newest compaction, seen: the mark was passed on, answered: time of the last answer."""

    sample: Sample | None = None
    boundary: float = 0.0
    seen: bool = False
    answered: float = 0.0
    readable: bool = False


def read(path: str, *, harness: str, since: float = 0.0, mark: str = "") -> Tail:
    """Read back until the answer is known, rows get older than *since*, or LIMIT bytes are read. Never fails: unknown is unknown."""
    found = Tail()
    wanted = mark.encode("ascii", "replace")
    try:
        for line in _backwards(path):
            found = found._replace(readable=True)
            if wanted and wanted in line and DELIVERED in line:
                found = found._replace(seen=True)
            if not _is_telling(line, harness):
                continue
            row = rows.parsed(line)
            at = (stamps.epoch_of(row.get("timestamp")) or 0.0) if row else 0.0
            found = found if row is None else _taken(found, row, harness, at)
            known = found.sample is not None or found.boundary > 0
            if (since and at and at < since) or (known and (found.seen or not wanted) and not since):
                break
    except (OSError, ValueError):
        return found
    return found


def _is_telling(line: bytes, harness: str) -> bool:
    if harness == "codex":
        return b'"token_count"' in line[:400] or b'"compacted"' in line[:200] or b'"response_item"' in line[:200]
    return b'"assistant"' in line or b'"compact_boundary"' in line


def _taken(found: Tail, row: dict[str, Any], harness: str, at: float) -> Tail:
    payload = rows.table(row.get("payload"))
    if harness == "codex":
        compacted = row.get("type") == "compacted"
        sample = usage.of_codex_row(row, at=at)
        answer = row.get("type") == "response_item" and (
            payload.get("role") == "assistant" or payload.get("type") == "function_call"
        )
    else:
        compacted = row.get("type") == "system" and row.get("subtype") == "compact_boundary"
        sample = usage.of_claude_row(row, at=at)
        answer = row.get("type") == "assistant" and row.get("isSidechain") is not True
    if compacted and not found.boundary:
        found = found._replace(boundary=at or 1.0)
    # What was measured before the compaction says nothing about now.
    if sample is not None and found.sample is None and not found.boundary:
        found = found._replace(sample=sample)
    return found._replace(answered=max(found.answered, at)) if answer else found


def _backwards(path: str) -> Iterator[bytes]:
    """Whole lines, the last one first; a line that is longer than LIMIT ends it."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0))
    try:
        end = os.fstat(handle).st_size
        for _, line in transcript.backwards(handle, end, floor=max(0, end - LIMIT), block=BLOCK):
            if line:
                yield line
    finally:
        os.close(handle)
