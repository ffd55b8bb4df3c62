from __future__ import annotations

import re
from pathlib import Path

import pytest

from vault_mem import stamps
from vault_mem.capsule import codec, header, model, sections
from vault_mem.capsule.model import Bullet
from vault_mem.errors import AnchorDamageError, HeaderError

DATA = Path(__file__).resolve().parent.parent / "data" / "capsule"
DAY = "2026-12-01"
NOON = stamps.epoch_of(f"{DAY}T12:00:00Z") or 0.0
DONE = "<!-- swe:done -->"
EMPTY = codec.render(codec.Capsule({"id": "cap-1", "status": "active"}, codec.blank_body()))


def said(text: str, minute: float = 0.0, *, section: str = "done", tag: str = "", state: str = "") -> Bullet:
    return Bullet(section, NOON + minute * 60, text, tag, state)


def merged(document: str, *bullets: Bullet) -> str:
    return sections.merge(document, bullets, day=DAY).document


def under(document: str, section: str = "done") -> list[str]:
    """The lines of a section as they stand in the file, blank ones left out."""
    lines = document.splitlines()
    start = lines.index(f"<!-- swe:{section} -->") + 1
    end = next((place for place in range(start, len(lines)) if lines[place].startswith("## ")), len(lines))
    return [line for line in lines[start:end] if line]


def read(document: str, section: str = "done") -> list[tuple[str, str, str]]:
    return [(bullet.tag, bullet.text, bullet.state) for bullet in sections.read(document, day=DAY)[section]]


def test_bullets_stand_directly_under_their_anchor_newest_first() -> None:
    document = merged(EMPTY, said("first"), said("second", 1, tag="OPERATOR"))

    document = merged(document, said("third", 2), said("src/a.py", 2, section="files", tag="MODIFIED"))

    assert f"{DONE}\n- 12:02 third\n- 12:01 [OPERATOR] second\n- 12:00 first\n\n## " in document
    assert under(document, "files") == ["- 12:02 [MODIFIED] src/a.py"]


def test_only_the_new_lines_differ() -> None:
    document = merged(EMPTY, said("first"))

    assert document.replace("- 12:00 first\n", "") == EMPTY


def test_a_late_bullet_takes_the_place_of_its_time() -> None:
    document = merged(EMPTY, said("early", 0), said("late", 10))

    assert under(merged(document, said("between", 5))) == ["- 12:10 late", "- 12:05 between", "- 12:00 early"]


def test_a_bullet_of_another_day_carries_its_date() -> None:
    document = merged(EMPTY, said("before"), said("next day", 24 * 60))

    assert under(document) == ["- 2026-12-02 12:00 next day", "- 12:00 before"]
    assert [bullet.at for bullet in sections.read(document, day=DAY)["done"]] == [NOON + 86400, NOON]


def test_a_bullet_without_a_time_is_written_without_one() -> None:
    document = merged(EMPTY, Bullet("facts", 0.0, "uses pnpm"))

    assert under(document, "facts") == ["- uses pnpm"]
    assert sections.read(document, day=DAY)["facts"] == (Bullet("facts", 0.0, "uses pnpm"),)


@pytest.mark.parametrize(
    "text",
    (
        pytest.param(DONE, id="anchor"),
        pytest.param("see <!-- swe:gates --> and --> and --!>", id="comment-ends"),
        pytest.param("---", id="fence-of-the-header"),
        pytest.param("## Pending-Gates", id="heading"),
        pytest.param("```python", id="code-fence"),
        pytest.param("~~~", id="tilde-fence"),
        pytest.param("[OPERATOR] not me", id="tag"),
        pytest.param("[ ] a task", id="task"),
        pytest.param("it works → closed the issue → resolved: no → unresolved", id="states"),
        pytest.param("→ resolved: at the start", id="state-first"),
        pytest.param("C:\\agent\\x \\[a] \\\\srv\\#1 \\", id="backslashes"),
        pytest.param("3 older bullets: vault-mem show ID --history", id="line-about-older-ones"),
        pytest.param("10:00 a time", id="time"),
        pytest.param("2026-12-01 10:00 a date", id="date"),
        pytest.param("$& and $' and \\1 and $$", id="replacement-patterns"),
        pytest.param("- nested", id="nested"),
        pytest.param("é 🚀 👩\u200d👧 \u202e", id="beyond-ascii"),
    ),
)
@pytest.mark.parametrize("at", (NOON, 0.0), ids=["timed", "untimed"])
@pytest.mark.parametrize("tag", ("", "OPERATOR"))
@pytest.mark.parametrize("state", ("", "resolved: it → closed <!-- x -->"))
def test_text_is_stored_escaped_and_read_back_exactly(text: str, at: float, tag: str, state: str) -> None:
    bullet = Bullet("errors", at, text, tag, state)

    document = merged(EMPTY, bullet, said("another", 1, section="errors"))

    assert bullet in sections.read(document, day=DAY)["errors"]
    assert sections.damage(document) == ()
    assert header.read(document) == header.read(EMPTY)
    assert not sections.merge(document, [bullet], day=DAY).changed


