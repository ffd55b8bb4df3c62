"""One settings file of a client: what `init` or `uninstall` would make of it, and doing that with a backup and a way back.

What a file was before lies in `$XDG_STATE_HOME/vault-mem/installed/`, so that `uninstall` gives back every byte.
"""

from __future__ import annotations

import base64
import os
import stat
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING

from vault_mem import files, hooksfile, jsontext, stamps, statusfile, trust
from vault_mem.clients import Place
from vault_mem.errors import ExternallyChangedError
from vault_mem.hooksfile import SettingsError, Undo

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LIMIT = 16 * 1024 * 1024
MODE = 0o644


@dataclass(frozen=True, slots=True)
class Wire:
    """A settings file with its *former* and *later* bytes (None: no file), and what the difference is."""

    place: Place
    path: str
    former: bytes | None
    later: bytes | None
    undo: Undo
    done: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    original: bytes | None = None

    @property
    def changed(self) -> bool:
        """Whether there is anything to write."""
        return self.former != self.later


@dataclass(frozen=True, slots=True)
class _Kept:
    """The record of a file that we changed: how to go back, the hash of what we left, and its bytes from before our first change."""

    undo: Undo = field(default_factory=Undo)
    left: str = ""
    original: bytes | None = None
    folder_made: str = ""


def planned(
    place: Place,
    *,
    program: str,
    environ: Mapping[str, str],
    without: Sequence[tuple[str, int, int]] = (),
    wire: bool = True,
    status_line: bool = False,
) -> Wire:
    """What `init` makes of the file: our entries added or mended (*wire*), the foreign ones at *without* taken out. Raises SettingsError.

    With *status_line*, and where ours is there already, the status line is wrapped.
    """
    path, former = read(place)
    kept = _kept(path, environ=environ)
    mark, text = hooksfile.decoded(former, where=place.path) if former is not None else (b"", None)
    done: tuple[str, ...] = ()
    if without and text is not None:
        hooksfile.parsed(text, where=place.path)
        text = hooksfile.without(text, without)
        done = tuple(
            f"hooks.{event}[{group}].hooks[{index}]: removed another tool's hook" for event, group, index in without
        )
    if not wire:
        later = mark + text.encode() if text is not None else None
        _refuse_unwritable(path, place, former, later)
        return Wire(place, path, former, later, kept.undo if kept else Undo(), done, (), _original(kept, former))
    change = hooksfile.install(text, program=program, hooks=hooksfile.hooks_of(place.harness), where=place.path)
    text = change.text
    if place.harness == "claude" and (status_line or statusfile.is_ours(text)):
        try:
            text = statusfile.wrapped(text, program=program)
        except statusfile.StatusLineError as error:
            raise SettingsError(f"{place.path}: {error}; nothing was changed") from error
        done += ("statusLine: ours, around the one that was there",) if text != change.text else ()
    later = mark + text.encode() if change.done or done else former
    _refuse_unwritable(path, place, former, later)
    undo = kept.undo.over(change.undo) if kept else change.undo
    return Wire(place, path, former, later, undo, done + change.done, change.notes, _original(kept, former))


def unplanned(place: Place, *, environ: Mapping[str, str]) -> Wire:
    """What `uninstall` makes of the file: as it was before, or, where it has changed since, without our entries. Raises SettingsError."""
    path, former = read(place)
    if former is None:
        return Wire(place, path, None, None, Undo())
    kept = _kept(path, environ=environ)
    mark, text = hooksfile.decoded(former, where=place.path)
    hooks = text
    if hooksfile.parsed(text, where=place.path) is not None:
        text = statusfile.unwrapped(text)
    later_text, change = hooksfile.remove(text, kept.undo if kept else None, where=place.path)
    later = mark + later_text.encode() if later_text is not None else None
    done = change.done + (("statusLine: the one from before",) if text != hooks else ())
    if kept and kept.original is not None and _hash(former) == kept.left:
        later = kept.original
        done = done or ("gave back what another tool had there",)
    _refuse_unwritable(path, place, former, later)
    return Wire(place, path, former, later, change.undo, done if later != former else (), change.notes)


def read(place: Place) -> tuple[str, bytes | None]:
    """The file behind links and its bytes, None where there is none. Raises SettingsError."""
    path = os.path.realpath(place.path)
    try:
        return path, files.read_followed(path, limit=LIMIT)
    except FileNotFoundError:
        return path, None
    except NotADirectoryError as error:
        raise SettingsError(f"{place.path}: a file stands where a folder is needed; nothing was changed") from error
    except OSError as error:
        what = "is a directory" if isinstance(error, IsADirectoryError) else f"cannot be read ({error.strerror})"
        raise SettingsError(f"{place.path}: {what}; nothing was changed") from error


def applied(wire: Wire, *, environ: Mapping[str, str], now: float) -> str:
    """Writes the file; the path of the backup of its former bytes, "" where there were none. Raises ExternallyChangedError, SettingsError."""
    path, present = read(wire.place)
    if path != wire.path or present != wire.former:
        raise ExternallyChangedError(f"{wire.place.path} was changed meanwhile; run the command again")
    backup = _backup(wire, environ=environ, now=now) if wire.former is not None else ""
    folder_made = _make_folder(os.path.dirname(wire.path))
    try:
        _write(wire)
    except OSError as error:
        raise SettingsError(f"{wire.place.path}: cannot be written ({error.strerror})") from error
    if wire.later is not None:
        kept = _kept(wire.path, environ=environ)
        made = folder_made or (kept.folder_made if kept else "")
        _keep(wire.path, _Kept(wire.undo, _hash(wire.later), wire.original, made), environ=environ)
    return backup


