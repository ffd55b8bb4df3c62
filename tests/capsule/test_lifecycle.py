from __future__ import annotations

import pytest

from vault_mem.capsule import lifecycle, model


@pytest.mark.parametrize(("status", "event", "after"), [(*key, value) for key, value in lifecycle.TRANSITIONS.items()])
def test_every_row_of_the_table_leads_to_a_status_we_know(status: str, event: str, after: str) -> None:
    assert lifecycle.step(status, event) == after
    assert {status, after} <= set(model.STATUSES)


@pytest.mark.parametrize(
    ("status", "event"),
    (
        ("superseded", "reopen"),
        ("abandoned", "consume"),
        ("resolved", "pause"),
        ("draft", "resolve"),
        ("active", "explode"),
    ),
)
def test_a_step_that_is_not_in_the_table_is_refused_and_names_what_is_possible(status: str, event: str) -> None:
    with pytest.raises(lifecycle.TransitionError, match=f"cannot {event}; possible: "):
        lifecycle.step(status, event)
