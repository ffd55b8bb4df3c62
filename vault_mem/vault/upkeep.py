"""Whether the vault wants upkeep, seen in half a millisecond, and the detached process that does it. The hooks ask; they never do it.

`runtime/upkeep.json` says what the last upkeep left behind, so that a tree it could not make smaller does not start it again at every hook.
"""

from __future__ import annotations

import os
import sys

from vault_mem import files, jsontext
from vault_mem.record import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vault_mem.vault.store import Store

NOTE, LOCK = "upkeep.json", "upkeep.lock"
SLACK = 16  # capsules beyond the limit before a commit is spent on them
FIRST_LOOK = 64  # capsules at which the limit is asked for when no upkeep has noted it yet
LOOSE = 2048  # loose objects worth a pack, some five hundred saves
SAMPLE = "17"  # the folder that git itself counts, one of 256
PATIENCE = 600.0
OURS = ("VAULT_MEM_HOOK",)


class Note(NamedTuple):
    """What the last upkeep left: when, how many capsules in the tree, the limit it went by (0: never retire).

    left: how many capsules ever left the tree while they were active.
    """

    at: float = 0.0
    capsules: int = 0
    limit: int = FIRST_LOOK
    left: int = 0


def note(runtime: str) -> Note:
    """What the last upkeep noted; a fresh note where there is none."""
    try:
        value = jsontext.loads(files.read(f"{runtime}/{NOTE}", limit=4096).decode())
        return Note(float(value["at"]), int(value["capsules"]), int(value["limit"]), int(value.get("left", 0)))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return Note()


def store_note(runtime: str, known: Note) -> None:
    """Keep what this upkeep left."""
    data = (jsontext.dumps(known._asdict()) + "\n").encode()
    files.write_atomic(f"{runtime}/{NOTE}", data, mode=0o600, durable=False)


def capsules(memory: str) -> int:
    """How many files lie in the folders of the capsules; a folder that cannot be read counts as empty."""
    count = 0
    waiting = [f"{memory}/capsules"]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as found:
                for entry in found:
                    if entry.name.endswith(".md"):
                        count += 1
                    elif entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError:
            continue
    return count


def loose(store: Store) -> int:
    """About how many loose objects a vault of its own has; 0 for any other, a project's repository keeps its own housekeeping."""
    if store.record.mode != "dedicated":
        return 0
    try:
        return 256 * len(os.listdir(f"{store.memory}/.git/objects/{SAMPLE}"))
    except OSError:
        return 0


def due(store: Store, *, now: float) -> bool:
    """Whether upkeep would do something."""
    known = note(store.runtime)
    if 0 <= now - known.at < PATIENCE:
        return False
    if known.limit and store.record.mode != "adopted":
        count = capsules(store.memory)
        if count >= max(known.limit, known.capsules) + SLACK:
            return True
    return loose(store) >= LOOSE


def ask(store: Store, *, now: float) -> bool:
    """Start the upkeep that is due; whether there was any. It is started, not waited for, and never a reason for a hook to fail."""
    try:
        if not due(store, now=now):
            return False
        # Noted before it runs, so that the next hook does not start a second one while this one is slow or cannot be started.
        store_note(store.runtime, note(store.runtime)._replace(at=now))
        # -P: a folder of that name where the client runs is not our program.
        # As this process was started: where our script shuts out a project's `PYTHON…` variables, they are none for the child either.
        start(store, (sys.executable, "-EP" if sys.flags.ignore_environment else "-P", "-m", "vault_mem"))
    except OSError:
        return False
    return True


def start(store: Store, command: Sequence[str]) -> None:
    """Start the program *command* in a session of its own, streams closed, without the mark of a hook. Raises OSError."""
    null = os.open(os.devnull, os.O_RDWR)
    try:
        actions = [(os.POSIX_SPAWN_DUP2, null, number) for number in (0, 1, 2)]
        environ = _unmarked(store.environ)
        arguments = [*command, "gc", "--background", "--root", store.seat.root]
        try:
            os.posix_spawn(arguments[0], arguments, environ, file_actions=actions, setsid=True)
        except NotImplementedError:
            os.posix_spawn(arguments[0], arguments, environ, file_actions=actions, setpgroup=0)
    finally:
        os.close(null)


def _unmarked(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name not in OURS}
