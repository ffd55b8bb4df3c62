"""The hooks around a compaction: PreCompact, PostCompact, SessionStart `compact`, and what later hooks catch up on. Loaded only then."""

from __future__ import annotations

from vault_mem import writer
from vault_mem.context import children, cycle
from vault_mem.errors import VaultMemError
from vault_mem.hooks import streams
from vault_mem.record import NamedTuple
from vault_mem.session import identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from vault_mem.session.event import HookEvent
    from vault_mem.vault.store import Store

CHANNELS = {"post-tool-use": cycle.TOOL, "user-prompt-submit": cycle.PROMPT, "stop": cycle.STOP}


class Done(NamedTuple):
    """What came of it: a token, a sentence, problems met on the way."""

    token: str
    detail: str = ""
    problems: tuple[str, ...] = ()


def before(event: HookEvent, store: Store, *, now: float, wait: float) -> Done:
    """PreCompact: save, then checkpoint; a save that is refused does not keep the checkpoint from being made."""
    cycle.subject_of(event, store)
    problems: list[str] = []
    try:
        saved = writer.save(event, store, now=now, wait=wait)
        token, detail = saved.token, f"{saved.capsule} {saved.detail}".strip()
        problems.extend(saved.problems)
    except (VaultMemError, OSError) as error:
        token = error.token if isinstance(error, VaultMemError) else f"error:{type(error).__name__}"
        detail = str(error)
        problems.append(f"{token}: {detail}")
    made = cycle.announce(event, store, now=now)
    if made.token in ("checkpointed", "checkpoint-reused", "delegated"):
        return Done(token, f"{detail}; {made.token} {made.detail}", tuple(problems))
    return Done(made.token, f"{made.detail}; {token} {detail}", tuple(problems))


def after(event: HookEvent, store: Store, *, now: float) -> Done:
    """PostCompact: this event has no way to the model, so nothing is printed."""
    made = cycle.complete(event, store, now=now, save=_saving(event, store, now))
    return Done(made.token, made.detail)


def start(event: HookEvent, store: Store, *, now: float) -> Done:
    """SessionStart after a compaction: the one document on standard output is the briefing, or nothing.

    Raises VaultMemError, OSError only while nothing was printed: a second document would spoil the first.
    """
    printed: list[str] = []
    put = _printer(cycle.SESSION_START)

    def say(text: str, warning: str) -> None:
        put(text, warning)
        printed.append(text)

    try:
        made = cycle.begun(event, store, now=now, save=_saving(event, store, now), say=say)
    except (VaultMemError, OSError) as error:
        if not printed:
            raise
        return Done("briefed", f"not recorded: {error}")
    return Done(made.token, made.detail)


def later(event: HookEvent, store: Store, hook: str, *, now: float) -> Done:
    """Another hook of a session that has something open, or the tool of a sub-agent."""
    if event.agent_id:
        children.note(event, store, identity.safe_id(event.session_id), now=now, hook=hook)
        return Done("nothing-to-do", "the work of a sub-agent is noted")
    channel = CHANNELS[hook]
    made = cycle.follow(event, store, channel, now=now, say=_printer(channel))
    return Done(made.token, made.detail)


def _saving(event: HookEvent, store: Store, now: float) -> Callable[[], str]:
    def save() -> str:
        try:
            return writer.save(event, store, now=now, wait=1.0).token
        except (VaultMemError, OSError) as error:
            return str(error)

    return save


def _printer(channel: str) -> Callable[[str, str], None]:
    def say(text: str, warning: str) -> None:
        streams.put_context(text, event=channel, warning=warning)

    return say
