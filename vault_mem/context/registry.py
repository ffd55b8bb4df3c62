"""What each client can do for continuity, and what that claim rests on. A claim nobody can check stays `unknown`; it is never taken for no.

basis: `fixture` a recorded payload of that version shows it, `wiring` the client has the hook and we register it, `live` it was tried with the
real client, `none` nothing of ours shows it.
"""

from __future__ import annotations

from vault_mem.record import NamedTuple

SUPPORTED, PARTIAL, UNSUPPORTED, UNKNOWN = "supported", "partial", "unsupported", "unknown"
TELEMETRY, PRE, POST, TRIGGER = "telemetry", "pre-signal", "post-signal", "trigger"
NO_TRIGGER = "a hook cannot start a compaction in the session that runs it"


class Claim(NamedTuple):
    """One cell: state, basis, and what limits it."""

    state: str
    basis: str
    note: str = ""


CLAIMS: dict[str, dict[str, Claim]] = {
    "claude": {
        TELEMETRY: Claim(
            PARTIAL, "fixture", "the status line names tokens and window, no hook does; the transcript names tokens"
        ),
        PRE: Claim(SUPPORTED, "live", "PreCompact; may come without a compaction; tried with 2.1.332"),
        POST: Claim(SUPPORTED, "live", "SessionStart compact, then PostCompact; tried with 2.1.332"),
        TRIGGER: Claim(UNSUPPORTED, "none", NO_TRIGGER),
    },
    "codex": {
        TELEMETRY: Claim(
            PARTIAL, "fixture", "no hook names it; the rollout names tokens, and the window where the client wrote it"
        ),
        PRE: Claim(SUPPORTED, "live", "PreCompact; tried with 0.171.0"),
        POST: Claim(
            SUPPORTED, "live", "PostCompact, then SessionStart compact with the next prompt; tried with 0.171.0"
        ),
        TRIGGER: Claim(UNSUPPORTED, "none", NO_TRIGGER),
    },
    "cursor": {
        TELEMETRY: Claim(UNKNOWN, "none", "no recorded payload"),
        PRE: Claim(UNKNOWN, "none", "no recorded payload"),
        POST: Claim(UNKNOWN, "none", "no recorded payload"),
        TRIGGER: Claim(UNSUPPORTED, "none", NO_TRIGGER),
    },
}
