"""Whole sessions that real clients recorded: what is distilled from them, wherever the transcript is cut."""

from __future__ import annotations

import json
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vault_mem.capsule import text as texts
from vault_mem.harness import registry
from vault_mem.session import distil, evidence
from vault_mem.session.evidence import EMPTY, Evidence
from vault_mem.session.turns import Turn

RECORDED = Path(__file__).resolve().parent.parent / "data" / "sessions"
PROJECT = "/home/user/project"
FILES = tuple(
    sorted(
        str(path.relative_to(RECORDED))
        for kind in ("transcript-?.jsonl", "rollout-?.jsonl")
        for path in RECORDED.glob(f"*/{kind}")
    )
)
MOMENTS = tuple(
    (path.parent.name, number)
    for path in sorted(RECORDED.glob("*/expected.json"))
    for number in range(len(json.loads(path.read_text("utf-8"))["moments"]))
)
Bullets = dict[tuple[str, str, str], tuple[float, str]]


@cache
def turns_of(name: str) -> tuple[tuple[Turn, ...], ...]:
    """The turns of every line of a recorded file."""
    read = registry.reader("codex" if "rollout" in name else "claude")
    return tuple(read(line) for line in (RECORDED / name).read_bytes().split(b"\n")[:-1])


def folded(rows: tuple[tuple[Turn, ...], ...], state: Evidence = EMPTY) -> tuple[Evidence, Bullets]:
    """Evidence, and bullets as a capsule keeps them: section, tag and text once, the state that was told last."""
    state, bullets = distil.fold(state, (turn for row in rows for turn in row), project=PROJECT)
    return state, merged({}, bullets)


def merged(known: Bullets, bullets: Any) -> Bullets:
    after = dict(known)
    for bullet in bullets:
        key = (bullet.section, bullet.tag, bullet.text)
        at, state = after.get(key, (bullet.at, ""))
        after[key] = (at, bullet.state or state)
    return after


def text_of(bullets: Bullets) -> str:
    """One line for each bullet, by section and time."""
    order = ("done", "errors", "rejected", "files", "facts", "gates", "rows")
    rows = sorted(bullets.items(), key=lambda item: (order.index(item[0][0]), item[1][0]))
    return "".join(
        f"{section}: {time.strftime('%H:%M', time.gmtime(at))} {f'[{tag}] ' if tag else ''}{text}"
        f"{f'{texts.ARROW}{state}' if state else ''}\n"
        for (section, tag, text), (at, state) in rows
    )


def steady(bullets: Bullets) -> Bullets:
    """Without what a piece leaves out: gates and rows that open and close within it, reads of files that it modifies."""
    changed = {text.removeprefix("modified ") for section, _, text in bullets if section == "files"}
    return {
        (section, tag, text): value
        for (section, tag, text), value in bullets.items()
        if section not in ("gates", "rows")
        and not (section == "files" and text.startswith(("read ", "modified? ")) and text.partition(" ")[2] in changed)
    }


@pytest.mark.parametrize("name", FILES)
def test_a_whole_session_is_told_word_for_word(name: str) -> None:
    golden = (RECORDED / name).with_suffix(".told")
    state, bullets = folded(turns_of(name))
    contract = evidence.contract(state)
    told = f"{text_of(bullets)}objective: {contract.objective}\nwaiting: {contract.waiting_on}\nnext: {contract.next_valid_action}\n"

    assert told == golden.read_text("utf-8")


@pytest.mark.parametrize("name", FILES)
def test_read_line_by_line_it_is_the_same(name: str) -> None:
    whole, told = folded(turns_of(name))
    state, bullets = EMPTY, {}

    for row in turns_of(name):
        stored = json.loads(json.dumps(evidence.to_json(state)))
        state, more = distil.fold(evidence.from_json(stored), row, project=PROJECT)
        bullets = merged(bullets, more)

    assert state == whole
    assert steady(bullets) == steady(told)
    assert {key for key, (_, state) in bullets.items() if key[0] in ("gates", "rows") and state == "unresolved"} == set(
        evidence.open_items(whole)
    )


@settings(max_examples=25)
@given(data=st.data(), name=st.sampled_from(FILES))
def test_cut_anywhere_it_is_the_same(data: st.DataObject, name: str) -> None:
    rows = turns_of(name)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(rows)), max_size=6)))
    state, bullets = EMPTY, {}

    for begin, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        state, more = distil.fold(state, (turn for row in rows[begin:end] for turn in row), project=PROJECT)
        bullets = merged(bullets, more)

    whole, told = folded(rows)
    assert state == whole
    assert steady(bullets) == steady(told)


@pytest.mark.parametrize("name", FILES)
def test_read_a_second_time_it_adds_nothing(name: str) -> None:
    rows = turns_of(name)
    state, _ = folded(rows)

    again, bullets = distil.fold(
        state, (turn for row in rows for turn in row), project=PROJECT, skip_until=state.newest
    )

    assert (again, bullets) == (state, ())


@pytest.mark.parametrize("name", FILES)
def test_without_its_evidence_it_shapes_the_evidence_again_and_tells_nothing(name: str) -> None:
    rows = turns_of(name)
    state, _ = folded(rows)

    again, bullets = distil.fold(
        EMPTY, (turn for row in rows for turn in row), project=PROJECT, quiet_until=state.newest
    )

    assert evidence.contract(again) == evidence.contract(state)
    assert bullets == ()


def contains(where: str, what: str) -> bool:
    """Whether *where* says *what*, white space folded, within the bounds of a bullet."""
    found = " ".join(what.split())[:200]
    return bool(found) and found[:120] in " ".join(where.split())


@pytest.mark.parametrize(("folder", "number"), MOMENTS)
def test_it_says_what_a_careful_reader_would_write(folder: str, number: int) -> None:
    moment = json.loads((RECORDED / folder / "expected.json").read_text("utf-8"))["moments"][number]
    if moment.get("nothing"):
        return
    state, bullets = folded(turns_of(f"{folder}/{moment['file']}")[: moment["transcript_rows"]])
    said = dict.fromkeys(("done", "errors", "rejected", "files", "gates", "rows", "facts"), "")
    for (section, tag, text), (_, outcome) in bullets.items():
        said[section] += f"[{tag}] {text} {outcome}\n"
    missed = []

    def wants(section: str, text: str) -> None:
        if not contains(said[section], text):
            missed.append((section, text))

    for item in moment.get("done", ()):
        if item["kind"] != "conclusion":  # it may have come with the hook's payload only
            wants("done", item["text"])
    for item in moment.get("errors", ()):
        wants("errors", item.get("says") or item["target"])
    for item in moment.get("rejected", ()):
        wants("rejected", item["target"])
    for path in (moment.get("files") or {}).get("modified", ()):
        wants("files", f"modified {path}")
    for path in (moment.get("files") or {}).get("read", ()):
        wants("files", path)
    for section in ("gates", "rows"):
        for item in moment.get(section, ()):
            wants(section, item if isinstance(item, str) else item["text"])
    contract = evidence.contract(state)
    for key, got in zip(("objective", "waiting_on", "next_valid_action"), contract, strict=True):
        wanted = [moment.get(key), *(moment.get("accept") or {}).get(key, ())]
        right = [value for value in wanted if value]
        if not (any(contains(got or "", value) for value in right) or (None in wanted and got is None)):
            missed.append((key, f"{right} and not {got}"))
    missed += [
        ("absent", text) for text in moment.get("absent", ()) if any(contains(got or "", text) for got in contract)
    ]

    assert missed == []
