"""`vault-mem hook EVENT`: a payload on standard input, nothing on standard output, exit 0 whatever happens."""

from __future__ import annotations

import os

from vault_mem import image, processes
from vault_mem.errors import UntrustedSeatError, VaultMemError
from vault_mem.harness import registry
from vault_mem.hooks import streams
from vault_mem.record import NamedTuple
from vault_mem.vault import store as seats

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from vault_mem.session.event import HookEvent
    from vault_mem.vault.store import Store

GUARD = "VAULT_MEM_HOOK"
SAVING = {"stop": 2.0, "session-end": 0.3, "pre-compact": 2.0}
"""Hooks that save, and how many seconds they may wait for the vault lock."""
NOTING = ("user-prompt-submit",)
QUIET = ("post-tool-use", "post-compact")
QUIET_TOKENS = ("saved", "no-change", "noted", "nothing-to-do", "completed", "briefed")


USAGE = """usage: vault-mem hook EVENT [--harness claude|codex] [--root DIR] [--explain]

What `vault-mem init` wires. EVENT is stop, session-end, pre-compact, post-compact, user-prompt-submit or post-tool-use; the client's
payload is read from standard input. Exit 0 always; the reason for what was not done stands on standard error.

  --harness NAME  whose payload it is, instead of recognising it
  --root DIR      the seat, instead of looking for one
  --explain       say what was done, too

example: vault-mem hook stop --explain </path/to/payload.json
"""


class Outcome(NamedTuple):
    """What a run came to: one token, a sentence, problems that were met on the way."""

    token: str
    detail: str = ""
    problems: tuple[str, ...] = ()


class Options(NamedTuple):
    """What stood on the command line; *problem* names what could not be understood."""

    event: str = ""
    harness: str = ""
    root: str = ""
    explain: bool = False
    problem: str = ""


def options(arguments: list[str]) -> Options:
    """Read the command line; nothing here may end with an exit code of its own."""
    found: dict[str, str] = {}
    rest = list(arguments)
    problem = ""
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if word == "--explain":
            found["explain"] = "1"
        elif name in ("--harness", "--root") and (equals or rest):
            found[name[2:]] = value if equals else rest.pop(0)
        elif word.startswith("-") or "event" in found:
            problem = problem or f"cannot understand {word!r}"
        else:
            found["event"] = word
    event = found.get("event", "")
    if event not in SAVING and event not in NOTING and event not in QUIET:
        problem = problem or f"unknown hook event {event!r}"
    return Options(event, found.get("harness", ""), found.get("root", ""), explain="explain" in found, problem=problem)


def switched_off(environ: Mapping[str, str]) -> bool:
    """Whether a person switched the hooks off."""
    return environ.get("VAULT_MEM_OFF") == "1" or environ.get("LIFECYCLE_KILL_STOP_WRITER") == "1"


def recursing(environ: Mapping[str, str]) -> bool:
    """Whether a live hook of ours is among the ancestors; a stale mark in a detached process does not count."""
    pid, _, start = environ.get(GUARD, "").partition(":")
    return pid.isdigit() and any(
        (process.pid, process.start) == (int(pid), start) for process in processes.ancestors(os.getpid())
    )


def main(arguments: list[str]) -> int:
    """Run one hook; the reason for everything that was not done stands on standard error and in the log."""
    now = streams.clock()
    if "--help" in arguments or "-h" in arguments:
        streams.put(1, USAGE)
        return 0
    chosen = options(arguments)
    payload = streams.read_input()
    outcome = guarded(chosen, payload, now=now)
    if chosen.explain or outcome.token not in QUIET_TOKENS:
        streams.complain(outcome.token, f"{outcome.token}: {outcome.detail}")
    for problem in outcome.problems if chosen.explain else ():
        streams.complain("problem", problem)
    return 0


def guarded(chosen: Options, payload: bytes, *, now: float) -> Outcome:
    """The outcome of a run; every failure is one."""
    environ = os.environ
    try:
        if chosen.problem:
            return Outcome("usage", chosen.problem)
        if switched_off(environ):
            return Outcome("killed", "VAULT_MEM_OFF or LIFECYCLE_KILL_STOP_WRITER is set")
        if recursing(environ):
            return Outcome("recursion", "a hook of ours started this process")
        event = registry.parse(payload, harness=chosen.harness)
        return _run(chosen, event, environ, now=now)
    except VaultMemError as error:
        return Outcome(error.token, str(error))
    except Exception as error:  # noqa: BLE001 - a hook never breaks a session; the class is the token
        return Outcome(f"error:{type(error).__name__}", str(error))


