"""The whole hook program killed, at every system call that touches the disk and at any time: the next one goes on without repair."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.faults.conftest import Client

    Git = Callable[..., str]

KILLS = int(os.environ.get("VAULT_MEM_TEST_KILLS", "40"))
# Every system call in a long run, every third one of a kind otherwise.
EVERY = 1 if KILLS >= 1000 else 3
# All that change a disk but for opening: the state after a file was made empty is the one before its first write.
CALLS = (
    "write", "rename", "renameat2", "link", "linkat", "unlink", "unlinkat", "mkdir", "fsync", "fdatasync",
    "utimensat", "ftruncate", "flock",
)  # fmt: skip

STEPS = [(call, step) for call in CALLS for step in range(1, 100, EVERY)]


def _strace_works() -> bool:
    if shutil.which("strace") is None:
        return False
    asked = ["strace", "-qq", "-o", "/dev/null", "-e", "trace=write", "-e", "inject=write:signal=KILL:when=1", "echo"]
    done = subprocess.run(asked, capture_output=True, check=False)
    return done.returncode in (-9, 137) and done.stdout == b""


needs_strace = pytest.mark.skipif(not _strace_works(), reason="strace cannot inject here: kills at every system call")


def _killed(client: Client, call: str, step: int, *arguments: str, payload: bytes) -> tuple[bool, bytes]:
    """Whether a hook was killed at its *step*-th *call*, and its standard output."""
    before = (
        "strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={step}",
    )  # fmt: skip
    process = client.started(*arguments, payload=payload, before=before)
    out, err = process.communicate(timeout=60)
    assert process.returncode in (0, -9, 137), err
    return process.returncode != 0, out


def _whole(client: Client, git: Git) -> None:
    """No half file, no lock, no debt; history and tree agree."""
    assert client.leftovers() == []
    assert git(client.vault, "status", "--porcelain") == ""


@needs_strace
@pytest.mark.parametrize("first", (True, False), ids=("a new capsule", "one more turn"))
def test_a_stop_killed_at_any_system_call_is_made_good_by_the_next(
    first: bool, client: Client, git: Git, history: Callable[[Client], str]
) -> None:
    wanted, ended = [], set[str]()
    for call, step in STEPS:
        if call in ended:
            continue
        if first:
            client = client.sibling()
        text = f"Request {call} {step} of the day, please."
        wanted.append(text)
        client.prompt(text)

        killed, _ = _killed(client, call, step, "hook", "stop", payload=client.payload(hook_event_name="Stop"))

        assert client.stop() in ("saved", "no-change")
        _whole(client, git)
        if not killed:
            ended.add(call)

    assert len(wanted) > 40 // EVERY
    assert ended == set(CALLS)
    added = history(client)
    assert [text for text in wanted if text not in added] == []
    assert git(client.vault, "fsck", "--strict", "--no-dangling") == ""
    client.start()
    assert client.half_files() == []


@needs_strace
def test_what_a_killed_stop_left_is_ours_when_only_vouched_text_is_handed_out(client: Client) -> None:
    client.environ["VAULT_MEM_INTEGRITY"] = "refuse"
    ended = set[str]()
    for call, step in STEPS:
        if call in ended:
            continue
        client = client.sibling()
        client.prompt(f"Request {call} {step} of the day, please.")
        assert client.stop() == "saved"
        client.prompt(f"One more thing about {call} {step}.")

        killed, _ = _killed(client, call, step, "hook", "stop", payload=client.payload(hook_event_name="Stop"))

        text = client.sibling().start("clear")
        assert f"Request {call} {step} of the day" in text
        assert "INTEGRITY" not in text
        if not killed:
            ended.add(call)
    assert ended == set(CALLS)


@needs_strace
def test_an_embedded_stop_killed_at_any_system_call_leaves_the_person_alone(guest: Client, git: Git) -> None:
    ref, ended, wanted = "refs/vault-mem/vault-memory", set[str](), []
    index = (guest.project / ".git/index").read_bytes()
    branch = git(guest.project, "rev-parse", "HEAD")
    for call, step in STEPS:
        if call in ended:
            continue
        text = f"Request {call} {step} of the day, please."
        wanted.append(text)
        guest.prompt(text)

        killed, _ = _killed(guest, call, step, "hook", "stop", payload=guest.payload(hook_event_name="Stop"))

        assert (guest.project / ".git/index").read_bytes() == index
        assert git(guest.project, "rev-parse", "HEAD") == branch
        assert not [path for path in guest.leftovers() if path.endswith(("index.lock", "HEAD.lock"))]
        assert guest.stop() in ("saved", "no-change")
        assert guest.leftovers() == []
        if not killed:
            ended.add(call)

    added = git(guest.project, "log", "-p", ref)
    assert [text for text in wanted if text not in added] == []
    assert git(guest.project, "fsck", "--strict", "--no-dangling") == ""
    (capsule,) = guest.vault.glob("capsules/*/*.md")
    name = capsule.relative_to(guest.vault).as_posix()
    assert git(guest.project, "show", f"{ref}:{name}") + "\n" == capsule.read_text("utf-8")


@needs_strace
def test_a_delivery_killed_at_any_system_call_is_never_repeated_in_silence(client: Client, git: Git) -> None:
    ended, printed = set[str](), 0
    older = client.sibling()
    older.prompt("Something older that stays active all the while.")
    assert older.stop() == "saved"
    for call, step in STEPS:
        if call in ended:
            continue
        writer, first, second, third = (client.sibling() for _ in range(4))
        text = f"Request {call} {step} of the day, please."
        writer.prompt(text)
        assert writer.stop() == "saved"

        given = first.payload(hook_event_name="SessionStart", source="clear")
        killed, out = _killed(first, call, step, "resume", payload=given)
        # The one that finds the interruption is killed as well, every other time.
        given = second.payload(hook_event_name="SessionStart", source="clear")
        out += _killed(second, call, step, "resume", payload=given)[1] if killed and step % 2 else b""
        again = third.start()

        assert text in again, (call, step)
        if text.encode() in out:
            printed += 1
            assert "may already have been delivered" in again, (call, step)
        _whole(client, git)
        if not killed:
            ended.add(call)
            third.prompt(f"I have read it and go on from {call}.")
            assert third.stop() == "saved"
            assert f"I have read it and go on from {call}." in client.sibling().start()

    assert printed >= len(CALLS)
    assert git(client.vault, "fsck", "--strict", "--no-dangling") == ""


def test_a_hook_killed_at_any_time_loses_nothing_that_was_acknowledged(
    client: Client, git: Git, history: Callable[[Client], str]
) -> None:
    chance = random.Random(KILLS)
    sessions = [client.sibling() for _ in range(3)]
    client.prompt("The first request of the day.")
    began = time.monotonic()
    assert client.stop() == "saved"
    whole = time.monotonic() - began
    wanted, killed = [], 0
    for number in range(KILLS):
        session = chance.choice(sessions)
        text = f"Request {number:05d} of the day, please."
        wanted.append(text)
        session.prompt(text)
        process = session.started("hook", "stop", "--explain")
        try:
            process.wait(timeout=chance.random() * whole)
        except subprocess.TimeoutExpired:
            process.kill()
        process.communicate(timeout=60)
        killed += process.returncode == -9
        if number % 20 == 19:
            assert session.stop() in ("saved", "no-change")
            assert git(client.vault, "fsck", "--strict", "--no-dangling") == ""
    for session in sessions:
        assert session.stop() in ("saved", "no-change")

    assert killed > KILLS // 4
    _whole(client, git)
    added = history(client)
    assert [text for text in wanted if text not in added] == []
    assert git(client.vault, "fsck", "--strict", "--no-dangling") == ""
