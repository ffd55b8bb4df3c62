"""What must hold for every merge, found by trying: it can be repeated, it keeps what is there, it is read back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vault_mem import stamps
from vault_mem.capsule import codec, header, model, sections
from vault_mem.capsule import text as texts
from vault_mem.capsule.model import Bullet

DAY = "2026-12-01"
START = stamps.epoch_of(f"{DAY}T12:00:00Z") or 0.0
EMPTY = codec.render(codec.Capsule({"id": "c-1", "status": "active"}, codec.blank_body()))
NAMES = ("done", "errors")

FRAGMENTS = st.sampled_from(
    [
        *(
            "<!--",
            "-->",
            "<!-- swe:done -->",
            " → ",
            " → closed",
            " → resolved: x",
            " → unresolved",
            "#",
            "## ",
            "```",
            "~~~",
            "[X",
            "[AB] ",
        ),
        *(
            "\\",
            "`",
            "\n",
            "\r\n",
            "10:00 ",
            "2026-12-01 10:00 ",
            "3 older bullets: vault-mem show ID --history",
            "- ",
            "\t",
            "\u2028",
            "\x00",
        ),
        *("e\u0301", "👩\u200d👧", "a", "b", " "),
    ]
)
TEXTS = st.lists(FRAGMENTS | st.text(st.characters(), max_size=2), max_size=5).map("".join)
TIMES = st.sampled_from([0.0, START, START + 1, START + 59, START + 60]) | st.integers(0, 3 * 86400).map(
    lambda late: START + late
)
TAGS = st.sampled_from(["", "OPERATOR", "RELAY:kai", "bad tag]", "x"])
STATES = st.sampled_from(["", "", "unresolved", "closed", "resolved: y", "closed: z → closed", "odd"])
BULLETS = st.lists(st.builds(Bullet, st.sampled_from(NAMES), TIMES, TEXTS, TAGS, STATES), max_size=6)


def normal_forms(bullets: list[Bullet], name: str) -> set[tuple[str, str]]:
    forms = (
        (texts.tag(bullet.tag), texts.cut(texts.fold(bullet.text))) for bullet in bullets if bullet.section == name
    )
    return {form for form in forms if form[1]}


@given(BULLETS, BULLETS, st.sampled_from(["\n", "\r\n"]), st.booleans())
@settings(max_examples=200)
def test_what_was_merged_is_there_once_in_order_and_merging_again_changes_nothing(
    first: list[Bullet],
    second: list[Bullet],
    newline: str,
    ended: bool,
) -> None:
    text = EMPTY.replace("\n", newline)
    document = text if ended else text[: -len(newline)]

    once = sections.merge(document, first, day=DAY)
    twice = sections.merge(once.document, second, day=DAY)

    assert once.changed is (once.document != document)
    assert sections.merge(once.document, first, day=DAY) == (once.document, False, 0)
    assert sections.merge(twice.document, second, day=DAY) == (twice.document, False, 0)
    found = sections.read(twice.document, day=DAY)
    for name in NAMES:
        forms = [(bullet.tag, bullet.text) for bullet in found[name]]
        assert sorted(forms) == sorted(normal_forms(first + second, name))
        times = [bullet.at for bullet in found[name] if bullet.at]
        assert times == sorted(times, reverse=True)


@given(BULLETS, st.sampled_from(["\n", "\r\n"]))
@settings(max_examples=150)
def test_a_merge_only_adds_lines_to_an_empty_capsule(bullets: list[Bullet], newline: str) -> None:
    document = EMPTY.replace("\n", newline)

    after = sections.merge(document, bullets, day=DAY).document

    left = [line for line in after.split(newline) if not line.startswith("- ")]
    assert newline.join(left) == document
    assert header.read(after) == header.read(document)
    assert sections.damage(after) == ()
    assert newline == "\n" or "\n" not in after.replace("\r\n", "")


@given(BULLETS, BULLETS)
@settings(max_examples=150)
def test_the_bound_holds_and_merging_again_changes_nothing(first: list[Bullet], second: list[Bullet]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sections, "BULLETS", 3)
        once = sections.merge(EMPTY, first, day=DAY)
        twice = sections.merge(once.document, second, day=DAY)

        assert sections.merge(once.document, first, day=DAY) == (once.document, False, 0)
        assert sections.merge(twice.document, second, day=DAY) == (twice.document, False, 0)
    for bullets in sections.read(twice.document, day=DAY).values():
        assert sum(1 for bullet in bullets if bullet.at) <= 3
    assert twice.document.count(" older bullets: vault-mem show c-1 --history") <= len(NAMES)


@given(
    st.lists(
        st.tuples(st.sampled_from([section.name for section in model.SECTIONS]), st.integers(0, 200), TEXTS),
        max_size=60,
    )
)
@settings(max_examples=60)
def test_the_bytes_hold_and_merging_again_changes_nothing(drawn: list[tuple[str, int, str]]) -> None:
    bullets = [Bullet(name, START + minute * 60, f"{minute} {text * 9}") for name, minute, text in drawn]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sections, "SIZE", 6000)

        merged = sections.merge(EMPTY, bullets, day=DAY)

        assert len(merged.document.encode()) <= 6000
        assert sections.merge(merged.document, bullets, day=DAY) == (merged.document, False, 0)
