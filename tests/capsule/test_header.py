from __future__ import annotations

import json
from pathlib import Path

import pytest

from vault_mem.capsule import header, model
from vault_mem.errors import HeaderError

DATA = Path(__file__).resolve().parent.parent / "data" / "capsule"


def sample(name: str) -> str:
    return (DATA / f"{name}.md").read_bytes().decode()


WHOLE = sample("whole")


def in_form(form: str, text: str) -> str:
    """The same capsule as other programs leave it."""
    head, body = text.split("\n---\n", 1)
    forms = {
        "bom": "\ufeff" + text,
        "crlf": text.replace("\n", "\r\n"),
        "bom-crlf": "\ufeff" + text.replace("\n", "\r\n"),
        "cr": text.replace("\n", "\r"),
        "eof-fence": head + "\n---",
        "fence-spaces": head + "\n---  \n" + body,
        "first-fence-blanks": text.replace("---\n", "--- \t\n", 1),
    }
    return forms[form]


@pytest.mark.parametrize("form", ("bom", "crlf", "bom-crlf", "cr", "eof-fence", "fence-spaces", "first-fence-blanks"))
def test_the_byte_form_of_a_file_does_not_change_what_is_read(form: str) -> None:
    document = in_form(form, WHOLE)

    assert header.read(document) == header.read(WHOLE)
    assert header.load(document) == header.read(WHOLE)


@pytest.mark.parametrize("form", ("bom", "crlf", "bom-crlf", "cr", "eof-fence", "fence-spaces"))
def test_an_edit_changes_the_token_and_no_other_byte(form: str) -> None:
    document = in_form(form, WHOLE)

    edited = header.edit(document, "status", "resumed")

    assert edited == document.replace("status: active", "status: resumed")


def test_a_block_says_where_it_stands() -> None:
    document = "\ufeff---\r\nid: a\r\nstatus: active\r\n---\r\nbody"

    block = header.split(document)

    assert block == ("id: a\r\nstatus: active\r\n", 6, 29, 34, "\r\n", True)
    assert document[block.start : block.end] == block.text
    assert document[block.body :] == "body"


def _large(size: int) -> str:
    return f'---\nid: a\nobjective: "{"x" * size}"\n---\nbody\n'


