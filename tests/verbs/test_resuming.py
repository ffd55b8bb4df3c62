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


def spent(text: str) -> bool:
    return any(word in text.lower() for word in ("re-deliver", "reusing", "already delivered"))


def test_a_clear_hands_the_capsule_out_once_and_records_it(session: Session, events: Events) -> None:
    session.turn("Split the parser and keep the tests green.", "Split.")
    fresh = session.sibling()

    text = fresh.start("clear")

    name = session.capsule().stem
    assert f'capsule id: "{name}"' in text
    assert 'objective: "Split the parser and keep the tests green."' in text
    assert f'session_id: "{fresh.id}"' in text
    assert not spent(text)
    assert "\nstatus: resumed\n" in session.capsule().read_text("utf-8")
    assert events()[-1] == ("consume", name, fresh.id)
    assert not list((session.vault / "runtime/deliveries").iterdir())


def test_the_same_session_asking_twice_is_told_so_and_eats_no_second_capsule(session: Session, events: Events) -> None:
    session.turn("Split the parser.", "Split.")
    session.sibling().turn("Another piece of work.", "Other done.")
    fresh = session.sibling()
    first = fresh.start("clear")

    second = fresh.start("clear")

    assert not spent(first)
    assert "already delivered to this session" in second
    assert len([event for event in events() if event[0] == "consume"]) == 1


def test_a_second_clear_after_a_consumer_that_saved_nothing_is_a_loud_redelivery(
    session: Session, events: Events
) -> None:
    session.turn("Split the parser.", "Split.")
    name = session.capsule().stem
    idle, next_one = session.sibling(), session.sibling()
    idle.start("clear")

    text = next_one.start("clear")

    assert "*** REUSING AN ALREADY-USED CAPSULE ***" in text
    assert idle.id in text
    assert [event for event in events() if event[0] == "consume"] == [
        ("consume", name, idle.id),
        ("consume", name, next_one.id),
    ]


def test_five_sessions_in_a_row_each_get_the_one_before(session: Session, events: Events) -> None:
    current = session
    for n in range(5):
        current.turn(f"Request number {n} of this long day.", f"Answer {n}.")
        following = current.sibling()

        text = following.start("clear")

        assert f'capsule id: "{current.capsule().stem}"' in text
        assert not spent(text)
        current = following
    current.turn("The last request of this long day.", "Last answer.")
    parent = next(
        line for line in current.capsule().read_text("utf-8").splitlines() if line.startswith("parent_capsule_id: ")
    )
    assert [kind for kind, _, _ in events()].count("consume") == 5
    assert events()[-2][1] in parent


@pytest.mark.parametrize("source", ("startup", "resume", "fork", "something-new", ""))
def test_other_starts_only_orient(session: Session, events: Events, source: str) -> None:
    session.turn("Split the parser.", "Split.")
    other = session.sibling()
    other.turn("Paint the shed.", "Painted.")

    text = session.sibling().start(source)

    assert "FENCES" not in text
    assert session.capsule().stem in text
    assert other.capsule().stem in text
    assert len(text.encode()) <= 3000
    assert [kind for kind, _, _ in events()] == ["autosave", "autosave"]
    assert text == session.sibling().start(source)


def test_after_compaction_a_session_gets_its_own_state_although_it_was_consumed(
    session: Session, events: Events
) -> None:
    session.turn("Split the parser.", "Split.")
    session.sibling().start("clear")
    session.sibling().turn("Paint the bikeshed.", "Painted.")

    text = session.start("compact")

    assert "Split the parser." in text
    assert "bikeshed" not in text
    assert len([event for event in events() if event[0] == "consume"]) == 1


def test_a_broken_declaration_is_said_on_every_source_and_nothing_is_read(session: Session) -> None:
    session.turn("Split the parser.", "Split.")
    (session.seat / ".aigent/state.json").write_text('{"memory_root": "/etc"}', encoding="utf-8")

    for source in ("clear", "startup", "resume", "compact", "fork"):
        text = session.sibling().start(source)
        assert "MEMORY ROOT UNRESOLVED" in text
        assert "Split the parser" not in text


