"""Curated capsules through the program: refused with every problem or written whole, led through their life, never lost to an editor."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from vault_mem.vault import tree

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

SESSION = "11111111-2222-4333-8444-555555555555"
GOOD = """---
objective: "Split the parser: keep \\"v1\\""
waiting_on: "none"
next_valid_action: "Fix the tests of the second module"
---
## Done
- the parser is split
## Rejected approaches
- a second lexer: too slow
"""


@pytest.fixture
def write(
    seat: Path, vault_mem: Callable[..., subprocess.CompletedProcess[bytes]]
) -> Callable[..., subprocess.CompletedProcess[bytes]]:
    """`vault-mem capsule write -` with a text, as the agent of a session runs it."""

    def run(text: str | bytes = GOOD, *arguments: str, session: str = SESSION) -> subprocess.CompletedProcess[bytes]:
        data = text if isinstance(text, bytes) else text.encode()
        more = {"CLAUDE_CODE_SESSION_ID": session} if session else {}
        return vault_mem("capsule", "write", "-", *arguments, stdin=data, cwd=seat, more=more)

    return run


@pytest.fixture
def history(seat: Path, git: Callable[..., str]) -> Callable[[], list[str]]:
    """Event and id of every commit about a capsule, oldest first."""

    def read() -> list[str]:
        form = (
            "%(trailers:key=Capsule-Event,valueonly,separator=%x2c) %(trailers:key=Capsule-Id,valueonly,separator=%x2c)"
        )
        rows = git(seat / "vault/memory", "log", "--reverse", f"--format={form}").splitlines()
        return [row for row in rows if row.strip()]

    return read


def _name(done: subprocess.CompletedProcess[bytes]) -> str:
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().strip()


def _file(seat: Path, name: str) -> Path:
    (only,) = (seat / "vault/memory/capsules").rglob(f"{name}.md")
    return only


def test_a_capsule_is_stamped_written_and_committed_and_its_id_printed(
    seat: Path, write: Any, history: Any, git: Any
) -> None:
    name = _name(write())

    text = _file(seat, name).read_text("utf-8")
    assert name.endswith("-split-the-parser-keep-v1")
    assert f"session_id: {SESSION}\n" in text or f'session_id: "{SESSION}"\n' in text
    assert "status: active\n" in text
    assert "harness: claude\n" in text
    assert "<!-- swe:rejected -->\n- a second lexer" in text
    assert history() == [f"write {name}"]
    assert git(seat / "vault/memory", "status", "--porcelain") == ""


def test_the_same_capsule_twice_is_one_commit(write: Any, history: Any) -> None:
    name = _name(write())

    again = write()

    assert _name(again) == name
    assert b"no-change" in again.stderr
    assert history() == [f"write {name}"]


def test_every_problem_is_listed_and_nothing_is_written(seat: Path, write: Any, history: Any) -> None:
    done = write(
        '---\nobjective: "[supervisor-resume] go"\nnext_valid_action: "Re-read the turn state"\ncreated_at: soon\nstatus: odd\n---\n'
    )

    assert done.returncode == 1
    for token in (
        "missing-required-field: waiting_on",
        "injection-echo",
        "ceremony-action",
        "bad-created_at",
        "bad-status",
    ):
        assert token in done.stderr.decode()
    assert history() == []
    assert not list((seat / "vault/memory/capsules").rglob("*.md"))


@pytest.mark.parametrize(
    ("data", "token"),
    (
        pytest.param(b"", "no-frontmatter", id="empty"),
        pytest.param(b"# only prose\n", "no-frontmatter", id="prose"),
        pytest.param(b"\xff\xfe---\n", "not-utf8", id="not utf-8"),
        pytest.param(b"---\nobjective: a\nobjective: b\n---\n", "duplicate-key", id="a key twice"),
        pytest.param(b"---\nobjective: [a\n---\n", "invalid-frontmatter", id="no yaml"),
        pytest.param(b"---\nobjective: &a x\nwaiting_on: *a\n---\n", "invalid-frontmatter", id="an alias"),
        pytest.param(b"---\nobjective: a\n", "no-frontmatter", id="not closed"),
        pytest.param(b"---\n" + b"x: " + b"y" * 70000 + b"\n---\n", "header-too-large", id="a huge header"),
        pytest.param(b"x" * (5 << 20), "unreadable", id="five megabytes"),
        pytest.param(GOOD.encode() + b"<!-- swe:done -->\n<!-- swe:done -->\n", "anchor-damage", id="an anchor twice"),
        pytest.param(GOOD.replace('"none"', "somebody # not me").encode(), "inline-comment", id="a comment in a value"),
        pytest.param(GOOD.replace("---\nobj", "---\nid: ../../etc/x\nobj").encode(), "bad-id", id="a path as id"),
    ),
)
def test_what_cannot_be_a_capsule_is_refused_by_name(write: Any, history: Any, data: bytes, token: str) -> None:
    done = write(data)

    assert done.returncode == 1
    assert f"vault-mem: {token}" in done.stderr.decode()
    assert b"Traceback" not in done.stderr
    assert history() == []


def test_windows_line_ends_and_a_byte_order_mark_come_in_as_lines(seat: Path, write: Any) -> None:
    name = _name(write(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode()))

    data = _file(seat, name).read_bytes()
    assert b"\r" not in data
    assert data.startswith(b"---\n")


def test_secrets_reach_neither_the_file_nor_its_name_nor_history(seat: Path, write: Any, git: Any) -> None:
    key = "AKIA" + "IOSFODNN7EXAMPLZ"
    name = _name(write(GOOD.replace("Split the parser", f"Use {key}").replace("too slow", f"needs {key}")))

    log = git(seat / "vault/memory", "log", "-p")
    assert key not in log
    assert key.lower() not in log.lower()
    assert key.lower() not in name


def test_the_autosave_of_the_session_gives_way_and_later_turns_go_into_the_capsule(
    session: Any, outcome: Any, events: Any, write: Any, seat: Path
) -> None:
    session.turn("Split the parser in two", "It is split.")
    autosave = session.capsule()

    name = _name(write(session=session.id))
    later = session.turn("Now fix the tests", "They are fixed.")

    assert "status: superseded\n" in autosave.read_text("utf-8")
    assert [event for event, _, _ in events()] == ["autosave", "write", "supersede", "autosave"]
    text = _file(seat, name).read_text("utf-8")
    assert outcome(later) == "saved"
    assert "[OPERATOR] Now fix the tests" in text
    assert 'objective: "Split the parser: keep' in text


def test_a_capsule_written_anew_keeps_what_the_writer_added(session: Any, write: Any, seat: Path) -> None:
    name = _name(write(session=session.id))
    session.turn("Now fix the tests", "They are fixed.")

    again = _name(write(GOOD.replace('"none"', '"the reviewer"'), session=session.id))

    text = _file(seat, again).read_text("utf-8")
    assert again == name
    assert 'waiting_on: "the reviewer"' in text
    assert "[OPERATOR] Now fix the tests" in text


def test_an_edit_by_hand_is_in_history_before_it_is_written_over(seat: Path, write: Any, git: Any) -> None:
    name = _name(write())
    path = _file(seat, name)
    path.write_text(path.read_text("utf-8").replace("the parser is split", "by my own hand"), "utf-8")

    _name(write(GOOD.replace('"none"', '"the reviewer"')))

    assert "by my own hand" in git(seat / "vault/memory", "log", "-p")


def test_two_sessions_with_the_same_words_get_two_capsules(seat: Path, write: Any) -> None:
    first, second = _name(write(session="one")), _name(write(session="two"))

    assert second == f"{first}-2"
    assert "session_id: one\n" in _file(seat, first).read_text("utf-8")


def test_a_name_that_a_link_has_is_left_alone(seat: Path, write: Any, tmp_path: Path) -> None:
    name = _name(write())
    path = _file(seat, name)
    outside = tmp_path / "outside.md"
    os.replace(path, outside)
    path.symlink_to(outside)

    second = _name(write())

    assert second == f"{name}-2"
    assert path.is_symlink()


def test_the_marks_of_an_autosave_do_not_make_the_writer_its_owner(seat: Path, write: Any) -> None:
    name = _name(write(GOOD.replace("---\nobj", "---\ntrigger: stop-delta\ntags: [capsule, autosave]\nobj")))

    text = _file(seat, name).read_text("utf-8")
    assert "stop-delta" not in text
    assert "autosave" not in text.partition("\n---\n")[0]


def test_a_capsule_is_led_through_its_life_one_commit_a_step(
    seat: Path, write: Any, history: Any, vault_mem: Any, git: Any
) -> None:
    name = _name(write())
    for verb in ("pause", "reopen", "resolve", "reopen", "abandon"):
        vault_mem("capsule", verb, name[:-2], "--why", f"because of {verb}", cwd=seat, check=True)

    assert history() == [f"{event} {name}" for event in ("write", "pause", "reopen", "resolve", "reopen", "abandon")]
    text = _file(seat, name).read_text("utf-8")
    assert "status: abandoned\n" in text
    assert "resolved_at: null\n" not in text
    assert "Capsule-Why: because of abandon" in git(seat / "vault/memory", "log", "-1", "--format=%B")
    assert git(seat / "vault/memory", "status", "--porcelain") == ""


def test_a_step_that_is_done_already_is_said_and_changes_nothing(
    seat: Path, write: Any, history: Any, vault_mem: Any
) -> None:
    name = _name(write())
    vault_mem("capsule", "resolve", name, cwd=seat, check=True)

    again = vault_mem("capsule", "resolve", name, cwd=seat, check=True)

    assert b"already" in again.stdout
    assert len(history()) == 2


def test_a_step_that_the_life_does_not_have_is_refused(seat: Path, write: Any, history: Any, vault_mem: Any) -> None:
    name = _name(write())
    vault_mem("capsule", "resolve", name, cwd=seat, check=True)

    done = vault_mem("capsule", "pause", name, cwd=seat)

    assert done.returncode == 1
    assert b"transition-refused" in done.stderr
    assert len(history()) == 2


@pytest.mark.parametrize(
    ("given", "token"),
    (pytest.param("nobody", "no-such-capsule", id="unknown"), pytest.param("20", "ambiguous-id", id="two")),
)
def test_an_id_must_name_one_capsule(seat: Path, write: Any, vault_mem: Any, given: str, token: str) -> None:
    write(session="one")
    write(session="two")

    done = vault_mem("capsule", "resolve", given, cwd=seat)

    assert done.returncode == 1
    assert token in done.stderr.decode()


def test_a_step_keeps_every_other_byte_of_a_file_that_somebody_wrote_by_hand(seat: Path, vault_mem: Any) -> None:
    path = seat / "vault/memory/capsules/mine.md"
    path.parent.mkdir(exist_ok=True)
    text = (
        "---\r\nid: mine # a comment\r\nstatus:   active\r\nobjective: >\r\n  folded\r\n  words\r\n---\r\nbody\x20\r\n"
    )
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())

    vault_mem("capsule", "pause", "mine", cwd=seat, check=True)

    assert path.read_bytes() == b"\xef\xbb\xbf" + text.replace("active", "paused").encode()


def test_a_note_goes_into_the_capsule_of_the_session_and_is_committed(
    session: Any, seat: Path, vault_mem: Any, events: Any
) -> None:
    session.turn("Split the parser in two", "It is split.")
    key = "AKIA" + "IOSFODNN7EXAMPLZ"

    for _ in range(2):
        vault_mem(
            "note",
            f"staging uses {key} --> read-only",
            "--section",
            "gates",
            cwd=seat,
            more={"CLAUDE_CODE_SESSION_ID": session.id},
            check=True,
        )

    text = session.capsule().read_text("utf-8")
    gates = text.partition("<!-- swe:gates -->")[2]
    assert gates.count("staging uses [redacted:") == 1
    assert key not in text
    assert [event for event, _, _ in events()] == ["autosave", "autosave"]


def test_a_note_makes_a_capsule_that_the_writer_goes_on_with(session: Any, seat: Path, vault_mem: Any) -> None:
    vault_mem("note", "the tests need a database", cwd=seat, more={"CLAUDE_CODE_SESSION_ID": session.id}, check=True)
    session.turn("Split the parser in two", "It is split.")

    text = session.capsule().read_text("utf-8")
    assert "the tests need a database" in text
    assert 'objective: "Split the parser in two"' in text


def test_a_note_without_any_session_says_what_is_missing(seat: Path, vault_mem: Any) -> None:
    done = vault_mem("note", "hello", cwd=seat)

    assert done.returncode == 1
    assert b"no-session" in done.stderr


def test_a_note_into_a_capsule_with_damaged_anchors_changes_nothing(seat: Path, write: Any, vault_mem: Any) -> None:
    name = _name(write())
    path = _file(seat, name)
    path.write_text(path.read_text("utf-8").replace("<!-- swe:facts -->\n", ""), "utf-8")
    before = path.read_bytes()

    done = vault_mem("note", "hello", cwd=seat, more={"CLAUDE_CODE_SESSION_ID": SESSION})

    assert done.returncode == 1
    assert b"anchor-damage" in done.stderr
    assert path.read_bytes() == before


def test_a_header_beyond_the_bound_is_named_so_when_the_tree_is_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.md"
    path.write_bytes(b"---\nid: huge\nx: " + b"y" * (80 << 10) + b"\n---\n")

    assert tree.candidate(str(path), "capsules/huge.md").problem == "header-too-large"


def test_json_has_the_keys_of_the_reference(write: Any) -> None:
    document = json.loads(write(GOOD, "--json").stdout)

    assert document["schema"] == "vault-mem/capsule/1"
    assert document["ok"] is True
    assert document["capsule"]["status"] == "active"
    assert document["changed"] is True


def test_what_git_refuses_is_written_said_and_committed_by_the_next_save(
    session: Any, write: Any, seat: Path, git: Any, events: Any
) -> None:
    session.turn("Split the parser in two", "It is split.")
    lock = seat / "vault/memory/.git/index.lock"
    lock.touch()

    done = write(session=session.id)

    assert done.returncode == 1
    assert b"git-refused:index-locked" in done.stderr
    assert b"is written" in done.stderr
    lock.unlink()
    session.turn("Now fix the tests", "They are fixed.")
    assert sorted(event for event, _, _ in events()) == ["autosave", "autosave", "supersede"]
    assert "Split the parser: keep" in git(seat / "vault/memory", "log", "-p")
    assert git(seat / "vault/memory", "status", "--porcelain") == ""


def test_a_busy_vault_is_said_to_be_so(seat: Path, write: Any, history: Any) -> None:
    runtime = seat / "vault/memory/runtime"
    runtime.mkdir(exist_ok=True)
    with (runtime / "vault.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        done = write()

    assert done.returncode == 1
    assert b"lock-busy" in done.stderr
    assert history() == []
