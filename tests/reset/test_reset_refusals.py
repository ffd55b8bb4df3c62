"""Every reason to refuse, asked inside the session's own client: exit 1, the token on standard error and in the log, and no byte typed.

Not made here: check 7 (the size cannot be read although the transcript was scanned a moment before: it would have to vanish between two calls),
and check 38 alone (the person unknown at the last look before Enter; 39, the person who spoke, is asked at the same place and is tested below).
A client that takes a line which arrives during a turn as text of its queue is not among the stand-in's manners.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

IDENTITY = "[user]\n\tname = Test Person\n\temail = person@example.test\n[init]\n\tdefaultBranch = main\n"


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One world in which a clear would pass every check; each test damages it in one place and it is put back."""
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    place = tmp_path_factory.mktemp("refusals")
    home, seat = place / "home", place / "project"
    home.mkdir()
    seat.mkdir()
    (home / ".gitconfig").write_text(IDENTITY)
    root = Path(__file__).resolve().parent.parent.parent
    environ = {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(root),
        "LC_ALL": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    subprocess.run(["git", "init", "-q", str(seat)], env=environ, check=True)
    script = [sys.executable, str(Path(sys.executable).parent / "vault-mem")]
    init = ["init", "--harness", "claude", "--scope", "project"]
    subprocess.run([*script, *init], cwd=seat, env=environ, check=True, capture_output=True, stdin=subprocess.DEVNULL)
    (place / "w").mkdir()
    world = _world_class()(seat, place / "w", environ)
    world.person("Split the parser and keep the tests green.")
    world.answer()
    world.up()
    world.receipt()
    world.saved = place / "saved"
    yield world
    world.tmux("kill-server", check=False)


def _world_class() -> Any:
    import importlib.util

    spec = importlib.util.spec_from_file_location("reset_world", Path(__file__).with_name("conftest.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["reset_world"] = module
    spec.loader.exec_module(module)
    return module.World


@pytest.fixture
def world(ready: Any) -> Iterator[Any]:
    transcript, settings = ready.transcript.read_bytes(), ready.seat / ".claude/settings.json"
    wiring = settings.read_bytes()
    shutil.copytree(ready.runtime, ready.saved)
    yield ready
    for name in ("reset", "sessions", "wakes.jsonl"):
        shutil.rmtree(ready.runtime / name, ignore_errors=True)
        (ready.runtime / name).unlink(missing_ok=True)
        if (ready.saved / name).is_dir():
            shutil.copytree(ready.saved / name, ready.runtime / name)
        elif (ready.saved / name).exists():
            shutil.copy(ready.saved / name, ready.runtime / name)
    shutil.rmtree(ready.saved)
    with ready.transcript.open("r+b") as file:  # the same inode: the receipt is bound to it
        file.truncate(0)
        file.write(transcript)
    settings.write_bytes(wiring)


def receipt(**fields: Any) -> Callable[[Any], None]:
    return lambda world: edit(world.mine / "receipt.json", **fields)


def record(**fields: Any) -> Callable[[Any], None]:
    return lambda world: edit(world.runtime / f"sessions/{world.sid}.json", **fields)


def edit(path: Path, **fields: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def put(name: str, value: Any) -> Callable[[Any], None]:
    def write(world: Any) -> None:
        path = world.reset / name.format(sid=world.sid)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value))

    return write


def unlink(name: str) -> Callable[[Any], None]:
    return lambda world: (world.reset / name.format(sid=world.sid)).unlink()


def unmeasurable(world: Any) -> None:
    rows = world.transcript.read_text().splitlines()
    row = json.loads(rows[1])
    row["message"]["usage"] = {}
    with world.transcript.open("r+") as file:
        file.truncate(0)
        file.write(f"{rows[0]}\n{json.dumps(row)}\n")


def nobody(world: Any) -> None:
    rows = world.transcript.read_text().splitlines()
    with world.transcript.open("r+") as file:
        file.truncate(0)
        file.write(f"{rows[1]}\n")
    receipt(transcript_bytes=0)(world)


def grown(world: Any) -> None:
    with world.transcript.open("a") as file:
        file.write(json.dumps({"type": "progress", "x": "y" * 300_000}) + "\n")


def unwired(world: Any) -> None:
    path = world.seat / ".claude/settings.json"
    value = json.loads(path.read_text())
    value["hooks"]["SessionStart"][0]["matcher"] = "startup"
    path.write_text(json.dumps(value))


def switched_off(world: Any) -> None:
    edit(world.seat / ".claude/settings.json", disableAllHooks=True)


def foreign_wake(world: Any) -> None:
    row = {"seq": 9, "at": time.time(), "session": world.sid, "key": "mail", "kind": "note", "text": "look"}
    (world.runtime / "wakes.jsonl").write_text(json.dumps(row) + "\n")


def decided(world: Any) -> None:
    world.outside("reset", "decision", "open", "k")
    world.outside("reset", "decision", "resolve", "k")


def no_sessions(world: Any) -> None:
    shutil.rmtree(world.runtime / "sessions")


def other_session(world: Any) -> None:
    value = json.loads((world.runtime / f"sessions/{world.sid}.json").read_text())
    (world.runtime / "sessions/other.json").write_text(
        json.dumps({**value, "session": "other", "pid": 1, "started": "x"})
    )


def merging(world: Any) -> None:
    (world.seat / ".git/MERGE_HEAD").write_text("x")


def refused(world: Any, token: str, *words: str, before: str = "") -> list[str]:
    """Ask for a clear inside the client; the log line that came of it."""
    typed = world.bytes
    code, said = world.inside(f"{before} {world.command} reset clear {' '.join(words)}")
    assert code == 1, said
    assert f"REFUSED: {token}:" in said
    assert "nothing was discarded" in said
    outcome, detail = world.log[-1][1:]
    assert outcome == "refused"
    assert f"{token}:" in detail
    world.turn_end()
    world.watch()
    assert world.bytes == typed
    assert world.submitted == [line for line in world.submitted if "/clear" not in line]
    return [outcome, detail]


AUTONOMOUS = (
    pytest.param(no_sessions, "", "no-live-session", id="2 nobody recorded"),
    pytest.param(record(transcript="a/b.jsonl"), "", "record-unusable", id="4 relative transcript"),
    pytest.param(record(transcript="/nowhere/b.jsonl"), "", "record-unusable", id="4 transcript gone"),
    pytest.param(other_session, "CLAUDE_CODE_SESSION_ID=other", "record-mismatch", id="5 the client names another"),
    pytest.param(unmeasurable, "", "cannot-measure", id="6 no usage"),
    pytest.param(unlink("{sid}/receipt.json"), "", "no-receipt", id="8 no receipt"),
    pytest.param(receipt(status="error"), "", "receipt-not-ok", id="9 not ok"),
    pytest.param(receipt(session_id="other"), "", "receipt-session", id="10 session"),
    pytest.param(receipt(harness_pid=1), "", "receipt-process", id="11 process"),
    pytest.param(receipt(harness_start="earlier"), "", "receipt-process", id="11 an earlier process of that number"),
    pytest.param(receipt(transcript_path="/x"), "", "receipt-transcript", id="12 transcript"),
    pytest.param(receipt(written_at="soon"), "", "receipt-time", id="13 time is no number"),
    pytest.param(receipt(written_at=9e10), "", "receipt-future", id="14 from the future"),
    pytest.param(receipt(written_at=1000), "", "receipt-old", id="15 too old"),
    pytest.param(receipt(transcript_bytes="x"), "", "receipt-position", id="16 no position"),
    pytest.param(receipt(transcript_bytes=10**9), "", "transcript-shrunk", id="17 shrunk"),
    pytest.param(receipt(transcript_inode=1), "", "transcript-rewritten", id="17 another file"),
    pytest.param(grown, "", "moved-on", id="18 moved on"),
    pytest.param(receipt(last_human_ts="unknown"), "", "person-unknown", id="19 unknown then"),
    pytest.param(nobody, "", "person-unknown", id="19 unknown now"),
    pytest.param(lambda world: world.person("wait", ago=0), "", "person-spoke", id="20 spoke since"),
    pytest.param(put("away.json", {"at": 1}), "", "away", id="25 away"),
    pytest.param(lambda _: None, "VAULT_MEM_RESET_IDLE_SECS=99999", "person-present", id="26 present"),
    pytest.param(
        lambda _: None, "FM_CONTEXT_CAPTAIN_IDLE_SECS=99999", "person-present", id="26 present, by the seed's name"
    ),
    pytest.param(put("holds/k.json", {"at": 1, "why": "w"}), "", "not-quiet", id="27 a hold"),
    pytest.param(lambda world: world.outside("reset", "decision", "open", "k"), "", "not-quiet", id="27 a decision"),
    pytest.param(foreign_wake, "", "not-quiet", id="27 a wake of something else"),
    pytest.param(unwired, "", "way-back-broken", id="28 matcher"),
    pytest.param(switched_off, "", "way-back-broken", id="28 hooks off"),
    pytest.param(receipt(capsule_id="other"), "", "way-back-broken", id="28 another capsule would be chosen"),
    pytest.param(unlink("beacon.json"), "", "watcher-dead", id="29 no watcher"),
    pytest.param(put("beacon.json", {"at": 1000}), "", "watcher-stale", id="29 watcher stopped"),
    pytest.param(decided, "", "no-delivery", id="30 work is recorded and nobody delivers"),
    pytest.param(record(harness="codex"), "", "client-unsupported", id="31 client"),
    pytest.param(lambda _: None, "env -u TMUX -u TMUX_PANE", "terminal-unknown", id="32 terminal"),
    pytest.param(lambda _: None, "env -u TMUX -u TMUX_PANE ZELLIJ=0", "not-tmux", id="33 not tmux"),
    pytest.param(lambda _: None, "env -u TMUX_PANE", "pane-unknown", id="34 pane unknown"),
    pytest.param(lambda _: None, "TMUX_PANE=%99", "pane-gone", id="35 no such pane"),
    pytest.param(lambda _: None, "TMUX=/nowhere/s,1,0", "pane-unresolved", id="35 no such server"),
    pytest.param(lambda _: None, "TMUX=bad", "pane-address", id="36 address"),
    pytest.param(receipt(capsule_at=1), "", "capsule-too-old", id="capsule before the wake"),
    pytest.param(unlink("{sid}/ordered.json"), "", "no-occasion", id="no wake ordered it"),
    pytest.param(lambda _: None, "VAULT_MEM_CEILING=900000", "below-ceiling", id="below the ceiling"),
    pytest.param(put("{sid}/breaker.json", {"open": True}), "", "breaker-open", id="breaker"),
)


@pytest.mark.parametrize(("damage", "setting", "token"), AUTONOMOUS)
def test_the_autonomous_path_refuses_types_nothing_and_says_so(
    world: Any, damage: Callable[[Any], object], setting: str, token: str
) -> None:
    damage(world)

    _, detail = refused(world, token, before=setting)

    assert "path=" not in detail


def test_all_checks_pass_when_nothing_is_damaged(world: Any) -> None:
    code, said = world.vm("reset", "clear", "--check")

    assert code == 0, said
    assert world.log[-1][1] == "check-passed"


def test_a_missing_runtime_folder_refuses(world: Any) -> None:
    away = world.runtime.with_name("gone")
    world.runtime.rename(away)
    try:
        code, said = world.vm("reset", "clear")
    finally:
        shutil.rmtree(world.runtime, ignore_errors=True)
        away.rename(world.runtime)

    assert code == 1
    assert "no-runtime" in said


def test_a_process_outside_the_session_is_refused(world: Any) -> None:
    typed = world.bytes
    done = world.outside("reset", "clear")

    assert done.returncode == 1
    assert "not-this-session" in done.stderr
    assert world.log[-1][1] == "refused"
    assert world.bytes == typed


def test_a_pane_that_does_not_hold_the_client_is_refused(world: Any) -> None:
    pane = world.tmux("split-window", "-d", "-P", "-F", "#{pane_id}", "-t", world.pane, "cat").strip()
    try:
        refused(world, "pane-not-ours", before=f"TMUX_PANE={pane}")
    finally:
        world.tmux("kill-pane", "-t", pane)


def test_a_pane_whose_program_ended_is_refused(world: Any, eventually: Callable[..., None]) -> None:
    world.tmux("set-option", "-g", "remain-on-exit", "on")
    pane = world.tmux("split-window", "-d", "-P", "-F", "#{pane_id}", "-t", world.pane, "true").strip()
    try:
        eventually(lambda: f"{pane} 1" in world.tmux("list-panes", "-a", "-F", "#{pane_id} #{pane_dead}"))
        refused(world, "pane-gone", before=f"TMUX_PANE={pane}")
    finally:
        world.tmux("set-option", "-g", "remain-on-exit", "off")
        world.tmux("kill-pane", "-t", pane)


def approve(world: Any, *, ago: float = 5, phrase: str = "reset approved 00112233", **fields: Any) -> None:
    """The person typed the phrase, then the receipt was filed."""
    put("{sid}/phrase.json", {"phrase": "reset approved 00112233", "at": 1, "used": ""})(world)
    name = world.person(f"yes, {phrase}", ago=ago)
    rows = world.transcript.read_text().splitlines()
    size, now = world.transcript.stat().st_size, time.time()
    stamp = json.loads(rows[-1])["timestamp"]
    base = {
        "last_human_ts": stamp,
        "last_human_uuid": name,
        "written_at": now,
        "capsule_at": now,
        "transcript_bytes": size - 300,
    }
    receipt(**{**base, **fields})(world)


def reread(world: Any, **fields: Any) -> None:
    """Change the person's last record."""
    lines = world.transcript.read_text().splitlines()
    lines[-1] = json.dumps({**json.loads(lines[-1]), **fields})
    with world.transcript.open("r+") as file:
        file.truncate(0)
        file.write("\n".join(lines) + "\n")


def without_id(world: Any) -> None:
    approve(world, last_human_uuid="")
    reread(world, uuid="")


def without_time(world: Any) -> None:
    approve(world, last_human_ts="whenever")
    reread(world, timestamp="whenever")


APPROVED = (
    pytest.param(without_id, "approval-no-id", id="21 no id"),
    pytest.param(without_time, "approval-no-time", id="22 no time"),
    pytest.param(lambda world: approve(world, written_at=-1e18), "receipt-time", id="23 no date"),
    pytest.param(lambda world: approve(world, written_at=1000), "receipt-before-approval", id="24 before"),
    pytest.param(lambda world: approve(world, capsule_at=1000), "capsule-too-old", id="24 capsule before"),
    pytest.param(lambda world: approve(world, phrase="of course"), "no-approval", id="the phrase is missing"),
    pytest.param(lambda world: (approve(world), put("away.json", {"at": 1})(world)), "away", id="25 away"),
    pytest.param(lambda world: (approve(world), grown(world)), "moved-on", id="18 moved on"),
    pytest.param(lambda world: (approve(world), world.person("stop", ago=0)), "person-spoke", id="20 spoke since"),
    pytest.param(lambda world: (approve(world), put("holds/k.json", {"at": 1})(world)), "not-quiet", id="27 a hold"),
    pytest.param(lambda world: (approve(world), unwired(world)), "way-back-broken", id="28 matcher"),
    pytest.param(lambda world: (approve(world), unlink("beacon.json")(world)), "watcher-dead", id="29 no watcher"),
)


@pytest.mark.parametrize(("damage", "token"), APPROVED)
def test_the_approved_path_refuses_types_nothing_and_says_so(
    world: Any, damage: Callable[[Any], object], token: str
) -> None:
    damage(world)

    _, detail = refused(world, token, "--approved")

    assert detail.startswith("path=captain-approved; ")


def test_an_approved_receipt_may_be_older_than_the_age_bound_and_the_person_present(world: Any) -> None:
    approve(world)

    code, said = world.vm("reset", "clear", "--check", "--approved", VAULT_MEM_RESET_RECEIPT_MAX_AGE="0.0001")

    assert code == 0, said
    assert "approval-record=" in world.log[-1][2]


def test_a_person_who_speaks_between_echo_and_enter_stops_it_and_the_line_is_removed(world: Any) -> None:
    assert world.vm("reset", "clear")[0] == 0
    world.turn_end()
    watch = subprocess.Popen(
        [*world.words, "reset", "watch", "--once"], cwd=world.seat, env=world.environ, stdout=subprocess.DEVNULL
    )
    end = time.monotonic() + 30
    while "/clear" not in world.screen():
        assert time.monotonic() < end
        time.sleep(0.02)
    world.person("no, wait", ago=0)

    assert watch.wait(60) == 0

    assert world.log[-1][1] == "refused"
    assert "person-spoke-again" in world.log[-1][2]
    assert "no, wait" not in world.log[-1][2]
    assert "/clear" not in world.screen()
    assert not [line for line in world.submitted if "/clear" in line]
