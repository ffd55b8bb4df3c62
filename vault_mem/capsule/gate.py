"""What a capsule may not say: the problems of its contract fields, echoes of injected text, ceremony in place of an action.

Every pattern is anchored at the start of the trimmed text, never matched inside it. Tables: the capsule reference in docs.
"""

from __future__ import annotations

from vault_mem import stamps
from vault_mem.capsule import model, sections

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from vault_mem.capsule.model import Value

_ECHOES = (
    "[supervisor-resume]",
    "[refresh-cycle]",
    "[auto-pull]",
    "[capsule-request]",
    "[room from ",
    "# autonomous loop check",
    "autonomous loop tick",
    "<task-notification>",
    "[system notification",
)
_ECHO_WORDS = ("[context-refresh", "[inbox")
_NOT_CAPTURED = (
    "unknown: no human objective was captured",
    "unknown: no operator objective was captured",
    "no concrete next action was captured",
    "in-flight work (auto-captured",
)
_BEGINNINGS = frozenset("UuNnIi")
_CEREMONIES = (
    *(f"{verb} the {active}turn state" for verb in ("re-read", "reread") for active in ("", "active ")),
    "resume from the latest session log",
    *(f"resume {verb}{now}complete" for verb in ("", "is ", "was ") for now in ("", "now ")),
    *(f"{the}receipt {verb}written" for the in ("", "the ") for verb in ("", "is ", "was ")),
)
_COMPLY = ("comply with any supervisor-resume instruction", "comply with the supervisor-resume instruction")
_ACKNOWLEDGEMENT = "RESUME-ACK"
_BLANKS = " \t\n\r\v\f\u00a0\ufeff\u2028\u2029"


def _begins_with_word(text: str, words: tuple[str, ...]) -> bool:
    """Whether *text* begins with one of *words* and the word ends there."""
    for word in words:
        if text.startswith(word):
            after = text[len(word) : len(word) + 1]
            if not (after.isalnum() or after == "_"):
                return True
    return False


def injection_echo(text: str) -> bool:
    """Whether *text* is something that a program put into the session, not a request of a person."""
    lowered = text.strip(_BLANKS).lower()
    return lowered.startswith(_ECHOES) or _begins_with_word(lowered, _ECHO_WORDS)


def ceremony_action(text: str) -> bool:
    """Whether *text* only tells the next session to resume, which is no work."""
    squeezed = " ".join(text.strip(_BLANKS).split())
    lowered = squeezed.lower()
    return (
        _begins_with_word(lowered, _CEREMONIES)
        or lowered.startswith(_COMPLY)
        or _begins_with_word(squeezed, (_ACKNOWLEDGEMENT,))
    )


def not_captured(text: str) -> bool:
    """Whether *text* is one of the placeholders that say nothing was captured; a reading question, never a problem on writing."""
    # Asked of every capsule: most begin with another letter.
    return text.lstrip(_BLANKS)[:1] in _BEGINNINGS and text.strip(_BLANKS).lower().startswith(_NOT_CAPTURED)


def problems(fields: Mapping[str, Value], body: str = "") -> tuple[str, ...]:
    """What is wrong with a capsule, in the order of its fields; each text names the field. Empty: nothing."""
    return tuple(text for _, _, text in named(fields, body))


def named(fields: Mapping[str, Value], body: str = "") -> tuple[tuple[str, str, str], ...]:
    """The same problems as (token, field or `body`, text)."""
    found = [("missing-required-field", key, text) for key in model.REQUIRED if (text := _emptiness(fields, key))]
    status = fields.get("status")
    if status is None or model.status_of(fields) not in model.STATUSES:
        text = f"status must be one of {', '.join(model.STATUSES)}" if status else "status must be non-empty"
        found.append(("bad-status", "status", text))
    created = fields.get("created_at")
    if created is None or not str(created).strip():
        found.append(("bad-created_at", "created_at", "created_at must be non-empty"))
    elif stamps.epoch_of(created) is None:
        text = "created_at must be a time such as 2026-12-01T10:00:00Z (bad-created_at)"
        found.append(("bad-created_at", "created_at", text))
    objective, action = fields.get("objective"), fields.get("next_valid_action")
    if isinstance(objective, str) and injection_echo(objective):
        text = "objective is an injection echo: a program wrote it, not a person"
        found.append(("injection-echo", "objective", text))
    if isinstance(action, str) and ceremony_action(action):
        text = "next_valid_action is a resume ceremony: it tells to resume, not what to do"
        found.append(("ceremony-action", "next_valid_action", text))
    found.extend(("anchor-damage", "body", f"the body: {problem}") for problem in sections.doubled(body))
    return tuple(found)


def _emptiness(fields: Mapping[str, Value], key: str) -> str:
    if key not in fields:
        return f"{key} must be non-empty (it is missing)"
    value = fields[key]
    if value is None:
        return f"{key} must be non-empty (it is null)"
    if not isinstance(value, str):
        return f"{key} must be non-empty text (it is a list)"
    return "" if value.strip(_BLANKS) else f"{key} must be non-empty"
