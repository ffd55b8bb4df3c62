"""Which capsule is handed out, and why every other one is not. Pure: facts about history and processes come in as values."""

from __future__ import annotations

from vault_mem import stamps
from vault_mem.capsule import gate, model
from vault_mem.record import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vault_mem.capsule.model import Value

FUTURE_TOLERANCE = 600.0  # seconds a clock may be ahead before a stamp counts as wrong

SESSION_BOUND, ACTIVE, PLACEHOLDER, REDELIVERY, NONE = "session-bound", "active", "placeholder", "re-delivery", "none"
NAMED, AGAIN = "named", "already-delivered"
"""Tiers: 0 to 4 of the lifecycle, then a capsule asked for by id and one that this session already holds."""

ORDINARY_REASONS = frozenset(
    {
        "already-consumed",
        "older-active",
        "placeholder-demoted",
        "consumed-in-history",
        "expired",
        "other-project",
    }
)
DEFECT_REASONS = frozenset(
    {
        "bad-created_at",
        "conflict-markers",
        "duplicate-key",
        "edited-outside",
        "future-created_at",
        "header-too-large",
        "invalid-frontmatter",
        "missing-required-field",
        "no-frontmatter",
        "no-id",
        "not-in-history",
        "not-regular",
        "not-utf8",
        "status-not-active",
        "symlink",
        "unreadable",
    }
)
UNAVAILABLE = (
    "no-capsules-dir",
    "no-capsules-on-disk",
    "all-candidates-rejected",
    "capsules-dir-unreadable",
    "bad-memory-root",
    "untrusted-seat",
    "rolled-back",
    "history-rewritten",
    "foreign-commit",
    "integrity-unchecked",
    "edited-outside",
    "not-in-history",
)
_AT_REST = frozenset({model.PAUSED, model.ABANDONED, model.SUPERSEDED})


class Candidate(NamedTuple):
    """One file below `capsules/`: its name for people, its path relative to the memory root, its header or what is wrong with it."""

    name: str
    path: str
    fields: Mapping[str, Value] | None
    problem: str = ""
    detail: str = ""


class Delivery(NamedTuple):
    """The last consume commit of a capsule: to which session, when (seconds since the epoch)."""

    consumer: str
    at: float


class Facts(NamedTuple):
    """What the selector cannot see in the files.

    deliveries: consumed and not reopened since, by capsule id. parents: ids that some commit names as a parent. saved: sessions that some
    autosave or curated commit names. alive: sessions whose client provably runs. started: when this resume began. bound: the session that the
    same client process just cleared. project: only capsules of this project count; empty for all. interrupted: ids of capsules whose printing
    for the consumer in *deliveries* was begun and is not known to have come to an end.
    """

    deliveries: Mapping[str, Delivery]
    parents: frozenset[str] = frozenset()
    saved: frozenset[str] = frozenset()
    alive: frozenset[str] = frozenset()
    started: float = 0.0
    bound: str = ""
    project: str = ""
    interrupted: frozenset[str] = frozenset()


class Rejection(NamedTuple):
    """Why a candidate was not chosen; *reason* is a token, *detail* may hold text of the capsule and is hostile. path: two files may bear one name."""

    name: str
    reason: str
    detail: str = ""
    path: str = ""

    @property
    def ordinary(self) -> bool:
        """Whether this is the usual course of things rather than a capsule that somebody wrote in vain."""
        return self.reason in ORDINARY_REASONS or (self.reason == "status-not-active" and self.detail in _AT_REST)


class Selection(NamedTuple):
    """The answer: at most one candidate, its tier, the ledger of all others, and why there is none."""

    chosen: Candidate | None
    tier: str
    rejected: tuple[Rejection, ...]
    unavailable: str = ""


class _Ranked(NamedTuple):
    created: float
    id: str
    candidate: Candidate
    empty: bool = False


def text_of(fields: Mapping[str, Value], key: str) -> str:
    """A field as text; empty when it is null, absent or a list."""
    value = fields.get(key)
    return value.strip() if isinstance(value, str) else ""


def session_of(candidate: Candidate) -> str:
    """The session a capsule belongs to; for an autosave of aigent-OS, which does not name one, how its file's name ends (`-auto-…`)."""
    fields = candidate.fields or {}
    session = text_of(fields, "session_id")
    if session or not model.is_autosave(fields):
        return session
    _, mark, short = candidate.name.partition("-auto-")
    return mark + short


def is_placeholder(fields: Mapping[str, Value]) -> bool:
    """Whether neither objective nor next action says anything that was captured; one of the two is worth more than an older capsule."""
    return gate.not_captured(text_of(fields, "objective")) and gate.not_captured(text_of(fields, "next_valid_action"))


_TIMES: dict[str, float | None] = {}
"""Stamps read before: one choice asks for that of every capsule several times."""
_MANY = 1 << 15


def created_of(fields: Mapping[str, Value]) -> float | None:
    """`created_at` in seconds since the epoch, None when it cannot be read."""
    value = fields.get("created_at")
    if not isinstance(value, str):
        return None
    found = _TIMES.get(value)
    if found is None:
        if len(_TIMES) >= _MANY:
            _TIMES.clear()
        found = _TIMES[value] = stamps.epoch_of(value)
    return found


