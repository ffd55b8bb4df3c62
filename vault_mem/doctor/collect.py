"""The one place that looks: it goes round seat, trust, git, state, hooks and capsules and hands back what it saw. It changes nothing.

A part that cannot be looked at is said in the scene, or as a finding of its own; it never keeps the rest from being seen.
"""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from typing import TYPE_CHECKING

from vault_mem import extensionfile, files, jsontext, roots, settings, trust, tunables
from vault_mem.doctor import lookcapsules, lookgit, lookhooks, lookstate
from vault_mem.doctor.catalogue import found
from vault_mem.doctor.scene import Git, Memory, Place, Scene, State, Trusting, Wiring
from vault_mem.errors import MemoryRootError, VaultMemError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeVar

    from vault_mem.report import Finding

    Seen = TypeVar("Seen")

ROOT_TOKENS = (
    ("cannot be read", "root-unreadable"),
    ("is not valid JSON", "root-not-json"),
    ("root must be an object", "root-not-object"),
    ("must be a string", "root-not-string"),
    ("must not be empty", "root-empty"),
    ("must be at most", "root-too-long"),
    ("must not contain control characters", "root-control-character"),
    ("must use forward slashes", "root-backslash"),
    ("not absolute", "root-absolute"),
    ("must not contain an empty or . path segment", "root-dot-segment"),
    ("must not contain a .. segment", "root-parent-segment"),
    ("passes through a symlink", "root-symlink"),
    ("cannot be inspected", "root-uninspectable"),
    ("is not a directory", "root-not-directory"),
    ("does not exist", "root-missing"),
)
"""What the resolver says, and the token the doctor has for it."""


def look(
    *, explicit: str, environ: Mapping[str, str], cwd: str, now: float, program: str, run_hooks: bool = True
) -> tuple[Scene, tuple[Finding, ...]]:
    """What is there, and findings about what could not be looked at. With *run_hooks* the installed commands are started, switched off."""
    odd: list[Finding] = []

    def tried(name: str, empty: Seen, part: Callable[[], Seen]) -> Seen:
        try:
            return part()
        except (OSError, ValueError, VaultMemError, RecursionError) as error:
            odd.append(found("check-failed", name, f"{type(error).__name__}: {error}"))
            return empty

    place = _place(explicit=explicit, environ=environ, cwd=cwd)
    trusting = _trusting(place, environ=environ)
    seat_id = trust.seat_id(place.memory) if place.memory else ""
    scene = Scene(now, program, place, trusting, settings.load(environ=environ, seat=seat_id), environ=environ)
    git, state, memory = Git(), State(), Memory()
    if place.memory_exists and not place.token:
        git = tried("git", Git(), lambda: lookgit.look(place=place, trusting=trusting, environ=environ, now=now))
        state = tried("state", State(), lambda: lookstate.look(place=place, trusting=trusting, git=git, now=now))
        memory = tried("capsules", Memory(), lambda: lookcapsules.look(place=place, state=state, now=now))
    wiring = Wiring()
    if place.root:
        wiring = tried(
            "hooks",
            wiring,
            lambda: lookhooks.look(
                project=place.root, environ=environ, run_hooks=run_hooks, trusted=trusting.state == "trusted"
            ),
        )
    extension = tried("extension", None, lambda: extensionfile.load(place.root)) if place.root else None
    whole = replace(
        scene,
        git=git,
        state=state,
        wiring=wiring,
        memory=memory,
        extension=extension,
        tunables=tunables.load(environ=environ, seat=seat_id, settled=scene.settings),
    )
    return whole, tuple(odd)


def _place(*, explicit: str, environ: Mapping[str, str], cwd: str) -> Place:
    off = tuple(name for name in ("VAULT_MEM_OFF", "LIFECYCLE_KILL_STOP_WRITER") if environ.get(name) == "1")

    def is_trusted(memory: str) -> bool:
        return trust.trusted(memory, environ=environ) is not None

    try:
        seat = roots.find(explicit=explicit, environ=environ, cwd=cwd, is_trusted=is_trusted)
    except MemoryRootError as error:
        text = str(error)
        token = next((token for sign, token in ROOT_TOKENS if sign in text), "root-uninspectable")
        return _broken(token, text, explicit=explicit, environ=environ, cwd=cwd, off=off)
    if seat is None:
        return Place(cwd, token="no-seat", error=f"no seat at or above {explicit or cwd}", off=off)
    exists = os.path.isdir(seat.memory.path)
    place = Place(
        cwd, seat.root, seat.memory.path, seat.memory.relative, seat.memory.source, seat.found, "", "", exists, off
    )
    if not exists:
        return _with(place, "root-missing", f"{seat.memory.path}: does not exist")
    return place


def _broken(
    token: str, text: str, *, explicit: str, environ: Mapping[str, str], cwd: str, off: tuple[str, ...]
) -> Place:
    """The seat whose declaration is broken; its root is found without the declaration."""
    try:
        seat = roots.find(explicit=explicit, environ=environ, cwd=cwd, allow_missing=True)
    except MemoryRootError:
        seat = None
    if seat is not None:
        return Place(
            cwd,
            seat.root,
            seat.memory.path,
            seat.memory.relative,
            seat.memory.source,
            seat.found,
            token,
            text,
            False,
            off,
        )
    start = explicit or environ.get("VAULT_MEM_ROOT") or environ.get("AIGENT_ROOT") or ""
    root = os.path.normpath(os.path.join(cwd, start)) if start else ""
    for each in () if root else (environ.get("CLAUDE_PROJECT_DIR", ""), cwd):
        root = root or _above(each)
    return Place(cwd, root, token=token, error=text, off=off)


def _above(path: str) -> str:
    """The nearest directory from *path* upwards with a declaration."""
    while path:
        if os.path.lexists(roots.marker_of(path)):
            return path
        above = os.path.dirname(path)
        if above == path:
            break
        path = above
    return ""


def _with(place: Place, token: str, error: str) -> Place:
    return Place(
        place.cwd, place.root, place.memory, place.relative, place.source, place.found, token, error, False, place.off
    )


def _trusting(place: Place, *, environ: Mapping[str, str]) -> Trusting:
    if not place.memory:
        return Trusting("absent")
    file = trust.record_file(place.memory, environ=environ)
    try:
        status = os.lstat(file)
    except FileNotFoundError:
        return Trusting("absent", file)
    except OSError as error:
        return Trusting("unreadable", file, error.strerror or str(error))
    record = trust.trusted(place.memory, environ=environ)
    if record is None:
        if stat.S_ISLNK(status.st_mode):
            return Trusting("unreadable", file, "it is a symbolic link")
        named = _named(file)
        if named and named != os.path.realpath(place.memory):
            return Trusting("moved", file, f"it names {named}")
        return Trusting("unreadable", file, "it is not the JSON object it should be")
    folder = os.stat(os.path.dirname(file))
    strangers = any(found.st_mode & 0o022 or found.st_uid not in (os.geteuid(), 0) for found in (status, folder))
    return Trusting("trusted", file, "", record.mode, record.ref, record.anchor, record.roots, loose=strangers)


def _named(file: str) -> str:
    """The memory root that a trust record names, "" when it names none."""
    try:
        value = jsontext.loads(files.read(file, limit=trust.RECORD_LIMIT).decode("utf-8"))
    except (OSError, ValueError, RecursionError):
        return ""
    named = value.get("memory_root") if isinstance(value, dict) else None
    return named if isinstance(named, str) else ""
