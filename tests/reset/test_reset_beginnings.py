"""A session in which nobody typed yet has no transcript: there is nothing to measure and nothing to tell."""

from __future__ import annotations

from typing import Any


def test_a_session_without_a_first_prompt_is_not_called_unmeasurable(world: Any) -> None:
    world.transcript.unlink()
    world.up()

    assert "UNENFORCED" not in world.watch()


def test_a_session_that_was_read_and_whose_transcript_is_gone_is_unmeasurable(world: Any) -> None:
    world.up()
    world.turn_end()
    world.transcript.unlink()

    assert "UNENFORCED" in world.watch()