def undone(wire: Wire, *, environ: Mapping[str, str], now: float) -> str:
    """Like `applied` for `uninstall`: the record of the file goes, and the folder that was made for it if it is empty."""
    kept = _kept(wire.path, environ=environ)
    backup = ""
    if wire.changed:
        path, present = read(wire.place)
        if path != wire.path or present != wire.former:
            raise ExternallyChangedError(f"{wire.place.path} was changed meanwhile; run the command again")
        exact = bool(kept) and (wire.later is None or (kept is not None and wire.later == kept.original))
        backup = "" if exact else _backup(wire, environ=environ, now=now)
        try:
            _write(wire)
        except OSError as error:
            raise SettingsError(f"{wire.place.path}: cannot be written ({error.strerror})") from error
    forget(wire.path, environ=environ)
    if kept and kept.folder_made:
        remove_empty(os.path.dirname(wire.path), kept.folder_made)
    return backup


def forget(path: str, *, environ: Mapping[str, str]) -> None:
    """Drops the record of a file; its folders go with the last one."""
    files.remove(_record(path, environ=environ))
    state = trust.state_dir(environ)
    remove_empty(os.path.join(state, "installed"), os.path.join(state, "installed"))


def remove_empty(folder: str, topmost: str) -> None:
    """Removes *folder* and those above it up to *topmost* as long as they are empty."""
    while folder.startswith(topmost):
        try:
            os.rmdir(folder)
        except OSError:
            return
        folder = os.path.dirname(folder)


def _write(wire: Wire) -> None:
    if wire.later is None:
        files.remove(wire.path)
        return
    if wire.former is None:
        files.create(wire.path, wire.later, mode=MODE)
        return
    status = os.stat(wire.path)
    if status.st_nlink > 1:
        # Another name of this file, in a folder of dotfiles perhaps, must not be cut off.
        with open(wire.path, "r+b") as file:
            file.write(wire.later)
            file.truncate()
            os.fsync(file.fileno())
        return
    files.write_atomic(wire.path, wire.later, mode=stat.S_IMODE(status.st_mode))
    # The mask of this process does not count for a file that has its permissions already.
    os.chmod(wire.path, stat.S_IMODE(status.st_mode))
    if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
        try:
            os.chown(wire.path, status.st_uid, status.st_gid)
        except OSError:
            pass


def _refuse_unwritable(path: str, place: Place, former: bytes | None, later: bytes | None) -> None:
    """Says before anything is written that this file could not be."""
    if former == later:
        return
    folder = os.path.dirname(path)
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    if not os.path.isdir(folder):
        raise SettingsError(f"{place.path}: {folder} is no directory; nothing was changed")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise SettingsError(f"{place.path}: the folder {folder} cannot be written; nothing was changed")


def _make_folder(folder: str) -> str:
    """Makes the folder; the topmost one that had to be made, "" when it was there."""
    made, missing = "", folder
    while not os.path.isdir(missing):
        made, missing = missing, os.path.dirname(missing)
    files.make_dirs(folder, 0o755)
    return made


def _original(kept: _Kept | None, former: bytes | None) -> bytes | None:
    """The bytes that `uninstall` may give back: those before our first change, as long as nobody else changed the file since."""
    if kept is None:
        if former is None:
            return None
        text = hooksfile.decoded(former, where="")[1]
        return None if hooksfile.own(hooksfile.parsed(text, where="")) else former
    return kept.original if former is not None and _hash(former) == kept.left else None


def _hash(data: bytes) -> str:
    return sha256(data).hexdigest()


def _record(path: str, *, environ: Mapping[str, str]) -> str:
    return os.path.join(trust.state_dir(environ), "installed", f"{_hash(os.fsencode(path))[:16]}.json")


def _backup(wire: Wire, *, environ: Mapping[str, str], now: float) -> str:
    folder = os.path.join(trust.state_dir(environ), "backups")
    files.make_dirs(folder, 0o700)
    stamp = stamps.utc(now).translate({ord(char): None for char in "-:."})
    name = f"{_hash(os.fsencode(wire.path))[:16]}-{stamp}-{os.path.basename(wire.path)}"
    path = os.path.join(folder, name)
    files.write_atomic(path, wire.former or b"", mode=0o600)
    return path


def _keep(path: str, kept: _Kept, *, environ: Mapping[str, str]) -> None:
    record = _record(path, environ=environ)
    files.make_dirs(os.path.dirname(record), 0o700)
    fields = {
        "schema": 1,
        "path": path,
        "left": kept.left,
        "blank": kept.undo.blank,
        "former": kept.undo.former,
        "inner": dict(kept.undo.inner),
        "original": base64.b64encode(kept.original).decode() if kept.original is not None else None,
        "folder_made": kept.folder_made,
    }
    files.write_atomic(record, (jsontext.dumps(fields) + "\n").encode(), mode=0o600)


def _kept(path: str, *, environ: Mapping[str, str]) -> _Kept | None:
    try:
        found = jsontext.loads(files.read(_record(path, environ=environ), limit=2 * LIMIT).decode())
        original = found["original"]
        return _Kept(
            Undo(bool(found["blank"]), found["former"], dict(found["inner"])),
            str(found["left"]),
            base64.b64decode(original) if original is not None else None,
            str(found["folder_made"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
