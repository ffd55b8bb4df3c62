"""Signals in any order, doubled, missing: what holds whatever the clients send."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vault_mem import checkpoints
from vault_mem.context import cycle
from vault_mem.session import continuity
from vault_mem.session.event import HookEvent
from vault_mem.vault import store as seats

if TYPE_CHECKING:
    from pathlib import Path

TURNS = st.sampled_from(("", "t1", "t2"))
SIGNALS = st.lists(
    st.tuples(
        st.sampled_from(("pre", "post", "start", "tool", "prompt", "stop", "manual")),
        TURNS,
        st.sampled_from((0.1, 5.0, 90.0, 7200.0)),
    ),
    max_size=14,
)


@given(signals=SIGNALS, harness=st.sampled_from(("claude", "codex")))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_comes_is_told_once_and_kept_as_its_events_say(
    signals: list[tuple[str, str, float]], harness: str, seat: Path, environ: dict[str, str]
) -> None:
    store = seats.opened(explicit="", environ={**environ, "VAULT_MEM_DURABLE": "0"}, cwd=str(seat))
    session = uuid.uuid4().hex
    told: list[str] = []
    generations = [0]
    now = 1_796_000_000.0

    for name, turn, pause in signals:
        now += pause
        event = HookEvent(session_id=session, cwd=str(seat), harness=harness, turn=turn, trigger="auto")
        match name:
            case "pre":
                assert cycle.announce(event, store, now=now).token in ("checkpointed", "checkpoint-reused")
            case "post":
                cycle.complete(event, store, now=now, save=lambda: "saved")
            case "start":
                cycle.begun(event, store, now=now, save=lambda: "saved", say=lambda text, _: told.append(text))
            case "manual":
                cycle.snapshot(store, cycle.subject_of(event, store), reason=continuity.MANUAL, now=now)
            case _:
                channel = {"tool": cycle.TOOL, "prompt": cycle.PROMPT, "stop": cycle.STOP}[name]
                before = len(told)
                cycle.follow(event, store, channel, now=now, say=lambda text, _: told.append(text))
                assert name != "stop" or len(told) == before
        state = checkpoints.load(store.runtime, session)
        generations.append(state.generation if state is not None else 0)

    marks = [text.partition("(cycle ")[2].partition(")")[0] for text in told]
    assert len(marks) == len(set(marks))
    assert generations == sorted(generations)
    directory = checkpoints.folder(store.runtime, session)
    kept, again = checkpoints.kept(directory), checkpoints.rebuilt(directory)
    assert (kept.state if kept else None) == (again.state if again else None)
    assert checkpoints.generations(directory) == tuple(range(1, generations[-1] + 1))
    completed = {
        str(event.data["cycle"])
        for event in checkpoints.events(store.runtime, session)
        if event.kind == continuity.COMPLETED
    }
    assert set(marks) <= completed
