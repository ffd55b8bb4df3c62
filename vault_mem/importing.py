"""Import of other memories and export of this one. What lies there already is never written over; the same input twice adds nothing."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import stat
import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vault_mem import files, lock, processes, redact, stamps
from vault_mem.capsule import draft, foreign, header, lineage, model, selector
from vault_mem.errors import HeaderError, VaultMemError
from vault_mem.session import identity
from vault_mem.vault import commits, tree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO

    from vault_mem.capsule.foreign import Made, Origin
    from vault_mem.vault.store import Store

IMPORTED, KNOWN, SKIPPED = "imported", "known", "skipped"
CAPSULE, CHECKPOINT, PROSE = "capsule", "checkpoint", "markdown"
WAIT = 5.0
DEPTH = 8
NAMES = 1000
LIMIT = tree.DOCUMENT_LIMIT
_PASSED = frozenset((".git", "runtime", "node_modules", ".venv", "__pycache__"))
_HARNERY = ".harnery"


class NothingToImportError(VaultMemError):
    """The directory is not there, is no directory, or holds nothing that could be imported."""

    token = "nothing-to-import"


@dataclass(frozen=True, slots=True)
class Item:
    """One file of the source. outcome: imported, known or skipped; token, text: why it was skipped; notes: (token, text) worth knowing."""

    source: str
    kind: str
    outcome: str
    id: str = ""
    path: str = ""
    commit: str = ""
    token: str = ""
    text: str = ""
    notes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """A file to look at, and its path below the imported directory."""

    path: str
    relative: str


# --- looking -------------------------------------------------------------------------------------------------------------------


def sources(directory: str) -> tuple[Source, ...]:
    """The files of *directory* that may be imported, in the order of their paths. Raises NothingToImportError.

    A seat or memory tree gives its capsules and checkpoints only; any other directory all of its markdown.
    """
    if not os.path.isdir(directory):
        raise NothingToImportError(f"{directory} is no directory")
    scopes = _scopes(directory) or [""]
    found = {each.relative: each for scope in scopes for each in _walk(os.path.join(directory, scope), scope, DEPTH)}
    if not found:
        raise NothingToImportError(f"{directory} holds no capsule, no checkpoint and no markdown")
    return tuple(found[name] for name in sorted(found))


def _scopes(directory: str) -> list[str]:
    declared: Any = ""
    try:
        state: Any = json.loads(files.read(os.path.join(directory, ".aigent", "state.json"), limit=1 << 20))
        declared = state.get("memory_root", "") if isinstance(state, dict) else ""
    except (OSError, ValueError):
        pass
    names = ["capsules", f"{_HARNERY}/context"]
    if isinstance(declared, str) and declared and ".." not in declared.split("/") and not os.path.isabs(declared):
        names.append(f"{declared}/capsules")
    return [name for name in names if os.path.isdir(os.path.join(directory, name))]


def _walk(directory: str, relative: str, depth: int) -> Iterator[Source]:
    try:
        with os.scandir(directory) as found:
            here = sorted(found, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in here:
        path = f"{relative}/{entry.name}" if relative else entry.name
        if entry.is_dir(follow_symlinks=False):
            if depth > 0 and entry.name not in _PASSED:
                yield from _walk(entry.path, path, depth - 1)
        elif entry.name.lower().endswith(".md") or (entry.name.endswith(".json") and "/capsules/" in f"/{path}"):
            yield Source(entry.path, path)


def _read(source: Source) -> tuple[bytes, Origin]:
    """The bytes of a regular file. Raises HeaderError by name."""
    try:
        data = files.read(source.path, limit=LIMIT)
        modified = os.stat(source.path, follow_symlinks=False).st_mtime
    except OSError as error:
        token = _problem(error, source.path)
        text = "a link is not followed" if token == "symlink" else error.strerror or str(error)
        raise HeaderError(token, text) from error
    stem = os.path.splitext(os.path.basename(source.relative))[0]
    return data, foreign.Origin(source.relative, hashlib.sha256(data).hexdigest()[:16], stem, modified)


def _problem(error: OSError, path: str) -> str:
    try:
        found = os.lstat(path)
    except OSError:
        return "unreadable"
    if stat.S_ISLNK(found.st_mode):
        return "symlink"
    if not stat.S_ISREG(found.st_mode):
        return "not-regular"
    return "too-large" if error.errno == errno.EFBIG or found.st_size > LIMIT else "unreadable"


def _made(source: Source, newest: dict[str, int]) -> tuple[str, Made]:
    """Kind and capsule of a source. Raises HeaderError by name."""
    data, origin = _read(source)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise HeaderError("not-utf8", f"byte {error.start}") from error
    if source.relative.endswith(".json"):
        value = _json(text)
        if not foreign.is_checkpoint(value):
            raise HeaderError("not-a-checkpoint", "no checkpoint of Harnery")
        session = _session(value)
        return CHECKPOINT, foreign.checkpoint(
            value, origin, session=session, newest=value["generation"] >= newest.get(session, 0)
        )
    if not text.strip():
        raise HeaderError("empty", "nothing stands in it")
    try:
        return CAPSULE, foreign.capsule(text, origin)
    except HeaderError as error:
        if error.token != "no-frontmatter" or text.removeprefix(header.BOM).startswith("---"):
            raise
    return PROSE, foreign.prose(text, origin)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise HeaderError("not-a-checkpoint", f"no JSON: {error}") from error


def _session(value: dict[str, Any]) -> str:
    raw = value["session"].get("session_id")
    return identity.safe_id(raw) if isinstance(raw, str) and raw else "unknown"


def _newest(found: tuple[Source, ...]) -> dict[str, int]:
    """The highest generation of each session among the checkpoints."""
    newest: dict[str, int] = {}
    for source in found:
        if not source.relative.endswith(".json"):
            continue
        try:
            value = json.loads(_read(source)[0])
        except (HeaderError, ValueError, RecursionError):
            continue
        if foreign.is_checkpoint(value):
            newest[_session(value)] = max(newest.get(_session(value), 0), value["generation"])
    return newest


# --- importing -----------------------------------------------------------------------------------------------------------------


def run(store: Store, found: tuple[Source, ...], *, now: float, dry_run: bool = False) -> Iterator[Item]:
    """Import each of *found*, one commit each, one item each; with *dry_run* nothing is written.

    Raises LockBusyError and GitRefusedError; what was imported until then stays.
    """
    secrets = redact.environment_secrets(store.environ)
    newest = _newest(found)
    seen: set[str] = set()
    names: set[str] = set()
    for source in found:
        try:
            kind, made = _made(source, newest)
            made = made._replace(document=draft.redacted(made.document, lambda text: redact.redact(text, secrets)))
            fields = header.read(made.document)
        except HeaderError as error:
            yield Item(source.relative, "", SKIPPED, token=error.token, text=error.detail or error.token)
            continue
        digest = selector.text_of(fields, foreign.DIGEST)
        if digest in seen:
            yield Item(
                source.relative, kind, KNOWN, made.id, text="the same text stands in another file of this import"
            )
            continue
        seen.add(digest)
        if dry_run:
            item = _placed(store, source, kind, made, names=names)
            names.add(item.id)
            yield item
            continue
        files.make_dirs(store.runtime)
        with lock.Locked(store.lock, timeout=WAIT), processes.Deferred():
            item = _placed(store, source, kind, made, names=names)
            yield _written(store, item, made, now=now) if item.outcome == IMPORTED else item


def _placed(store: Store, source: Source, kind: str, made: Made, *, names: set[str]) -> Item:
    """Where the capsule goes; known when it lies there already. Never a name that somebody has."""
    digest = selector.text_of(header.read(made.document), foreign.DIGEST)
    entries = tree.entries(store.memory)[0]
    for each in entries:
        fields = each.fields or {}
        if selector.text_of(fields, foreign.DIGEST) == digest or (
            selector.text_of(fields, "id") == made.id and _same(store, each.path, source)
        ):
            return Item(source.relative, kind, KNOWN, selector.text_of(fields, "id"), each.path)
    taken = {selector.text_of(each.fields or {}, "id") for each in entries} | names
    folder = f"capsules/{stamps.day(made.created)[:7]}"
    for number in range(1, NAMES):
        name = made.id if number == 1 else f"{made.id}-{number}"
        path = f"{folder}/{name}.md"
        if name not in taken and not os.path.lexists(f"{store.memory}/{path}"):
            notes = made.notes
            if number > 1:
                notes += (("id-taken", f"another capsule is called {made.id}; this one is {name}"),)
            return Item(source.relative, kind, IMPORTED, name, path, notes=notes)
    return Item(source.relative, kind, SKIPPED, token="id-taken", text=f"no free name for {made.id}")


def _same(store: Store, path: str, source: Source) -> bool:
    try:
        return files.read(f"{store.memory}/{path}", limit=LIMIT) == files.read(source.path, limit=LIMIT)
    except OSError:
        return False


def _written(store: Store, item: Item, made: Made, *, now: float) -> Item:
    document = header.edit(made.document, "id", item.id) if item.id != made.id else made.document
    fields = header.read(document)
    tree.write(f"{store.memory}/{item.path}", document, expected=None, durable=store.durable)
    done = commits.keep(
        store,
        item.path,
        document.encode("utf-8"),
        lineage.Event(
            id=item.id,
            event=lineage.WRITE,
            status=model.status_of(fields) or "",
            parent=selector.text_of(fields, "parent_capsule_id"),
            session=selector.text_of(fields, "session_id"),
            harness=selector.text_of(fields, "harness"),
            at=now,
            why=f"imported from {item.source}",
        ),
    )
    return Item(item.source, item.kind, IMPORTED, item.id, item.path, done.oid, notes=item.notes)


# --- exporting -----------------------------------------------------------------------------------------------------------------


def rows(store: Store) -> Iterator[dict[str, Any]]:
    """Every capsule of the tree as one JSON object: id, path, fields, body; one that cannot be read has its problem instead."""
    for each in tree.entries(store.memory)[0]:
        row: dict[str, Any] = {"schema": "vault-mem/export/1", "path": each.path}
        try:
            document = tree.read_document(f"{store.memory}/{each.path}")
            fields = header.read(document)
        except HeaderError as error:
            yield {**row, "problem": error.token, "detail": error.detail}
            continue
        body = document[header.split(document).body :]
        yield {**row, "id": selector.text_of(fields, "id"), "fields": fields, "body": body}


def archive(store: Store, out: IO[bytes]) -> tuple[int, tuple[tuple[str, str], ...]]:
    """The regular files of the tree as a tar, the same bytes for the same tree; how many, and (path, token) of what was left out."""
    count, left = 0, []
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as made:
        for each in tree.entries(store.memory)[0]:
            try:
                data = files.read(f"{store.memory}/{each.path}", limit=LIMIT)
            except OSError as error:
                left.append((each.path, _problem(error, f"{store.memory}/{each.path}")))
                continue
            entry = tarfile.TarInfo(each.path)
            entry.size, entry.mode = len(data), 0o644
            entry.mtime = int(selector.created_of(each.fields or {}) or 0)
            made.addfile(entry, io.BytesIO(data))
            count += 1
    return count, tuple(left)
