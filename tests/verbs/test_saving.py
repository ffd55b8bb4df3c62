from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.verbs.conftest import Session

    Events = Callable[[], list[tuple[str, str, str]]]
    Told = Callable[[subprocess.CompletedProcess[bytes]], str]


def field(path: Path, key: str) -> object:
    line = next(line for line in path.read_text("utf-8").splitlines() if line.startswith(f"{key}: "))
    value = line.partition(": ")[2]
    return json.loads(value) if value.startswith('"') else value


def test_a_turn_becomes_one_commit_with_trailers(
    session: Session, events: Events, outcome: Told, git: Callable[..., str]
) -> None:
    done = session.turn("Split the parser and keep the tests green.", "The parser is split in two.")

    capsule = session.capsule()
    assert outcome(done) == "saved"
    assert events() == [("autosave", capsule.stem, "")]
    assert field(capsule, "objective") == "Split the parser and keep the tests green."
    assert "[OPERATOR] Split the parser and keep the tests green." in capsule.read_text("utf-8")
    assert git(session.vault, "status", "--porcelain") == ""
    body = git(session.vault, "log", "-1", "--format=%B")
    assert body.splitlines()[0] == f"capsule: autosave {capsule.stem}"
    assert {line.split(":")[0] for line in body.splitlines()[2:]} >= {
        "Capsule-Id",
        "Capsule-Event",
        "Capsule-Status",
        "Capsule-Session",
        "Capsule-Harness",
        "Vault-Mem-Version",
    }


def test_nothing_new_makes_no_commit_and_touches_no_file(session: Session, events: Events, outcome: Told) -> None:
    session.turn("Split the parser.", "Split.")
    capsule = session.capsule()
    before = (capsule.read_bytes(), capsule.stat().st_mtime_ns, events())

    again = [outcome(session.stop("Split.")) for _ in range(3)]

    assert again == ["no-change"] * 3
    assert (capsule.read_bytes(), capsule.stat().st_mtime_ns, events()) == before


def test_a_torn_last_line_is_read_when_it_is_whole(session: Session, outcome: Told) -> None:
    session.turn("Split the parser.", "Split.")
    whole = session.transcript.read_bytes()
    session.prompt("Now write the migration for the invoices table.")
    line = session.transcript.read_bytes()[len(whole) :]
    session.transcript.write_bytes(whole + line[:60])
    first = outcome(session.stop("Thinking."))
    session.transcript.write_bytes(whole + line)

    second = outcome(session.stop("Written."))

    assert (first, second) == ("saved", "saved")
    assert "Now write the migration for the invoices table." in session.capsule().read_text("utf-8")


def test_the_payload_covers_a_transcript_that_lags(session: Session) -> None:
    session.turn("First request of the day.", "OLD: the first answer.")
    session.prompt("Second request of the day.")
    session.stop("NEW: the second answer.")

    text = session.capsule().read_text("utf-8")
    session.answer("NEW: the second answer.")
    session.stop("NEW: the second answer.")

    assert text.index("NEW: the second") < text.index("OLD: the first")
    assert session.capsule().read_text("utf-8").count("NEW: the second answer.") == 1


@pytest.mark.parametrize(
    ("payload", "token"),
    (
        pytest.param(b"", "bad-payload", id="empty"),
        pytest.param(b"[]", "bad-payload", id="array"),
        pytest.param(b'{"session_id": "x', "bad-payload", id="cut"),
        pytest.param(b"\xff\xfe\x00", "bad-payload", id="noise"),
        pytest.param(b'{"session_id": 7, "cwd": []}', "bad-payload", id="wrong-types"),
        pytest.param(b"{}", "bad-payload", id="no-session"),
    ),
)
def test_a_bad_payload_is_named_and_nothing_is_saved(
    session: Session, events: Events, outcome: Told, payload: bytes, token: str
) -> None:
    assert outcome(session.stop(payload=payload)) == token
    assert events() == []


