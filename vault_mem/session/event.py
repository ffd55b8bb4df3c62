"""What a client's hook said, in one shape for all clients."""

from __future__ import annotations

from vault_mem.record import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


class HookEvent(NamedTuple):
    """One hook call; a field that the payload does not have, or has with another type, is empty. given: the payload itself."""

    event: str = ""
    session_id: str = ""
    transcript_path: str = ""
    cwd: str = ""
    source: str = ""
    reason: str = ""
    prompt: str = ""
    trigger: str = ""
    stop_hook_active: bool = False
    last_assistant_message: str = ""
    harness: str = ""
    model: str = ""
    agent_id: str = ""
    agent_type: str = ""
    turn: str = ""
    given: Mapping[str, Any] = {}
