from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vault_mem.capsule import procedure, selector
from vault_mem.capsule.selector import Candidate, Delivery, Facts
from vault_mem.roots import MemoryRoot, Seat
from vault_mem.trust import Record
from vault_mem.vault import headers, tree
from vault_mem.vault.store import Store

MANY = headers.WORTH_KEEPING + 8


def a_capsule(number: int, **more: str) -> str:
    fields = {
        "id": f"c-{number:05}",
        "status": "active" if number % 3 else "resumed",
        "created_at": f"2026-11-30T10:{number % 60:02}:00Z",
        "objective": "Split the parser " + "x" * 200,
        "next_valid_action": "Fix the tests",
        **more,
    }
    return "---\n" + "".join(f"{key}: {value}\n" for key, value in fields.items()) + "---\n\n# Capsule\n"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    (tmp_path / "capsules").mkdir()
    (tmp_path / "runtime").mkdir()
    record = Record("", str(tmp_path), "", "dedicated", "", (), "", "", {})
    return Store(Seat("", MemoryRoot("", str(tmp_path), "", "configured"), "option"), record, {})


def filled(store: Store) -> None:
    for number in range(MANY):
        path = f"{store.memory}/capsules/c-{number:05}.md"
        with open(path, "w", encoding="utf-8") as file:
            file.write(a_capsule(number))
        os.utime(path, (1_700_000_000, 1_700_000_000))


def settled(store: Store) -> str:
    """The index, as old as if nothing had changed for a while."""
    headers.entries(store, keep=True)
    path = f"{store.runtime}/{headers.PATH}"
    later = os.stat(path).st_mtime + 60
    os.utime(path, (later, later))
    return path


def seen(found: tuple[tuple[Candidate, ...], str]) -> list[tuple[object, ...]]:
    return [
        (
            each.path,
            each.problem,
            each.detail,
            *((each.fields or {}).get(key) or "" for key in ("id", "status", "created_at", "session_id")),
            str((each.fields or {}).get("objective"))[: headers.BEGINNING],
        )
        for each in found[0]
    ]


def test_the_index_says_what_the_files_say(store: Store) -> None:
    filled(store)
    (open(f"{store.memory}/capsules/broken.md", "w", encoding="utf-8")).close()
    os.symlink("c-00001.md", f"{store.memory}/capsules/link.md")

    settled(store)

    assert seen(headers.entries(store)) == seen(tree.entries(store.memory))


def test_an_indexed_file_is_not_read_again(store: Store) -> None:
    filled(store)
    path = settled(store)
    data = Path(path).read_bytes().replace(b"Fix the tests", b"Said by index")
    rest = data.partition(b"\n")[2]
    with open(path, "wb") as file:
        file.write(headers._head(rest) + b"\n" + rest)
    os.utime(path, (os.stat(path).st_mtime + 60,) * 2)

    said = {(each.fields or {}).get("next_valid_action") for each in headers.entries(store)[0]}

    assert said == {"Said by index"}


@pytest.mark.parametrize("change", ("text", "same-size-and-time", "gone", "new"))
def test_a_file_that_changed_is_read(store: Store, change: str) -> None:
    filled(store)
    settled(store)
    path = f"{store.memory}/capsules/c-00001.md"
    if change == "gone":
        os.unlink(path)
    else:
        name = f"{store.memory}/capsules/c-99999.md" if change == "new" else path
        with open(name, "w", encoding="utf-8") as file:
            file.write(a_capsule(1).replace("active", "paused" if change != "same-size-and-time" else "closed"))
        os.utime(name, (1_700_000_000, 1_700_000_000))

    assert seen(headers.entries(store)) == seen(tree.entries(store.memory))


def test_a_file_that_changed_just_before_the_index_was_written_is_read(store: Store) -> None:
    filled(store)
    headers.entries(store, keep=True)
    index = os.stat(f"{store.runtime}/{headers.PATH}").st_mtime_ns
    path = f"{store.memory}/capsules/c-00001.md"
    assert os.stat(path).st_ctime_ns > index - headers.RACY

    rows, written = headers._load(f"{store.runtime}/{headers.PATH}")

    assert len(rows) == MANY
    assert not [row for row in rows.values() if int(row[0].split(" ")[2]) < written - headers.RACY]


