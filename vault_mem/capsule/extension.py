"""The lifecycle extension: lines an install declares for the procedure and for the end of a capsule. Data, never code.

A declaration is accepted whole or refused whole: a half-armed handshake looks exactly like a working one. The declared text reaches the model as it
was written (it is a protocol body to be sent verbatim), so it is checked here to be one line without anything a terminal or a client obeys.
"""

from __future__ import annotations

from vault_mem import jsontext
from vault_mem.capsule.inert import inert
from vault_mem.record import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TOKEN = "LIFECYCLE-EXTENSION:"
V1, V2 = "LifecycleExtension/v1", "LifecycleExtension/v2"
ACKS = ("resume_ack", "capsule_ack")
ARRAYS = ("resume_preload", "resume_reground")
SLOT = "{capsule_id}"
LONGEST = 500
"""Characters of a declared line, with the id substituted."""
ID_BUDGET = 128
"""What an id is charged with when a declaration is checked."""
MOST_LINES = 24

_BREAKS = "\r\n\u2028\u2029\x85"
# C1 controls are refused beyond the reference: a terminal obeys them.
_CONTROLS = frozenset(
    chr(code)
    for first, last in (
        (0x00, 0x1F),
        (0x7F, 0x9F),
        (0x061C, 0x061C),
        (0x200B, 0x200F),
        (0x202A, 0x202E),
        (0x2060, 0x2069),
        (0xFEFF, 0xFEFF),
        (0xD800, 0xDFFF),
        (0xE0000, 0xE007F),
    )
    for code in range(first, last + 1)
)


class Declaration(NamedTuple):
    """What an install declared; empty without a declaration. warning: one line that says why a declaration was refused."""

    resume_ack: str = ""
    capsule_ack: str = ""
    preload: tuple[str, ...] = ()
    reground: tuple[str, ...] = ()
    warning: str = ""


class _RefusedError(Exception):
    """The first rule that a declaration breaks; the text is the reason."""


def refused(path: str, reason: str) -> Declaration:
    """No declaration, and the line that says which file was refused and why."""
    return Declaration(warning=f"{TOKEN} declaration ignored: {inert(path, limit=300)}: {inert(reason, limit=400)}")


def declared(text: str, *, path: str) -> Declaration:
    """The declaration in *text*, checked; *path* is named when it is refused."""
    try:
        value = jsontext.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        return refused(path, f"is not valid JSON ({error})")
    try:
        return _checked(value)
    except _RefusedError as error:
        return refused(path, str(error))


def _checked(value: Any) -> Declaration:
    if not isinstance(value, dict):
        raise _RefusedError("root must be an object")
    schema = value.get("schema")
    if not isinstance(schema, str) or schema not in (V1, V2):
        raise _RefusedError(f"schema must equal exactly {V1} or {V2}")
    known = ("schema", *ACKS, *(ARRAYS if schema == V2 else ()))
    unknown = sorted(key for key in value if key not in known)
    if unknown:
        raise _RefusedError(f"has unsupported key(s): {', '.join(unknown)}")
    acks = [_ack(key, value[key]) if key in value else "" for key in ACKS]
    arrays = [_array(key, value[key]) if key in value else () for key in ARRAYS]
    return Declaration(acks[0], acks[1], arrays[0], arrays[1])


def _ack(field: str, value: Any) -> str:
    text = _line(field, value)
    slots = text.count(SLOT)
    if slots > 1:
        raise _RefusedError(f"{field} must carry the capsule id slot at most once")
    worst = len(text) + (ID_BUDGET - len(SLOT) if slots else 0)
    if worst > LONGEST:
        raise _RefusedError(
            f"{field} must be at most {LONGEST} characters with the id in place (worst case {worst}, {ID_BUDGET} for the id)"
        )
    return text


def _array(field: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise _RefusedError(f"{field} must be an array")
    if not 1 <= len(value) <= MOST_LINES:
        raise _RefusedError(f"{field} must have 1 to {MOST_LINES} entries")
    lines = []
    for number, each in enumerate(value, 1):
        name = f"{field}[{number}]"
        text = _line(name, each)
        if SLOT in text:
            raise _RefusedError(f"{name} procedure lines carry no capsule id slot")
        if len(text) > LONGEST:
            raise _RefusedError(f"{name} must be at most {LONGEST} characters (it has {len(text)})")
        lines.append(text)
    return tuple(lines)


def _line(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _RefusedError(f"{name} must be a string")
    text = value.strip()
    if not text.strip("\ufeff"):
        raise _RefusedError(f"{name} must not be empty")
    if any(char in _BREAKS for char in text):
        raise _RefusedError(f"{name} must be a single line")
    if any(char in _CONTROLS for char in text):
        raise _RefusedError(f"{name} must not contain control or bidi characters")
    return text


def rendered(field: str, template: str, *, capsule: str) -> tuple[str, str]:
    """The line of *field* with the id of *capsule* in it, and a warning in its place when it cannot be rendered truthfully."""
    if SLOT not in template:
        return fold(template), ""
    name = fold(capsule)
    if not name:
        return "", f"{TOKEN} {field} not rendered: it needs a capsule id and no capsule was loaded"
    text = fold(template.replace(SLOT, name))
    if len(text) > LONGEST:
        return "", f"{TOKEN} {field} not rendered: {len(text)} characters with the id in place, {LONGEST} are allowed"
    return text, ""


def fold(text: str) -> str:
    """*text* on one line: runs of line breaks and of control characters become one space; accepted text stays as it is."""
    folded = []
    gap = False
    for char in text:
        if char in _BREAKS or char in _CONTROLS:
            gap = True
            continue
        if gap:
            folded.append(" ")
            gap = False
        folded.append(char)
    return "".join(folded).strip()
