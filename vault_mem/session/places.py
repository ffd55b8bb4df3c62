"""Paths as text: relative to the project, and whether a file is code. Nothing here looks at a disk."""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


PROSE = _words("md mdx markdown rst txt adoc asciidoc org tex log pdf png jpg jpeg gif svg webp ico")
PROSE_NAMES = _words(
    "license licence copying notice authors contributors maintainers changelog changes history readme news todo codeowners "
    ".gitignore .gitattributes .mailmap .editorconfig"
)


def _is_absolute(path: str) -> bool:
    return path.startswith("/") or (len(path) > 2 and path[1] == ":" and path[2] == "/" and path[0].isalpha())


def normal(path: str) -> str:
    """*path* with forward slashes, without `.`, `..` and double slashes where that is certain."""
    if "\\" in path and (path[1:3] == ":\\" or "/" not in path):
        path = path.replace("\\", "/")
    root = "/" if path.startswith("/") else ""
    kept: list[str] = []
    for part in path.split("/"):
        if part in ("", "."):
            continue
        if part == ".." and kept and kept[-1] != "..":
            kept.pop()
        elif part != ".." or not root:
            kept.append(part)
    return root + "/".join(kept) or "."


def joined(base: str, path: str) -> str:
    """*path* as seen from the directory *base*."""
    path = normal(path)
    if _is_absolute(path) or path.startswith("~") or not base:
        return path
    return normal(f"{base}/{path}")


def inside(path: str, project: str) -> bool:
    """Whether *path* is the project's directory or below it; a path that names no place is."""
    path, project = normal(path), normal(project)
    return not _is_absolute(path) or project in (".", path) or path.startswith(project.rstrip("/") + "/")


def relative(path: str, *, cwd: str, project: str) -> str:
    """*path* as seen from the project; a path outside stays absolute."""
    path = joined(cwd or project, path)
    project = normal(project) if project else ""
    if project and path.startswith(project.rstrip("/") + "/"):
        return path[len(project.rstrip("/")) + 1 :]
    return path


def is_code(path: str) -> bool:
    """Whether a change of the file can break a test: prose and pictures cannot, nor what lies outside the project."""
    name = path.rpartition("/")[2].casefold()
    stem, dot, suffix = name.rpartition(".")
    if _is_absolute(path) or path.startswith("~") or name in PROSE_NAMES:
        return False
    return not (dot and stem and suffix in PROSE) and not (not dot and name in PROSE_NAMES)
