"""The patch format of Codex (`*** Begin Patch`): which files it touches."""

from __future__ import annotations

MARKS = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")
BEGIN = "*** Begin Patch"
BOUND = 400_000


def paths(text: str) -> tuple[str, ...]:
    """The paths a patch names, in order, each once; nothing when there is no patch in *text*."""
    text = text[:BOUND]
    if "*** " not in text:
        return ()
    found: dict[str, None] = {}
    for line in text.split("\n"):
        if line.startswith("*** "):
            for mark in MARKS:
                if line.startswith(mark):
                    found.setdefault(line[len(mark) :].strip())
    return tuple(found)
