"""A transcript that comes a second time, cut and grown as before: what was saved of it is no news, what it never held is kept."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.verbs.conftest import Session

    Events = Callable[[], list[tuple[str, str, str]]]
    Told = Callable[[subprocess.CompletedProcess[bytes]], str]


def typed(session: Session, text: str) -> None:
    """The prompt hook, before any row is there."""
    session.run("hook", "user-prompt-submit", stdin=session.payload("UserPromptSubmit", prompt=text), cwd=session.seat)


def consumed(session: Session) -> list[bytes]:
    """Two turns, the first one with a lagging transcript and a prompt that Esc dropped, handed to another session; the rows as they were."""
    typed(session, "Never mind the docs.")
    session.prompt("Split the parser.")
    session.stop("The parser is split.")
    session.answer("The parser is split.")
    session.turn("Add the changelog entry.", "It is added.")
    session.sibling().start("clear")
    return session.transcript.read_bytes().splitlines(keepends=True)


def again(session: Session, rows: list[bytes]) -> list[subprocess.CompletedProcess[bytes]]:
    """The same hooks over the same rows."""
    typed(session, "Never mind the docs.")
    session.transcript.write_bytes(b"".join(rows[:1]))
    first = session.stop("The parser is split.")
    session.transcript.write_bytes(b"".join(rows))
    return [first, session.stop("It is added."), session.stop("It is added.", event="session-end")]


def test_a_session_that_is_read_again_after_its_capsule_was_consumed_adds_nothing(
    session: Session, events: Events, outcome: Told
) -> None:
    rows = consumed(session)
    before, text = events(), session.capsule().read_text("utf-8")

    done = again(session, rows)

    assert [outcome(one) for one in done] == ["no-change"] * 3
    assert events() == before
    assert text.count("Never mind the docs.") == 1
    assert session.capsule().read_text("utf-8").count("- ") == text.count("- ")


def test_a_prompt_that_only_the_second_reading_has_is_kept(session: Session) -> None:
    rows = consumed(session)
    typed(session, "Keep the old names.")

    again(session, rows)

    second, first = session.capsules()  # by name, `-2` comes first
    assert "Keep the old names." not in first.read_text("utf-8")
    assert "[OPERATOR] Keep the old names." in second.read_text("utf-8")
    assert "Never mind the docs." not in second.read_text("utf-8").partition("swe:done")[2]


def test_what_happens_after_the_second_reading_is_news(session: Session, outcome: Told) -> None:
    rows = consumed(session)
    again(session, rows)

    done = session.turn("Split the parser.", "The parser is split.")

    assert outcome(done) == "saved"
    text = session.capsules()[0].read_text("utf-8")
    assert "[OPERATOR] Split the parser." in text
    assert " The parser is split." in text


def test_a_hook_without_news_begins_no_capsule_after_a_consumed_one(
    session: Session, events: Events, outcome: Told
) -> None:
    session.turn("Split the parser.", "The parser is split.")
    session.sibling().start("clear")
    before = events()

    done = session.stop("The parser is split.")

    assert outcome(done) == "no-change"
    assert events() == before
    assert session.capsule()
