"""Whether this user trusts a seat: one small file for each memory root, outside every tree, so that no tree can vouch for itself.

The record holds the identity of the vault (root commits), the newest commit we vouch for (the anchor) and the judgement of its git
configuration with the files it was made from. `trusted` is on the hook path: one read.
"""

from __future__ import annotations

import os
import stat

from vault_mem import digest, files, jsontext, stamps
from vault_mem.record import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

SCHEMA = 1
RECORD_LIMIT = 1024 * 1024
CONFIG_LIMIT = 1024 * 1024
LOG_LIMIT = 64 * 1024


class Record(NamedTuple):
    """What is known of a trusted seat. *file* is where it is kept; *memory_root* is a real path; *git* is the cached judgement."""

    file: str
    memory_root: str
    seat: str
    mode: str
    ref: str
    roots: tuple[str, ...]
    anchor: str
    granted_at: str
    git: dict[str, Any]


class Identity(NamedTuple):
    """What a vault is: `dedicated`, `embedded` or `adopted`, its ref ("" is HEAD), its root commits and its anchor ("" without commits)."""

    mode: str
    ref: str = ""
    roots: tuple[str, ...] = ()
    anchor: str = ""


def state_dir(environ: Mapping[str, str]) -> str:
    """This user's `$XDG_STATE_HOME/vault-mem`; an empty or relative XDG_STATE_HOME counts as unset, as its standard says."""
    state = environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(state):
        return os.path.join(state, "vault-mem")
    home = environ.get("HOME", "")
    if not os.path.isabs(home):
        import pwd

        home = pwd.getpwuid(os.getuid()).pw_dir
    return os.path.join(home, ".local", "state", "vault-mem")


def seat_id(memory_root: str) -> str:
    """16 hex digits that name the memory root: one seat, whatever path it is reached by."""
    return digest.sha256(os.fsencode(os.path.realpath(memory_root)))[:16]


def record_file(memory_root: str, *, environ: Mapping[str, str]) -> str:
    """Where the trust record of *memory_root* is kept."""
    return os.path.join(state_dir(environ), "seats", f"{seat_id(memory_root)}.json")


def trusted(memory_root: str, *, environ: Mapping[str, str]) -> Record | None:
    """The trust record of *memory_root*; None: this user does not trust it, or the record cannot be read."""
    record = _load(record_file(memory_root, environ=environ))
    return record if record and record.memory_root == os.path.realpath(memory_root) else None


def grant(memory_root: str, identity: Identity, *, seat: str, environ: Mapping[str, str], now: float) -> Record:
    """Records that this user trusts *memory_root* as it is now; *identity* has the newest commit known to be good."""
    record = Record(
        record_file(memory_root, environ=environ),
        os.path.realpath(memory_root),
        os.path.realpath(seat),
        identity.mode,
        identity.ref,
        tuple(sorted(identity.roots)),
        identity.anchor,
        stamps.utc(now),
        {},
    )
    files.make_dirs(os.path.dirname(record.file), 0o700)
    _store(record, durable=True)
    return record


def revoke(memory_root: str, *, environ: Mapping[str, str]) -> bool:
    """Forgets the trust in *memory_root*; False: there was none."""
    try:
        os.unlink(record_file(memory_root, environ=environ))
    except FileNotFoundError:
        return False
    return True


def advance(record: Record, old: str, new: str, *, durable: bool = True) -> Record | None:
    """Moves the anchor from *old* to *new*; None: the record on disk is gone or has another anchor, and nothing was written."""
    current = _load(record.file)
    if current is None or current.anchor != old:
        return None
    moved = current._replace(anchor=new)
    _store(moved, durable=durable)
    return moved


def _load(path: str) -> Record | None:
    try:
        found = jsontext.loads(files.read(path, limit=RECORD_LIMIT).decode())
    except (OSError, ValueError):
        return None
    if not isinstance(found, dict):
        return None
    texts = [found.get(key) for key in ("memory_root", "seat", "mode", "ref", "anchor", "granted_at")]
    roots, git = found.get("roots"), found.get("git")
    if not all(isinstance(text, str) for text in texts) or not isinstance(roots, list) or not isinstance(git, dict):
        return None
    memory_root, seat, mode, ref, anchor, granted_at = (str(text) for text in texts)
    return Record(path, memory_root, seat, mode, ref, tuple(str(each) for each in roots), anchor, granted_at, git)


