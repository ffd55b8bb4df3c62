"""The whole way round with a real tmux: wake, sweep, receipt, clear, new session, hand-over; and the person's phrase."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable


def test_over_the_ceiling_and_quiet_ends_in_a_confirmed_clear_and_the_capsule_is_handed_over(world: Any) -> None:
    world.up()

    assert "RESET" in world.watch()
    world.sweep()
    world.vm("wakes", "drain")
    assert world.vm("reset", "receipt")[0] == 0
    assert world.vm("reset", "clear", "--check")[0] == 0
    assert world.bytes == b""
    assert world.vm("reset", "clear")[0] == 0
    world.watch()
    assert world.bytes == b""  # the turn has not ended
    world.turn_end()
    world.watch()

    assert world.submitted == ["'/clear'"]
    world.watch()
    assert world.outcomes == ["check-passed", "requested", "attempt", "submitted", "confirmed"]
    start = json.loads((world.ctl / "starts").read_text().splitlines()[-1])
    assert start["source"] == "clear"
    assert "Fix the tests of the second module." in start["out"]
    assert f"claude --resume {world.sid}" in start["out"]
    assert not (world.mine / "receipt.json").exists()
    assert (world.mine / "receipt.spent.json").exists()


def test_a_share_of_the_window_that_the_client_named_is_a_ceiling_as_well(world: Any) -> None:
    world.up()
    high = {"VAULT_MEM_CEILING": "900000, 80%"}
    assert world.watch(**high) == ""

    status = {
        "session_id": world.sid,
        "model": {"id": "m"},
        "context_window": {"context_window_size": 450_000, "current_usage": {"input_tokens": 400_003}},
    }
    path = world.ctl / "status.json"
    path.write_text(json.dumps(status))
    assert world.inside(f"{world.command} statusline < {path}")[0] == 0

    assert "400003 tokens is over the ceiling of 360000" in world.watch(**high)
    row = json.loads(world.outside("reset", "status", "--json", **high).stdout)["sessions"][0]
    assert (row["window"], row["percent"], row["ceiling"], row["source"]) == (450_000, 88.9, 360_000, "transcript")
    assert row["measured_at"]


def test_a_person_who_is_there_is_asked_and_their_phrase_alone_opens_the_approved_path(world: Any) -> None:
    world.person("Go on please.", ago=60)
    world.answer(ago=50)
    world.up()

    said = world.watch()
    assert "ASK" in said
    phrase = said.split('"')[1]
    world.person(f"yes: {phrase}", ago=2)
    world.answer(ago=1)
    world.sweep()
    world.vm("wakes", "drain")
    assert world.vm("reset", "receipt")[0] == 0
    code, said = world.vm("reset", "clear")
    assert code == 1
    assert "person-present" in said
    code, said = world.vm("reset", "clear", "--approved")
    assert code == 0, said
    assert "is not something this program can check" in said
    world.turn_end()
    world.watch()
    world.watch()

    assert world.submitted == ["'/clear'"]
    assert world.outcomes[-3:] == ["attempt", "submitted", "confirmed"]
    assert all("path=captain-approved approval-record=" in row[2] for row in world.log[-4:])
    assert "path=" not in world.log[0][2]


@pytest.mark.parametrize(
    "options",
    (
        pytest.param(("--swallow", "1"), id="one Enter is lost"),
        pytest.param(("--loop-ms", "300"), id="a slow loop"),
        pytest.param(("--paste-bytes", "7", "--loop-ms", "100"), id="text and Enter in one read are a paste"),
    ),
)
def test_a_client_that_is_hard_to_type_into_gets_exactly_one_clear(world: Any, options: tuple[str, ...]) -> None:
    world.up(*options)
    world.receipt()
    assert world.vm("reset", "clear")[0] == 0
    world.turn_end()

    world.watch()
    world.watch()

    assert world.submitted == ["'/clear'"]
    assert world.outcomes[-1] == "confirmed"


@pytest.mark.parametrize(
    ("options", "token"),
    (
        pytest.param(("--draft", "please also"), "composer-not-empty", id="half-typed text"),
        pytest.param(("--dialog",), "dialog-open", id="a permission dialog"),
    ),
)
def test_nothing_is_typed_into_a_draft_or_a_dialog(world: Any, options: tuple[str, ...], token: str) -> None:
    world.up(*options)
    world.receipt()
    world.vm("reset", "clear")
    world.turn_end()

    said = world.watch()

    assert token in said
    assert world.bytes == b""
    assert world.submitted == []
    assert "attempt" not in world.outcomes


@pytest.mark.parametrize(
    ("command", "token"),
    (
        pytest.param(("copy-mode", "-t"), "pane-in-mode", id="copy-mode"),
        pytest.param(("clock-mode", "-t"), "pane-in-mode", id="clock-mode"),
        pytest.param(("select-pane", "-d", "-t"), "pane-input-off", id="input switched off"),
    ),
)
def test_nothing_is_typed_into_a_pane_in_a_mode(world: Any, command: tuple[str, ...], token: str) -> None:
    world.up()
    world.receipt()
    world.vm("reset", "clear")
    world.turn_end()
    world.tmux(*command, world.pane)

    said = world.watch()

    assert token in said
    assert world.bytes == b""


def test_nothing_is_typed_while_a_person_reads_back_with_vi_keys(world: Any, eventually: Callable[..., None]) -> None:
    world.up()
    world.tmux("set-option", "-g", "mode-keys", "vi")
    world.receipt()
    world.vm("reset", "clear")
    ours, theirs = pty.openpty()
    words = ["tmux", "-u", "-S", world.socket, "attach-session"]
    environ = {**world.environ, "TERM": "xterm"}
    client = subprocess.Popen(words, env=environ, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    try:
        eventually(lambda: world.tmux("list-clients") != "")
        os.write(ours, b"\x02[")
        eventually(lambda: world.tmux("list-panes", "-F", "#{pane_mode}").strip() == "copy-mode")
        world.turn_end()
        said = world.watch()
        assert "pane-in-mode" in said
        assert (world.bytes, "attempt" in world.outcomes) == (b"", False)

        os.write(ours, b"q")
        eventually(lambda: world.tmux("list-panes", "-F", "#{pane_mode}").strip() == "")
        world.watch()
    finally:
        client.terminate()
        client.wait()
        os.close(ours)
        os.close(theirs)

    assert world.submitted == ["'/clear'"]


def test_nothing_is_typed_where_it_would_go_to_every_pane(world: Any) -> None:
    world.up()
    world.receipt()
    world.vm("reset", "clear")
    world.turn_end()
    world.tmux("split-window", "-d", "-t", world.pane, "cat")
    world.tmux("set-option", "-w", "-t", world.pane, "synchronize-panes", "on")

    assert "pane-synchronized" in world.watch()
    assert world.bytes == b""


def test_lost_enters_leave_nothing_in_the_composer_and_no_success_in_the_log(world: Any) -> None:
    world.up("--swallow", "99")
    world.receipt()
    world.vm("reset", "clear")
    world.turn_end()

    assert "enter-lost" in world.watch()

    assert world.submitted == []
    assert "/clear" not in world.screen()
    assert "submitted" not in world.outcomes
    assert (world.mine / "receipt.json").exists()


def test_text_that_is_not_echoed_is_never_followed_by_enter(world: Any) -> None:
    world.up("--deaf")
    world.receipt()
    world.vm("reset", "clear")
    world.turn_end()

    assert "not-echoed" in world.watch()
    assert b"\r" not in world.bytes
    assert world.outcomes[-1] == "refused"


def test_a_clear_without_a_new_session_is_never_confirmed(world: Any) -> None:
    world.up("--no-clear-event")
    world.receipt()
    world.vm("reset", "clear")
    world.turn_end()
    world.watch()

    said = world.watch(VAULT_MEM_RESET_CONFIRM_SECS="0.000001")

    assert "unconfirmed" in said
    assert "confirmed" not in world.outcomes
    assert (world.mine / "receipt.json").exists()
    code, said = world.vm("reset", "clear")
    assert code == 1
    assert "breaker-open" in said


def test_a_second_request_is_refused_while_the_first_waits(world: Any) -> None:
    world.up()
    world.receipt()
    assert world.vm("reset", "clear")[0] == 0

    code, said = world.vm("reset", "clear")

    assert code == 1
    assert "reset-running" in said
    assert world.log[-1][1] == "refused"


def test_two_watchers_type_one_clear(world: Any, eventually: Callable[..., None]) -> None:
    import subprocess

    world.up()
    world.receipt()
    world.vm("reset", "clear")
    world.turn_end()
    both = [
        subprocess.Popen(
            [*world.words, "reset", "watch", "--once"],
            cwd=world.seat,
            env=world.environ,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(2)
    ]

    assert [each.wait(60) for each in both] == [0, 0]
    eventually(lambda: world.submitted == ["'/clear'"])
    world.watch()
    assert world.submitted == ["'/clear'"]
    assert world.outcomes.count("submitted") == 1


def test_an_unwritable_log_means_nothing_is_typed(world: Any) -> None:
    world.up()
    world.receipt()
    (world.reset / "reset.log").unlink(missing_ok=True)
    (world.reset / "reset.log").mkdir()

    code, said = world.vm("reset", "clear")

    assert code == 1
    assert "log-unwritable" in said
    assert world.bytes == b""


def test_a_watcher_killed_after_enter_leaves_the_confirmation_to_the_next_one(
    world: Any, eventually: Callable[..., None]
) -> None:
    import subprocess

    world.up()
    world.receipt()
    world.vm("reset", "clear")
    world.turn_end()
    watch = subprocess.Popen(
        [*world.words, "reset", "watch", "--once"], cwd=world.seat, env=world.environ, stdout=subprocess.DEVNULL
    )
    eventually(lambda: world.submitted == ["'/clear'"])
    watch.kill()
    watch.wait()
    eventually(lambda: '"clear"' in (world.ctl / "starts").read_text())

    world.watch()
    world.watch()

    assert world.submitted == ["'/clear'"]
    assert world.outcomes[-1] == "confirmed"


def test_the_loop_wakes_an_idle_session_and_the_fresh_one_once(world: Any, eventually: Callable[..., None]) -> None:
    import subprocess

    world.up()
    loop = subprocess.Popen(
        [*world.words, "reset", "watch"], cwd=world.seat, env=world.environ, stdout=subprocess.DEVNULL
    )
    try:
        eventually(lambda: world.submitted == ["'1 wakes pending: run vault-mem wakes drain'"])
        world.sweep()
        world.vm("wakes", "drain")
        assert world.vm("reset", "receipt")[0] == 0
        assert world.vm("reset", "clear")[0] == 0
        world.turn_end()
        eventually(lambda: len(world.submitted) == 3)
    finally:
        loop.kill()
        loop.wait()

    assert world.submitted[1:] == ["'/clear'", "'0 wakes pending: run vault-mem wakes drain'"]


def test_the_record_of_a_session_names_its_pane_so_that_no_process_has_to_be_looked_into(world: Any) -> None:
    from vault_mem import receipts
    from vault_mem.reset import watch

    world.up()
    record = receipts.load_session(str(world.runtime), world.sid)
    assert record is not None
    place = watch._pane(record._replace(pid=0))

    assert place is not None
    assert (place.socket, place.pane) == (world.socket, world.pane)
    assert watch._pane(record._replace(pid=0, tmux="", pane="")) is None
