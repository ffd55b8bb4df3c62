"""What each session was told, byte for byte: one file a session below `runtime/injected/`, one JSON row an injection.

The row holds the SHA-256 of the text; the consume commit of a delivery holds the same in its `Injected:` trailer.
"""

from __future__ import annotations

import os

from vault_mem import digest, files, jsontext
from vault_mem.record import NamedTuple
from vault_mem.session import identity

FOLDER = "injected"
FILE_LIMIT = 8 << 20
NOBODY = "unknown"


class Injection(NamedTuple):
    """One text that a session was given. at: seconds since the epoch; whole: the text still has the hash of its row."""

    session: str
    at: float
    source: str
    hash: str
    text: str
    whole: bool = True


def hash_of(text: str) -> str:
    """SHA-256 of the UTF-8 bytes, 64 hex digits."""
    return digest.sha256(text.encode("utf-8", "replace"))


def path_of(runtime: str, session: str) -> str:
    """Where the receipts of *session* lie."""
    return os.path.join(runtime, FOLDER, f"{identity.safe_id(session) if session else NOBODY}.jsonl")


def note(runtime: str, *, session: str, source: str, text: str, at: float) -> str:
    """Keep *text* as told to *session*; its hash. Raises OSError; an injection that cannot be kept is still an injection."""
    found = hash_of(text)
    path = path_of(runtime, session)
    files.make_dirs(os.path.dirname(path))
    row = jsontext.dumps({"at": round(at, 3), "source": source[:40], "sha256": found, "text": text}, escaped=True)
    files.append(path, row.encode("utf-8") + b"\n", mode=0o600)
    return found


def read(runtime: str, session: str) -> tuple[Injection, ...]:
    """What *session* was told, oldest first; rows that cannot be read are left out."""
    try:
        data = files.read(path_of(runtime, session), limit=FILE_LIMIT)
    except FileNotFoundError:
        return ()
    found = []
    for line in data.split(b"\n"):
        try:
            row = jsontext.loads(line.decode("utf-8"))
            each = Injection(session, float(row["at"]), str(row["source"]), str(row["sha256"]), str(row["text"]))
        except (ValueError, KeyError, TypeError):
            continue
        found.append(each._replace(whole=hash_of(each.text) == each.hash))
    return tuple(found)


def sessions(runtime: str) -> tuple[str, ...]:
    """Safe ids of the sessions that were told anything, the one told last first."""
    try:
        with os.scandir(os.path.join(runtime, FOLDER)) as found:
            rows = [(entry.stat().st_mtime, entry.name[:-6]) for entry in found if entry.name.endswith(".jsonl")]
    except FileNotFoundError:
        return ()
    return tuple(name for _, name in sorted(rows, reverse=True))
