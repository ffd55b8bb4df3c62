"""What a person asked, kept before the client can lose it: Esc drops a turn before any Stop, and a client may die in the middle of one.

Apart from the writer, whose forty modules cost the prompt hook half of what it takes (docs/explanation/performance.md).
"""

from __future__ import annotations

from vault_mem import receipts, redact
from vault_mem.errors import BadPayloadError
from vault_mem.session import identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vault_mem.session.event import HookEvent
    from vault_mem.vault.store import Store


def note(event: HookEvent, store: Store, *, now: float) -> None:
    """Append the redacted prompt to `runtime/journal.jsonl`; the writer and the sweep read it from there. Raises BadPayloadError, OSError."""
    if not event.session_id:
        raise BadPayloadError("the payload has no session_id")
    if event.prompt.strip():
        prompt = redact.redact(event.prompt, redact.environment_secrets(store.environ))
        receipts.journal(store.runtime, now=now, session=identity.safe_id(event.session_id), prompt=prompt)
