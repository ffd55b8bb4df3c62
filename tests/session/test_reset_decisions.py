"""Who is the person in a transcript, are they here, is anything unfinished, and what the watcher says: decided without a clock or a file."""

from __future__ import annotations

from typing import Any

import pytest

from vault_mem.session import ceiling, meter, presence, quiet

AT = "2026-11-30T10:00:00.000Z"
HUMAN = {"kind": "human"}


def user(content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "user", "timestamp": AT, "uuid": "u", "message": {"role": "user", "content": content}, **more}


@pytest.mark.parametrize(
    ("row", "here", "approves"),
    (
        pytest.param(user("go", origin=HUMAN, promptSource="typed"), True, True, id="typed"),
        pytest.param(user("go", promptSource="typed"), True, True, id="typed without an origin"),
        pytest.param(user("go", origin={"kind": "channel"}), True, True, id="an origin nobody knows"),
        pytest.param(user("go"), True, False, id="unattributed"),
        pytest.param(user([{"type": "image"}], origin=HUMAN), True, True, id="a picture alone"),
        pytest.param(user([{"type": "text", "text": "see"}, {"type": "image"}]), True, False, id="text and picture"),
        pytest.param(user([{"type": "text", "text": "[Request interrupted by user]"}]), True, False, id="interruption"),
        pytest.param(user("<command-name>/x</command-name>", origin=HUMAN), True, False, id="a command"),
        pytest.param(user("go", origin={"kind": "task-notification"}), False, False, id="a background task"),
        pytest.param(
            user("go", origin={"kind": "auto-continuation"}, promptSource="system"), False, False, id="continuation"
        ),
        pytest.param(user("go", promptSource="system"), False, False, id="the system"),
        pytest.param(user("go", isMeta=True), False, False, id="injected"),
        pytest.param(user("sum", isCompactSummary=True), False, False, id="compaction summary"),
        pytest.param(user("go", isSidechain=True), False, False, id="a sub-agent"),
        pytest.param(user("<local-command-stdout>x"), False, False, id="output of a local command"),
        pytest.param(user("<task-notification>x"), False, False, id="old notification"),
        pytest.param(user([{"type": "tool_result", "content": "x"}]), False, False, id="tool result"),
        pytest.param(
            {"type": "queue-operation", "operation": "enqueue", "content": "go", "timestamp": AT},
            True,
            False,
            id="queued",
        ),
        pytest.param(
            {
                "type": "attachment",
                "timestamp": AT,
                "attachment": {"type": "queued_command", "prompt": "go", "origin": HUMAN},
            },
            True,
            True,
            id="folded into a turn",
        ),
        pytest.param(
            {
                "type": "attachment",
                "attachment": {"type": "queued_command", "prompt": "x", "commandMode": "task-notification"},
            },
            False,
            False,
            id="a queued notification",
        ),
        pytest.param({"type": "user", "message": "go", "origin": "odd"}, True, True, id="message and origin are texts"),
        pytest.param({"type": "user"}, False, False, id="nothing"),
        pytest.param({"type": 5}, False, False, id="odd type"),
    ),
)
def test_a_row_is_the_person_or_not(row: dict[str, Any], here: bool, approves: bool) -> None:
    human = meter.read(row).human

    assert (human is not None) is here
    assert (human is not None and human.approves) is approves


@pytest.mark.parametrize(
    ("message", "more", "tokens"),
    (
        pytest.param({"usage": {"input_tokens": 3, "cache_read_input_tokens": 4}}, {}, 7, id="a sum"),
        pytest.param({"usage": {"input_tokens": 0}}, {}, None, id="zero"),
        pytest.param({"usage": {}}, {}, None, id="empty"),
        pytest.param({"usage": {"input_tokens": "12"}}, {}, None, id="a text"),
        pytest.param({"usage": {"input_tokens": 9}, "model": "<synthetic>"}, {}, None, id="synthetic"),
        pytest.param({"usage": {"input_tokens": 9}}, {"isApiErrorMessage": True}, None, id="an error"),
        pytest.param({"usage": {"input_tokens": 9}}, {"isSidechain": True}, None, id="a sub-agent"),
        pytest.param("text", {}, None, id="no object"),
    ),
)
def test_only_a_real_answer_of_the_main_chain_measures(message: Any, more: dict[str, Any], tokens: int | None) -> None:
    assert meter.read({"type": "assistant", "message": message, **more}).tokens == tokens


def test_a_typed_line_is_ours_by_the_ledger_and_not_by_its_look() -> None:
    human = meter.read(user("2 wakes pending", origin=HUMAN)).human
    assert human is not None
    assert human.at is not None
    entry = meter.Typed(meter.hashed("2 wakes pending"), human.at - 1, "7:a")

    assert meter.typed_by_us(human, (entry,), client="7:a")
    assert not meter.typed_by_us(human, (entry,), client="8:a")
    assert not meter.typed_by_us(human, (entry._replace(at=human.at - 4000),), client="7:a")
    assert not meter.typed_by_us(human, (), client="7:a")


def _human(at: float | None, stamp: str = "x") -> meter.Human:
    return meter.Human(at, "u", stamp, "go", True)


