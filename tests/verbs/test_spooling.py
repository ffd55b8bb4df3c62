"""A save that gets no lock, or cannot write, waits on disk; the next hook commits it, once."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from vault_mem import lock, trust
from vault_mem.repo import create

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.verbs.conftest import Session

    Events = Callable[[], list[tuple[str, str, str]]]
    Told = Callable[[subprocess.CompletedProcess[bytes]], str]


@pytest.fixture
def seat(project: Path, environ: dict[str, str]) -> Path:
    memory = project / "vault/memory"
    (project / ".aigent").mkdir()
    (project / ".aigent/state.json").write_text('{"schemaVersion": 1, "memory_root": "vault/memory"}', encoding="utf-8")
    head = create.init_repository(str(memory), environ=environ, at=1.0)
    identity = trust.Identity("dedicated", "", (head,), head)
    trust.grant(str(memory), identity, seat=str(project), environ=environ, now=1.0)
    return project


@pytest.fixture
def held(seat: Path) -> lock.Locked:
    """The vault lock, taken by somebody else while the body of `with` runs."""
    (seat / "vault/memory/runtime").mkdir(exist_ok=True)
    return lock.Locked(str(seat / "vault/memory/runtime/vault.lock"), timeout=5)


def waiting(session: Session) -> list[Path]:
    return sorted((session.vault / "runtime/spool").glob("*"))


def test_a_save_without_the_lock_waits_on_disk_by_name_of_its_reason_and_redacted(
    session: Session, held: lock.Locked, outcome: Told
) -> None:
    session.prompt("Use the key AKIAIOSFODNN7EXAMPLE for the upload, please.")
    with held:
        assert outcome(session.stop("Only in the payload.", event="session-end")) == "spooled"

    (path,) = waiting(session)
    kept = json.loads(path.read_text("utf-8"))
    assert path.name == f"{session.id}-1.json"
    assert kept["reason"] == "lock-busy"
    assert "Only in the payload." in path.read_text("utf-8")
    assert "AKIAIOSFODNN7EXAMPLE" not in path.read_text("utf-8")
    assert path.stat().st_mode & 0o777 == 0o600
    assert session.capsules() == []


def test_the_next_stop_of_the_session_commits_what_waited_with_its_own(
    session: Session, held: lock.Locked, events: Events, outcome: Told
) -> None:
    session.turn("Split the parser and keep the tests green.", "Split.")
    with held:
        for number in (1, 2):
            session.prompt(f"Request number {number} of the day.")
            assert outcome(session.stop(f"Payload {number}.", event="session-end")) == "spooled"
    assert len(waiting(session)) == 2

    assert outcome(session.turn("The third request of the day.", "Third answer.")) == "saved"

    text = session.capsule().read_text("utf-8")
    assert "third request" in text
    for piece in ("Request number 1", "Request number 2", "Payload 1.", "Payload 2."):
        assert text.count(piece) == 1, piece
    assert [event for event, _, _ in events()] == ["autosave", "autosave"]
    assert waiting(session) == []


def test_another_session_commits_what_waited_under_the_name_of_its_session(
    session: Session, held: lock.Locked, events: Events, outcome: Told
) -> None:
    others = [session.sibling() for _ in range(3)]
    with held:
        for number, other in enumerate(others):
            other.prompt(f"Request number {number} of the day.")
            assert outcome(other.stop(f"Payload {number}.", event="session-end")) == "spooled"

    assert outcome(session.turn("Split the parser and keep the tests green.", "Split.")) == "saved"

    assert len(events()) == 4
    for number, other in enumerate(others):
        assert f"Payload {number}." in other.capsule().read_text("utf-8")
        assert outcome(other.stop(f"Payload {number}.")) == "no-change"
    assert len(events()) == 4


def test_a_start_commits_what_waited_before_it_chooses(session: Session, held: lock.Locked, events: Events) -> None:
    session.turn("Split the parser and keep the tests green.", "Split.")
    session.prompt("The last word before the clear.")
    with held:
        session.stop("Payload only.", event="session-end", reason="clear")

    told = session.sibling().start()

    assert "The last word before the clear." in told
    assert [event for event, _, _ in events()] == ["autosave", "autosave", "consume"]
    assert waiting(session) == []


def test_a_start_commits_what_git_refused(session: Session, events: Events, git: Callable[..., str]) -> None:
    lock_file = session.vault / ".git/index.lock"
    lock_file.write_bytes(b"")
    session.turn("Split the parser and keep the tests green.", "Split.")
    assert events() == []
    lock_file.unlink()

    session.sibling().start("startup")

    assert [event for event, _, _ in events()] == ["autosave"]
    assert git(session.vault, "status", "--porcelain") == ""
    assert not (session.vault / "runtime/pending.json").exists()


def test_a_delta_that_was_saved_and_not_removed_is_saved_once(
    session: Session, held: lock.Locked, events: Events, outcome: Told
) -> None:
    session.prompt("Split the parser and keep the tests green.")
    with held:
        session.stop("Split.", event="session-end")
    (path,) = waiting(session)
    kept = path.read_bytes()
    session.stop("Split.")
    before = (events(), session.capsule().read_bytes())
    path.write_bytes(kept)

    assert outcome(session.sibling().turn("Something else entirely, please.", "Done.")) == "saved"

    assert (events()[:-1], session.capsule().read_bytes()) == before
    assert waiting(session) == []


def test_a_damaged_delta_is_set_aside_and_stops_nobody(session: Session, outcome: Told) -> None:
    folder = session.vault / "runtime/spool"
    folder.mkdir(parents=True)
    for number, text in enumerate((b"{", b"[]", b'{"session": "x"}', b"\xff"), start=1):
        (folder / f"{session.id}-{number}.json").write_bytes(text)

    assert outcome(session.turn("Split the parser and keep the tests green.", "Split.")) == "saved"

    assert [path.name for path in waiting(session)] == [f"{session.id}-{number}.json.bad" for number in range(1, 5)]


def test_a_capsule_that_cannot_be_written_waits_in_the_spool(session: Session, outcome: Told) -> None:
    session.turn("Split the parser and keep the tests green.", "Split.")
    folder = session.capsule().parent
    folder.rename(session.home / "aside")
    folder.write_text("no folder\n", encoding="utf-8")

    assert outcome(session.turn("The second request of the day.", "Second.")) == "spooled"
    folder.unlink()
    (session.home / "aside").rename(folder)
    assert outcome(session.turn("The third request of the day.", "Third.")) == "saved"

    assert "The second request of the day." in session.capsule().read_text("utf-8")


def test_a_lock_file_that_is_a_link_is_not_followed_and_the_save_waits(
    session: Session, tmp_path: Path, outcome: Told
) -> None:
    runtime = session.vault / "runtime"
    runtime.mkdir(exist_ok=True)
    (runtime / "vault.lock").symlink_to(tmp_path / "elsewhere")

    assert outcome(session.turn("Split the parser and keep the tests green.", "Split.")) == "spooled"
    (runtime / "vault.lock").unlink()
    assert outcome(session.stop("Split.")) == "saved"

    assert not (tmp_path / "elsewhere").exists()
    assert "Split the parser" in session.capsule().read_text("utf-8")
