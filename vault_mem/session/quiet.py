"""Whether anything is unfinished that a cleared context would lose sight of. Pure; only unfinished things count, each with its age."""

from __future__ import annotations

from vault_mem.record import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

OPENING = ("open", "needs-decision", "blocked")
CLOSING = ("resolved", "handed-over", "captain-held")
KEY_LIMIT = 64
_KEY = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


class Item(NamedTuple):
    """Something unfinished. kind: `wake`, `hold`, `decision`, `background`, `git`; since: epoch seconds, 0 when unknown."""

    kind: str
    key: str
    why: str = ""
    since: float = 0.0


def is_key(text: str) -> bool:
    """Whether *text* can name a hold or a decision."""
    return 0 < len(text) <= KEY_LIMIT and _KEY.issuperset(text) and text[0] not in ".-"


def open_decisions(rows: Iterable[Mapping[str, Any]]) -> tuple[Item, ...]:
    """The decisions that are open after the whole log was folded; rows that make no sense are passed over."""
    held: dict[str, Item] = {}
    for row in rows:
        verb, key, why, at = row.get("verb"), row.get("key"), row.get("why"), row.get("at")
        if not isinstance(key, str) or not is_key(key):
            continue
        if verb in OPENING:
            since = float(at) if isinstance(at, int | float) and not isinstance(at, bool) else 0.0
            held[key] = Item("decision", key, why if isinstance(why, str) else "", since)
        elif verb in CLOSING:
            held.pop(key, None)
    return tuple(held.values())


def said(item: Item, *, now: float) -> str:
    """One clause about an item, with its age."""
    age = f" since {duration(now - item.since)}" if 0 < item.since <= now else ""
    return f"{item.kind} {item.key}{age}{': ' + item.why if item.why else ''}"


def duration(seconds: float) -> str:
    """`7h 0m` or `12m`."""
    minutes = int(max(seconds, 0.0) // 60)
    return f"{minutes // 60}h {minutes % 60}m" if minutes >= 60 else f"{minutes}m"
