from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vault_mem.capsule import lineage
from vault_mem.capsule.lineage import Event

WORDS = st.text(
    alphabet=st.characters(whitelist_categories=("Ll", "Lu", "Nd"), whitelist_characters="-._"), min_size=1, max_size=20
)


@given(
    name=WORDS,
    event=WORDS,
    status=WORDS,
    parent=WORDS,
    session=WORDS,
    consumer=WORDS,
    at=st.integers(1, 4_000_000_000_000),
)
def test_what_the_trailers_say_is_read_back(
    name: str, event: str, status: str, parent: str, session: str, consumer: str, at: int
) -> None:
    before = Event(name, event, status, parent, session, "claude", consumer, at / 1000, "0f" * 32)
    message = (
        lineage.subject(before)
        + "\n\n"
        + "".join(f"{key}: {value}\n" for key, value in lineage.trailers(before, version="1"))
    )

    assert lineage.event_of(message) == before


def test_a_commit_of_somebody_else_is_no_event() -> None:
    assert lineage.event_of("fix: a bug\n\nSigned-off-by: P <p@example.invalid>\n") is None


def test_a_value_with_line_breaks_cannot_make_a_trailer_of_its_own() -> None:
    event = Event("a\nCapsule-Event: consume", "autosave", session="x\r\ny")

    assert all("\n" not in value and "\r" not in value for _, value in lineage.trailers(event, version="1"))