@pytest.mark.parametrize(
    "damage",
    (
        pytest.param(lambda _: b"", id="empty"),
        pytest.param(lambda data: data[:-9], id="cut"),
        pytest.param(lambda data: data.replace(b"active", b"paused", 1), id="changed"),
        pytest.param(lambda data: b"other 1" + data, id="other-format"),
        pytest.param(lambda _: b"\x00\xff" * 999, id="noise"),
    ),
)
def test_a_damaged_index_is_no_index_and_is_made_anew(store: Store, damage: object) -> None:
    filled(store)
    path = settled(store)
    whole = Path(path).read_bytes()
    with open(path, "wb") as file:
        file.write(damage(whole))  # type: ignore[operator]  # a table of functions

    assert seen(headers.entries(store, keep=True)) == seen(tree.entries(store.memory))
    assert Path(path).read_bytes() == whole


def test_few_capsules_need_no_index(store: Store) -> None:
    with open(f"{store.memory}/capsules/a.md", "w", encoding="utf-8") as file:
        file.write(a_capsule(1))

    headers.entries(store, keep=True)

    assert not os.path.exists(f"{store.runtime}/{headers.PATH}")


@given(st.text())
def test_a_value_is_read_back_as_it_was(value: str) -> None:
    assert headers._plain(headers._escaped(value)) == value
    assert not set(headers._escaped(value)) & {"\n", "\x1f", "\x1e"}


@given(st.dictionaries(st.sampled_from(headers.COLUMNS), st.text() | st.none() | st.just(("a",)), min_size=1))
def test_a_live_row_is_read_back_whole(fields: dict[str, str | tuple[str, ...] | None]) -> None:
    given_fields = {**fields, "status": "active", "tags": ("capsule", "autosave")}

    line = headers._row("1 2 3 4 5", Candidate("a", "capsules/a.md", given_fields))

    found = headers._candidate("capsules/a.md", line.split("\x1f")[1:])
    said = found.fields or {}
    assert said["tags"] == ("capsule", "autosave")
    assert [said[key] for key in headers.COLUMNS] == [
        value if isinstance(value := given_fields.get(key), str) else "" for key in headers.COLUMNS
    ]


def a_tick(store: Store) -> None:
    """Until the file system gives later times: `settled` says of the index that it is older than it is."""
    probe = Path(store.runtime, "probe")
    probe.touch()
    first = probe.stat().st_ctime_ns
    while probe.stat().st_ctime_ns == first:
        probe.touch()


def changed_somehow(store: Store, dice: random.Random) -> None:
    """One edit such as people and programs make: a new text, the same size with the same time, a removal, a new file, the text of before."""
    number = dice.randrange(MANY + 4)
    path = f"{store.memory}/capsules/c-{number:05}.md"
    kind = dice.choice(("status", "same-size", "gone", "before", "broken", "parent"))
    if kind == "gone":
        if os.path.exists(path):
            os.unlink(path)
        return
    text = a_capsule(number, status=dice.choice(("active", "resumed", "paused", "resolved", "superseded")))
    if kind == "same-size":
        text = a_capsule(number, status=dice.choice(("active", "paused", "closed")))
    elif kind == "before":
        text = a_capsule(number)
    elif kind == "broken":
        text = text.replace("---\n", "", 1)
    elif kind == "parent":
        text = a_capsule(number, parent_capsule_id=f"c-{dice.randrange(MANY):05}", session_id=f"s-{number}")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.utime(path, (1_700_000_000, 1_700_000_000))


@pytest.mark.parametrize("seed", range(12))
def test_the_choice_with_the_index_is_the_choice_without_it(store: Store, seed: int) -> None:
    dice = random.Random(seed)
    filled(store)
    facts = Facts({f"c-{MANY - 1:05}": Delivery("s-gone", 5.0)}, started=10.0)
    for _ in range(8):
        settled(store)
        a_tick(store)
        for _ in range(dice.randrange(6)):
            changed_somehow(store, dice)

        said = []
        for found, unavailable in (headers.entries(store), tree.entries(store.memory)):
            selection = selector.select(found, now=1_796_100_000.0, facts=facts, unavailable=unavailable)
            chosen = selection.chosen and (selection.chosen.path, selector.text_of(selection.chosen.fields or {}, "id"))
            said.append((chosen, selection.tier, selection.unavailable, procedure.ledger(selection.rejected)))
        assert said[0] == said[1]