@pytest.mark.parametrize(
    ("document", "token"),
    (
        pytest.param("", "no-frontmatter", id="empty"),
        pytest.param("\n" + WHOLE, "no-frontmatter", id="blank-first-line"),
        pytest.param("# Title\n\n---\nid: a\n---\n", "no-frontmatter", id="rule-in-prose"),
        pytest.param("---", "no-frontmatter", id="one-fence"),
        pytest.param("---\nid: a\nstatus: active\n", "no-frontmatter", id="not-closed"),
        pytest.param("----\nid: a\n----\n", "no-frontmatter", id="four-dashes"),
        pytest.param("--- # comment\nid: a\n---\n", "no-frontmatter", id="words-behind-the-fence"),
        pytest.param("---\n---\nbody\n", "invalid-frontmatter", id="no-fields"),
        pytest.param("---\n\n# note\n---\nbody\n", "invalid-frontmatter", id="only-a-comment"),
        pytest.param("---\n- a\n- b\n---\n", "invalid-frontmatter", id="a-list"),
        pytest.param("---\n{id: a}\n---\n", "invalid-frontmatter", id="a-flow-mapping"),
        pytest.param("---\njust words\n---\n", "invalid-frontmatter", id="words"),
        pytest.param('---\nid: "bad\nstatus: active\n---\n', "invalid-frontmatter", id="open-quote"),
        pytest.param(sample("broken"), "invalid-frontmatter", id="colon-in-plain-text"),
        pytest.param("---\nid: a\n\tstatus: b\n---\n", "invalid-frontmatter", id="tab-indent"),
        pytest.param("---\nid: a\n...\nstatus: b\n---\n", "invalid-frontmatter", id="two-documents"),
        pytest.param("---\n%YAML 1.1\nid: a\n---\n", "invalid-frontmatter", id="directive"),
        pytest.param("---\nid: \x00\n---\n", "invalid-frontmatter", id="nul"),
        pytest.param('---\nid: "\\U99999999"\n---\n', "invalid-frontmatter", id="code-point-out-of-range"),
        pytest.param("---\n? [a]\n: b\n---\n", "invalid-frontmatter", id="list-as-key"),
        pytest.param("---\nid: a\n: b\n---\n", "invalid-frontmatter", id="empty-key"),
        pytest.param(sample("bomb"), "invalid-frontmatter", id="alias-bomb"),
        pytest.param(sample("tag"), "invalid-frontmatter", id="object-tag"),
        pytest.param("---\nid: a\nx: &x b\n---\n", "invalid-frontmatter", id="anchor"),
        pytest.param("---\nid: a\nx: !!str 1\n---\n", "invalid-frontmatter", id="harmless-tag"),
        pytest.param("---\nx: &x {status: active}\n<<: *x\n---\n", "invalid-frontmatter", id="merge-of-an-alias"),
        pytest.param("---\nid: a\n<<: {status: active}\n---\n", "invalid-frontmatter", id="merge-of-a-mapping"),
        pytest.param(f"---\ntags: {'[' * 3000}{']' * 3000}\n---\n", "invalid-frontmatter", id="3000-brackets"),
        pytest.param(f"---\nx: {'{a: ' * 25}1{'}' * 25}\n---\n", "invalid-frontmatter", id="25-braces"),
        pytest.param(
            "---\nx:\n" + "".join(f"{' ' * depth}-\n" for depth in range(1, 30)) + "---\n",
            "invalid-frontmatter",
            id="stairs",
        ),
        pytest.param(f"---\ntags: {'[' * 60000}\n---\n", "invalid-frontmatter", id="60000-brackets"),
        pytest.param(f"---\n{'? ' * 30000}\n---\n", "invalid-frontmatter", id="30000-question-marks"),
        pytest.param(f"---\n{'- ' * 30000}\n---\n", "invalid-frontmatter", id="30000-dashes"),
        pytest.param("---\nstatus: active\nstatus: resolved\n---\n", "duplicate-key", id="duplicate-in-our-form"),
        pytest.param("---\nstatus: 'active'\nstatus: resolved\n---\n", "duplicate-key", id="duplicate-in-yaml"),
        pytest.param('---\nstatus: active\n"status": resolved\n---\n', "duplicate-key", id="duplicate-in-quotes"),
        pytest.param("---\nid: a\nx: {a: 1, a: 2}\n---\n", "duplicate-key", id="duplicate-below"),
        pytest.param("---\nid: a\nx: [{a: 1, a: 2}]\n---\n", "duplicate-key", id="duplicate-in-a-list"),
        pytest.param(_large(65536), "header-too-large", id="64-kib"),
        pytest.param(_large(5_000_000), "header-too-large", id="5-mb"),
        pytest.param("---\nid: a\n" + "x" * 70_000, "header-too-large", id="not-closed-within-the-bound"),
        pytest.param(f'---\nobjective: "{"€" * 22000}"\n---\n', "header-too-large", id="bytes-count"),
        pytest.param("<<<<<<< HEAD\n---\nid: a\n---\n", "conflict-markers", id="conflict-in-the-first-line"),
        pytest.param("---\nid: a\n<<<<<<< HEAD\nb: c\n---\n", "conflict-markers", id="conflict-in-the-header"),
        pytest.param(
            "---\nid: a\n---\n<<<<<<< HEAD\n- x\n=======\n- y\n>>>>>>> other\n",
            "conflict-markers",
            id="conflict-in-the-body",
        ),
        pytest.param(
            "---\r\nid: a\r\n---\r\n<<<<<<< HEAD\r\n- x\r\n=======\r\n- y\r\n>>>>>>> other\r\n",
            "conflict-markers",
            id="conflict-in-the-body-crlf",
        ),
    ),
)
def test_a_header_that_cannot_be_used_is_rejected_by_name(document: str, token: str) -> None:
    with pytest.raises(HeaderError) as caught:
        header.read(document)

    assert caught.value.token == token
    assert "\n" not in str(caught.value)


def test_a_conflict_shown_in_a_code_fence_is_no_conflict() -> None:
    document = "---\nid: a\n---\n\n```\n<<<<<<< HEAD\n- x\n=======\n- y\n>>>>>>> other\n```\n"

    assert header.read(document) == {"id": "a"}


def test_marks_that_a_bullet_quotes_are_no_conflict() -> None:
    document = "---\nid: a\n---\n- 10:00 <<<<<<< HEAD\n- =======\n- >>>>>>> other\n"

    assert header.read(document) == {"id": "a"}


def test_a_second_block_is_body_text() -> None:
    head, body = WHOLE.split("\n---\n", 1)
    document = f"{head}\n---\n---\nid: second\nstatus: resolved\nobjective: SECOND BLOCK\n---\n{body}"

    edited = header.edit(document, "status", "resumed")

    assert header.read(document) == header.read(WHOLE)
    assert edited == document.replace("status: active", "status: resumed", 1)