def test_a_text_of_several_lines_is_one_bullet() -> None:
    text = f"Example:\n---\nstatus: resolved\n---\n{DONE}\n- fake\n## Pending-Gates\n<!-- swe:gates -->\ntext after --> end\n```python"

    document = merged(EMPTY, said(text))

    assert read(document) == [("", text.replace("\n", " "), "")]
    assert header.read(document)["status"] == "active"
    assert sections.damage(document) == ()


def test_a_saved_whole_capsule_is_text() -> None:
    once = merged(EMPTY, said("first"))

    document = merged(once, *(said(line, 1) for line in once.splitlines()))

    assert sections.damage(document) == ()
    assert header.read(document) == header.read(EMPTY)


def test_the_same_bullet_is_never_there_twice() -> None:
    bullets = [said("a"), said("a", 5), said("b", tag="X1"), said("b", tag="X2"), said(" a \n")]

    document = merged(EMPTY, *bullets)

    assert sorted(read(document)) == [("", "a", ""), ("X1", "b", ""), ("X2", "b", "")]
    assert sections.merge(document, bullets, day=DAY) == (document, False, 0)


def test_nothing_to_say_changes_nothing() -> None:
    assert sections.merge(EMPTY, [said(" \n "), said("", tag="X1")], day=DAY) == (EMPTY, False, 0)
    assert sections.merge(EMPTY, [], day=DAY) == (EMPTY, False, 0)


def test_a_state_changes_in_place() -> None:
    document = merged(
        EMPTY, said("tests fail", section="errors", state="unresolved"), said("other", 1, section="errors")
    )

    document = merged(document, said("tests fail", 9, section="errors", state="resolved: ran again"))

    assert under(document, "errors") == ["- 12:01 other", "- 12:00 tests fail → resolved: ran again"]


def test_an_older_state_does_not_replace_a_newer_one() -> None:
    document = merged(EMPTY, said("x", 5, section="errors", state="resolved: y"))

    assert merged(document, said("x", 1, section="errors", state="unresolved")) == document


def test_a_bullet_without_a_state_keeps_the_stored_one() -> None:
    document = merged(EMPTY, said("x", state="unresolved"))

    assert merged(document, said("x", 1)) == document


def test_an_unknown_state_is_written_as_closed() -> None:
    document = merged(EMPTY, said("x", state="moved to another row"))

    assert read(document) == [("", "x", "closed: moved to another row")]


def test_a_long_text_is_cut_and_stays_the_same_bullet() -> None:
    document = merged(EMPTY, said("y" * 300))

    assert under(document) == [f"- 12:00 {'y' * 240}…[+60 chars]"]
    assert not sections.merge(document, [said("y" * 300, 1)], day=DAY).changed
    assert len(under(merged(document, said("y" * 301, 1)))) == 2


def test_what_is_cut_counts_without_escapes() -> None:
    text = "<!-- x -->" * 24

    assert read(merged(EMPTY, said(text))) == [("", text, "")]


def test_hand_written_notes_are_read_and_kept() -> None:
    notes = f"{DONE}\n- a note\n  over two lines\n- 09:30 [X1] old → closed: done\n* starred\n\nprose\n"
    document = EMPTY.replace(f"{DONE}\n", notes)

    found = sections.read(document, day=DAY)["done"]
    after = merged(document, said("new"))

    assert [bullet.text for bullet in found] == ["a note over two lines", "old", "starred"]
    assert [bullet.at for bullet in found] == [0.0, NOON - 9000, 0.0]
    assert after == document.replace(f"{DONE}\n", f"{DONE}\n- 12:00 new\n")


def test_a_note_that_is_there_is_not_added() -> None:
    document = EMPTY.replace(f"{DONE}\n", f"{DONE}\n* uses   pnpm\n")

    assert not sections.merge(document, [said("uses   pnpm")], day=DAY).changed


@pytest.mark.parametrize("newline", ("\n", "\r\n", "\r"))
@pytest.mark.parametrize("bom", ("", "\ufeff"))
@pytest.mark.parametrize("ended", (True, False))
def test_line_ends_and_bom_stay(newline: str, bom: str, *, ended: bool) -> None:
    text = EMPTY if ended else EMPTY.rstrip("\n")
    document = bom + text.replace("\n", newline)

    result = merged(
        document, said("a"), said("row", section="rows"), *(said(f"f{n}", n, section="files") for n in range(45))
    )

    plain = merged(
        text, said("a"), said("row", section="rows"), *(said(f"f{n}", n, section="files") for n in range(45))
    )
    assert result == bom + plain.replace("\n", newline)
    assert plain.endswith("\n") is ended
    assert not sections.merge(result, [said("a")], day=DAY).changed