def _store(record: Record, *, durable: bool) -> None:
    fields = {"schema": SCHEMA, **record._asdict(), "roots": list(record.roots)}
    del fields["file"]
    files.write_atomic(record.file, (jsontext.dumps(fields) + "\n").encode(), mode=0o600, durable=durable)


def note_untrusted(event: str, memory_root: str, *, environ: Mapping[str, str], now: float) -> None:
    """Records, outside the tree, that *event* was skipped because the seat is not trusted. The log stays below 128 KiB."""
    path = os.path.join(state_dir(environ), "untrusted.log")
    line = (
        jsontext.dumps({"at": stamps.utc(now), "token": "untrusted", "event": event, "memory_root": memory_root}) + "\n"
    )
    files.make_dirs(os.path.dirname(path), 0o700)
    try:
        if os.lstat(path).st_size > LOG_LIMIT:
            os.replace(path, path + ".1")
    except FileNotFoundError:
        pass
    files.append(path, line.encode("utf-8", "backslashreplace"), 0o600)


def unsafe_keys(worktree: str, *, record: Record | None = None) -> tuple[str, ...]:
    """What the repository at *worktree* configures that could run a program and is not switched off; () where it has no repository.

    With a trusted *record* the judgement is kept there and made again only when one of the files it was made from has changed.
    """
    paths = _sources(worktree)
    stamp = [_stamp(path) for path in paths]
    if record and record.git.get("stamp") == stamp and isinstance(record.git.get("unsafe"), list):
        return tuple(str(key) for key in record.git["unsafe"])
    unsafe = program_keys(worktree, seat=record.seat if record else "")[0]
    current = _load(record.file) if record else None
    if current:
        # Losing this on a crash costs one more look at the files.
        _store(current._replace(git={"stamp": stamp, "unsafe": list(unsafe)}), durable=False)
    return unsafe


def program_keys(worktree: str, *, seat: str = "") -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Keys of the repository's own configuration that can run a program: those we refuse, and those we switch off on every call."""
    from vault_mem import gitconfig  # read only when a configuration changed

    unsafe: list[str] = []
    ignored: list[str] = []
    trees = tuple(os.path.realpath(tree) for tree in (worktree, seat) if tree)
    for path in _sources(worktree):
        try:
            text = _text(path)
            if text is None:
                continue
            if path.endswith("attributes"):
                unsafe += [f"attributes:{token}" for token in gitconfig.attributes(text)]
                continue
            entries = gitconfig.parse(text)
        except (OSError, ValueError) as error:
            unsafe.append(f"unreadable:{path} ({error})")
            continue
        for entry in entries:
            verdict = gitconfig.judged(entry, trees=trees)
            if verdict != "allowed":
                (ignored if verdict == "ignored" else unsafe).append(entry.key)
    return tuple(dict.fromkeys(unsafe)), tuple(dict.fromkeys(ignored))


def _sources(worktree: str) -> tuple[str, ...]:
    """The files that configure the repository at *worktree*, whether they exist or not; () where no repository is."""
    gitdir = os.path.join(worktree, ".git")
    try:
        mode = os.stat(gitdir).st_mode
    except OSError:
        return ()
    common = gitdir
    if not stat.S_ISDIR(mode):
        try:
            pointer = (_text(gitdir) or "").strip()
            gitdir = os.path.join(worktree, pointer.removeprefix("gitdir:").strip())
            shared = (_text(os.path.join(gitdir, "commondir")) or "").strip()
        except (OSError, ValueError):
            # Read again as configuration this is no configuration, so the repository is refused.
            return (gitdir,)
        common = gitdir
        if shared:
            common = os.path.join(gitdir, shared)
    return (
        os.path.join(common, "config"),
        os.path.join(gitdir, "config.worktree"),
        os.path.join(common, "info", "attributes"),
        os.path.join(worktree, ".gitattributes"),
        os.path.join(worktree, "capsules", ".gitattributes"),
    )


def _stamp(path: str) -> list[int]:
    try:
        found = os.stat(path)
    except OSError:
        return []
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]


def _text(path: str) -> str | None:
    """The text of a small regular file, links followed as git does; None: it does not exist. Raises OSError or ValueError."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ValueError("not a regular file")
        data = b""
        while part := os.read(handle, 65536):
            data += part
            if len(data) > CONFIG_LIMIT:
                raise ValueError("too large")
    finally:
        os.close(handle)
    return data.decode("utf-8", "surrogateescape")
