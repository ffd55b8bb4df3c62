"""Whether an event of several sessions is being conducted from outside: then every start defers to the conductor."""

from __future__ import annotations

from vault_mem import jsontext

TERMINAL = frozenset({"done", "cancelled", "canceled", "closed", "complete", "aborted"})
LINE = (
    "[SESSIONSTART:reinject] A coordinated event is live (phase {phase}, {path}): its conductor says what this session does. "
    "Nothing was handed over and nothing consumed."
)


def phase_of(text: str) -> str:
    """The phase a state file names, lower case; of a torn file the first one that stands in it; "" when there is none."""
    try:
        value = jsontext.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        return _torn(text)
    phase = value.get("phase") if isinstance(value, dict) else None
    return phase.strip().lower() if isinstance(phase, str) else ""


def _torn(text: str) -> str:
    for part in text.split('"phase"')[1:]:
        colon, _, rest = part.lstrip().partition('"')
        word, quote, _ = rest.partition('"')
        if colon.strip() == ":" and quote:
            return word.strip().lower()
    return ""


def is_live(text: str) -> bool:
    """Whether the file that holds *text* conducts right now: everything but a terminal phase does, a torn file included."""
    return phase_of(text) not in TERMINAL