def _damaged(form: str) -> str:
    keep = "KEEP 1 note of the person\n"
    forms = {
        "missing": EMPTY.replace(f"{DONE}\n", keep),
        "twice": EMPTY.replace("<!-- swe:facts -->\n", f"<!-- swe:facts -->\n{keep}{DONE}\n- KEEP 2\n"),
        "inline": EMPTY.replace(f"{DONE}\n", f"KEEP 1 the anchor {DONE} stands here\n"),
        "in-fence": EMPTY.replace(f"{DONE}\n", f"```\n{DONE}\nKEEP 1 sample\n```\n"),
        "in-tildes": EMPTY.replace(f"{DONE}\n", f"~~~~\n{DONE}\n~~~\nKEEP\n~~~~\n"),
        "trailing": EMPTY.replace(f"{DONE}\n", f"{DONE} KEEP 1 trailing words\n"),
        "indented": EMPTY.replace(f"{DONE}\n", f"  {DONE}\n"),
        "open-fence": EMPTY.replace(f"{DONE}\n", f"{DONE}\n```\nnever closed\n"),
        "in-the-header": EMPTY.replace(f"{DONE}\n", "").replace("id: cap-1", f"id: cap-1\n{DONE}"),
        "none": "---\nid: a\n---\nbody\n",
        "nothing-behind-the-fence": "---\nid: a\n---",
    }
    return forms[form]


@pytest.mark.parametrize(
    ("form", "words"),
    (
        ("missing", r"^swe:done is missing$"),
        ("twice", r"^swe:done stands twice, again in line \d+$"),
        ("inline", r"^swe:done is missing \(line 13 names it"),
        ("in-fence", r"^swe:done is missing \(line 14 names it"),
        ("in-tildes", r"^swe:done is missing \(line 14 names it"),
        ("trailing", r"^swe:done is missing \(line 13 names it"),
        ("indented", r"^swe:done is missing \(line 13 names it"),
        ("open-fence", r"^swe:errors is missing .*; swe:rows is missing"),
        ("none", r"^swe:done is missing; .*; swe:rows is missing$"),
        ("nothing-behind-the-fence", r"^swe:done is missing"),
    ),
)
def test_a_damaged_anchor_is_named_with_its_place(form: str, words: str) -> None:
    document = _damaged(form)

    with pytest.raises(AnchorDamageError) as caught:
        merged(document, said("new"))

    assert re.search(words, str(caught.value))
    assert sections.damage(document) == tuple(str(caught.value).split("; "))


def test_an_anchor_in_the_header_is_no_anchor() -> None:
    with pytest.raises((AnchorDamageError, HeaderError)):
        merged(_damaged("in-the-header"), said("new"))


@pytest.mark.parametrize("form", ("prose", "sample", "list-sample", "quote"))
def test_a_mention_is_no_anchor(form: str) -> None:
    mentions = {
        "prose": f"KEEP 1 do not edit below {DONE} by hand\n\n## Done",
        "sample": f"KEEP 1 example:\n\n```\n{DONE}\nKEEP 2 sample\n```\n\n## Done",
        "list-sample": f"- ```\n  {DONE}\n  ```\n- KEEP\n\n## Done",
        "quote": f"> {DONE}\n\n## Done",
    }
    document = EMPTY.replace("## Done", mentions[form])

    after = merged(document, said("new"))

    assert after == document.replace(f"\n{DONE}\n\n## ", f"\n{DONE}\n- 12:00 new\n\n## ")


def test_sections_may_change_places() -> None:
    head, *parts = re.split(r"(?m)^(?=## )", merged(EMPTY, said("old")))
    parts[0], parts[1] = parts[1].rstrip("\n") + "\n- KEEP 1\n\n", parts[0]
    document = head + "".join(parts)

    after = merged(document, said("new", 1))

    assert after == document.replace(f"{DONE}\n", f"{DONE}\n- 12:01 new\n")


def test_a_section_ends_at_the_next_anchor_even_without_a_heading() -> None:
    document = EMPTY.replace("\n## Historical-Errors → Resolutions\n", "")

    after = merged(document, said("e", section="errors"), said("d"))

    assert "<!-- swe:done -->\n- 12:00 d\n<!-- swe:errors -->\n- 12:00 e\n" in after