def test_keys_are_case_sensitive() -> None:
    document = WHOLE.replace("status: active", "Status: resolved\nstatus: active")

    fields = header.read(document)

    assert (fields["Status"], fields["status"]) == ("resolved", "active")
    assert header.edit(document, "status", "resumed") == document.replace("\nstatus: active", "\nstatus: resumed")


def test_values_of_other_types_are_the_source_text() -> None:
    fields = header.read(sample("bare"))

    assert fields["id"] == "7e10345"
    assert fields["parent_capsule_id"] == "0192117"
    assert fields["objective"] == "0123456"
    assert fields["next_valid_action"] == "1:30"
    assert fields["tags"] == ("no", "1:30", "2026", "~", "0x1A")
    assert fields["session_id"] == "1234567"
    assert fields["branch"] == "22.10"
    assert fields["head"] == "12e5"


@pytest.mark.parametrize(
    "word", (*json.loads((DATA / "scalars.json").read_text()), "2026-12-01", "yes", "-.inf", "010")
)
def test_a_bare_word_is_read_as_it_stands(word: str) -> None:
    nothing = word in ("null", "~")
    refused = word == "-"

    for document in (f"---\nid: {word}\n---\n", f"---\nid: {word}\n'k': x\n---\n"):
        if refused:
            with pytest.raises(HeaderError):
                header.read(document)
        else:
            assert header.read(document)["id"] == (None if nothing else word)


def test_tags_that_are_not_strings_are_texts() -> None:
    document = "---\nid: a\ntags:\n  - 1\n  - [x, y]\n  - {a: b}\n  - ~\n  -\n---\n"

    assert header.read(document)["tags"] == ("1", "[x, y]", "{a: b}", "~", "")


def test_a_mapping_is_its_source_text() -> None:
    document = "---\nid: a\nmeta:\n  x: 1\n  y: [2]\nflow: {a: b}\n---\n"

    fields = header.read(document)

    assert fields["meta"] == "x: 1\n  y: [2]"
    assert fields["flow"] == "{a: b}"


@pytest.mark.parametrize(
    ("written", "value"),
    (
        pytest.param("'it''s'", "it's", id="single-quotes"),
        pytest.param('"\\x41\\e"', "A\x1b", id="yaml-escapes"),
        pytest.param('"\\ud83d\\ude80"', "🚀", id="surrogate-pair"),
        pytest.param('"\\ud83d x"', "\ufffd x", id="lone-half"),
        pytest.param("|\n  a\n  b", "a\nb\n", id="block"),
        pytest.param(">-\n  a\n  b", "a b", id="folded"),
        pytest.param("a\n  b", "a b", id="plain-over-two-lines"),
        pytest.param("a\u0085b", "a b", id="a-line-break-to-yaml-alone"),
    ),
)
def test_what_a_person_may_write_is_read(written: str, value: str) -> None:
    assert header.read(f"---\nid: x\nobjective: {written}\nstatus: active\n---\n")["objective"] == value


@pytest.mark.parametrize(
    ("line", "edited"),
    (
        pytest.param("status: active", "status: resumed", id="bare"),
        pytest.param('status: "active"', "status: resumed", id="quoted"),
        pytest.param("status: active # note: x", "status: resumed # note: x", id="comment"),
        pytest.param('status: "active"   # "n"', 'status: resumed   # "n"', id="quoted-comment"),
        pytest.param("status:    active  ", "status:    resumed  ", id="blanks"),
        pytest.param("status: 'active' # it's", "status: resumed # it's", id="single-quotes"),
        pytest.param("'status': active", "'status': resumed", id="quoted-key"),
        pytest.param("status: a\n  b # c", "status: resumed # c", id="two-lines"),
        pytest.param("status:", "status: resumed", id="empty"),
        pytest.param("status: # later", "status: resumed # later", id="empty-comment"),
        pytest.param("status: ~", "status: resumed", id="tilde"),
        pytest.param("status: [a, 'b']  # c", "status: resumed  # c", id="list"),
        pytest.param("status: {a: b}", "status: resumed", id="mapping"),
        pytest.param('status: ["a]", b] # c', "status: resumed # c", id="bracket-in-a-string"),
    ),
)
@pytest.mark.parametrize("newline", ("\n", "\r\n"))
@pytest.mark.parametrize("foreign", (False, True))
def test_an_edit_keeps_what_stands_around_the_value(line: str, edited: str, newline: str, *, foreign: bool) -> None:
    frame = (
        f"---\nid: x # é: 🚀\n{'k: {a: 1}' if foreign else 'k: v'}\n%s\ntrigger: 'z'\n---\nstatus: active\n".replace(
            "\n", newline
        )
    )
    document = frame % line.replace("\n", newline)

    assert header.edit(document, "status", "resumed") == frame % edited


