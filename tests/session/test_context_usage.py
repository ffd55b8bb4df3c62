from __future__ import annotations

from typing import Any

import pytest

from vault_mem.session import usage
from vault_mem.session.usage import Sample

CURRENT = {
    "input_tokens": 100_000,
    "cache_read_input_tokens": 250_000,
    "cache_creation_input_tokens": 50_000,
    "output_tokens": 9,
}


@pytest.mark.parametrize(
    ("payload", "told"),
    (
        pytest.param({"context_window": {"context_window_size": 1_000_000, "current_usage": CURRENT, "used_percentage": 1}},
                     (400_000, 1_000_000, 40.0), id="claude status line"),
        pytest.param({"context_window": {"context_window_size": 1_000_000, "current_usage": None, "used_percentage": None,
                                         "total_input_tokens": 0}}, (None, 1_000_000, None), id="before the first answer"),
        pytest.param({"context_tokens": 140_000, "context_window_size": 200_000, "context_usage_percent": 70.1},
                     (140_000, 200_000, 70.0), id="flat names, as Cursor is said to use"),
        pytest.param({"used_tokens": 130_000, "context_window": 128_000}, (130_000, 128_000, 100.0), id="more than the window"),
        pytest.param({"used_percentage": 33.333}, (None, None, 33.33), id="percent alone"),
        pytest.param({"used_tokens": "12", "context_window_size": -1, "used_percentage": float("nan")}, None, id="no numbers"),
        pytest.param({"model": "m", "session_id": "s"}, None, id="nothing"),
    ),
)  # fmt: skip
def test_a_payload_tells_what_it_holds_and_no_more(payload: dict[str, Any], told: tuple[Any, ...] | None) -> None:
    sample = usage.of_payload(payload, source=usage.HOOK, at=1.0)

    assert (None if sample is None else sample[:3]) == told


@pytest.mark.parametrize(
    "change",
    ({"isSidechain": True}, {"isApiErrorMessage": True}, {"message": {"model": "<synthetic>", "usage": CURRENT}},
     {"message": {"model": "m", "usage": {"input_tokens": 0}}}, {"type": "user"}),
    ids=("sidechain", "error", "synthetic", "zero", "user"),
)  # fmt: skip
def test_only_answers_of_the_main_chain_are_measurements(change: dict[str, Any]) -> None:
    row = {"type": "assistant", "message": {"model": "m", "usage": CURRENT}}

    good = usage.of_claude_row(row, at=1.0)

    assert good is not None
    assert (good.tokens, good.window) == (400_000, None)
    assert usage.of_claude_row({**row, **change}, at=1.0) is None


def test_codex_names_its_window_itself() -> None:
    info = {
        "last_token_usage": {"input_tokens": 60_000},
        "total_token_usage": {"input_tokens": 900_000},
        "model_context_window": 258_400,
    }
    row = {"type": "event_msg", "payload": {"type": "token_count", "info": info}}

    sample = usage.of_codex_row(row, at=1.0)

    assert sample is not None
    assert sample[:3] == (60_000, 258_400, 23.22)


def one(tokens: int | None, at: float = 0.0, window: int | None = 1000) -> Sample:
    return Sample(tokens, window, None, "s", "reported", "m", at)


def test_the_same_measurement_at_another_time_is_the_same() -> None:
    assert usage.is_same(one(5, 1.0), one(5, 2.0))
    assert not usage.is_same(one(5), one(6))
    assert not usage.is_same(None, one(6))


def test_the_threshold_is_crossed_once_and_only_with_both_numbers() -> None:
    assert usage.over((one(700), one(800)), ceiling=10_000, share=80)
    assert not usage.over((one(800), one(900)), ceiling=10_000, share=80)
    assert usage.over((one(900), one(100), one(850)), ceiling=10_000, share=80)
    assert usage.over((one(500),), ceiling=500, share=80)
    assert not usage.over((one(900, window=None),), ceiling=500, share=80)


def test_the_rate_is_of_the_growth_since_the_context_shrank() -> None:
    assert usage.rate((one(900, 0.0), one(100, 60.0), one(300, 120.0))) == 200.0
    assert usage.rate((one(900, 0.0),)) is None


def test_a_window_counts_until_another_model_is_named() -> None:
    def one(window: int | None, model: str) -> usage.Sample:
        return usage.Sample(1, window, None, usage.STATUS_LINE, usage.REPORTED, model, 1.0)

    assert usage.window_of(()) is None
    assert usage.window_of((one(None, "m"),)) is None
    assert usage.window_of((one(100, "m"), one(None, "m"))) == 100
    assert usage.window_of((one(100, "m"), one(None, "other"))) is None
    assert usage.window_of((one(100, "m"), one(200, "other"))) == 200
