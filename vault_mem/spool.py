"""Saves that had to wait, below `runtime/spool/`: the redacted delta of a hook that did not get the vault lock or could not write its capsule.

One file a delta, `<session>-<n>.json`: bullets, the state of the distiller and the range of the transcript they came from, never the payload.
The next hook merges them into the capsule and removes them; merging twice adds nothing, so a hook killed in between does no harm.
"""

from __future__ import annotations

import os

from vault_mem import files, jsontext
from vault_mem.capsule.model import Bullet
from vault_mem.record import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

FOLDER = "spool"
LIMIT = 4 << 20
NAMES = 10_000


class Entry(NamedTuple):
    """One delta. start, position: of the transcript before and after; saved, newest: as in the writer's delta; journal: bytes read of it."""

    session: str
    reason: str
    bullets: tuple[Bullet, ...]
    evidence: dict[str, Any]
    start: tuple[int, ...]
    position: tuple[int, ...]
    journal: int
    saved: float
    newest: float
    transcript: str = ""
    harness: str = ""
    project: str = ""
    file: str = ""


def store(runtime: str, entry: Entry) -> str:
    """Keeps a delta so that it survives a crash right after; the name of its file."""
    fields = {**entry._asdict(), "bullets": [list(bullet) for bullet in entry.bullets]}
    del fields["file"]
    data = (jsontext.dumps(fields) + "\n").encode("utf-8")
    files.make_dirs(f"{runtime}/{FOLDER}")
    number = 1 + max((_number(name) for name in names(runtime, entry.session)), default=0)
    while number < NAMES:
        name = f"{entry.session}-{number}.json"
        try:
            files.create(f"{runtime}/{FOLDER}/{name}", data, mode=0o600)
        except FileExistsError:
            number += 1
        else:
            return name
    raise FileExistsError(f"no free name for session {entry.session}")


def names(runtime: str, session: str = "") -> list[str]:
    """Names of the deltas that wait, of one session or of all, in the order in which they were kept."""
    try:
        found = os.listdir(f"{runtime}/{FOLDER}")
    except OSError:
        return []
    wanted = [name for name in found if _number(name) and (not session or _session(name) == session)]
    return sorted(wanted, key=lambda name: (_session(name), _number(name)))


def sessions(runtime: str) -> tuple[str, ...]:
    """The sessions of which a delta waits."""
    return tuple(dict.fromkeys(_session(name) for name in names(runtime)))


def load(runtime: str, session: str) -> tuple[Entry, ...]:
    """The deltas of a session in order; one that cannot be read is set aside as `<name>.bad`, for a person to look at."""
    found = []
    for name in names(runtime, session):
        path = f"{runtime}/{FOLDER}/{name}"
        try:
            found.append(_entry(jsontext.loads(files.read(path, limit=LIMIT).decode("utf-8")), name, session))
        except FileNotFoundError:
            continue
        except (OSError, ValueError, TypeError, KeyError):
            _set_aside(path)
    return tuple(found)


def drop(runtime: str, entries: Iterable[Entry]) -> None:
    """Removes deltas that are in their capsule now."""
    for entry in entries:
        files.remove(f"{runtime}/{FOLDER}/{entry.file}")


def _entry(value: Any, name: str, session: str) -> Entry:
    if not isinstance(value, dict) or value.get("session") != session or not isinstance(value["evidence"], dict):
        raise ValueError(name)
    return Entry(
        session,
        str(value["reason"]),
        tuple(Bullet(str(row[0]), float(row[1]), *map(str, row[2:])) for row in value["bullets"]),
        value["evidence"],
        tuple(map(int, value["start"])),
        tuple(map(int, value["position"])),
        int(value["journal"]),
        float(value["saved"]),
        float(value["newest"]),
        str(value["transcript"]),
        str(value["harness"]),
        str(value["project"]),
        name,
    )


def _set_aside(path: str) -> None:
    try:
        os.rename(path, f"{path}.bad")
    except OSError:
        pass


def _session(name: str) -> str:
    return name.rpartition("-")[0]


def _number(name: str) -> int:
    number = name.rpartition("-")[2].removesuffix(".json")
    return int(number) if name.endswith(".json") and number.isdecimal() and number.isascii() else 0