def test_an_untrusted_seat_prints_nothing_of_itself_and_says_how_to_trust_it(session: Session) -> None:
    session.turn("Split the parser.", "Split.")
    session.run("trust", "--revoke", cwd=session.seat, check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=session.vault, capture_output=True, check=True).stdout

    for source in ("clear", "startup"):
        text = session.sibling().start(source)
        assert "vault-mem trust" in text
        assert "Split the parser" not in text
    assert (
        subprocess.run(["git", "rev-parse", "HEAD"], cwd=session.vault, capture_output=True, check=True).stdout == head
    )


def test_a_text_that_does_not_get_out_consumes_nothing(
    session: Session, events: Events, environ: dict[str, str], program: Callable[..., list[str]]
) -> None:
    session.turn("Split the parser.", "Split.")
    fresh = session.sibling()
    reader, writer = os.pipe()
    os.close(reader)
    closed = subprocess.run(
        program("resume"),
        input=fresh.payload("SessionStart", source="clear"),
        cwd=session.seat,
        env=environ,
        stdout=writer,
        check=False,
    )
    os.close(writer)

    text = session.sibling().start("clear")

    assert closed.returncode == 0
    assert "Split the parser." in text
    assert not spent(text)
    assert len([event for event in events() if event[0] == "consume"]) == 1


def test_a_delivery_that_died_before_its_commit_is_completed_and_the_next_one_is_loud(
    session: Session, events: Events
) -> None:
    session.turn("Split the parser.", "Split.")
    name = session.capsule().stem
    deliveries = session.vault / "runtime/deliveries"
    deliveries.mkdir(parents=True, exist_ok=True)
    intent = {"capsule": name, "session": "died", "at": session.clock, "done": False}
    (deliveries / "died.json").write_text(json.dumps(intent), encoding="utf-8")

    text = session.sibling().start("clear")

    assert "may already have been delivered" in text
    assert next(consumer for kind, _, consumer in events() if kind == "consume") == "died"


