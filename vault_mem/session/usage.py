"""How full a session's context is, as far as a client says so. A window is never guessed, an unknown number stays unknown."""

from __future__ import annotations

from vault_mem.record import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

HOOK, STATUS_LINE, TRANSCRIPT = "hook", "status-line", "transcript"
EXACT, REPORTED = "exact", "reported"
PARTS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


class Sample(NamedTuple):
    """One measurement. tokens in use, size of the window, percent of the window used (0-100); None: not told."""

    tokens: int | None
    window: int | None
    percent: float | None
    source: str
    confidence: str
    model: str
    at: float


def is_same(one: Sample | None, other: Sample) -> bool:
    """Whether two samples tell the same; when they were taken does not count."""
    return one is not None and one._replace(at=0.0) == other._replace(at=0.0)


def made(
    *, tokens: object, window: object, percent: object = None, source: str, confidence: str, model: str, at: float
) -> Sample | None:
    """A sample of what is usable in these values; None when nothing is. Numbers must be finite and not negative; texts are no numbers."""
    used, size, share = _count(tokens), _count(window), _number(percent)
    if share is None and used is not None and size:
        share = used / size * 100
    if used is None and size is None and share is None:
        return None
    share = None if share is None else round(min(100.0, max(0.0, share)), 2)
    return Sample(used, size, share, source, confidence, model, at)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    number = float(value)
    return number if 0 <= number < float("inf") else None


def _count(value: object) -> int | None:
    number = _number(value)
    return None if number is None else int(number)


def summed(parts: object) -> int | None:
    """Tokens of a usage record: fresh, cached and newly cached input; answers never count. None when no part is a number."""
    if not isinstance(parts, dict):
        return None
    counts = [_count(parts.get(name)) for name in PARTS]
    return None if all(count is None for count in counts) else sum(count or 0 for count in counts)


def of_payload(payload: Mapping[str, Any], *, source: str, at: float) -> Sample | None:
    """The measurement in a hook's or a status line's payload, whatever of the known names it uses; None for none."""
    given = payload.get("context_window")
    table: Mapping[str, Any] = given if isinstance(given, dict) else {}
    window = _first(table.get("context_window_size"), table.get("window_tokens"), payload.get("context_window_size"))
    tokens = _first(
        summed(table.get("current_usage")),
        table.get("used_tokens"),
        payload.get("used_tokens"),
        payload.get("context_tokens"),
        summed(payload.get("usage")),
        # Early in a session the status line reports 0 of everything and no usage: that is "not yet", not "empty".
        table.get("total_input_tokens") if _count(table.get("total_input_tokens")) else None,
    )
    # A percentage that the client rounded to whole numbers says less than the two counts.
    both = _count(tokens) is not None and bool(_count(window))
    percent = (
        None
        if both
        else _first(table.get("used_percentage"), payload.get("used_percentage"), payload.get("context_usage_percent"))
    )
    return made(
        tokens=tokens,
        window=_first(window, given if not table else None),
        percent=percent,
        source=source,
        confidence=REPORTED,
        model=model_of(payload),
        at=at,
    )


def _first(*values: object) -> object:
    return next((value for value in values if _number(value) is not None), None)


def model_of(payload: Mapping[str, Any]) -> str:
    """The model a payload names, by id where it has one."""
    model = payload.get("model")
    if isinstance(model, str):
        return model
    if isinstance(model, dict):
        return next((model[key] for key in ("id", "display_name") if isinstance(model.get(key), str)), "")
    return ""


def of_claude_row(row: Mapping[str, Any], *, at: float) -> Sample | None:
    """The measurement in a transcript row of Claude Code: main-chain answers only, no synthetic ones, no errors, no zeroes."""
    message = row.get("message")
    if row.get("type") != "assistant" or row.get("isSidechain") is True or row.get("isApiErrorMessage") is True:
        return None
    if not isinstance(message, dict) or message.get("model") == "<synthetic>":
        return None
    tokens = summed(message.get("usage"))
    if not tokens:
        return None
    return made(tokens=tokens, window=None, source=TRANSCRIPT, confidence=EXACT, model=model_of(message), at=at)


def of_codex_row(row: Mapping[str, Any], *, at: float) -> Sample | None:
    """The measurement in a rollout row of Codex: the last request's input and the window that the client itself names."""
    payload = row.get("payload")
    if row.get("type") != "event_msg" or not isinstance(payload, dict) or payload.get("type") != "token_count":
        return None
    info = payload.get("info")
    last = info.get("last_token_usage") if isinstance(info, dict) else None
    tokens = _count(last.get("input_tokens")) if isinstance(last, dict) else None
    if not isinstance(info, dict) or not tokens:
        return None
    return made(
        tokens=tokens,
        window=info.get("model_context_window"),
        source=TRANSCRIPT,
        confidence=EXACT,
        model="",
        at=at,
    )


def window_of(samples: tuple[Sample, ...]) -> int | None:
    """The window that the client named last for the model it uses now; None when it never did, or named another model since."""
    model = ""
    for sample in reversed(samples):
        if sample.window:
            return sample.window if model in ("", sample.model) or not sample.model else None
        model = model or sample.model
    return None


def is_native_pair(sample: Sample | None) -> bool:
    """Whether the client itself named both numbers, so that a threshold may be held against them."""
    return sample is not None and bool(sample.tokens) and bool(sample.window)


def rate(samples: tuple[Sample, ...]) -> float | None:
    """Tokens a minute over the samples since the context last shrank; None with fewer than two measurements or no time between them."""
    counted = [(sample.at, sample.tokens) for sample in samples if sample.tokens is not None]
    start = max((i for i in range(1, len(counted)) if counted[i][1] < counted[i - 1][1]), default=0)
    counted = counted[start:]
    if len(counted) < 2 or counted[-1][0] <= counted[0][0]:
        return None
    return (counted[-1][1] - counted[0][1]) / (counted[-1][0] - counted[0][0]) * 60


def over(samples: tuple[Sample, ...], *, ceiling: int, share: int) -> bool:
    """Whether the newest sample crossed the threshold that its predecessor had not: absolute tokens, or a share of a known window."""
    if not samples or not is_native_pair(samples[-1]):
        return False
    before = samples[-2] if len(samples) > 1 else None
    return _beyond(samples[-1], ceiling, share) and not (before is not None and _beyond(before, ceiling, share))


def _beyond(sample: Sample, ceiling: int, share: int) -> bool:
    if sample.tokens is None or not sample.window:
        return False
    return sample.tokens >= min(ceiling, sample.window * share // 100)


def to_json(sample: Sample) -> dict[str, Any]:
    """A sample as a JSON value."""
    return sample._asdict()


def from_json(value: object) -> Sample | None:
    """The sample that `to_json` wrote, None for anything else."""
    if not isinstance(value, dict) or set(value) != set(Sample._fields):
        return None
    if not all(isinstance(value[key], str) for key in ("source", "confidence", "model")):
        return None
    if any(value[key] is not None and type(value[key]) is not int for key in ("tokens", "window")):
        return None
    if value["percent"] is not None and _number(value["percent"]) is None:
        return None
    return Sample(**value) if _number(value["at"]) is not None else None
