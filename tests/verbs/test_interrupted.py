"""A clear that was killed around its printing: the next one hands out that capsule, loudly, before it turns to an older one."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.verbs.conftest import Session

if TYPE_CHECKING:
    from collections.abc import Callable

    Events = Callable[[], list[tuple[str, str, str]]]

LOUD = 'may already have been delivered to session "died"'


def interrupted(session: Session, who: str = "died") -> str:
    """An older capsule and a newest one, whose clear left nothing but its intent; the newest one's id."""
    session.turn("Paint the bikeshed in green.", "Painted.")
    newest = session.sibling()
    newest.vault, newest.clock = session.vault, session.clock + 60
    newest.turn("Split the parser and keep the tests green.", "Split.")
    name = newest.capsule().stem
    left(session, name, who)
    return name


def left(session: Session, name: str, who: str) -> None:
    deliveries = session.vault / "runtime/deliveries"
    deliveries.mkdir(parents=True, exist_ok=True)
    intent = {"capsule": name, "session": who, "at": session.clock, "done": False}
    (deliveries / f"{who}.json").write_text(json.dumps(intent), encoding="utf-8")


def intents(session: Session) -> list[str]:
    return sorted(path.stem for path in (session.vault / "runtime/deliveries").glob("*.json"))


def consumed(events: Events) -> list[tuple[str, str]]:
    return [(name, consumer) for event, name, consumer in events() if event == "consume"]


def test_the_capsule_of_an_interrupted_clear_comes_loudly_before_an_older_one(session: Session, events: Events) -> None:
    name = interrupted(session)
    fresh = session.sibling()

    text = fresh.start("clear")

    assert f'capsule id: "{name}"' in text
    assert LOUD in text
    assert "CAPSULES NOT SELECTED (1 skipped" in text
    assert consumed(events) == [(name, "died"), (name, fresh.id)]
    assert intents(session) == []


def test_once_it_was_made_good_the_older_one_is_next(session: Session) -> None:
    interrupted(session)
    session.sibling().start("clear")

    text = session.sibling().start("clear")

    assert "bikeshed" in text
    assert "REUSING" not in text


def test_what_a_clear_would_do_is_what_a_peek_and_explain_say(session: Session, events: Events) -> None:
    name = interrupted(session)

    peeked = session.run("resume", "--peek", cwd=session.seat, stdin=b"", check=True).stdout.decode("utf-8")
    told = session.run("explain", cwd=session.seat, check=True).stdout.decode("utf-8")

    assert f'capsule id: "{name}"' in peeked
    assert LOUD in peeked
    assert name in told
    assert consumed(events) == []
    assert intents(session) == ["died"]


def test_a_consumer_that_saved_something_had_seen_it(session: Session, events: Events) -> None:
    session.turn("Paint the bikeshed in green.", "Painted.")
    newest, reader = session.sibling(), session.sibling()
    newest.clock, reader.clock = session.clock + 60, session.clock + 120
    newest.turn("Split the parser and keep the tests green.", "Split.")
    name = newest.capsule().stem
    left(session, name, reader.id)
    reader.turn("I have read it and go on.", "Going on.")

    text = session.sibling().start("clear")

    assert "I have read it and go on." in text
    assert "REUSING" not in text
    assert (name, reader.id) in consumed(events)
    assert intents(session) == []


def test_while_its_client_lives_the_older_one_is_given_and_nothing_is_forgotten(
    session: Session, events: Events
) -> None:
    name = interrupted(session)
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as client:
        known = session.vault / "runtime/sessions/died.json"
        known.parent.mkdir(parents=True, exist_ok=True)
        start = _started(client.pid)
        row = {"session": "died", "pid": client.pid, "started": start, "at": session.clock}
        known.write_text(json.dumps(row), encoding="utf-8")

        text = session.sibling().start("clear")

        client.kill()
    assert "bikeshed" in text
    assert consumed(events)[0] == (name, "died")
    assert intents(session) == ["died"]

    again = session.sibling().start("clear")

    assert f'capsule id: "{name}"' in again
    assert LOUD in again


def _started(pid: int) -> str:
    from vault_mem import processes

    return processes.start_time(pid) or ""


def test_a_clear_whose_text_did_not_get_out_leaves_the_interruption_to_the_next(
    session: Session, program: Callable[..., list[str]], environ: dict[str, str]
) -> None:
    name = interrupted(session)
    reading, writing = os.pipe()
    os.close(reading)
    with subprocess.Popen(
        program("resume"), stdin=subprocess.PIPE, stdout=writing, stderr=subprocess.PIPE, cwd=session.seat, env=environ
    ) as deaf:
        os.close(writing)
        deaf.communicate(session.sibling().payload("SessionStart", source="clear"), timeout=60)

    text = session.sibling().start("clear")

    assert f'capsule id: "{name}"' in text
    assert LOUD in text


def test_a_reopened_capsule_is_handed_out_as_an_active_one(session: Session, events: Events) -> None:
    name = interrupted(session)
    session.sibling().start("clear")
    session.run("capsule", "reopen", name, cwd=session.seat, check=True)
    left(session, name, "died")

    text = session.sibling().start("clear")

    assert f'capsule id: "{name}"' in text
    assert "REUSING" not in text
    assert [who for _, who in consumed(events)].count("died") == 1
    assert intents(session) == []


def test_newer_work_comes_before_it(session: Session) -> None:
    interrupted(session)
    newer = session.sibling()
    newer.clock = session.clock + 120
    newer.turn("Sort the mail by sender.", "Sorted.")

    text = session.sibling().start("clear")

    assert "Sort the mail" in text
    assert "REUSING" not in text
    assert intents(session) == []


def test_the_session_itself_is_given_it_again(session: Session, events: Events) -> None:
    fresh = session.sibling()
    name = interrupted(session, fresh.id)

    text = fresh.start("clear")

    assert f'capsule id: "{name}"' in text
    assert "already delivered to this session" in text
    assert consumed(events) == [(name, fresh.id)]
    assert intents(session) == []


@pytest.mark.parametrize(
    "more",
    (
        pytest.param({"done": False}, id="killed once"),
        pytest.param({"done": True, "unsure": True}, id="and the clear that found it, too"),
    ),
)
def test_without_git_the_record_says_it_too(
    more: dict[str, bool], project: Path, environ: dict[str, str], vault_mem: Callable[..., Any]
) -> None:
    (project / "memory/capsules").mkdir(parents=True)
    (project / ".aigent").mkdir()
    (project / ".aigent/state.json").write_text('{"schemaVersion": 1, "memory_root": "memory"}\n', "utf-8")
    vault_mem("init", "--adopt", "--harness", "claude", "--scope", "project", cwd=project, check=True)
    session = Session(project, Path(environ["HOME"]), vault_mem)
    session.vault = project / "memory"
    name = interrupted(session)
    record = session.vault / "runtime/deliveries/died.json"
    record.write_text(json.dumps({"capsule": name, "session": "died", "at": session.clock, **more}), encoding="utf-8")

    text = session.sibling().start("clear")

    assert f'capsule id: "{name}"' in text
    assert LOUD in text
    assert json.loads(record.read_text("utf-8"))["done"] is True
    assert "bikeshed" in session.sibling().start("clear")
