from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vault_mem import checkpoints
from vault_mem.session import continuity
from vault_mem.session.continuity import Event, Signal, State

if TYPE_CHECKING:
    from pathlib import Path

ID = "01JZZZZZZZZZZZZZZZZZZZZZZZ"


def history(*rows: tuple[str, dict[str, Any]], start: float = 1000.0, step: float = 1.0) -> State:
    events = [Event(continuity.ulid(start + step * n, bytes(10)), start + step * n, *row) for n, row in enumerate(rows)]
    return continuity.folded(events, State("s", "claude"))


def announced(cycle: str = ID, *, turn: str = "t1", fingerprint: str = "f") -> list[tuple[str, dict[str, Any]]]:
    return [
        (
            continuity.STARTED,
            {"cycle": cycle, "announced": True, "turn": turn, "trigger": "auto", "fingerprint": fingerprint},
        ),
        (continuity.CREATED, {"generation": 1, "checkpoint": "c1", "reason": "pre_compact", "cycle": cycle}),
    ]


def done(signal: str = continuity.START) -> tuple[str, dict[str, Any]]:
    return (continuity.COMPLETED, {"cycle": ID, "signal": signal})


INJECTED = (continuity.INJECTED, {"cycle": ID, "channel": "SessionStart"})


def test_only_what_the_table_names_changes_the_phase() -> None:
    changes = {
        (phase, kind): after
        for phase in continuity.PHASES
        for kind in continuity.KINDS
        if (after := continuity.step(phase, kind)) != phase
    }

    assert changes == {pair: after for pair, after in continuity.TRANSITIONS.items() if pair[0] != after}


def test_degraded_is_left_only_by_a_checkpoint_that_a_compaction_announced() -> None:
    leaving = {kind for kind in continuity.KINDS if continuity.step(continuity.DEGRADED, kind) != continuity.DEGRADED}

    assert leaving == {continuity.CREATED}


def test_a_manual_checkpoint_leaves_an_open_cycle_and_a_pending_briefing_alone() -> None:
    state = history(*announced(), done())

    after = continuity.apply(
        state,
        Event("e", 2000.0, continuity.TAKEN, {"generation": 2, "checkpoint": "c2", "reason": "manual", "cycle": ""}),
    )

    assert continuity.is_pending(after)
    assert after.cycle == state.cycle
    assert after.generation == 2


@pytest.mark.parametrize(
    ("signal", "fingerprint", "retry"),
    (
        pytest.param(Signal(1005.0, "t1", "auto"), "f", True, id="same turn, nothing moved"),
        pytest.param(Signal(1005.0, "t2", "auto"), "f", False, id="later turn"),
        pytest.param(Signal(1005.0, "t1", "auto"), "g", False, id="work or git moved"),
        pytest.param(Signal(1005.0, "", "auto"), "f", False, id="turn unknown, first one named one"),
    ),
)
def test_an_announcement_is_a_retry_only_in_its_turn_with_nothing_moved(
    signal: Signal, fingerprint: str, retry: bool
) -> None:
    assert continuity.is_retry(history(*announced()), signal, fingerprint) is retry


def test_an_announcement_after_a_completion_is_no_retry() -> None:
    assert not continuity.is_retry(history(*announced(), done()), Signal(1005.0, "t1", "auto"), "f")


def test_without_turn_ids_a_retry_comes_within_a_minute() -> None:
    state = history(*announced(turn=""))

    assert continuity.is_retry(state, Signal(1030.0, "", "auto"), "f")
    assert not continuity.is_retry(state, Signal(1090.0, "", "auto"), "f")
    assert not continuity.is_retry(state, Signal(1030.0, "", "manual"), "f")


@pytest.mark.parametrize(
    ("rows", "signal", "which", "meaning"),
    (
        pytest.param([], Signal(1.0), "start", "missed", id="nothing announced"),
        pytest.param(announced(), Signal(1004.0, "t1"), "start", "same", id="claude: start first"),
        pytest.param([*announced(), done("start"), INJECTED], Signal(1004.0, "t1"), "post", "same", id="claude: then post"),
        pytest.param([*announced(), done("post")], Signal(9e6), "start", "same", id="codex: start with a late prompt"),
        pytest.param([*announced(), done("start"), INJECTED], Signal(1005.0, "t1"), "start", "double", id="registered twice"),
        pytest.param([*announced(), done("start"), INJECTED], Signal(2000.0, "t2"), "start", "missed", id="a later turn, unannounced"),
        pytest.param([*announced(), done("start"), INJECTED], Signal(2000.0, "t1"), "start", "missed", id="same turn again, unannounced"),
        pytest.param(announced(), Signal(1004.0, "t2"), "start", "missed", id="announced in a turn that never compacted"),
        pytest.param(announced(turn=""), Signal(9000.0), "start", "missed", id="announced hours ago, no turns"),
    ),
)  # fmt: skip
def test_a_completion_signal_means(
    rows: list[tuple[str, dict[str, Any]]], signal: Signal, which: str, meaning: str
) -> None:
    assert continuity.completion(history(*rows), signal, which) == meaning