@pytest.mark.parametrize(
    ("human", "now", "token"),
    (
        pytest.param(None, 1e9, presence.UNRECORDED, id="nobody"),
        pytest.param(_human(None, ""), 1e9, presence.UNRECORDED, id="no time"),
        pytest.param(_human(None), 1e9, presence.UNREADABLE, id="odd time"),
        pytest.param(_human(1e9), 1e9 + 1800, presence.SPOKE, id="exactly the bound"),
        pytest.param(_human(1e9), 1e9 + 1801, presence.IDLE, id="past the bound"),
        pytest.param(_human(1e9), 1e9 - 60, presence.UNMEASURABLE, id="the clock went back"),
        pytest.param(_human(1e9), -1.0, presence.UNMEASURABLE, id="no clock"),
    ),
)
def test_only_a_readable_older_time_means_absent(human: meter.Human | None, now: float, token: str) -> None:
    found = presence.judge(human, now=now, idle=1800)

    assert found.token == token
    assert found.here is (token != presence.IDLE)


def test_decisions_fold_and_odd_rows_are_passed_over() -> None:
    rows = [
        {"verb": "open", "key": "a", "at": 1},
        {"verb": "blocked", "key": "b", "at": 2, "why": "w"},
        {"verb": "resolved", "key": "a"},
        {"verb": "done", "key": "b"},
        {"verb": "open", "key": "../x"},
        {"verb": "open", "key": 5},
    ]

    assert quiet.open_decisions(rows) == (quiet.Item("decision", "b", "w", 2.0),)


ABSENT = presence.Presence(presence.IDLE, "silent")
HERE = presence.Presence(presence.SPOKE, "active")
OVER = ceiling.Facts(400, 300, ABSENT)
HELD = (quiet.Item("hold", "k", "w", 50.0),)


@pytest.mark.parametrize(
    ("facts", "state", "kind"),
    (
        pytest.param(OVER, ceiling.SURFACED, ceiling.RESET, id="reset"),
        pytest.param(OVER._replace(tokens=299), ceiling.RESOLVED, "", id="below"),
        pytest.param(OVER._replace(tokens=300), ceiling.SURFACED, ceiling.RESET, id="exactly"),
        pytest.param(OVER._replace(presence=HERE), ceiling.SURFACED, ceiling.ASK, id="person here"),
        pytest.param(OVER._replace(away=True), ceiling.SURFACED, ceiling.ASK, id="away mode"),
        pytest.param(OVER._replace(wiring="gone"), ceiling.SURFACED, ceiling.BLOCKED, id="blocked"),
        pytest.param(OVER._replace(unfinished=HELD), ceiling.SUPPRESSED, "", id="busy"),
        pytest.param(
            OVER._replace(unfinished=HELD, busy_since=1.0), ceiling.SURFACED, ceiling.DEFERRED, id="busy too long"
        ),
        pytest.param(OVER._replace(problem="p", tokens=None), ceiling.SURFACED, ceiling.UNENFORCED, id="unmeasurable"),
        pytest.param(OVER._replace(tokens=None), ceiling.SUPPRESSED, "", id="not told yet"),
        pytest.param(OVER._replace(unconfirmed="u"), ceiling.SURFACED, ceiling.UNCONFIRMED, id="unconfirmed"),
    ),
)
def test_each_class_has_its_condition(facts: ceiling.Facts, state: str, kind: str) -> None:
    found = ceiling.decide(facts, now=5000.0, patience=3600)

    assert (found.state, found.kind) == (state, kind)
    assert ("reset clear" in found.text) is (kind == ceiling.RESET)


def test_an_unchanged_class_is_said_once_and_a_changed_one_at_once() -> None:
    reset, ask = (ceiling.decide(facts, now=1e9, patience=1) for facts in (OVER, OVER._replace(presence=HERE)))

    text, held = ceiling.throttled(ask, ceiling.Throttle(), now=1e9, resurface=3600)
    assert text
    assert ceiling.throttled(ask, held, now=1e9 + 3599, resurface=3600)[0] == ""
    assert ceiling.throttled(ask, held, now=1e9 + 3600, resurface=3600)[0]
    assert ceiling.throttled(ask, held, now=1e9 - 60, resurface=3600)[0], "a clock that went back is due"
    assert ceiling.throttled(reset, held, now=1e9 + 1, resurface=3600)[0]


def test_absent_protection_says_since_when_and_how_often_and_only_resolution_forgets_it() -> None:
    blocked = ceiling.decide(OVER._replace(wiring="gone"), now=1e9, patience=1)
    first, held = ceiling.throttled(blocked, ceiling.Throttle(), now=1e9, resurface=3600)
    later, held = ceiling.throttled(blocked, held, now=1e9 + 25200, resurface=3600)

    assert "report" not in first
    assert "7h 0m" in later
    assert "report 2" in later
    assert ceiling.throttled(ceiling.Verdict(ceiling.SUPPRESSED), held, now=2e9, resurface=1) == ("", held)
    assert ceiling.throttled(ceiling.Verdict(ceiling.RESOLVED), held, now=2e9, resurface=1) == ("", ceiling.Throttle())