def test_a_missing_transcript_is_named_and_the_last_message_is_kept(session: Session, outcome: Told) -> None:
    nothing = outcome(session.stop(""))
    something = outcome(session.stop("Parser is split."))

    assert (nothing, something) == ("no-transcript", "saved")
    assert "Parser is split." in session.capsule().read_text("utf-8")
    assert str(field(session.capsule(), "objective")).startswith("Unknown: ")


def test_a_transcript_that_is_no_utf8_is_read_as_far_as_it_goes(session: Session, outcome: Told) -> None:
    session.prompt("Keep this request.")
    with session.transcript.open("ab") as file:
        file.write(b'{"type": "user", "message": {"content": "\xff\xfe broken"}}\n\x00\x00\x00\n{"cut": \n')
    session.prompt("Keep that request as well.")

    assert outcome(session.stop("Done.")) == "saved"
    assert "Keep that request as well." in session.capsule().read_text("utf-8")


def test_a_broken_declaration_is_said_and_nothing_is_written(session: Session, events: Events, outcome: Told) -> None:
    session.turn("Split the parser.", "Split.")
    before = events()
    (session.seat / ".aigent/state.json").write_text('{"memory_root": "../elsewhere"}', encoding="utf-8")
    session.prompt("Another request.")

    done = session.stop("Another answer.")

    assert outcome(done) == "bad-memory-root"
    assert b"MEMORY-ROOT:" in done.stderr
    (session.seat / ".aigent/state.json").write_text('{"memory_root": "vault/memory"}', encoding="utf-8")
    assert events() == before


def test_no_seat_and_an_untrusted_seat_are_told_apart(session: Session, outcome: Told, tmp_path: Path) -> None:
    elsewhere = session.run("hook", "stop", "--explain", stdin=session.payload("Stop", cwd=str(tmp_path)), cwd=tmp_path)
    session.run("trust", "--revoke", cwd=session.seat, check=True)
    untrusted = session.stop("Text that stays out.")

    assert (outcome(elsewhere), outcome(untrusted)) == ("no-seat", "untrusted")
    assert not session.capsules()


def test_a_capsule_whose_header_lost_a_field_keeps_its_bytes_and_is_named(session: Session, outcome: Told) -> None:
    session.turn("Split the parser.", "Split.")
    capsule = session.capsule()
    text = capsule.read_text("utf-8")
    capsule.write_text("".join(line for line in text.splitlines(keepends=True) if not line.startswith("id: ")), "utf-8")

    done = session.stop("More work.")

    assert outcome(done) in {"saved", "no-change"}
    assert b"id must be non-empty" in done.stderr or b"id" in done.stderr


def test_a_damaged_anchor_leaves_the_file_alone_and_the_text_goes_to_a_fresh_capsule(
    session: Session, outcome: Told
) -> None:
    session.turn("Split the parser.", "Split.")
    damaged = session.capsule()
    damaged.write_text(damaged.read_text("utf-8").replace("<!-- swe:done -->\n", ""), "utf-8")
    before = damaged.read_bytes()

    done = session.stop("The second module is green now.")

    assert outcome(done) == "saved"
    assert b"anchor-damage" in done.stderr
    assert damaged.read_bytes() == before
    fresh = next(path for path in session.capsules() if path != damaged)
    assert "The second module is green now." in fresh.read_text("utf-8")


def test_a_consumed_capsule_is_rotated_and_becomes_the_parent(session: Session) -> None:
    session.turn("Split the parser.", "Split.")
    first = session.capsule()
    session.sibling().start("clear")

    session.turn("Go on with the second module of it.", "Second module done.")

    second = next(path for path in session.capsules() if path != first)
    assert (field(first, "status"), field(second, "status")) == ("resumed", "active")
    assert field(second, "parent_capsule_id") == first.stem
    assert second.stem == f"{first.stem}-2"
    assert "Second module done." not in first.read_text("utf-8")


def test_two_sessions_with_the_same_first_letters_never_share_a_file(session: Session) -> None:
    one, two = (
        session.sibling("0192aaaa-1111-7000-8000-000000000001"),
        session.sibling("0192aaaa-1111-7000-8000-000000000002"),
    )
    one.turn("Work of the first.", "First done.")
    two.turn("Work of the second.", "Second done.")

    assert one.capsule() != two.capsule()
    assert "Second done." not in one.capsule().read_text("utf-8")