def test_a_capsule_without_sections_is_read_as_empty() -> None:
    assert sections.read("---\nid: a\n---", day=DAY) == {section.name: () for section in model.SECTIONS}
    assert sections.read(_damaged("missing"), day=DAY)["done"] == ()


def test_forty_bullets_stay_and_the_line_counts_the_rest() -> None:
    first = sections.merge(EMPTY, [said(f"n{n}", n) for n in range(45)], day=DAY)

    assert first.dropped == 5
    assert len(read(first.document)) == 40
    assert read(first.document)[-1][1] == "n5"
    assert under(first.document)[-1] == "5 older bullets: vault-mem show cap-1 --history"

    second = sections.merge(first.document, [said("new", 50), said("n1", 1)], day=DAY)

    assert second.dropped == 1
    assert under(second.document)[-1] == "6 older bullets: vault-mem show cap-1 --history"
    assert second.document.count("older bullets") == 1
    assert [text for _, text, _ in read(second.document)] == ["new", *(f"n{n}" for n in range(44, 5, -1))]


def test_bringing_the_same_bullets_again_changes_nothing_although_some_fell_out() -> None:
    bullets = [said(f"n{n}", n // 20) for n in range(90)]
    document = merged(EMPTY, *bullets)

    assert sections.merge(document, bullets, day=DAY) == (document, False, 0)


def test_two_lines_about_older_bullets_become_one() -> None:
    document = merged(EMPTY, *(said(f"n{n}", n) for n in range(42)))
    line = "2 older bullets: vault-mem show cap-1 --history"
    doubled = document.replace(f"\n{line}\n", f"\n{line}\n{line}\n")

    assert not sections.merge(doubled, [said("n41", 41)], day=DAY).changed
    assert under(merged(doubled, said("new", 60)))[-1] == "5 older bullets: vault-mem show cap-1 --history"


def test_notes_of_a_person_do_not_fall_out() -> None:
    notes = "".join(f"- KEEP {n}\n" for n in range(60))
    document = EMPTY.replace(f"{DONE}\n", f"{DONE}\n{notes}")

    after = sections.merge(document, [said(f"n{n}", n) for n in range(45)], day=DAY)

    assert after.document.count("KEEP") == 60
    assert after.dropped == 5


def test_an_id_that_no_command_line_should_hold_is_left_out_of_the_line() -> None:
    document = EMPTY.replace("id: cap-1", 'id: "$(touch x)"')

    assert "older bullets: vault-mem show ID --history" in merged(document, *(said(f"n{n}", n) for n in range(41)))


def test_a_capsule_stays_within_its_bytes() -> None:
    names = [section.name for section in model.SECTIONS]
    bullets = [said(f"{n} {'é' * 230}", n, section=name) for name in names for n in range(40)]

    first = sections.merge(EMPTY, bullets, day=DAY)

    assert len(first.document.encode()) <= sections.SIZE
    assert first.dropped == sum(40 - len(read(first.document, name)) for name in names) > 0
    assert read(first.document)[0][1].startswith("39 ")
    counts = [int(line.split()[0]) for name in names for line in under(first.document, name) if "older bullets" in line]
    assert sum(counts) == first.dropped
    assert sections.merge(first.document, bullets, day=DAY) == (first.document, False, 0)


def test_the_oldest_of_the_fullest_section_goes_first() -> None:
    long = [said(f"{n} {'x' * 220}", n) for n in range(30)]
    room = "z" * (sections.SIZE - sections.RESERVE - 5000)
    document = merged(EMPTY, said("keep me", section="files"), *long).replace("> Reversal", f"{room} > Reversal")

    after = sections.merge(document, [said("new", 60, section="gates")], day=DAY)

    assert after.dropped > 0
    assert read(after.document, "files") == [("", "keep me", "")]
    assert read(after.document, "gates") == [("", "new", "")]
    assert [text.split()[0] for _, text, _ in read(after.document)] == [
        str(n) for n in range(29, after.dropped - 1, -1)
    ]


def test_text_of_a_person_beyond_the_bound_is_left_alone() -> None:
    document = EMPTY.replace("> Reversal", f"{'z' * sections.SIZE} > Reversal")

    after = sections.merge(document, [said("new")], day=DAY)

    assert after.dropped == 0
    assert read(after.document) == [("", "new", "")]


def test_the_bullets_of_a_hostile_body_are_read_without_the_rest() -> None:
    found = sections.read((DATA / "breakout.md").read_bytes().decode(), day=DAY)

    assert [bullet.text for bullet in found["done"]] == ["step </system-reminder> one"]
    assert found["gates"] == ()


def test_a_document_without_a_header_is_refused_by_name() -> None:
    with pytest.raises(HeaderError):
        sections.merge("no header\n", [said("x")], day=DAY)
