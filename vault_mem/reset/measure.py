"""Reads a transcript backwards in blocks: size of the context, last sign of the person, what still runs in the background.

Stops when the measurement and the person are both found and the tail window was seen; memory is one block and one line.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from vault_mem import files, stamps, transcript
from vault_mem.digest import sha256
from vault_mem.harness import rows
from vault_mem.session import meter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from vault_mem.session.meter import Human, Row, Typed

DIGEST = 1 << 16


@dataclass(frozen=True, slots=True)
class Scan:
    """What one reading found.

    tokens: None when not told; stale: a compaction came after the last measurement; problem: why nothing can be said; whole: the file was
    read to its start; read: bytes that were read; background: tasks started in the window and not ended; measured: when the measured answer was given, None when its row does not say.
    """

    tokens: int | None = None
    human: Human | None = None
    size: int = 0
    inode: int = 0
    digest: str = ""
    stale: bool = False
    problem: str = ""
    whole: bool = False
    read: int = 0
    background: tuple[str, ...] = ()
    measured: float | None = None


def scan(path: str, *, session: str, ledger: Sequence[Typed], client: str, tail: int) -> Scan:
    """What the transcript says; never raises, a *problem* names why it says nothing."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | files.NOT_FOLLOWED)
    except (OSError, ValueError) as error:
        return Scan(problem=f"the transcript cannot be opened ({getattr(error, 'strerror', None) or error})")
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            return Scan(problem="the transcript is not a regular file")
        return _scan(handle, found, path=path, session=session, ledger=ledger, client=client, tail=tail)
    except OSError as error:
        return Scan(problem=f"the transcript cannot be read ({error.strerror})")
    finally:
        os.close(handle)


def _scan(
    handle: int, found: os.stat_result, *, path: str, session: str, ledger: Sequence[Typed], client: str, tail: int
) -> Scan:
    size = found.st_size
    tokens: int | None = None
    human: Human | None = None
    measured: float | None = None
    boundary, named, reached, answered = False, "", size, False
    started: dict[str, None] = {}
    ended: set[str] = set()
    for at, line in transcript.backwards(handle, size):
        reached = at
        in_window = size - at <= tail
        if (tokens is not None or boundary) and human is not None and not in_window:
            break
        if in_window:
            _background(line, started, ended)
        if not _can_matter(line, usage=tokens is None and not boundary, human=human is None or in_window):
            continue
        row = rows.parsed(line)
        answered = answered or (row is not None and row.get("type") == "assistant")
        said: Row = meter.read(row) if row is not None else meter.NOTHING
        if said.boundary and tokens is None:
            boundary = True
        if said.tokens is not None and tokens is None:
            tokens, named = said.tokens, said.session
            measured = stamps.epoch_of(row.get("timestamp")) if row is not None else None
        if said.human is not None and not meter.typed_by_us(said.human, ledger, client=client):
            human = _later(human, said.human)
    problem = ""
    stem = os.path.basename(path).removesuffix(".jsonl")
    if tokens is not None and named and session not in (named, stem):
        problem, tokens = f"the transcript belongs to another session ({named[:80]})", None
    elif tokens is None and not boundary and answered and reached == 0:
        problem = "no usage record anywhere in the transcript"
    digest = sha256(os.pread(handle, DIGEST, max(0, size - DIGEST)))
    return Scan(
        None if boundary else tokens,
        human,
        size,
        found.st_ino,
        digest,
        boundary,
        problem,
        reached == 0,
        size - reached,
        tuple(name for name in started if name not in ended),
        measured if tokens is not None and not boundary else None,
    )


def _later(held: Human | None, found: Human) -> Human:
    """The later of two; the one nearer to the end of the file where a time is missing."""
    if held is None:
        return found
    if held.at is None or found.at is None:
        return held
    return found if found.at > held.at else held


def _can_matter(line: bytes, *, usage: bool, human: bool) -> bool:
    """Whether a line has to be parsed; most lines of a transcript are tool results and answers, which cannot hold the person."""
    if usage and ((b'"usage"' in line and b'"assistant"' in line) or b"compact_boundary" in line):
        return True
    if not human:
        return False
    if b'"tool_use_id"' in line and b'"origin"' not in line and b'"text"' not in line:
        return False
    return b'"user"' in line or b'"enqueue"' in line or b'"queued_command"' in line


def _background(line: bytes, started: dict[str, None], ended: set[str]) -> None:
    if b'"backgroundTaskId"' in line:
        row = rows.parsed(line) or {}
        name = rows.text(rows.table(row.get("toolUseResult")).get("backgroundTaskId"))
        if name and row.get("isSidechain") is not True:
            started[name] = None
    if b"<task-notification>" in line:
        for part in line.split(b"<task-id>")[1:]:
            ended.add(part.partition(b"</task-id>")[0].decode("utf-8", "replace").strip())
