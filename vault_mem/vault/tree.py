"""The memory tree as entries, and the one guarded way to change a file in it."""

from __future__ import annotations

import errno
import os
import stat

from vault_mem import files
from vault_mem.capsule import header
from vault_mem.capsule.selector import Candidate
from vault_mem.errors import ExternallyChangedError, HeaderError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vault_mem.capsule.model import Value

HEAD_BYTES = 8192
"""Enough for the header of nearly every capsule; the rest of a file is read only when it is needed."""
LONGEST_HEADER = (64 << 10) + 2048
DOCUMENT_LIMIT = 4 << 20
DEPTH = 3
_CONFLICT = ("<<<<<<< ", ">>>>>>> ")


def capsules_dir(memory: str) -> str:
    """Where capsules lie."""
    return f"{memory}/capsules"


def walk(directory: str, relative: str, depth: int) -> Iterator[tuple[str, str, os.DirEntry[str]]]:
    """Path, relative path and entry of everything that has the name of a capsule, and of links, in the order of their names. Raises OSError."""
    with os.scandir(directory) as found:
        here = sorted(found, key=lambda entry: entry.name)
    for entry in here:
        path = f"{relative}/{entry.name}"
        if entry.name.lower().endswith(".md") or entry.is_symlink():
            yield entry.path, path, entry
        elif depth > 0 and entry.is_dir(follow_symlinks=False):
            yield from walk(entry.path, path, depth - 1)


def _problem(error: OSError, path: str) -> str:
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return "unreadable"
    if stat.S_ISLNK(mode):
        return "symlink"
    return "unreadable" if stat.S_ISREG(mode) and error.errno else "not-regular"


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        # The last character of a head may be cut; anything else is no UTF-8.
        if len(data) == HEAD_BYTES and error.start >= len(data) - 3:
            return data[: error.start].decode("utf-8")
        raise HeaderError("not-utf8", f"byte {error.start}") from error


def _head(path: str, size: int) -> bytes:
    """The first *size* bytes of a regular file, links not followed."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | files.NOT_FOLLOWED)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        return os.read(handle, size)
    finally:
        os.close(handle)


def _header(path: str) -> Mapping[str, Value]:
    """The header of a file; reads on when it does not end within the head."""
    data = _head(path, HEAD_BYTES)
    if len(data) < HEAD_BYTES:
        return header.read(_decoded(data))
    try:
        return header.read(_decoded(data))
    except HeaderError as error:
        if error.token not in ("no-frontmatter", "invalid-frontmatter"):
            raise
    return header.read(_head(path, LONGEST_HEADER).decode("utf-8", "ignore"))


def _with_prose(path: str, fields: Mapping[str, Value]) -> Mapping[str, Value]:
    """Objective and next action may stand under headings of the body in trees that people wrote by hand."""
    missing = [key for key in ("objective", "next_valid_action") if not fields.get(key)]
    if not missing:
        return fields
    document = read_document(path)
    body = document[header.split(document).body :]
    found = {key: text for key in missing if (text := _prose(body, key))}
    return {**fields, **found}


def _prose(body: str, key: str) -> str:
    wanted = key.replace("_", " ")
    lines = body.splitlines()
    for number, line in enumerate(lines):
        title = line.lstrip("#")
        if 0 < len(line) - len(title) <= 6 and title.strip().replace("_", " ").lower() == wanted:
            text = []
            for following in lines[number + 1 :]:
                if following.startswith("#"):
                    break
                text.append(following)
            return " ".join(" ".join(text).split())
    return ""


def candidate(path: str, relative: str) -> Candidate:
    """One file as the selector sees it; what is wrong with it instead of its header when it cannot be used."""
    name = relative.rsplit("/", 1)[-1]
    name = name[:-3] if name.lower().endswith(".md") else name
    try:
        return Candidate(name, relative, _with_prose(path, _header(path)))
    except HeaderError as error:
        return Candidate(name, relative, None, error.token, error.detail)
    except OSError as error:
        return Candidate(name, relative, None, _problem(error, path), "")


def entries(memory: str) -> tuple[tuple[Candidate, ...], str]:
    """All candidates in the order of their paths, and why there is none at all: a token, or empty."""
    base = capsules_dir(memory)
    if os.path.islink(base):
        return (), "capsules-dir-unreadable"
    try:
        found = tuple(candidate(path, relative) for path, relative, _ in walk(base, "capsules", DEPTH))
    except FileNotFoundError:
        return (), "no-capsules-dir"
    except OSError:
        return (), "capsules-dir-unreadable"
    return found, "" if found else "no-capsules-on-disk"


def read_document(path: str) -> str:
    """The whole text of a capsule.

    Raises HeaderError by name where it cannot be used: `symlink`, `not-regular`, `not-utf8`, `unreadable`, `conflict-markers`.
    """
    try:
        data = files.read(path, limit=DOCUMENT_LIMIT)
    except OSError as error:
        raise HeaderError(_problem(error, path)) from error
    return text_of(data)


def text_of(data: bytes) -> str:
    """The bytes of a capsule as text. Raises HeaderError: `not-utf8`, `conflict-markers`."""
    try:
        document = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise HeaderError("not-utf8", f"byte {error.start}") from error
    if _CONFLICT[0] in document and any(line.startswith(_CONFLICT) for line in document.splitlines()):
        raise HeaderError("conflict-markers")
    return document


def write(path: str, document: str, *, expected: str | None, durable: bool) -> None:
    """Replace a capsule as a whole, given the text it was made from (None: there was no file). The caller holds the vault lock.

    Raises ExternallyChangedError when somebody without the lock (an editor) changed it meanwhile, and OSError (ELOOP) where a link stands in
    place of a folder: it would lead the capsule out of the vault.
    """
    try:
        current: bytes | None = files.read(path, limit=DOCUMENT_LIMIT)
    except FileNotFoundError:
        current = None
    if current != (None if expected is None else expected.encode("utf-8")):
        raise ExternallyChangedError(
            f"{os.path.basename(path)} was changed by somebody else; the next save starts from there"
        )
    _refuse_links(os.path.dirname(path))
    files.make_dirs(os.path.dirname(path), mode=0o755)
    # Not the folder: the commit that follows syncs later changes of the same file system, or `commits.keep` does it for a refused one.
    files.write_atomic(path, document.encode("utf-8"), mode=0o644, durable=durable, folder_too=False)


def _refuse_links(folder: str) -> None:
    """OSError for a folder from *folder* up to `capsules` that is a link."""
    while True:
        try:
            if stat.S_ISLNK(os.lstat(folder).st_mode):
                raise OSError(errno.ELOOP, "a link stands in place of a folder", folder)
        except FileNotFoundError:
            pass
        above, name = os.path.split(folder)
        if name == "capsules" or above == folder:
            return
        folder = above
