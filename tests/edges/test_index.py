from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from vault_mem import index
from vault_mem.capsule import lineage
from vault_mem.capsule.lineage import Event
from vault_mem.capsule.selector import Delivery

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

HISTORY = [
    Event("a", "autosave", session="s1", at=1.0),
    Event("a", "consume", consumer="s2", at=2.5),
    Event("b", "autosave", parent="a", session="s2", at=3.0),
    Event("b", "consume", consumer="s 3%", at=4.0),
    Event("b", "reopen", at=5.0),
    Event("c d\n", "write", session="s4", at=6.0),
    Event("a", "consume", consumer="s5", at=7.0),
]


def message(event: Event) -> str:
    return (
        lineage.subject(event)
        + "\n\n"
        + "".join(f"{key}: {value}\n" for key, value in lineage.trailers(event, version="1"))
    )


class Repository:
    """A line of commits; counts how many were read."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.commits = [(f"{n:040x}", message(event)) for n, event in enumerate(events, 1)]
        self.read = 0

    @property
    def head(self) -> str:
        return self.commits[-1][0]

    def after(self, old: str, new: str) -> list[tuple[str, str]] | None:
        ids = [oid for oid, _ in self.commits]
        if old and old not in ids:
            return None
        found = self.commits[ids.index(old) + 1 if old else 0 : ids.index(new) + 1]
        self.read += len(found)
        return found


def check(book: index.Book) -> None:
    assert book.delivery("a") == Delivery("s5", 7.0)
    assert book.delivery("b") is None
    assert book.delivery("zzz") is None
    assert (book.delivered_to("s2"), book.delivered_to("s 3%"), book.delivered_to("s5"), book.delivered_to("s1")) == (
        "a",
        "b",
        "a",
        "",
    )
    assert (book.is_parent("a"), book.is_parent("b")) == (True, False)
    assert (book.has_saved("s1"), book.has_saved("s2"), book.has_saved("s4"), book.has_saved("s5")) == (
        True,
        True,
        True,
        False,
    )


def test_the_book_answers_from_the_whole_history(tmp_path: Path) -> None:
    repository = Repository(HISTORY)

    check(index.current(str(tmp_path), head=repository.head, commits=repository.after))


@pytest.mark.parametrize("known", range(1, len(HISTORY)))
def test_the_book_is_extended_by_what_is_new(tmp_path: Path, known: int) -> None:
    index.current(str(tmp_path), head=f"{known:040x}", commits=Repository(HISTORY[:known]).after)
    repository = Repository(HISTORY)

    check(index.current(str(tmp_path), head=repository.head, commits=repository.after))

    assert repository.read == len(HISTORY) - known


def test_our_own_commits_keep_the_book_complete_without_reading_history(tmp_path: Path) -> None:
    whole = Repository(HISTORY)
    index.current(str(tmp_path), head=f"{1:040x}", commits=Repository(HISTORY[:1]).after)

    for (parent, _), (commit, _), event in zip(whole.commits, whole.commits[1:], HISTORY[1:], strict=False):
        index.note(str(tmp_path), parent=parent, commit=commit, event=event)

    check(index.current(str(tmp_path), head=whole.head, commits=whole.after))
    assert whole.read == 0


@pytest.mark.parametrize("cut", (1, 10, 30, 45, 60))
def test_a_torn_append_is_read_again_from_history(tmp_path: Path, cut: int) -> None:
    repository = Repository(HISTORY)
    index.current(str(tmp_path), head=repository.head, commits=repository.after)
    path = tmp_path / index.PATH
    path.write_bytes(path.read_bytes()[:-cut])

    check(index.current(str(tmp_path), head=repository.head, commits=repository.after))


def test_a_book_of_another_history_is_thrown_away(tmp_path: Path) -> None:
    index.current(
        str(tmp_path),
        head="f" * 40,
        commits=lambda *_: [("f" * 40, message(Event("zzz", "consume", consumer="x", at=1.0)))],
    )
    repository = Repository(HISTORY)

    check(index.current(str(tmp_path), head=repository.head, commits=repository.after))


@pytest.mark.parametrize("junk", (b"", b"\x00\xff", b"D x y", b"H \n", b"\nH zz\n", b"\nD a b c\nH zz\n"))
def test_junk_in_place_of_the_book_is_thrown_away(tmp_path: Path, junk: bytes) -> None:
    (tmp_path / "index").mkdir()
    (tmp_path / index.PATH).write_bytes(junk)
    repository = Repository(HISTORY)

    check(index.current(str(tmp_path), head=repository.head, commits=repository.after))


def test_what_was_ever_handed_out_is_one_set() -> None:
    book = index.made(
        (
            lineage.Event(id="a b", event=lineage.CONSUME, consumer="s", at=1.0),
            lineage.Event(id="a b", event=lineage.REOPEN, at=2.0),
            lineage.Event(id="c", event=lineage.AUTOSAVE, session="D d", at=3.0),
        )
    )

    assert book.handed_out() == {"a b"}
    assert index.made(()).handed_out() == frozenset()