def _run(chosen: Options, event: HookEvent, environ: Mapping[str, str], *, now: float) -> Outcome:
    if not os.path.isabs(event.cwd):
        event = event._replace(cwd=streams.cwd())
    try:
        store = seats.opened(explicit=chosen.root, environ=environ, cwd=event.cwd)
    except UntrustedSeatError:
        from vault_mem import trust

        seat = seats.find(explicit=chosen.root, environ=environ, cwd=event.cwd)
        trust.note_untrusted(chosen.event, seat.memory.path, environ=environ, now=now)
        raise
    image.ahead("saving" if chosen.event in SAVING else chosen.event)
    from vault_mem import receipts

    try:
        outcome = _act(chosen, event, store, now=now)
    except VaultMemError as error:
        outcome = Outcome(error.token, str(error))
    except Exception as error:  # noqa: BLE001 - logged in the seat, then told
        outcome = Outcome(f"error:{type(error).__name__}", str(error))
    detail = "; ".join((outcome.detail, *store.notes, *outcome.problems))
    receipts.log(
        store.runtime, now=now, door=chosen.event, outcome=outcome.token, session=event.session_id[:128], detail=detail
    )
    if chosen.event == "session-end":
        from vault_mem.vault import upkeep

        upkeep.ask(store, now=now)
    return outcome


def _act(chosen: Options, event: HookEvent, store: Store, *, now: float) -> Outcome:
    if chosen.event == "post-compact" or (chosen.event == "pre-compact" and event.session_id):
        from vault_mem.hooks import compact

        if chosen.event == "post-compact":
            return Outcome(*compact.after(event, store, now=now))
        return Outcome(*compact.before(event, store, now=now, wait=SAVING[chosen.event]))
    if chosen.event in QUIET:
        return _caught_up(chosen, event, store, now=now) or Outcome("nothing-to-do")
    if chosen.event in NOTING:
        from vault_mem import journal

        journal.note(event, store, now=now)
        _caught_up(chosen, event, store, now=now)
        _woken(event, store, now=now)
        return Outcome("noted")
    from vault_mem import writer

    saved = writer.save(event, store, now=now, wait=SAVING[chosen.event])
    if chosen.event == "session-end" and event.reason == "clear":
        writer.hand_off(event, store)
    if chosen.event == "stop":
        _caught_up(chosen, event, store, now=now)
        _turn_ended(event, store)
    return Outcome(saved.token, f"{saved.capsule} {saved.detail}".strip(), saved.problems)


def _woken(event: HookEvent, store: Store, *, now: float) -> None:
    """Tell the session its wakes; one look at two file names where no watcher was ever set up."""
    if not any(os.path.exists(f"{store.runtime}/{name}") for name in ("wakes.jsonl", "reset/beacon.json")):
        return
    from vault_mem import wakes
    from vault_mem.session import identity

    lines = wakes.lines(store.runtime, identity.safe_id(event.session_id) if event.session_id else "", now=now)
    if lines:
        try:
            streams.put_context("\n".join(lines) + "\n", event="UserPromptSubmit")
        except OSError as error:
            streams.complain("not-delivered", str(error))


def _turn_ended(event: HookEvent, store: Store) -> None:
    """A reset that this session asked for may be typed now; the watcher does that, nothing is printed here."""
    if not event.session_id or not os.path.exists(f"{store.runtime}/reset"):
        return
    from vault_mem import wakes
    from vault_mem.session import identity

    wakes.requested(store.runtime, identity.safe_id(event.session_id))


def _caught_up(chosen: Options, event: HookEvent, store: Store, *, now: float) -> Outcome | None:
    """What a compaction left to do for this hook; one look at a file name where there was none."""
    if not event.session_id:
        return None
    from vault_mem.session import identity

    opened = f"{store.runtime}/context/open/{identity.safe_id(event.session_id)}"
    if not os.path.exists(opened) and not (event.agent_id and chosen.event == "post-tool-use"):
        return None
    from vault_mem.hooks import compact

    try:
        return Outcome(*compact.later(event, store, chosen.event, now=now))
    except (VaultMemError, OSError) as error:
        # What the hook itself was for is done; this is said and does not undo it.
        token = error.token if isinstance(error, VaultMemError) else f"error:{type(error).__name__}"
        streams.complain(token, f"{token}: {error}")
        return Outcome(token, str(error))