def test_a_new_cycle_ends_the_old_one_by_name() -> None:
    never_completed = continuity.closing(history(*announced()))
    nobody_told = continuity.closing(history(*announced(), done()))
    told = continuity.closing(history(*announced(), done(), INJECTED))

    assert [row[1]["outcome"] for row in never_completed] == ["abandoned"]
    assert [row[1]["outcome"] for row in nobody_told] == ["superseded"]
    assert told == ()


def test_samples_are_a_ring() -> None:
    sample = {"tokens": 1, "window": None, "percent": None, "source": "transcript", "confidence": "exact", "model": "m"}
    rows = [(continuity.SAMPLED, {"sample": {**sample, "tokens": n, "at": float(n)}}) for n in range(40)]

    assert [kept.tokens for kept in history(*rows).samples] == list(range(8, 40))


def test_a_ulid_sorts_by_time_and_tells_it() -> None:
    early, late = continuity.ulid(1_700_000_000.5, b"\xff" * 10), continuity.ulid(1_700_000_000.501, bytes(10))

    assert early < late
    assert continuity.ulid_time(early) == 1_700_000_000.5
    assert continuity.ulid_time("no ulid") is None


SAMPLES = st.builds(
    lambda tokens, window, at: {
        "sample": {"tokens": tokens, "window": window, "percent": None, "source": "hook", "confidence": "reported",
                   "model": "m", "at": at}
    },
    st.none() | st.integers(0, 10**7), st.none() | st.integers(1, 10**7), st.floats(0, 2e9),
)  # fmt: skip
NAMES = st.text(max_size=8)
ROWS = st.one_of(
    st.tuples(st.just(continuity.SAMPLED), SAMPLES),
    st.tuples(
        st.sampled_from((continuity.CREATED, continuity.TAKEN)),
        st.fixed_dictionaries({"generation": st.integers(1, 99), "checkpoint": NAMES, "cycle": st.sampled_from(("a", "b", ""))}),
    ),
    st.tuples(
        st.just(continuity.STARTED),
        st.fixed_dictionaries({"cycle": st.sampled_from(("a", "b")), "announced": st.booleans(), "turn": NAMES, "trigger": NAMES,
                               "fingerprint": NAMES}),
    ),
    st.tuples(st.just(continuity.COMPLETED), st.fixed_dictionaries({"signal": st.sampled_from(("post", "start", "transcript"))})),
    st.tuples(st.sampled_from((continuity.CLOSED, continuity.IMPAIRED)), st.fixed_dictionaries({"outcome": NAMES, "reason": NAMES})),
    st.tuples(st.sampled_from((continuity.INJECTED, continuity.CONFIRMED, continuity.UNCONFIRMED, "of-a-later-version")),
              st.fixed_dictionaries({"channel": NAMES})),
)  # fmt: skip


@given(batches=st.lists(st.lists(ROWS, min_size=1, max_size=5), max_size=12), turned=st.integers(0, 12))
def test_the_state_made_again_from_the_events_is_the_state_that_was_kept(
    batches: list[list[tuple[str, dict[str, Any]]]], turned: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    runtime = str(tmp_path_factory.mktemp("runtime"))
    state = State("session-1", "claude")

    for number, batch in enumerate(batches):
        if number == turned:
            checkpoints.LOG_LIMIT, limit = 0, checkpoints.LOG_LIMIT
            state = checkpoints.append(runtime, state, batch, at=1000.0 + number, durable=False)
            checkpoints.LOG_LIMIT = limit
        else:
            state = checkpoints.append(runtime, state, batch, at=1000.0 + number, durable=False)

    directory = checkpoints.folder(runtime, "session-1")
    again = checkpoints.rebuilt(directory)
    assert checkpoints.load(runtime, "session-1") == (state if batches else None)
    assert (again.state if again else None) == (state if batches else None)


@given(rows=st.lists(ROWS, max_size=20))
def test_a_state_survives_being_written(rows: list[tuple[str, dict[str, Any]]]) -> None:
    state = history(*rows)

    assert continuity.from_json(continuity.to_json(state)) == state


@pytest.mark.parametrize("damage", (b"", b"{", b'{"log": 1}', b"\x00\xff"), ids=("empty", "cut", "foreign", "no text"))
def test_a_damaged_state_is_made_again_and_no_generation_is_used_twice(damage: bytes, tmp_path: Path) -> None:
    runtime = str(tmp_path)
    state = checkpoints.append(runtime, State("s", "claude"), announced(), at=5.0)
    (tmp_path / "context" / checkpoints.folder(runtime, "s").rpartition("/")[2] / "state.json").write_bytes(damage)

    assert checkpoints.load(runtime, "s") == state
    assert state.generation == 1


def test_a_line_that_was_cut_by_a_kill_costs_only_itself(tmp_path: Path) -> None:
    runtime = str(tmp_path)
    state = checkpoints.append(runtime, State("s", "claude"), announced(), at=5.0)
    log = tmp_path / "context" / checkpoints.folder(runtime, "s").rpartition("/")[2] / "events.jsonl"
    with log.open("ab") as file:
        file.write(b'{"id": "01')

    assert checkpoints.load(runtime, "s") == state
    after = checkpoints.append(runtime, state, [done()], at=6.0)
    assert checkpoints.load(runtime, "s") == after
    assert [event.kind for event in checkpoints.events(runtime, "s")][-1] == continuity.COMPLETED
