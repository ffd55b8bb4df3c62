"""Making a vault: a repository of its own (`init_repository`), or a private reference of the project's (`embed`).

Both are kept out of what the person commits: `exclude`. `tracked` says whether the person's repository holds files there already.
"""

from __future__ import annotations

import os
import time

from vault_mem import files
from vault_mem.errors import GitRefusedError
from vault_mem.repo import identity, light, objects, program, shape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

ATTRIBUTES = "*.md -text merge=vault-mem\n"
# The second line: what a writer that was killed may leave beside a capsule.
IGNORE = f"/runtime/\n{files.TEMP_PREFIX}*{files.TEMP_SUFFIX}\n"
SUBJECT = "vault: begin"
NAMESPACE = "refs/vault-mem"
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_")


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

    try:
        return _first(repository, request, who=who, environ=environ, state=state)
    except light.NotLightError as error:
        raise GitRefusedError("unborn", f"{repository.gitdir}: make its first commit with git ({error})") from error


def _first(
    repository: shape.Repository,
    request: shape.Request,
    *,
    who: Callable[[], identity.Identity],
    environ: Mapping[str, str],
    state: str,
) -> str:
    deadline = time.monotonic() + light.PATIENCE
    options: dict[str, Any] = {"who": who, "environ": environ, "state": state}
    made = light.commit(repository, request, durable=True, deadline=deadline, first=True, **options)
    if made is None:
        raise GitRefusedError("ref-locked", repository.gitdir)
    return made.oid


def around(memory: str) -> str:
    """The top of the work tree that *memory* lies in, its own repository if it has one; "" when there is none."""
    path = memory
    while not os.path.lexists(f"{path}/.git"):
        above = os.path.dirname(path)
        if above == path:
            return ""
        path = above
    return path


def embedded_ref(relative: str) -> str:
    """The reference of a vault embedded in a repository, from its declared memory root: the same on every clone."""
    slug = "".join(character if character in _PLAIN else "-" for character in relative.lower()).strip("-")
    if "-" in relative or slug != relative.replace("/", "-"):
        # What was folded is told apart by a digest.
        slug = f"{slug}-{objects.blob_oid(os.fsencode(relative))[:8]}".lstrip("-")
    return f"{NAMESPACE}/{slug}"


def embedded_runtime(top: str, ref: str) -> str:
    """Where an embedded vault keeps its runtime state; GitRefusedError `not-a-repository`."""
    return f"{shape.places(top)[1]}/vault-mem/{ref.rpartition('/')[2]}"


def embed(top: str, relative: str, *, ref: str, environ: Mapping[str, str], at: float) -> str:
    """Makes the memory root *relative* (to *top*) of the repository at *top* an embedded vault, and gives the commit its *ref* is at.

    A reference that has commits stays as it is. The first commit holds nothing. Branch, HEAD, index and configuration of the repository are
    not touched; `.git/info/exclude` gets one line. The caller has seen that nothing is `tracked` there.
    """
    repository = shape.opened(top, environ=environ, ref=ref)
    exclude(top, relative, environ=environ)
    files.make_dirs(f"{top}/{relative}/capsules", 0o755)
    head = objects.head_of(repository, environ=environ)
    if head is not None:
        return head
    state = embedded_runtime(top, ref)
    files.make_dirs(state)
    request = shape.Request((), SUBJECT, (), at, allow_empty=True)

    def who() -> identity.Identity:
        return identity.person(repository, environ=environ, state=state)

    if not repository.why:
        try:
            return _first(repository, request, who=who, environ=environ, state=state)
        except light.NotLightError:
            pass
    from vault_mem.repo import fastimport

    return fastimport.commit(repository, request, who=who(), environ=environ, first=True).oid


def tracked(top: str, relative: str, *, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Files below *relative* that the repository at *top* tracks; `root-tracked` is what `init` says of them."""
    arguments = ["--literal-pathspecs", "ls-files", "-z", "--", relative.strip("/") or "."]
    out = program.checked(arguments, worktree=top, environ=environ)
    return tuple(os.fsdecode(name) for name in out.split(b"\0") if name)


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
