"""What the headers of all capsules say, kept between hooks, so that ten thousand capsules cost a look at each directory entry and no more.

The index is a convenience below `runtime/`: a row counts only while its file has the size, times and inode it was made from, a file that changed
shortly before the index was written is always read again (its next change could bear the same times), and whatever is chosen is read in full
anyway. A damaged index is no index. Rows of capsules that nobody can be handed any more keep the beginnings of long texts only.
"""

from __future__ import annotations

import os
from zlib import crc32

from vault_mem import files
from vault_mem.capsule import model
from vault_mem.capsule.selector import Candidate
from vault_mem.vault import tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from vault_mem.capsule.model import Value
    from vault_mem.vault.store import Store

PATH = "index/headers"
FORMAT = "vault-mem headers 1"
SIZE_LIMIT = 64 << 20
WORTH_KEEPING = 8
"""Files that had to be read before the index is written anew, and of many the square root of their number: writing costs 50 µs a file, reading one 100."""
RACY = 2_000_000_000  # nanoseconds: the coarsest times a file system keeps
BEGINNING = 80
COLUMNS = (
    "id",
    "status",
    "created_at",
    "session_id",
    "parent_capsule_id",
    "trigger",
    "expires",
    "project",
    "started_at",
    "objective",
    "waiting_on",
    "next_valid_action",
)
_LONG = ("objective", "waiting_on", "next_valid_action")
_LIVE = (model.ACTIVE, model.PAUSED)
_CUT, _TAGS = "\x1f", "\x1e"
_WIDTHS = (5, 5 + len(COLUMNS))


def entries(store: Store, *, keep: bool = False) -> tuple[tuple[Candidate, ...], str]:
    """Like `tree.entries`, from the index where it holds. With *keep* the index is written anew when much had to be read."""
    base = tree.capsules_dir(store.memory)
    if os.path.islink(base):
        return (), "capsules-dir-unreadable"
    rows, written = _load(f"{store.runtime}/{PATH}")
    found: list[Candidate] = []
    stamps: list[str] = []
    missed = 0
    try:
        for path, relative, entry in tree.walk(base, "capsules", tree.DEPTH):
            stamp, changed = _stamp(entry)
            row = rows.get(relative)
            if row is not None and row[0] == stamp and changed < written - RACY:
                found.append(_candidate(relative, row))
            else:
                missed += 1
                found.append(tree.candidate(path, relative))
            stamps.append(stamp)
    except FileNotFoundError:
        return (), "no-capsules-dir"
    except OSError:
        return (), "capsules-dir-unreadable"
    if keep and missed > WORTH_KEEPING and missed * missed > len(found):
        _store(store, zip(stamps, found, strict=True))
    return tuple(found), "" if found else "no-capsules-on-disk"


def _stamp(entry: os.DirEntry[str]) -> tuple[str, int]:
    """What tells one state of a file from another, and when it last changed in nanoseconds."""
    try:
        found = entry.stat(follow_symlinks=False)
    except OSError:
        return "", 0  # it went away meanwhile; reading it says so
    changed = max(found.st_mtime_ns, found.st_ctime_ns)
    return f"{found.st_size} {found.st_mtime_ns} {found.st_ctime_ns} {found.st_ino}", changed


def _load(path: str) -> tuple[dict[str, list[str]], int]:
    """Rows by path (stamp, whether a column is escaped, problem, detail, tags, columns), and when they were written; nothing when the file is missing or damaged."""
    try:
        data = files.read(path, limit=SIZE_LIMIT)
        written = os.stat(path).st_mtime_ns
    except OSError:
        return {}, 0
    head, _, rest = data.partition(b"\n")
    if head != _head(rest):
        return {}, 0
    rows = {}
    for line in rest.decode("utf-8", "surrogateescape").split("\n"):
        name, *row = line.split(_CUT)
        if len(row) in _WIDTHS:
            rows[name] = row
    return rows, written


def _head(rest: bytes) -> bytes:
    return f"{FORMAT} {crc32(rest):08x}".encode()


def _candidate(relative: str, row: list[str]) -> Candidate:
    name = relative[relative.rfind("/") + 1 :]
    name = name[:-3] if name[-3:].lower() == ".md" else name
    _, escaped, problem, detail, tags, *values = row
    if problem:
        return Candidate(name, relative, None, problem, _plain(detail))
    # What is absent is empty here: nothing that reads these fields tells the two apart. `_load` looked at the number of columns.
    fields: dict[str, Value] = dict(zip(COLUMNS, values if escaped == "" else map(_plain, values)))  # noqa: B905 - see above
    fields["tags"] = tuple(tags.split(_TAGS)) if tags else ()
    return Candidate(name, relative, fields, "", "")


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace(_CUT, "\\c").replace(_TAGS, "\\t")


def _plain(text: str) -> str:
    parts = text.split("\\\\")
    return "\\".join(part.replace("\\n", "\n").replace("\\c", _CUT).replace("\\t", _TAGS) for part in parts)


def _row(stamp: str, candidate: Candidate) -> str:
    fields = candidate.fields
    if fields is None:
        return _CUT.join((_escaped(candidate.path), stamp, "", candidate.problem, _escaped(candidate.detail), ""))
    tags = fields.get("tags")
    listed = _TAGS.join(_escaped(tag) for tag in tags) if isinstance(tags, tuple) else ""
    columns = _columns(fields)
    mark = "e" if any("\\" in column for column in columns) else ""
    return _CUT.join((_escaped(candidate.path), stamp, mark, "", "", listed, *columns))


def _columns(fields: Mapping[str, Value]) -> list[str]:
    live = model.status_of(fields) in _LIVE
    texts = []
    for key in COLUMNS:
        value = fields.get(key)
        if not isinstance(value, str):
            texts.append("")
        elif key in _LONG and not live:
            texts.append(_escaped(value.strip()[:BEGINNING]))
        else:
            texts.append(_escaped(value))
    return texts


def _store(store: Store, rows: zip[tuple[str, Candidate]]) -> None:
    """Write the index; one that cannot be written is done without. A path that would need escaping is left out and read every time."""
    lines = [_row(stamp, candidate) for stamp, candidate in rows if _escaped(candidate.path) == candidate.path]
    rest = "\n".join(lines).encode("utf-8", "surrogateescape")
    path = f"{store.runtime}/{PATH}"
    try:
        files.make_dirs(os.path.dirname(path))
        files.write_atomic(path, _head(rest) + b"\n" + rest, mode=0o600, durable=False)
    except OSError:
        pass
