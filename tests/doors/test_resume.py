from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import program as command
from tests.conftest import with_package
from tests.verbs.conftest import Session

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., subprocess.CompletedProcess[bytes]]
    Git = Callable[..., str]


@pytest.fixture
def session(seat: Path, environ: dict[str, str], vault_mem: Run) -> Session:
    return Session(seat, Path(environ["HOME"]), vault_mem)


@pytest.fixture
def events(git: Git, seat: Path) -> Callable[[], list[str]]:
    def read() -> list[str]:
        rows = git(seat / "vault/memory", "log", "--reverse", "--format=%(trailers:key=Capsule-Event,valueonly)")
        return [row for row in rows.splitlines() if row]

    return read


def answered(done: subprocess.CompletedProcess[bytes]) -> dict[str, Any]:
    found = json.loads(done.stdout)
    assert set(found) >= {
        "schema",
        "command",
        "ok",
        "findings",
        "outcome",
        "tier",
        "capsule",
        "rejected",
        "unavailable",
    }
    return dict(found)


def test_at_a_revision_shows_what_would_have_been_handed_out_then(
    session: Session, git: Git, events: Callable[[], list[str]]
) -> None:
    session.turn("Split the parser.", "Split.")
    before = git(session.vault, "rev-parse", "HEAD")
    session.sibling().start("clear")
    later = session.sibling()
    later.turn("Paint the shed.", "Painted.")
    seen = events()

    done = session.run("resume", "--at", before, "--source", "clear", cwd=session.seat, check=True)
    document = answered(session.run("resume", "--at", before, "--json", cwd=session.seat, check=True))
    spent = session.run("resume", "--at", "HEAD~1", cwd=session.seat)

    text = done.stdout.decode()
    assert "AS OF 20" in text
    assert 'objective: "Split the parser."' in text
    assert "Paint the shed" not in text
    assert document["capsule"]["id"] == session.capsule().stem
    assert document["tier"] == "active"
    assert "re-delivery" in spent.stdout.decode()
    assert events() == seen


def test_at_a_time_before_the_history_or_at_nonsense_says_so(session: Session) -> None:
    session.turn("Split the parser.", "Split.")

    early = session.run("resume", "--at", "1999-01-01", cwd=session.seat)
    wrong = session.run("resume", "--at", "no-such-thing", "--json", cwd=session.seat)

    assert (early.returncode, b"before-history" in early.stderr) == (4, True)
    assert wrong.returncode == 1
    assert [finding["token"] for finding in answered(wrong)["findings"]] == ["no-such-revision"]


def test_a_capsule_at_an_earlier_time_is_shown_as_it_was(session: Session, git: Git) -> None:
    session.turn("Split the parser.", "Split.")
    before = git(session.vault, "rev-parse", "HEAD")
    session.turn("Now the lexer instead, all of it.", "Lexed.")
    name = session.capsule().stem

    then = session.run("resume", "--at", before, "--capsule", name[:16], cwd=session.seat, check=True).stdout.decode()

    assert "Split the parser." in then
    assert "Now the lexer" not in then


def test_a_capsule_is_found_by_how_its_id_begins_and_an_ambiguous_beginning_is_refused(session: Session) -> None:
    session.turn("Split the parser.", "Split.")
    other = session.sibling()
    other.turn("Paint the shed.", "Painted.")
    name = session.capsule().stem

    one = session.run("resume", "--capsule", name[:-2], "--peek", cwd=session.seat, check=True)
    both = session.run("resume", "--capsule", name[:8], "--peek", cwd=session.seat)

    assert f'capsule id: "{name}"' in one.stdout.decode()
    assert (both.returncode, b"ambiguous-id" in both.stderr) == (1, True)


def test_a_retired_capsule_is_put_back_before_it_is_handed_over(
    session: Session, git: Git, events: Callable[[], list[str]]
) -> None:
    session.turn("Split the parser.", "Split.")
    file = session.capsule()
    data = file.read_bytes()
    git(session.vault, "rm", "-q", str(file))
    git(session.vault, "commit", "-qm", f"gone\n\nCapsule-Id: {file.stem}\nCapsule-Event: retire")

    peeked = session.run("resume", "--capsule", file.stem, "--peek", cwd=session.seat, check=True).stdout.decode()
    assert not file.exists()
    done = session.run("resume", "--capsule", file.stem[:14], "--source", "clear", cwd=session.seat, check=True)

    assert "This capsule left the tree (commit " in peeked
    assert 'objective: "Split the parser."' in done.stdout.decode()
    assert file.read_bytes() == data.replace(b"\nstatus: active\n", b"\nstatus: resumed\n")
    assert events()[-2:] == ["write", "consume"]
    assert git(session.vault, "status", "--porcelain") == ""


def test_one_json_document_has_all_of_a_spent_capsule(session: Session) -> None:
    long = "Split the parser of the importer into two modules, keep the tests green, and tell me what you found there."
    session.turn(long, "Split.")
    session.sibling().start("clear")

    document = answered(session.run("resume", "--peek", "--json", cwd=session.seat, check=True))

    assert document["tier"] == "re-delivery"
    assert document["capsule"]["objective"] == long
    assert document["capsule"]["session_id"] == session.id
    assert document["ok"] is True


def test_json_of_a_hand_over_is_what_is_delivered_and_a_closed_pipe_consumes_nothing(
    session: Session, environ: dict[str, str], events: Callable[[], list[str]]
) -> None:
    session.turn("Split the parser.", "Split.")
    reader, writer = os.pipe()
    os.close(reader)
    closed = subprocess.run(
        command("resume", "--source", "clear", "--json"),
        stdin=subprocess.DEVNULL,
        stdout=writer,
        stderr=subprocess.PIPE,
        cwd=session.seat,
        env=with_package(environ),
        check=False,
    )
    os.close(writer)
    assert (closed.returncode, b"not-delivered" in closed.stderr) == (1, True)
    assert "consume" not in events()

    document = answered(session.run("resume", "--source", "clear", "--json", cwd=session.seat, check=True))

    assert document["outcome"] == "delivered"
    assert document["tier"] == "active"
    assert events()[-1] == "consume"


def test_nothing_to_hand_over_is_exit_4(session: Session) -> None:
    text = session.run("resume", "--peek", cwd=session.seat)
    document = session.run("resume", "--json", cwd=session.seat)

    assert (text.returncode, document.returncode) == (4, 4)
    assert answered(document)["unavailable"] == "no-capsules-dir"


def test_a_broken_memory_root_is_said_by_hand_too_and_nothing_is_read(session: Session) -> None:
    session.turn("Split the parser.", "Split.")
    (session.seat / ".aigent/state.json").write_text('{"memory_root": "/etc"}', encoding="utf-8")

    for arguments in ((), ("--source", "clear"), ("--at", "HEAD"), ("--capsule", "x")):
        done = session.run("resume", "--peek", *arguments, cwd=session.seat)
        assert done.returncode == 1
        assert b"MEMORY ROOT UNRESOLVED" in done.stdout
        assert b"bad-memory-root" in done.stderr
        assert b"Split the parser" not in done.stdout
    document = answered(session.run("resume", "--peek", "--json", cwd=session.seat))
    assert document["unavailable"] == "bad-memory-root"
    assert document["capsule"] is None
    assert document["findings"][0]["token"] == "bad-memory-root"
