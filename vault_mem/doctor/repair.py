"""What `--fix` does: each mending is safe to do without asking, says what it did, and leaves everything else to the person.

Only findings are mended that the doctor has just made; every precondition is looked at again right before writing.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vault_mem import clients, files, gitconfig, jsontext, receipts, trust, version
from vault_mem.doctor.lookstate import is_left
from vault_mem.errors import VaultMemError
from vault_mem.lock import Locked
from vault_mem.processes import Deferred
from vault_mem.repo import commit as engine
from vault_mem.repo import create, program, recovery, shape
from vault_mem.vault import commits
from vault_mem.vault import store as seats

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from vault_mem.doctor.scene import Scene
    from vault_mem.report import Finding

LOCK_WAIT = 5.0


@dataclass(frozen=True, slots=True)
class Mended:
    """One thing that was tried: *done* says whether it worked, *what* in a sentence what was done or why not."""

    token: str
    where: str
    what: str
    done: bool = True


@dataclass(frozen=True, slots=True)
class Tools:
    """What a mending needs from outside: the environment, the clock, the absolute path of our program, and the installer for one settings file.

    *wire* takes client, scope and the places of entries to be made anew, and gives sentences of what it changed.
    """

    environ: Mapping[str, str]
    now: float
    program: str
    wire: Callable[[str, str, Sequence[tuple[str, int, int]]], Sequence[str]]


def mend(scene: Scene, findings: Sequence[Finding], tools: Tools) -> tuple[Mended, ...]:
    """Mends what is safe among *findings*, in an order in which one mending helps the next."""
    present = {finding.token for finding in findings}
    done: list[Mended] = []
    for tokens, act in _ACTS:
        if not present.intersection(tokens):
            continue
        mine = [finding for finding in findings if finding.token in tokens]
        try:
            done += act(scene, mine, tools)
        except (OSError, VaultMemError, ValueError) as error:
            done.append(Mended(mine[0].token, mine[0].where, str(error) or type(error).__name__, done=False))
    return tuple(done)


def _unborn(scene: Scene, found: list[Finding], tools: Tools) -> Iterator[Mended]:
    if scene.git.ref or scene.trusting.mode == seats.ADOPTED or scene.trusting.state != "trusted":
        yield Mended(found[0].token, found[0].where, "left alone: only a trusted vault of its own is begun", done=False)
        return
    head = create.init_repository(scene.place.memory, environ=tools.environ, at=tools.now)
    yield Mended(found[0].token, found[0].where, f"made the first commit {head[:12]}")


def _unfinished(scene: Scene, found: list[Finding], tools: Tools) -> Iterator[Mended]:
    with Locked(f"{scene.state.runtime}/{seats.LOCK}", timeout=LOCK_WAIT), Deferred():
        done = engine.recover(scene.git.worktree, state=scene.state.runtime, ref=scene.git.ref)
    del tools
    yield Mended(found[0].token, found[0].where, f"finished: {', '.join(done) or 'nothing was left to do'}")


def _locks(scene: Scene, found: list[Finding], tools: Tools) -> Iterator[Mended]:
    with Locked(f"{scene.state.runtime}/{seats.LOCK}", timeout=LOCK_WAIT), Deferred():
        done = engine.recover(scene.git.worktree, state=scene.state.runtime, ref=scene.git.ref)
        repository = shape.opened(scene.git.worktree, environ=tools.environ, ref=scene.git.ref)
        for finding in found:
            is_gone = not os.path.lexists(finding.where) or recovery.abandoned(repository, finding.where)
            text = "removed" if is_gone else "left: it is in use or has changed since"
            extra = f" ({', '.join(done)})" if done else ""
            yield Mended(finding.token, finding.where, text + extra, done=is_gone)


def _driver(scene: Scene, found: list[Finding], tools: Tools) -> Iterator[Mended]:
    key = f"merge.{gitconfig.OURS}.driver"
    line = " ".join((shlex.quote(tools.program).replace("%", "%%"), *gitconfig.DRIVER_ARGUMENTS))
    trees = (os.path.realpath(scene.place.memory), os.path.realpath(scene.place.root))
    if gitconfig.judged(gitconfig.Entry(key, line), trees=trees) != "allowed":
        text = f"left: {tools.program} lies in the seat, whoever can write the project could have it run; install vault-mem elsewhere"
        yield Mended(found[0].token, found[0].where, text, done=False)
        return
    program.checked(["config", "--local", key, line], worktree=scene.git.worktree, environ=tools.environ)
    yield Mended(found[0].token, found[0].where, f"set {key} to {line}")


def _attributes(scene: Scene, found: list[Finding], tools: Tools) -> Iterator[Mended]:
    store = _store(scene, tools)
    path = f"{store.worktree}/.gitattributes"
    with Locked(store.lock, timeout=LOCK_WAIT), Deferred():
        try:
            before: bytes | None = files.read(path, limit=1 << 20)
        except FileNotFoundError:
            before = None
        separator = b"" if not before or before.endswith(b"\n") else b"\n"
        text = (before or b"") + separator + create.ATTRIBUTES.encode()
        files.replace(path, text, expected=before, mode=0o644)
        trailers = (("Vault-Mem-Version", version.__version__),)
        request = engine.Request((engine.Change(".gitattributes", text),), "vault: attributes", trailers, tools.now)
        made = engine.commit(store.worktree, request, environ=store.environ, state=store.runtime, durable=store.durable)
        trust.advance(store.record, made.parent, made.oid)
    yield Mended(
        found[0].token, found[0].where, f"wrote `{create.ATTRIBUTES.strip()}` and committed it ({made.oid[:12]})"
    )


def _excluded(scene: Scene, found: list[Finding], tools: Tools) -> Iterator[Mended]:
    below = os.path.relpath(os.path.realpath(scene.place.memory), os.path.realpath(scene.git.enclosing))
    create.exclude(scene.git.enclosing, below, environ=tools.environ)
    yield Mended(found[0].token, found[0].where, f"added /{below}/ to .git/info/exclude")


def _owed(scene: Scene, found: list[Finding], tools: Tools) -> Iterator[Mended]:
    store = _store(scene, tools)
    with Locked(store.lock, timeout=LOCK_WAIT), Deferred():
        settled = commits.settle(store)
    left = commits.pending(store)
    text = f"committed {', '.join(settled) or 'nothing: what was owed is gone from the tree'}"
    yield Mended(found[0].token, found[0].where, text if not left else f"{text}; {len(left)} still owed", done=not left)


def _deliveries(scene: Scene, found: list[Finding], tools: Tools) -> Iterator[Mended]:
    del tools
    for finding in found:
        name = os.path.basename(finding.where).removesuffix(".json")
        receipts.drop_intent(scene.state.runtime, name)
        yield Mended(finding.token, finding.where, "removed the note, the history has the delivery")


def _damaged(scene: Scene, found: list[Finding], tools: Tools) -> Iterator[Mended]:
    del tools
    for path in scene.state.bad_files:
        if os.path.islink(path) or not _is_readable_json(path):
            os.unlink(path)
            yield Mended(found[0].token, path, "removed; it is made anew when it is needed")


def _is_readable_json(path: str) -> bool:
    try:
        return isinstance(jsontext.loads(files.read(path, limit=4 << 20).decode("utf-8")), dict)
    except (ValueError, RecursionError):
        return False


def _leftovers(scene: Scene, found: list[Finding], tools: Tools) -> Iterator[Mended]:
    removed = [path for path in scene.state.temporaries if is_left(path, now=tools.now) and files.remove(path)]
    yield Mended(found[0].token, found[0].where, f"removed {len(removed)} temporary files")


def _hooks(scene: Scene, found: list[Finding], tools: Tools) -> Iterator[Mended]:
    """Hands every settings file with a fault to the installer; entries with a wrong time limit are made anew."""
    commands = [command for command in scene.wiring.commands if command.ours]
    for path in dict.fromkeys(finding.where for finding in found):
        mine = [command for command in commands if command.file == path]
        if not mine or mine[0].scope not in clients.SCOPES:
            continue
        tokens = {finding.token for finding in found if finding.where == path}
        anew = [
            command
            for command in mine
            if not command.mixed and any(command.where + ":" in each.what for each in found if each.token in _MADE_ANEW)
        ]
        places = [_place_of(command.event, command.where) for command in anew]
        done = tools.wire(mine[0].harness, mine[0].scope, places)
        yield Mended(min(tokens), path, "; ".join(done) or "nothing to change", done=bool(done))


_MADE_ANEW = ("hook-timeout-unit", "hook-background", "hook-matcher")


def _place_of(event: str, where: str) -> tuple[str, int, int]:
    """`hooks.Stop[0].hooks[1]` as event, group, index."""
    group, _, index = where.removeprefix(f"hooks.{event}[").partition("].hooks[")
    return event, int(group), int(index.rstrip("]"))


def _store(scene: Scene, tools: Tools) -> seats.Store:
    return seats.opened(explicit=scene.place.root, environ=tools.environ, cwd=scene.place.cwd)


_ACTS: tuple[tuple[tuple[str, ...], Callable[[Scene, list[Finding], Tools], Iterator[Mended]]], ...] = (
    (("vault-unborn",), _unborn),
    (("unfinished-commit",), _unfinished),
    (("index-lock-left", "ref-lock-left"), _locks),
    (("driver-missing", "driver-gone"), _driver),
    (("not-excluded",), _excluded),
    (("attributes-missing",), _attributes),
    (("state-damaged",), _damaged),
    (("commit-owed",), _owed),
    (("delivery-stale",), _deliveries),
    (("leftovers",), _leftovers),
    (
        (
            "hook-missing",
            "hook-doubled",
            "hook-matcher",
            "hook-wrong-place",
            "hook-program-missing",
            "hook-timeout-unit",
            "hook-background",
        ),
        _hooks,
    ),
)
MENDED = frozenset(token for tokens, _ in _ACTS for token in tokens)
"""Every token that `--fix` does something about."""
