"""`vault-mem resume`: the SessionStart hook (a payload on standard input), or by hand. As a hook: one document, exit 0."""

from __future__ import annotations

import os

from vault_mem import files, receipts, resume, trust
from vault_mem.capsule.inert import inert
from vault_mem.errors import (
    MemoryRootError,
    UntrustedSeatError,
    UsageError,
    VaultMemError,
)
from vault_mem.harness import registry
from vault_mem.hooks import answers, run, streams
from vault_mem.resume import Answer, Request
from vault_mem.session import identity
from vault_mem.vault import store as seats
from vault_mem.vault import tidy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from vault_mem.session.event import HookEvent

UNTRUSTED = (
    "untrusted-seat: a memory lies at {root}, but this user never trusted it. Nothing of it was read. "
    "Look at it first, then run `vault-mem trust` there."
)
STATE_LIMIT = 1 << 20
NO_BRIEFING = (
    "DEGRADED: the context of this session was compacted and its checkpoint cannot be served ({why}). "
    "Re-check everything before you edit; what the memory holds of this session:"
)


def options(arguments: list[str]) -> answers.Options:
    """Read the command line; raises UsageError."""
    found: dict[str, str] = {}
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if word in ("--peek", "--json", "--help", "-h"):
            found[word.lstrip("-")] = "1"
        elif name in ("--source", "--capsule", "--at", "--root", "--harness") and (equals or rest):
            found[name[2:]] = value if equals else rest.pop(0)
        else:
            raise UsageError(f"cannot understand {word!r}; see `vault-mem resume --help`")
    return answers.Options(
        found.get("source", ""),
        "peek" in found,
        found.get("capsule", ""),
        found.get("at", ""),
        "json" in found,
        found.get("root", ""),
        found.get("harness", ""),
        "help" in found or "h" in found,
    )


def main(arguments: list[str]) -> int:
    """Answer a SessionStart event, or a person."""
    now = streams.clock()
    try:
        chosen = options(arguments)
    except UsageError as error:
        # With a payload on the other end this is a hook, which never fails a session.
        streams.complain(error.token, str(error))
        return 0 if not streams.is_terminal() and streams.read_input().strip() else error.exit_code
    payload = (
        b"" if chosen.by_hand and not streams.waiting() else streams.read_input() if not streams.is_terminal() else b""
    )
    if not chosen.help and (payload.strip() or not (chosen.by_hand or streams.is_terminal())):
        return _hook(chosen, payload, now=now)
    from vault_mem.hooks import byhand

    return byhand.run(chosen, environ=os.environ, cwd=streams.cwd(), now=now)


def _hook(chosen: answers.Options, payload: bytes, *, now: float) -> int:
    try:
        if run.switched_off(os.environ):
            streams.complain("killed", "VAULT_MEM_OFF or LIFECYCLE_KILL_STOP_WRITER is set")
            return 0
        if run.recursing(os.environ):
            streams.complain("recursion", "a hook of ours started this process")
            return 0
        event = registry.parse(payload, harness=chosen.harness)
        _answer(chosen, event, now=now)
    except VaultMemError as error:
        streams.complain(error.token, str(error))
    except Exception as error:  # noqa: BLE001 - a hook never breaks a session; the class is the token
        streams.complain(f"error:{type(error).__name__}", str(error))
    return 0


def _answer(chosen: answers.Options, event: HookEvent, *, now: float) -> None:
    cwd = event.cwd if os.path.isabs(event.cwd) else streams.cwd()
    source = chosen.source or event.source
    request = Request(
        source,
        event.session_id if event.session_id.strip() else None,
        chosen.capsule,
        chosen.peek,
        event.transcript_path,
        event.harness,
        os.environ.get("CLAUDE_PROJECT_DIR") or cwd,
    )
    try:
        store = seats.opened(explicit=chosen.root, environ=os.environ, cwd=cwd)
    except UntrustedSeatError as error:
        seat = seats.find(explicit=chosen.root, environ=os.environ, cwd=cwd)
        trust.note_untrusted("resume", seat.memory.path, environ=os.environ, now=now)
        streams.complain("untrusted-seat", str(error))
        streams.put_context(UNTRUSTED.format(root=inert(seat.root, limit=300)) + "\n")
        return
    except MemoryRootError as error:
        streams.complain(error.token, str(error))
        streams.put_context(answers.unresolved(request, str(error), now=now))
        return
    line = _conducted(os.environ)
    if line:
        resume.started(request, store, now=now)
        streams.put_context(line + "\n")
        receipts.log(
            store.runtime,
            now=now,
            door="resume",
            outcome="conducted",
            session=(request.session or "")[:128],
            detail=line,
        )
        return
    if request.source == resume.COMPACT and request.session and not request.peek:
        _briefed(request, event, store, now=now)
        return
    answer = _served(request, store, now=now)
    answers.recorded(request, store, answer, now=now)
    if source == "startup":
        # The one start that nobody waits for; a client that dies never ends its session.
        from vault_mem.vault import upkeep

        upkeep.ask(store, now=now)