@pytest.mark.parametrize(
    ("text", "key", "token"),
    (
        pytest.param("status: |\n  active", "status", "invalid-frontmatter", id="block-scalar"),
        pytest.param("status:\n  - active", "status", "invalid-frontmatter", id="block-list"),
        pytest.param("id: x", "status", "missing-key", id="no-such-key"),
    ),
)
def test_an_edit_that_cannot_be_made_in_place_is_refused(text: str, key: str, token: str) -> None:
    with pytest.raises(HeaderError) as caught:
        header.edit(f"---\n{text}\n---\n", key, "resumed")

    assert caught.value.token == token


def test_an_edit_to_the_same_value_changes_nothing() -> None:
    document = "---\nstatus:   'active'  # as it was\n---\n"

    assert header.edit(document, "status", "active") == document


def test_a_key_that_is_not_there_is_put_last() -> None:
    document = "\ufeff---\r\nid: x\r\n---\r\nbody\r\n"

    put = header.put(document, "objective", "Do: it")

    assert put == '\ufeff---\r\nid: x\r\nobjective: "Do: it"\r\n---\r\nbody\r\n'
    assert header.put(put, "id", "z") == put.replace("id: x", "id: z")


def test_fields_are_written_in_their_order() -> None:
    given = {"zeta": "z", "framing": "reference-only", "head": None, "status": "active", "Odd key": "1", "id": "a"}

    assert (
        header.render(given) == 'id: a\nstatus: active\nhead: null\nzeta: z\n"Odd key": "1"\nframing: reference-only\n'
    )


def test_free_text_is_always_a_json_string() -> None:
    assert header.token("objective", "plain") == '"plain"'
    assert header.token("waiting_on", "a\u2028b\x85c\x7fd\ufeffe\tf") == r'"a\u2028b\u0085c\u007fd\ufeffe\tf"'
    assert header.token("next_valid_action", "half \ud83d pair \ud83d\ude80") == '"half \ufffd pair 🚀"'


@pytest.mark.parametrize("key", ("", "x" * 129))
def test_a_key_that_no_header_can_hold_is_refused(key: str) -> None:
    with pytest.raises(HeaderError):
        header.render({key: "x"})


@pytest.mark.parametrize(
    "block",
    (
        pytest.param("id: a\n  b\n", id="continuation"),
        pytest.param("tags:\n- a\n", id="block-list"),
        pytest.param("id: 'a'\n", id="single-quotes"),
        pytest.param("id: |\n  a\n", id="block-scalar"),
        pytest.param("id: &a b\n", id="anchor"),
        pytest.param("id: *a\n", id="alias"),
        pytest.param("id: !t b\n", id="tag"),
        pytest.param("id: a: b\n", id="colon"),
        pytest.param("id: [a, [b]]\n", id="nested"),
        pytest.param("id: {a: b}\n", id="mapping"),
        pytest.param('id: "a" b\n', id="words-behind-a-string"),
        pytest.param('id: "a"# b\n', id="comment-without-blank"),
        pytest.param('id: "\\x41"\n', id="yaml-escape"),
        pytest.param("id : a\n", id="blank-before-the-colon"),
        pytest.param(" id: a\n", id="indent"),
        pytest.param("id:a\n", id="no-blank"),
        pytest.param("id:\ta\n", id="tab"),
        pytest.param("id: a\u0085b\n", id="nel"),
        pytest.param("<<: a\n", id="merge-key"),
        pytest.param("", id="nothing"),
    ),
)
def test_the_strict_scan_refuses_what_it_would_have_to_guess(block: str) -> None:
    assert header.scan(block) is None


def test_the_strict_scan_reads_what_we_write() -> None:
    fields = {
        **dict.fromkeys(model.FIELDS),
        "id": "2026-12-01-auto-1a2b3c4d-0f0f",
        "objective": 'Say "hi" \\ twice\nplease 🚀',
        "tags": ("capsule", "autosave", "1:30", "a, b", 'q"]'),
        "success_criteria": (),
        **dict(model.FRAMING),
    }

    assert header.scan(header.render(fields)) == fields
