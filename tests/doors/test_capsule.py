"""`vault-mem capsule validate`: every problem with its token, from a file or standard input; nothing stored is obeyed by a terminal."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

GOOD = """---
id: 2026-12-01-split
status: active
objective: "Split the parser"
waiting_on: "none"
next_valid_action: "Fix the tests"
created_at: 2026-11-30T10:00:00Z
---
"""


@pytest.fixture
def found(vault_mem: Any, tmp_path: Path) -> Callable[..., list[tuple[str, str]]]:
    """(severity, token) of everything that is found in a text, by way of a file."""

    def run(text: str | bytes) -> list[tuple[str, str]]:
        path = tmp_path / "capsule.md"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        done = vault_mem("capsule", "validate", str(path), "--json")
        document = json.loads(done.stdout)
        assert done.returncode == (0 if document["ok"] else 1)
        return [(each["severity"], each["token"]) for each in document["findings"]]

    return run


def _whole() -> str:
    return GOOD + "".join(
        f"## {name}\n<!-- swe:{name} -->\n"
        for name in ("done", "errors", "rejected", "files", "facts", "gates", "rows")
    )


def test_a_good_capsule_is_ok_without_any_seat(vault_mem: Any, tmp_path: Path) -> None:
    path = tmp_path / "capsule.md"
    path.write_text(_whole(), "utf-8")

    done = vault_mem("capsule", "validate", str(path))

    assert done.returncode == 0
    assert done.stdout.startswith(b"ok: ")
    assert done.stderr == b""


def test_standard_input_is_read_the_same_way(vault_mem: Any) -> None:
    done = vault_mem("capsule", "validate", "-", stdin=_whole().encode())

    assert done.returncode == 0
    assert done.stdout == b"ok: standard input\n"


@pytest.mark.parametrize(
    ("change", "expected"),
    (
        pytest.param(("", ""), [], id="nothing"),
        pytest.param(('waiting_on: "none"\n', ""), ["missing-required-field"], id="a missing field"),
        pytest.param(('"none"', "null"), ["missing-required-field"], id="null"),
        pytest.param(('"none"', "~"), ["missing-required-field"], id="a tilde"),
        pytest.param(('"none"', '"null"'), [], id="the quoted word null"),
        pytest.param(('"none"', '" "'), ["missing-required-field"], id="quoted blanks"),
        pytest.param(('"none"', "# none"), ["missing-required-field", "inline-comment"], id="only a comment"),
        pytest.param(('"none"', '"# none"'), [], id="a quoted number sign"),
        pytest.param(('"none"', "none # yet"), ["inline-comment"], id="a comment behind the value"),
        pytest.param(('"none"', "issue #12"), ["inline-comment"], id="a number that YAML takes for a comment"),
        pytest.param(('"none"', "'it''s # fine'"), [], id="single quotes"),
        pytest.param(("status: active", "status: done"), ["bad-status"], id="an unknown status"),
        pytest.param(("status: active", "status: consumed"), [], id="the legacy status"),
        pytest.param(("2026-11-30T10:00:00Z", "yesterday"), ["bad-created_at"], id="no time"),
        pytest.param(("2026-11-30T10:00:00Z", "2999-01-01T00:00:00Z"), ["future-created_at"], id="the future"),
        pytest.param(("2026-11-30T10:00:00Z", "2026-11-30"), [], id="a day"),
        pytest.param(("2026-11-30T10:00:00Z", "2026-11-30T10:00:00"), ["no-zone"], id="no zone"),
        pytest.param(("Split the", "[inbox 3] Split the"), ["injection-echo"], id="an echo"),
        pytest.param(("Fix the tests", "Resume complete"), ["ceremony-action"], id="a ceremony"),
        pytest.param(
            ("Fix the tests", "Unknown: no operator objective was captured"), [], id="a placeholder can be written"
        ),
        pytest.param(("<!-- swe:done -->\n", ""), ["anchor-damage"], id="an anchor missing"),
        pytest.param(("<!-- swe:done -->", "<!-- swe:files -->"), ["anchor-damage"], id="an anchor twice"),
        pytest.param(("<!-- swe:done -->", "here <!-- swe:done -->"), ["anchor-damage"], id="an anchor in a sentence"),
        pytest.param(
            ("<!-- swe:done -->", "```\n<!-- swe:done -->\n```"), ["anchor-damage"], id="an anchor in a fence"
        ),
        pytest.param(("status: active", "status: active\nstatus: active"), ["duplicate-key"], id="a key twice"),
        pytest.param(("id: 2026-12-01-split", "<<<<<<< ours"), ["conflict-markers"], id="a conflict"),
    ),
)
def test_each_problem_has_its_token(
    found: Callable[..., list[tuple[str, str]]], change: tuple[str, str], expected: list[str]
) -> None:
    text = _whole().replace(*change, 1) if change[0] else _whole()

    assert [token for _, token in found(text)] == expected


def test_all_problems_are_told_at_once(vault_mem: Any) -> None:
    done = vault_mem("capsule", "validate", "-", stdin=b"---\nstatus: odd\n---\n")

    said = done.stderr.decode()
    assert done.returncode == 1
    assert [
        said.count(f"missing-required-field: {key}") for key in ("id", "objective", "waiting_on", "next_valid_action")
    ] == [1] * 4
    assert "bad-status" in said
    assert "bad-created_at" in said


@pytest.mark.parametrize(
    ("text", "token"),
    (
        pytest.param(b"", "no-frontmatter", id="empty"),
        pytest.param(b"\n---\nid: a\n---\n", "no-frontmatter", id="a blank line first"),
        pytest.param(b"---\nid: \xff\n---\n", "not-utf8", id="not utf-8"),
        pytest.param(b"---\nid: {a: [\n---\n", "invalid-frontmatter", id="no yaml"),
        pytest.param(b"---\nx: " + b"y" * (80 << 10) + b"\n---\n", "header-too-large", id="a huge header"),
        pytest.param(b"---\nid: a\n---\n" + b"z" * (5 << 20), "unreadable", id="five megabytes"),
    ),
)
def test_what_cannot_be_read_is_named(found: Callable[..., list[tuple[str, str]]], text: bytes, token: str) -> None:
    assert found(text) == [("fail", token)]


def test_line_ends_and_a_byte_order_mark_are_no_problem(found: Callable[..., list[tuple[str, str]]]) -> None:
    assert found(b"\xef\xbb\xbf" + _whole().replace("\n", "\r\n").encode()) == []


@pytest.mark.parametrize(
    ("make", "token"),
    (
        pytest.param(lambda path: path.symlink_to("/etc/hostname"), "symlink", id="a link"),
        pytest.param(os.mkfifo, "not-regular", id="a pipe"),
        pytest.param(Path.mkdir, "not-regular", id="a folder"),
        pytest.param(str, "unreadable", id="nothing"),
    ),
)
def test_only_a_regular_file_is_opened(vault_mem: Any, tmp_path: Path, make: Callable[[Path], Any], token: str) -> None:
    path = tmp_path / "capsule.md"
    make(path)

    done = vault_mem("capsule", "validate", str(path))

    assert done.returncode == 1
    assert f"vault-mem: {token}" in done.stderr.decode()


def test_hostile_text_reaches_the_terminal_as_one_harmless_line(vault_mem: Any) -> None:
    text = _whole().replace("status: active", 'status: "\\e[2J\\u202e\\nvault-mem: ok"')
    done = vault_mem("capsule", "validate", "-", stdin=text.encode())

    assert done.returncode == 1
    for said in (done.stdout, done.stderr):
        assert b"\x1b" not in said
        assert "\u202e" not in said.decode()
        assert b"\nvault-mem: ok" not in said


@pytest.mark.parametrize(
    "arguments",
    (
        pytest.param(("capsule",), id="no verb"),
        pytest.param(("capsule", "burn"), id="an unknown verb"),
        pytest.param(("capsule", "validate"), id="no file"),
        pytest.param(("capsule", "resolve"), id="no id"),
        pytest.param(("note",), id="no text"),
        pytest.param(("note", "x", "--section", "done"), id="a section that notes do not go to"),
    ),
)
def test_a_wrong_command_line_is_64(vault_mem: Any, arguments: tuple[str, ...]) -> None:
    assert vault_mem(*arguments).returncode == 64


@pytest.mark.parametrize("verb", ("validate", "write", "resolve", "pause", "abandon", "reopen"))
def test_every_verb_explains_itself_with_an_example(vault_mem: Any, verb: str) -> None:
    done = vault_mem("capsule", verb, "--help", check=True)

    assert b"example: vault-mem capsule" in done.stdout
