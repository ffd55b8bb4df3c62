from __future__ import annotations

from vault_mem.capsule import codec, header, model, sections


def test_a_fresh_body_has_each_section_once_under_its_heading() -> None:
    body = codec.blank_body()

    for section in model.SECTIONS:
        assert body.count(f"## {section.heading}\n{section.anchor}\n") == 1
    assert body.count("<!-- swe:") == len(model.SECTIONS)


def test_a_fresh_body_says_what_it_is_before_the_first_section() -> None:
    lines = codec.blank_body().splitlines()

    assert lines[0] == ""
    assert lines[1].startswith("> [!info] [REFERENCE ONLY] ")
    assert [line.split(":")[0] for line in lines[2:6]] == ["> Framing", "> Precedence", "> Pending", "> Reversal"]


def test_a_fresh_capsule_can_be_read_and_merged() -> None:
    fields: dict[str, model.Value] = {
        **dict.fromkeys(model.FIELDS),
        "id": "a",
        "status": "active",
        **dict(model.FRAMING),
    }

    document = codec.render(codec.Capsule(fields, codec.blank_body()))

    assert codec.parse(document) == (fields, codec.blank_body())
    assert sections.damage(document) == ()


def test_the_header_takes_the_line_breaks_of_the_body() -> None:
    document = codec.render(codec.Capsule({"id": "a"}, "\r\nbody\r\n"))

    assert document == "---\r\nid: a\r\n---\r\n\r\nbody\r\n"
    assert header.split(document).newline == "\r\n"