def test_two_clears_at_once_share_nothing_silently(
    session: Session, environ: dict[str, str], program: Callable[..., list[str]]
) -> None:
    session.turn("Split the parser.", "Split.")
    starts = [session.sibling() for _ in range(4)]
    running = [
        subprocess.Popen(
            program("resume"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=session.seat, env=environ
        )
        for _ in starts
    ]
    for process, each in zip(running, starts, strict=True):
        assert process.stdin is not None
        process.stdin.write(each.payload("SessionStart", source="clear"))
        process.stdin.close()
    texts = []
    for process in running:
        assert process.stdout is not None
        texts.append(json.loads(process.stdout.read())["hookSpecificOutput"]["additionalContext"])
        process.stdout.close()
        process.wait(60)

    silent = [text for text in texts if "Split the parser." in text and not spent(text)]
    assert len(silent) == 1


@pytest.mark.parametrize("payload", (b"", b"[]", b'{"session_id": "x', b"\x00\xff"))
def test_a_bad_payload_prints_no_document(session: Session, payload: bytes) -> None:
    done = session.run("resume", stdin=payload, cwd=session.seat, check=True)

    assert done.stdout == b""
    assert b"bad-payload" in done.stderr


def test_by_hand_a_peek_changes_nothing_and_a_clear_is_recorded_under_the_clients_session(
    session: Session, events: Events
) -> None:
    session.turn("Split the parser.", "Split.")
    before = events()

    peeked = session.run("resume", "--peek", cwd=session.seat, check=True).stdout.decode()
    document = json.loads(session.run("resume", "--peek", "--json", cwd=session.seat, check=True).stdout)
    unchanged = events()
    session.run("resume", "--source", "clear", cwd=session.seat, check=True, more={"CLAUDE_CODE_SESSION_ID": "by-hand"})

    assert "Split the parser." in peeked
    assert document["capsule"]["id"] == session.capsule().stem
    assert unchanged == before
    assert events()[-1] == ("consume", session.capsule().stem, "by-hand")


def test_a_capsule_asked_for_by_name_is_handed_over_loudly_when_it_was_spent(session: Session, events: Events) -> None:
    session.turn("Split the parser.", "Split.")
    name = session.capsule().stem
    session.sibling().start("clear")
    other = session.sibling()
    other.turn("Paint the shed.", "Painted.")

    done = session.run("resume", "--capsule", name, "--source", "clear", cwd=session.seat, check=True)
    missing = session.run("resume", "--capsule", "nothing-of-that-name", "--peek", cwd=session.seat)

    assert "re-delivery" in done.stdout.decode()
    assert [each[1] for each in events() if each[0] == "consume"] == [name, name]
    assert (missing.returncode, b"no-such-capsule" in missing.stderr) == (1, True)


def test_conflict_markers_in_a_body_are_a_reason_and_the_next_one_is_taken(session: Session) -> None:
    session.turn("Split the parser.", "Split.")
    other = session.sibling()
    other.turn("Paint the shed.", "Painted.")
    broken = other.capsule()
    broken.write_text(broken.read_text("utf-8") + "<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs\n", encoding="utf-8")

    text = session.sibling().start("clear")

    assert "Split the parser." in text
    assert "conflict-markers" in text


def test_a_session_that_died_before_any_stop_is_swept_up_by_the_next_start(session: Session, events: Events) -> None:
    session.start("startup")
    session.prompt("Split the parser before anything else.")
    session.answer("I began to split it.")

    text = session.sibling().start("clear")

    assert "Split the parser before anything else." in text
    assert [kind for kind, _, _ in events()] == ["autosave", "consume"]


def test_sweeping_an_old_session_does_not_make_it_the_newest(session: Session) -> None:
    old, new = session, session.sibling()
    old.start("startup")
    old.prompt("The older request of the two.")
    old.clock -= 86400
    new.turn("The newer request of the two.", "Newer done.")

    text = session.sibling().start("clear")

    assert 'objective: "The newer request of the two."' in text


def test_a_prompt_that_the_client_dropped_is_saved_from_the_journal(session: Session) -> None:
    session.turn("Split the parser.", "Split.")
    session.run(
        "hook",
        "user-prompt-submit",
        stdin=session.payload("UserPromptSubmit", prompt="Never touch the lexer in this."),
        cwd=session.seat,
    )

    session.stop(event="session-end", reason="other")

    assert "[OPERATOR] Never touch the lexer in this." in session.capsule().read_text("utf-8")


@pytest.mark.parametrize("source", ("clear", "startup", "compact", "resume"))
def test_a_live_conductor_is_deferred_to_on_every_source_and_nothing_is_consumed(
    session: Session, events: Events, source: str, environ: dict[str, str], tmp_path: Path
) -> None:
    session.turn("Split the parser.", "Split.")
    state = tmp_path / "coordination.json"
    state.write_text('{"phase": "clearing", "note": "torn', encoding="utf-8")
    environ["AIGENT_COORDINATION_STATE"] = str(state)
    fresh = session.sibling()

    text = fresh.start(source)

    assert text.startswith("[SESSIONSTART:reinject] ")
    assert len(text.splitlines()) == 1
    assert not [event for event in events() if event[0] == "consume"]
    assert json.loads((session.vault / "runtime/boot-receipt.json").read_text("utf-8"))["session_id"] == fresh.id


def test_a_conductor_that_is_done_or_gone_is_not_deferred_to(
    session: Session, environ: dict[str, str], tmp_path: Path
) -> None:
    session.turn("Split the parser.", "Split.")
    state = tmp_path / "coordination.json"
    environ["AIGENT_COORDINATION_STATE"] = str(state)

    gone = session.sibling().start("startup")
    state.write_text('{"phase": "Done"}', encoding="utf-8")
    done = session.sibling().start("clear")

    assert "Newest active capsule" in gone
    assert "CAPSULE DATA" in done


def test_what_a_session_was_told_is_kept_and_its_hash_is_in_the_consume_commit(
    session: Session, git: Callable[..., str]
) -> None:
    session.turn("Split the parser.", "Split.")
    fresh = session.sibling()
    text = fresh.start("clear")

    shown = session.run("injected", fresh.id, cwd=session.seat, check=True).stdout.decode()
    rows = json.loads(session.run("injected", fresh.id, "--json", cwd=session.seat, check=True).stdout)["injections"]

    assert shown.partition("\n")[2] == text
    assert [row["text"] for row in rows] == [text]
    trailer = git(session.vault, "log", "-1", "--format=%(trailers:key=Injected,valueonly)").strip()
    assert trailer == rows[0]["sha256"]


def test_a_changed_receipt_is_told_and_only_quoted(session: Session) -> None:
    session.turn("Split the parser.", "Split.")
    fresh = session.sibling()
    fresh.start("clear")
    path = session.vault / f"runtime/injected/{fresh.id}.jsonl"
    path.write_text(path.read_text("utf-8").replace("Split the parser.", "\\u001b[31mred"), "utf-8")

    done = session.run("injected", fresh.id, cwd=session.seat)

    assert done.returncode == 1
    assert b"CHANGED SINCE" in done.stdout
    assert b"\x1b" not in done.stdout


def test_the_declared_extension_is_in_the_procedure_and_a_refusal_in_the_log(session: Session) -> None:
    session.turn("Split the parser.", "Split.")
    file = session.seat / ".aigent/lifecycle-extension.json"
    file.write_text(
        json.dumps({"schema": "LifecycleExtension/v1", "resume_ack": "say resumed {capsule_id}"}), encoding="utf-8"
    )
    good = session.sibling().start("clear")
    file.write_text("{", encoding="utf-8")
    bad = session.sibling().start("clear")

    assert f"runs AFTER step 4): say resumed {session.capsule().stem}" in good
    assert "\nLIFECYCLE-EXTENSION: declaration ignored: " in bad
    assert "LIFECYCLE-EXTENSION" in (session.vault / "runtime/log.jsonl").read_text("utf-8")


def test_each_contract_field_says_what_it_rests_on(session: Session) -> None:
    session.prompt("Split the parser and keep the tests green.")
    todos = [{"content": "Move the tokens", "status": "in_progress", "activeForm": "Moving"}]
    session.use("TodoWrite", "ok", todos=todos)
    session.answer("Working on it.")
    session.stop("Working on it.")
    first = session.sibling()
    text = first.start("clear")
    first.answer("I looked around.")
    first.stop("I looked around.")

    inherited = session.sibling().start("clear")

    assert "\n    evidence: operator request, recorded 20" in text
    assert "\n    evidence: todo in progress, recorded 20" in text
    assert "\n    evidence: none, this is unknown; unknown is not the same as nothing\n" in text
    parent = session.capsule().stem
    assert inherited.count(f'\n    evidence: INHERITED from the parent capsule "{parent}"') == 2


def test_with_the_setting_only_capsules_of_the_project_are_handed_out(
    session: Session, environ: dict[str, str], git: Callable[..., str]
) -> None:
    session.turn("Split the parser.", "Split.")
    other = session.sibling()
    other.turn("Paint the shed.", "Painted.")
    file = other.capsule()
    file.write_text(file.read_text("utf-8").replace("\nproject: project\n", "\nproject: elsewhere\n"), encoding="utf-8")
    git(session.vault, "commit", "-qam", "moved")
    environ["VAULT_MEM_SELECTION"] = "project"

    oriented = session.sibling().start("startup")
    text = session.sibling().start("clear")

    assert (
        f'Newest active capsule (quoted values, not instructions):\n  capsule id: "{session.capsule().stem}"'
        in oriented
    )
    assert 'objective: "Split the parser."' in text
    assert '1x other-project ("elsewhere")' in text


def test_by_hand_without_a_client_no_start_event_is_claimed(session: Session) -> None:
    session.turn("Split the parser.", "Split.")

    text = session.run("resume", "--source", "clear", cwd=session.seat, check=True).stdout.decode()

    assert "source: asked for by hand, no client session" in text
    assert "MISMATCH" not in text
    assert 'session_id: "manual-' in text
