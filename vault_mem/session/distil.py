"""Turns in, evidence and bullets out: the way to `folding`, whose one pass does the work."""

from __future__ import annotations

from vault_mem.session.folding import Folding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from vault_mem.capsule.model import Bullet
    from vault_mem.session.evidence import Evidence
    from vault_mem.session.turns import Turn


def fold(
    evidence: Evidence,
    turns: Iterable[Turn],
    *,
    project: str,
    redact: Callable[[str], str] | None = None,
    skip_until: float = 0.0,
    quiet_until: float = 0.0,
    undated: float = 0.0,
) -> tuple[Evidence, tuple[Bullet, ...]]:
    """The evidence after *turns*, and the bullets that they give.

    project: its directory, what paths are relative to. redact: applied to every text before it is cut or kept.
    skip_until: records at or before this time are passed over (a rewritten transcript whose evidence is at hand).
    quiet_until: records at or before this time shape the evidence and give no bullet (the evidence was lost, the capsule was not).
    undated: the time of records that have none when no record before them has one.
    """
    folding = Folding(evidence, project=project, redact=redact, quiet_until=quiet_until, undated=undated)
    at = None
    for turn in turns:
        at = at if turn.at is None else turn.at
        if at is None or at > skip_until:
            folding.take(turn)
    return folding.finished()


def payload_message(
    evidence: Evidence, text: str, *, at: float, redact: Callable[[str], str] | None = None
) -> tuple[Evidence, tuple[Bullet, ...]]:
    """The turn is over and *text* was the last thing the agent said; empty when the client did not tell, then its last record counts.

    A record with the same words that arrives later is nothing new.
    """
    folding = Folding(evidence, project="", redact=redact)
    folding.close_with(text, at)
    return folding.finished()
