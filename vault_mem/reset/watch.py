"""The watcher: one pass over every live session of the seat, or a loop of passes. The only part that types into a pane."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field

from vault_mem import lock, processes, receipts, tmux, wakes
from vault_mem.errors import LockBusyError
from vault_mem.reset import checks, clear, keys, state
from vault_mem.reset.scene import ResetError, broken, look, usable
from vault_mem.session import ceiling

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vault_mem.receipts import SessionRecord
    from vault_mem.reset.scene import Scene
    from vault_mem.tunables import Tunables
    from vault_mem.vault.store import Store

LINE = "{count} wakes pending: run vault-mem wakes drain"
ONCE = "watch --once cannot deliver wakes; only the loop types them"


@dataclass
class Memory:
    """What a loop keeps between passes: when each session was measured and when a wake was last delivered to it."""

    checked: dict[str, float] = field(default_factory=dict)
    delivered: dict[str, float] = field(default_factory=dict)
    owed: dict[str, tuple[SessionRecord, tmux.Place | None]] = field(default_factory=dict)


def step(
    store: Store,
    tunables: Tunables,
    memory: Memory,
    *,
    now: float,
    environ: Mapping[str, str],
    loops: bool,
) -> tuple[str, ...]:
    """One pass; what it said or did, a line each. The beacon is written first. Raises OSError when nothing can be stored."""
    _beacon(store, tunables, now=now, loops=loops)
    said: list[str] = []
    running = state.live(store.runtime)
    for record in running:
        outcome = clear.serve(store, record, tunables, now=now, environ=environ)
        if outcome:
            said.append(f"{record.session}: {outcome}")
    for outcome, session, new, place in clear.settle(store, tunables, now=now):
        said.append(f"{session}: {outcome}")
        memory.checked.pop(session, None)
        if new is not None:
            memory.owed[new.session] = (new, place)
    for record in state.live(store.runtime):
        due = not 0 <= now - memory.checked.get(record.session, -1e18) < tunables.interval
        if due:
            memory.checked[record.session] = now
            said += _checked(store, record, tunables, now=now, environ=environ)
        if loops:
            said += _delivered(store, record, tunables, memory, now=now)
    return tuple(said)


def loop(
    store: Store,
    tunables: Tunables,
    *,
    clock: Callable[[], float],
    environ: Mapping[str, str],
    say: Callable[[str], None],
    passes: int = 0,
) -> None:
    """Passes until it is ended; *passes* bounds them for tests (0: none)."""
    memory = Memory()
    done = 0
    while True:
        for line in step(store, tunables, memory, now=clock(), environ=environ, loops=True):
            say(line)
        done += 1
        if passes and done >= passes:
            return
        time.sleep(tunables.poll)


def _beacon(store: Store, tunables: Tunables, *, now: float, loops: bool) -> None:
    pid = os.getpid()
    row = {
        "at": now,
        "pid": pid,
        "start": processes.start_time(pid) or "",
        "loop": loops,
        "interval": tunables.interval,
    }
    state.store(f"{store.runtime}/{wakes.BEACON}", row)
    if loops:
        state.store(f"{state.folder(store.runtime)}/{checks.DELIVERY}", row)


def _checked(
    store: Store, record: SessionRecord, tunables: Tunables, *, now: float, environ: Mapping[str, str]
) -> list[str]:
    """Measure one session and raise a wake where its class changed or is due again; the throttle is written after the wake is durable."""
    if _not_begun(store, record):
        return []
    throttle = state.throttle(store.runtime, record.session)
    try:
        usable(record)
        scene = look(store, record, tunables, now=now)
        facts = _facts(scene, throttle, environ=environ)
    except ResetError as error:
        facts = ceiling.Facts(None, tunables.ceiling, problem=str(error))
        scene = None
    verdict = ceiling.decide(facts, now=now, patience=tunables.patience)
    if verdict.kind == ceiling.ASK and scene is not None:
        phrase = state.phrase(store.runtime, record.session, make=now)
        verdict = ceiling.decide(facts._replace(phrase=phrase), now=now, patience=tunables.patience)
    text, after = ceiling.throttled(verdict, throttle, now=now, resurface=tunables.resurface)
    if verdict.state == ceiling.RESOLVED:
        state.forget(f"{state.folder(store.runtime, record.session)}/{state.ORDERED}")
    elif facts.unfinished and facts.tokens is not None and facts.tokens >= facts.ceiling:
        after = after._replace(suppressed=facts.busy_since or now)
    elif not facts.unfinished:
        after = after._replace(suppressed=0.0)
    if text:
        if verdict.kind == ceiling.RESET:
            state.store(f"{state.folder(store.runtime, record.session)}/{state.ORDERED}", {"at": now})
        wakes.push(store.runtime, now=now, session=record.session, key=wakes.CEILING, kind=verdict.kind, text=text)
    state.keep_throttle(store.runtime, record.session, after)
    return [f"{record.session}: {verdict.kind}: {text}"] if text else []


def _not_begun(store: Store, record: SessionRecord) -> bool:
    """Whether nobody typed anything yet: a client makes the transcript with the first prompt, and no hook of ours has read one."""
    gone = os.path.isabs(record.transcript) and not os.path.lexists(record.transcript)
    return gone and not receipts.load_cursor(store.runtime, record.session).position


def _facts(scene: Scene, throttle: ceiling.Throttle, *, environ: Mapping[str, str]) -> ceiling.Facts:
    tokens = scene.scan.tokens
    over = tokens is not None and tokens >= scene.ceiling
    since = throttle.suppressed if 0 < throttle.suppressed <= scene.now else scene.now
    return ceiling.Facts(
        tokens,
        scene.ceiling,
        scene.person,
        scene.scan.problem,
        scene.unfinished,
        broken(scene, environ=environ) if over and not scene.unfinished else "",
        away=state.away(scene.runtime) is not None,
        unconfirmed=clear.unconfirmed(scene.runtime, scene.session),
        busy_since=since if scene.unfinished else 0.0,
    )


def _delivered(store: Store, record: SessionRecord, tunables: Tunables, memory: Memory, *, now: float) -> list[str]:
    """Type the line that makes an idle session take a turn, while wakes wait and the person is away; once after a reset in any case."""
    owed = memory.owed.get(record.session)
    found = wakes.folded(wakes.waiting(store.runtime, record.session))
    if not found and owed is None:
        return []
    if 0 <= now - memory.delivered.get(record.session, -1e18) < tunables.delivery:
        return []
    if state.load(f"{state.folder(store.runtime, record.session)}/{state.REQUEST}") is not None:
        return []
    scene = look(store, record, tunables, now=now)
    place = (owed[1] if owed else None) or _pane(record)
    if place is None or (scene.person.here and owed is None) or state.away(store.runtime) is not None:
        return []
    text = LINE.format(count=len(found))
    try:
        with lock.Locked(scene.path("lock"), timeout=0.1):
            done = keys.line(place, scene, text, again=lambda: "", before=lambda: None, now=now)
    except LockBusyError:
        return []
    if done.outcome == keys.LATER:
        return []
    memory.delivered[record.session] = now
    memory.owed.pop(record.session, None)
    if done.outcome == keys.SUBMITTED:
        return [f"{record.session}: delivered: {text}"]
    return [f"{record.session}: not delivered: {done.token}: {done.detail}"]


def _pane(record: SessionRecord) -> tmux.Place | None:
    """The pane the session's SessionStart hook ran in, else the one its client was started in; `keys.ready` checks it before anything is typed."""
    noted = tmux.place({"TMUX": record.tmux, "TMUX_PANE": record.pane})
    if noted is not None:
        return noted
    try:
        with open(f"/proc/{record.pid}/environ", "rb") as file:
            rows = file.read(1 << 20).decode("utf-8", "replace").split("\0")
    except OSError:
        return None
    return tmux.place(dict(row.partition("=")[::2] for row in rows if row.startswith("TMUX")))


def undelivered(runtime: str) -> str:
    """What `--once` says when wakes wait, "" when none do."""
    found = wakes.waiting(runtime)
    return f"{len(found)} wakes wait; {ONCE}" if found else ""