def _conducted(environ: Mapping[str, str]) -> str:
    """The line that names a live conductor of several sessions; empty when there is none. It wins over every source, a clear too."""
    path = environ.get("VAULT_MEM_COORDINATION_STATE") or environ.get("AIGENT_COORDINATION_STATE", "")
    if not path:
        return ""
    from vault_mem.session import coordination

    try:
        text = files.read_followed(path, limit=STATE_LIMIT).decode("utf-8", "replace")
    except OSError as error:
        streams.complain("coordination-unreadable", f"{path}: {error.strerror or error}")
        return ""
    if not coordination.is_live(text):
        return ""
    phase = inert(coordination.phase_of(text) or "unknown", limit=60)
    return coordination.LINE.format(phase=phase, path=inert(path, limit=300))


def _briefed(request: Request, event: HookEvent, store: seats.Store, *, now: float) -> None:
    """After a compaction: the session gets its own state back, whatever became of its capsule."""
    from vault_mem.hooks import compact

    resume.started(request, store, now=now)
    cwd = event.cwd if os.path.isabs(event.cwd) else streams.cwd()
    session = (request.session or "")[:128]
    try:
        done = compact.start(event._replace(cwd=cwd), store, now=now)
    except (OSError, VaultMemError) as error:
        token = error.token if isinstance(error, VaultMemError) else f"error:{type(error).__name__}"
        streams.complain(token, f"{token}: {error}")
        done = compact.Done(token, str(error))
        text = f"{NO_BRIEFING.format(why=inert(f'{token}: {error}', limit=300))}\n{resume.orient(request, store, now=now).text}"
        try:
            streams.put_context(text, warning=f"vault-mem: continuity degraded: {token}")
        except OSError:
            done = compact.Done("not-delivered", str(error))
    receipts.log(store.runtime, now=now, door="resume", outcome=done.token, session=session, detail=done.detail)


def _served(request: Request, store: seats.Store, *, now: float) -> Answer:
    for note in store.notes:
        receipts.log(store.runtime, now=now, door="resume", outcome=note, session=(request.session or "")[:128])
        streams.complain(note, f"{note}: the work tree of the memory was missing")
    if request.source != resume.COMPACT and not request.peek:
        _sweep(request, store, now=now)
        tidy.swept(store)
    resume.started(request, store, now=now)
    if request.source == resume.CLEAR and not request.peek:
        return resume.hand_over(request, store, clock=streams.clock, token=answers.mark(), say=_say)
    answer = (
        resume.peek(request, store, now=now, token=answers.mark())
        if request.peek
        else resume.orient(request, store, now=now)
    )
    try:
        _say(answer)
    except OSError as error:
        return answer._replace(token="not-delivered", text="", detail=str(error))
    return answer


def _say(answer: Answer) -> None:
    streams.put_context(answer.text)


def _sweep(request: Request, store: seats.Store, *, now: float) -> None:
    """Save what a client left behind when it died; only then is the writer loaded."""
    session = identity.safe_id(request.session) if request.session else ""
    if not receipts.behind(store.runtime, skip=session) and not receipts.owed(store.runtime):
        return
    from vault_mem import writer

    for outcome in writer.sweep(store, skip=session, now=now, wait=0.3):
        receipts.log(
            store.runtime, now=now, door="sweep", outcome=outcome.token, detail=f"{outcome.capsule} {outcome.detail}"
        )
