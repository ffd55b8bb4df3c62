"""Which git work tree a directory belongs to, its branch and its commit: two small reads, no child process."""

from __future__ import annotations

import os

from vault_mem.record import NamedTuple

POINTER_LIMIT = 4096
PACKED_LIMIT = 4 << 20


class Here(NamedTuple):
    """A project's work tree: top directory, branch (empty when detached), commit (empty when unborn or unknown)."""

    top: str
    branch: str
    head: str


NOWHERE = Here("", "", "")


def _line(path: str, limit: int = POINTER_LIMIT) -> str:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return ""
    try:
        return os.read(handle, limit).decode("utf-8", "replace").strip()
    except OSError:
        return ""
    finally:
        os.close(handle)


def _git_dir(top: str) -> str:
    path = os.path.join(top, ".git")
    if os.path.isdir(path):
        return path if os.path.exists(os.path.join(path, "HEAD")) else ""
    pointer = _line(path)
    return os.path.normpath(os.path.join(top, pointer[8:])) if pointer.startswith("gitdir: ") else ""


def directories(top: str) -> tuple[str, str]:
    """Git's own directory of a work tree, and the one that all work trees of the repository share; empty where there is none."""
    git_dir = _git_dir(top) if top else ""
    if not git_dir:
        return "", ""
    return git_dir, os.path.normpath(os.path.join(git_dir, _line(os.path.join(git_dir, "commondir")) or "."))


def _commit(git_dir: str, ref: str) -> str:
    common = os.path.normpath(os.path.join(git_dir, _line(os.path.join(git_dir, "commondir")) or "."))
    loose = _line(os.path.join(common, ref))
    if loose:
        return loose if not loose.startswith("ref:") else ""
    for row in _line(os.path.join(common, "packed-refs"), PACKED_LIMIT).splitlines():
        if row.endswith(f" {ref}"):
            return row.split(" ", 1)[0]
    return ""


def here(directory: str) -> Here:
    """The work tree around *directory*; NOWHERE when there is none."""
    top = directory
    while top and not os.path.lexists(os.path.join(top, ".git")):
        parent = os.path.dirname(top)
        if parent == top:
            return NOWHERE
        top = parent
    git_dir = _git_dir(top) if top else ""
    if not git_dir:
        return NOWHERE
    head = _line(os.path.join(git_dir, "HEAD"))
    if not head.startswith("ref: "):
        return Here(top, "", head)
    ref = head[5:]
    return Here(top, ref.removeprefix("refs/heads/"), _commit(git_dir, ref))
