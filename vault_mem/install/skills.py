"""The two skills that come with the package: written into a client's folder, recognised later, never overwritten once a person edited them.

The last line of an installed skill carries the hash of what stands above it. Where the hash fits, the text is still ours.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from hashlib import sha256

from vault_mem import files
from vault_mem.hooksfile import PROGRAM, SettingsError

SKILLS = ("context-capsule", "resume")
NAME = "SKILL.md"
BESIDE = f"{NAME}.vault-mem-new"
LIMIT = 1024 * 1024
_SEAL = re.compile(rb"\n<!-- vault-mem [0-9a-f]{16} -->\n?\Z")


@dataclass(frozen=True, slots=True)
class Skill:
    """One file to write or remove: *former* bytes (None: missing) and *later* ones (None: it goes); *note* says what was left alone."""

    path: str
    former: bytes | None
    later: bytes | None
    note: str = ""


def text(name: str, *, program: str = PROGRAM) -> bytes:
    """The skill as it is installed. *program* is what starts us in a shell."""
    source = os.path.join(os.path.dirname(os.path.dirname(__file__)), "skills", name, NAME)
    body = files.read_followed(source).decode().replace("{program}", program).rstrip("\n").encode()
    return body + b"\n<!-- vault-mem " + _digest(body) + b" -->\n"


def is_ours(data: bytes) -> bool:
    """Whether a skill file is as some version of this program wrote it."""
    seal = _SEAL.search(data)
    return bool(seal) and _digest(data[: seal.start()]) in seal.group() if seal else False


def planned(folder: str, *, program: str, owned: frozenset[str] = frozenset()) -> tuple[Skill, ...]:
    """What `init` writes below *folder*; a skill that is edited, or *owned* by the operator, stays, and the new text goes beside it.

    Raises SettingsError.
    """
    found = []
    for name in SKILLS:
        path = os.path.join(folder, name, NAME)
        former, wanted = _read(path), text(name, program=program)
        if former == wanted:
            continue
        if (former is None or is_ours(former)) and path not in owned:
            found.append(Skill(path, former, wanted))
            continue
        beside = os.path.join(folder, name, BESIDE)
        what = "is not as we wrote it" if path not in owned else "belongs to the operator"
        note = f"{path} {what} and stays; the text of this version lies in {BESIDE} beside it"
        found.append(Skill(beside, _read(beside), wanted, note))
    return tuple(found)


def unplanned(folder: str) -> tuple[Skill, ...]:
    """What `uninstall` removes below *folder*: our own texts, not what a person edited. Raises SettingsError."""
    found = []
    for name in SKILLS:
        for file in (NAME, BESIDE):
            path = os.path.join(folder, name, file)
            former = _read(path)
            if former is not None and is_ours(former):
                found.append(Skill(path, former, None))
            elif former is not None:
                found.append(Skill(path, former, former, f"{path} was edited and stays"))
    return tuple(found)


def applied(skill: Skill) -> None:
    """Writes or removes the file, and its folder when that is empty. Raises SettingsError."""
    if skill.former == skill.later:
        return
    folder = os.path.dirname(skill.path)
    try:
        if skill.later is None:
            files.remove(skill.path)
            _remove_empty(folder)
            return
        files.make_dirs(folder, 0o755)
        files.write_atomic(skill.path, skill.later, mode=0o644)
    except OSError as error:
        raise SettingsError(f"{skill.path}: cannot be written ({error.strerror})") from error


def _remove_empty(folder: str) -> None:
    """The skill's folder, `skills`, and the client's folder of the project, each only when nothing is left in it."""
    for path in (folder, os.path.dirname(folder)):
        try:
            os.rmdir(path)
        except OSError:
            return


def _read(path: str) -> bytes | None:
    try:
        return files.read_followed(path, limit=LIMIT)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read ({error.strerror}); nothing was changed") from error


def _digest(data: bytes) -> bytes:
    return sha256(data).hexdigest()[:16].encode()
