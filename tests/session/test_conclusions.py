from __future__ import annotations

import pytest

from vault_mem.session import distil, turns
from vault_mem.session.evidence import EMPTY
from vault_mem.session.turns import OPERATOR, Turn

PROJECT = "/p"
ASKED = (Turn(turns.PROMPT, at=60.0, text="fix it", tag=OPERATOR),)


@pytest.mark.parametrize("length", (100, 239, 300, 2000, 9000))
def test_an_answer_in_pieces_and_the_payload_are_one_conclusion_however_long(length: int) -> None:
    first, second = "word " * (length // 5), "End of it."
    state, _ = distil.fold(EMPTY, ASKED, project=PROJECT)
    state, told = distil.payload_message(state, f"{first}\n\n{second}", at=500.0)
    rows = (
        Turn(turns.SAID, at=501.0, text=first, ref="m1"),
        Turn(turns.SAID, at=502.0, text=second, ref="m1"),
        Turn(turns.ENDED, at=503.0),
    )

    for cut in range(len(rows) + 1):
        middle, one = distil.fold(state, rows[:cut], project=PROJECT)
        _, two = distil.fold(middle, rows[cut:], project=PROJECT)
        assert (len(told), one, two) == (1, (), ())


def test_the_count_of_what_is_left_out_of_a_long_answer_is_right() -> None:
    rows = (Turn(turns.SAID, at=60.0, text="x" * 50_000), Turn(turns.ENDED, at=61.0))

    _, (bullet,) = distil.fold(EMPTY, rows, project=PROJECT)

    assert bullet.text == f"{'x' * 240}…[+49760 chars]"
