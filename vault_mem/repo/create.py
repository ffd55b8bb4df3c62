"""Making a vault's own repository, and keeping it out of the project around it."""

from __future__ import annotations

import os
import time

from vault_mem import files
from vault_mem.errors import GitRefusedError
from vault_mem.repo import identity, light, objects, program, shape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

ATTRIBUTES = "*.md -text merge=vault-mem\n"
# The second line: what a writer that was killed may leave beside a capsule.
IGNORE = f"/runtime/\n{files.TEMP_PREFIX}*{files.TEMP_SUFFIX}\n"
SUBJECT = "vault: begin"


def init_repository(path: str, *, environ: Mapping[str, str], at: float, state: str = "", ship: bool = True) -> str:
    """Makes *path* a repository of its own with a first commit on `main`, and gives that commit; one with commits stays as it is.

    No template, hook or default of the person is copied into it. *at* is the date of the commit; with *ship* it holds the attributes and
    the ignore rules of a vault, otherwise nothing.
    """
    files.make_dirs(path)
    if not os.path.lexists(f"{path}/.git"):
        # sha1 and plain files: what every git reads, and what saves are written to without starting one.
        arguments = [
            "-c",
            "init.defaultRefFormat=files",
            "init",
            "-q",
            "--object-format=sha1",
            "--template=",
            "-b",
            "main",
            ".",
        ]
        program.checked(arguments, worktree=path, environ=environ)
    repository = shape.opened(path, environ=environ)
    head = objects.head_of(repository, environ=environ)
    if head is not None:
        return head
    if repository.why:
        raise GitRefusedError("unborn", f"{repository.gitdir}: make its first commit with git ({repository.why})")
    # Also where a person's own `.gitignore` says nothing of it: what runs is never committed.
    for line in IGNORE.splitlines():
        _exclude(repository, line)
    request = shape.Request(tuple(_shipped(path)) if ship else (), SUBJECT, (), at, allow_empty=True)
    state = state or f"{path}/runtime"

    def who() -> identity.Identity:
        return identity.person(repository, environ=environ, state=state)

    options: dict[str, Any] = {"who": who, "environ": environ, "state": state}
    deadline = time.monotonic() + light.PATIENCE
    try:
        made = light.commit(repository, request, durable=True, deadline=deadline, first=True, **options)
    except light.NotLightError as error:
        raise GitRefusedError("unborn", f"{repository.gitdir}: make its first commit with git ({error})") from error
    if made is None:
        raise GitRefusedError("ref-locked", repository.gitdir)
    return made.oid


def exclude(enclosing: str, relative: str, *, environ: Mapping[str, str]) -> bool:
    """Keeps the folder *relative* out of the repository at *enclosing*, for all its work trees; whether a line had to be added."""
    line = "/" + _literal(relative.strip("/")) + "/"
    return _exclude(shape.opened(enclosing, environ=environ), line)


def _exclude(repository: shape.Repository, line: str) -> bool:
    folder = f"{repository.common}/info"
    path = f"{folder}/exclude"
    try:
        try:
            present = files.read_followed(path)
        except FileNotFoundError:
            files.make_dirs(folder, 0o777)
            present = b""
        if os.fsencode(line) in present.replace(b"\r\n", b"\n").split(b"\n"):
            return False
        separator = b"" if not present or present.endswith(b"\n") else b"\n"
        files.append(os.path.realpath(path), separator + os.fsencode(line) + b"\n", 0o644)
    except OSError as error:
        raise shape.refused(error) from error
    return True


def _shipped(path: str) -> list[shape.Change]:
    """The two files every vault has; those that lie there already are taken as they are."""
    changes = []
    for name, text in ((".gitattributes", ATTRIBUTES), (".gitignore", IGNORE)):
        place = f"{path}/{name}"
        try:
            files.create(place, text.encode(), mode=0o644)
        except FileExistsError:
            pass
        except OSError as error:
            raise shape.refused(error) from error
        changes.append(shape.Change(name, files.read(place)))
    return changes


def _literal(path: str) -> str:
    """A path as an ignore pattern that means exactly itself."""
    if "\n" in path or not path:
        raise GitRefusedError("bad-path", path)
    light.checked_path(path)
    escaped = "".join("\\" + character if character in "*?[\\" else character for character in path)
    return escaped[:-1] + "\\ " if escaped.endswith(" ") else escaped