def _unfit(candidate: Candidate, *, latest: float, now: float, facts: Facts) -> tuple[str, str]:
    """The first reason against an `active` candidate, or two empty strings. latest: stamps beyond it are wrong."""
    fields = candidate.fields
    if fields is None:
        return candidate.problem, candidate.detail
    status = model.status_of(fields)
    if status != model.ACTIVE:
        spent = status in (model.RESUMED, model.RESOLVED)
        return "already-consumed" if spent else "status-not-active", status or "(absent)"
    name = text_of(fields, "id")
    if not name:
        return "no-id", ""
    created = created_of(fields)
    if created is None:
        return "bad-created_at", text_of(fields, "created_at") or "(absent)"
    if created > latest:
        return "future-created_at", text_of(fields, "created_at")
    if not text_of(fields, "objective"):
        return "missing-required-field", "objective"
    if not text_of(fields, "next_valid_action"):
        return "missing-required-field", "next_valid_action"
    if name in facts.deliveries:
        return "consumed-in-history", facts.deliveries[name].consumer
    if fields.get("expires"):
        until = text_of(fields, "expires")
        expires = stamps.epoch_of(until)
        if expires is not None and expires < now:
            return "expired", until
    if facts.project and text_of(fields, "project") not in ("", facts.project):
        return "other-project", text_of(fields, "project")
    return "", ""


def _redelivery(candidates: Iterable[Candidate], *, now: float, facts: Facts) -> Candidate | None:
    """The newest capsule of the seat when it was handed out and its consumer provably made nothing of it."""
    newest: _Ranked | None = None
    parents = set(facts.parents)
    sessions = set(facts.saved)
    for candidate in candidates:
        fields = candidate.fields
        if fields is None:
            continue
        parents.add(text_of(fields, "parent_capsule_id"))
        sessions.add(text_of(fields, "session_id"))
        created = created_of(fields)
        if created is None or created > now + FUTURE_TOLERANCE or not text_of(fields, "id"):
            continue
        ranked = _Ranked(created, text_of(fields, "id"), candidate)
        if newest is None or ranked[:2] > newest[:2]:
            newest = ranked
    if newest is None or newest.candidate.fields is None:
        return None
    fields = newest.candidate.fields
    delivery = facts.deliveries.get(newest.id)
    if delivery is None or model.status_of(fields) not in (model.RESUMED, model.ACTIVE) or newest.id in parents:
        return None
    if delivery.consumer in sessions or delivery.consumer in facts.alive or delivery.at >= facts.started:
        return None
    whole = text_of(fields, "objective") and text_of(fields, "next_valid_action")
    return newest.candidate if whole else None


def select(candidates: Iterable[Candidate], *, now: float, facts: Facts, unavailable: str = "") -> Selection:
    """Choose by `created_at`, then id, both descending; everything else gets a reason."""
    everyone = tuple(candidates)
    rejected: list[Rejection] = []
    fit: list[_Ranked] = []
    latest = now + FUTURE_TOLERANCE
    for candidate in everyone:
        reason, detail = _unfit(candidate, latest=latest, now=now, facts=facts)
        fields = candidate.fields
        if reason:
            rejected.append(Rejection(candidate.name, reason, detail, candidate.path))
        elif fields is not None:
            fit.append(_Ranked(created_of(fields) or 0.0, text_of(fields, "id"), candidate, is_placeholder(fields)))
    fit.sort(key=lambda ranked: ranked[:2], reverse=True)
    chosen, tier = _first(fit, facts)
    if chosen is None or (facts.interrupted and tier != SESSION_BOUND):
        again = _redelivery(everyone, now=now, facts=facts)
        # A delivery that may never have been seen is made good before anything older is taken.
        if again is not None and (chosen is None or text_of(again.fields or {}, "id") in facts.interrupted):
            chosen, tier = again, REDELIVERY
    if chosen is None:
        return Selection(
            None,
            NONE,
            tuple(rejected),
            unavailable or ("all-candidates-rejected" if everyone else "no-capsules-on-disk"),
        )
    if tier == REDELIVERY:
        rejected = [rejection for rejection in rejected if rejection.path != chosen.path]
    rejected.extend(_losers(fit, chosen, tier))
    return Selection(chosen, tier, tuple(rejected))


def _first(fit: list[_Ranked], facts: Facts) -> tuple[Candidate | None, str]:
    for ranked in fit if facts.bound else ():
        if text_of(ranked.candidate.fields or {}, "session_id") == facts.bound:
            return ranked.candidate, SESSION_BOUND
    for ranked in fit:
        if not ranked.empty:
            return ranked.candidate, ACTIVE
    return (fit[0].candidate, PLACEHOLDER) if fit else (None, NONE)


def _losers(fit: list[_Ranked], chosen: Candidate, tier: str) -> Iterable[Rejection]:
    older = "the session just cleared comes first" if tier == SESSION_BOUND else ""
    for ranked in fit:
        found = ranked.candidate
        if found is chosen:
            continue
        if tier != PLACEHOLDER and ranked.empty:
            yield Rejection(found.name, "placeholder-demoted", "", found.path)
        else:
            yield Rejection(found.name, "older-active", older, found.path)