def test_lost_state_is_made_again_without_doubling_anything(session: Session, events: Events, outcome: Told) -> None:
    session.turn("Split the parser.", "Split.")
    session.turn("Now the second module of the parser.", "Second done.")
    before = session.capsule().read_text("utf-8")
    for path in (session.vault / "runtime/cursors").iterdir():
        path.unlink()

    again = outcome(session.stop("Second done."))

    assert again == "no-change"
    assert session.capsule().read_text("utf-8") == before
    assert len(events()) == 2


def test_what_git_refuses_is_on_disk_and_the_next_hook_commits_it(
    session: Session, events: Events, outcome: Told
) -> None:
    session.turn("Split the parser.", "Split.")
    lock = session.vault / ".git/index.lock"
    lock.touch()

    refused = outcome(session.turn("Now the second module of the parser.", "Second done."))
    on_disk = "Second done." in session.capsule().read_text("utf-8")
    lock.unlink()
    other = session.sibling()
    other.turn("Something else entirely.", "Else done.")

    assert (refused, on_disk) == ("git-refused:index-locked", True)
    assert [name for _, name, _ in events()] == [session.capsule().stem, session.capsule().stem, other.capsule().stem]
    assert outcome(session.stop("Second done.")) == "no-change"


def test_eight_stops_at_once_make_one_commit(
    session: Session, events: Events, environ: dict[str, str], program: Callable[..., list[str]]
) -> None:
    session.prompt("Split the parser.")
    session.answer("Split.")
    payload = session.payload("Stop", last_assistant_message="Split.")
    running = [
        subprocess.Popen(program("hook", "stop"), stdin=subprocess.PIPE, cwd=session.seat, env=environ)
        for _ in range(8)
    ]
    for process in running:
        assert process.stdin is not None
        process.stdin.write(payload)
        process.stdin.close()

    assert [process.wait(60) for process in running] == [0] * 8
    assert len(events()) == 1


@pytest.mark.parametrize(
    "secret",
    (
        "AKIA" + "IOSFODNN7EXAMPLE",
        "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
        "sk-" + "proj-abcdefghijklmnopqrstuvwx1234567890",
    ),
)
def test_a_secret_never_reaches_the_disk(session: Session, git: Callable[..., str], secret: str) -> None:
    session.prompt(f"Use the key {secret} for the upload, please.")
    session.use("Bash", f"denied for {secret}", failed=True, command=f"curl -H 'Authorization: Bearer {secret}' x")
    session.answer(f"I used {secret}.")
    session.run(
        "hook",
        "user-prompt-submit",
        stdin=session.payload("UserPromptSubmit", prompt=f"and {secret} again"),
        cwd=session.seat,
    )
    session.stop(f"I used {secret}.")
    session.stop(event="session-end", reason="other")

    objects = git(session.vault, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split()
    stored = "".join(git(session.vault, "cat-file", "-p", name) for name in objects)
    files = b"".join(
        path.read_bytes() for path in session.vault.rglob("*") if path.is_file() and ".git" not in path.parts
    )
    assert secret not in stored
    assert secret.encode() not in files
    assert "[redacted:" in session.capsule().read_text("utf-8")
    assert "for the upload, please." in session.capsule().read_text("utf-8")


def test_switching_off_is_obeyed_and_said(session: Session, events: Events, outcome: Told) -> None:
    session.prompt("Split the parser.")
    for name in ("VAULT_MEM_OFF", "LIFECYCLE_KILL_STOP_WRITER"):
        done = session.run(
            "hook", "stop", "--explain", stdin=session.payload("Stop"), cwd=session.seat, more={name: "1"}
        )
        assert outcome(done) == "killed"
    assert events() == []


@pytest.mark.skipif(os.geteuid() == 0, reason="a directory cannot be made read-only for root")
def test_a_read_only_vault_is_named(session: Session, outcome: Told) -> None:
    session.turn("Split the parser.", "Split.")
    (session.vault / "capsules").chmod(0o500)

    assert outcome(session.turn("More.", "More done.")).startswith(("error:", "git-refused:"))
