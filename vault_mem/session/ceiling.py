"""What the watcher says about a session's size: six classes, a throttle per class, and how long protection has been absent. Pure."""

from __future__ import annotations

from vault_mem.record import NamedTuple
from vault_mem.session import quiet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vault_mem.session.presence import Presence

RESET, ASK, BLOCKED, UNENFORCED, DEFERRED, UNCONFIRMED = (
    "reset",
    "ask",
    "blocked",
    "unenforced",
    "deferred",
    "unconfirmed",
)
ABSENT = (UNENFORCED, BLOCKED, DEFERRED, UNCONFIRMED)
"""Classes in which nothing protects the session; their repeats carry since when, for how long, and how often it was said."""
SURFACED, RESOLVED, SUPPRESSED = "surfaced", "resolved", "suppressed"
PREFIX = "check: context-ceiling: "


class Facts(NamedTuple):
    """What was found out about one session. tokens None with *problem* empty: not told yet (right after a compaction or at the start)."""

    tokens: int | None
    ceiling: int
    presence: Presence | None = None
    problem: str = ""
    unfinished: tuple[quiet.Item, ...] = ()
    wiring: str = ""
    away: bool = False
    unconfirmed: str = ""
    busy_since: float = 0.0
    phrase: str = ""


class Verdict(NamedTuple):
    """state: `surfaced` (say *text* under *kind*), `resolved` (forget the throttle), `suppressed` (say nothing, keep it)."""

    state: str
    kind: str = ""
    text: str = ""


class Throttle(NamedTuple):
    """What was said last: class, when, how often in a row, since when. suppressed: since when the session is over the ceiling and not quiet."""

    kind: str = ""
    at: float = 0.0
    since: float = 0.0
    times: int = 0
    suppressed: float = 0.0


def decide(facts: Facts, *, now: float, patience: float) -> Verdict:
    """The first row that fits. *patience*: seconds over the ceiling and not quiet after which that itself is said."""
    if facts.unconfirmed:
        return Verdict(SURFACED, UNCONFIRMED, f"{PREFIX}{facts.unconfirmed}")
    if facts.problem:
        text = f"{PREFIX}the ceiling of {facts.ceiling} tokens is UNENFORCED: {facts.problem}. Repair it or tell the person; never reset on this."
        return Verdict(SURFACED, UNENFORCED, text)
    if facts.tokens is None:
        return Verdict(SUPPRESSED)
    if facts.tokens < facts.ceiling:
        return Verdict(RESOLVED)
    over = f"{PREFIX}{facts.tokens} tokens is over the ceiling of {facts.ceiling}"
    if facts.unfinished:
        if facts.busy_since and now - facts.busy_since >= patience:
            what = "; ".join(quiet.said(item, now=now) for item in facts.unfinished[:3])
            age = quiet.duration(now - facts.busy_since)
            return Verdict(
                SURFACED, DEFERRED, f"{over} and a reset is put off for {age}: {what}. Finish or release it."
            )
        return Verdict(SUPPRESSED)
    if facts.wiring:
        text = f"{over} and a reset is BLOCKED, because the way back in is broken: {facts.wiring}. Repair it or tell the person; never reset on this."
        return Verdict(SURFACED, BLOCKED, text)
    if facts.away or facts.presence is None or facts.presence.here:
        cause = "away mode is on" if facts.away else facts.presence.clause if facts.presence else "presence is unknown"
        asked = f' They agree by typing: "{facts.phrase}".' if facts.phrase else ""
        text = f"{over} and all is quiet, but {cause} - ASK the person before a reset; never reset on your own during a live conversation.{asked}"
        return Verdict(SURFACED, ASK, text)
    text = (
        f"{over}, all is quiet and {facts.presence.clause} - RESET. In this turn: sweep what is worth keeping with the context-capsule "
        "skill (`vault-mem capsule write`), then `vault-mem reset receipt`, then `vault-mem reset clear`, then end the turn."
    )
    return Verdict(SURFACED, RESET, text)


def throttled(verdict: Verdict, throttle: Throttle, *, now: float, resurface: float) -> tuple[str, Throttle]:
    """The text to say now ("" for none) and the throttle to store after it was said durably. A clock that went back counts as due."""
    if verdict.state == RESOLVED:
        return "", Throttle()
    if verdict.state == SUPPRESSED:
        return "", throttle
    same = throttle.kind == verdict.kind
    if same and 0 <= now - throttle.at < resurface:
        return "", throttle
    absent = verdict.kind in ABSENT
    times = throttle.times + 1 if same and absent else 1
    since = throttle.since if same and absent and 0 < throttle.since <= now else now
    text = verdict.text
    if times > 1:
        from vault_mem import stamps

        text += (
            f" Unprotected since {stamps.utc(since)} ({quiet.duration(now - since)}), report {times}: "
            "mend it, or tell the person that nothing guards this session."
        )
    return text, Throttle(verdict.kind, now, since, times, throttle.suppressed)
