"""Names made of a session id: safe as a file name, never shared by two sessions."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hashlib import sha256
else:
    try:
        from _sha256 import sha256
    except ImportError:  # newer interpreters call the module _sha2, others have only hashlib
        try:
            from _sha2 import sha256
        except ImportError:
            from hashlib import sha256

LONGEST = 128
PUNCTUATION = "._-"


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def folder(safe: str) -> str:
    """The name of the folder that belongs to the session *safe*: 24 hex digits that do not tell the id."""
    return _digest(safe)[:24]


def safe_id(raw: str) -> str:
    """*raw* itself where it can be a file name, else a name made of its hash."""
    if 0 < len(raw) <= LONGEST and raw.isascii() and raw[0].isalnum():
        rest = raw
        for mark in PUNCTUATION:
            rest = rest.replace(mark, "")
        if rest.isalnum():
            return raw
    return "session-" + _digest(raw)[:12]


def autosave_id(safe: str, day: str, *, n: int = 1) -> str:
    """The id of the *n*-th autosave capsule that the session *safe* begins on *day*."""
    # Time-ordered ids of sessions a minute apart share their first eight characters; the hash tells them apart.
    name = f"{day}-auto-{safe[:8]}-{_digest(safe)[:4]}"
    return name if n < 2 else f"{name}-{n}"


def legacy_mark(safe: str) -> str:
    """How the name of an aigent-OS autosave of the session *safe* ends; its header does not name the session."""
    return f"-auto-{safe if safe.startswith('session-') else safe[:8]}"
