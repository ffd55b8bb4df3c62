"""The clients we know: one table, and what is asked of each."""

from __future__ import annotations

from vault_mem import jsontext
from vault_mem.errors import BadPayloadError
from vault_mem.session.event import HookEvent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from vault_mem.session.turns import Turn

DEFAULT = "claude"
NAMES = ("claude", "codex")


def reader(name: str) -> Callable[[bytes], tuple[Turn, ...]]:
    """What turns one transcript line of the client *name* into turns; it never raises. Raises BadPayloadError for a client unknown here."""
    # A hook serves one client, and most hooks read no transcript at all.
    match name or DEFAULT:
        case "claude":
            from vault_mem.harness import claude

            return claude.read
        case "codex":
            from vault_mem.harness import codex

            return codex.read
    raise _unknown(name)


def _unknown(name: str) -> BadPayloadError:
    return BadPayloadError(f"unknown harness {name!r}; known: {', '.join(NAMES)}")


def recognised(payload: dict[str, Any]) -> str:
    """The client that sent *payload*."""
    path = payload.get("transcript_path")
    name = path.replace("\\", "/").rpartition("/")[2] if isinstance(path, str) else ""
    return "codex" if name.startswith("rollout-") or isinstance(payload.get("turn_id"), str) else DEFAULT


def parse(payload: bytes, *, harness: str = "") -> HookEvent:
    """The hook call in *payload*, UTF-8 whatever the locale. Raises BadPayloadError for anything that is no JSON object."""
    text = payload.decode("utf-8", "replace").removeprefix("\ufeff")
    if not text.strip(" \t\r\n\0"):
        raise BadPayloadError("empty")
    try:
        value = jsontext.loads(text.strip("\0"))
    except ValueError as error:
        raise BadPayloadError(f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise BadPayloadError(f"not an object but {type(value).__name__}")
    if harness and harness not in NAMES:
        raise _unknown(harness)

    def text_of(name: str) -> str:
        found = value.get(name)
        return found if isinstance(found, str) else ""

    model = value.get("model")
    return HookEvent(
        event=text_of("hook_event_name"),
        session_id=text_of("session_id"),
        transcript_path=text_of("transcript_path"),
        cwd=text_of("cwd"),
        source=text_of("source"),
        reason=text_of("reason"),
        prompt=text_of("prompt"),
        trigger=text_of("trigger"),
        stop_hook_active=value.get("stop_hook_active") is True,
        last_assistant_message=text_of("last_assistant_message"),
        harness=harness or recognised(value),
        model=model if isinstance(model, str) else str(model.get("id", "")) if isinstance(model, dict) else "",
        agent_id=text_of("agent_id"),
        agent_type=text_of("agent_type"),
        turn=text_of("turn_id") or text_of("prompt_id"),
        given=value,
    )
