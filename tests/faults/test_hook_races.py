"""Many sessions in one vault while others start, look, fetch and retire: every turn is in history, and nothing is left lying."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.faults.conftest import Client

    Git = Callable[..., str]

ROOT = Path(__file__).resolve().parents[2]
SESSIONS = 8
ACCEPTED = {"saved", "spooled", "no-change", "deferred-lock", "git-refused:index-locked"}
TURNS = int(os.environ.get("VAULT_MEM_TEST_TURNS", "12"))
RETIRED = """
import os, sys, time
root, project = sys.argv[1:3]
sys.path.insert(0, root)
from vault_mem import lock
from vault_mem.capsule import lineage
from vault_mem.vault import commits, store
seat = store.opened(explicit=project, environ=os.environ, cwd=project)
for name in sys.argv[3:]:
    with lock.Locked(seat.lock, timeout=60):
        os.unlink(os.path.join(seat.memory, name))
        commits.keep(seat, name, None, lineage.Event(id=os.path.basename(name)[:-3], event=lineage.RETIRE, at=time.time()))
    time.sleep(0.05)
"""


def _old_capsules(client: Client) -> list[str]:
    """Capsules of earlier sessions, to be retired meanwhile."""
    for number in range(SESSIONS):
        other = client.sibling()
        other.prompt(f"An older request, number {number}.")
        assert other.stop() == "saved"
    return sorted(path.relative_to(client.vault).as_posix() for path in client.vault.glob("capsules/*/*.md"))


def test_every_turn_of_eight_sessions_is_in_history_while_others_look_fetch_and_retire(
    client: Client, git: Git, tmp_path: Path, history: Callable[[Client], str]
) -> None:
    old = _old_capsules(client)
    git(tmp_path, "clone", "-q", str(client.vault), "copy")
    before = int(git(client.vault, "rev-list", "--count", "HEAD"))
    sessions = [client.sibling() for _ in range(SESSIONS)]
    outcomes: list[tuple[str, float]] = []
    wanted: list[str] = []
    failures: list[str] = []
    over = threading.Event()

    def works(number: int, session: Client) -> None:
        for turn in range(TURNS):
            text = f"Request {turn:04d} of session {number}, please."
            wanted.append(text)
            session.prompt(text)
            began = time.monotonic()
            outcomes.append((session.stop(), time.monotonic() - began))

    def looks(action: Callable[[], object]) -> None:
        while not over.is_set():
            try:
                action()
            except Exception as error:  # noqa: BLE001 - told in the main thread
                failures.append(repr(error))
            over.wait(0.1)

    def peeks() -> None:
        done = subprocess.run(
            [sys.executable, "-m", "vault_mem", "resume", "--peek"],
            cwd=client.project, env=client.environ, capture_output=True, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode in (0, 4), done.stderr

    actions: list[Callable[[], object]] = [
        lambda: client.sibling().start("startup"),
        peeks,
        lambda: git(tmp_path / "copy", "fetch", "-q"),
        lambda: git(client.vault, "status", "--porcelain"),
    ]
    others = [threading.Thread(target=looks, args=(action,)) for action in actions]
    workers = [threading.Thread(target=works, args=pair) for pair in enumerate(sessions)]
    with subprocess.Popen(
        [sys.executable, "-c", RETIRED, str(ROOT), str(client.project), *old], env=client.environ, stderr=subprocess.PIPE
    ) as retiring:  # fmt: skip
        for thread in (*others, *workers):
            thread.start()
        for thread in workers:
            thread.join()
        over.set()
        for thread in others:
            thread.join()
        assert retiring.communicate(timeout=120)[1] == b""
    for session in sessions:
        assert session.stop() in ("saved", "no-change")

    waits = sorted(seconds for _, seconds in outcomes)
    sys.stdout.write(
        f"{len(outcomes)} saves, p50 {waits[len(waits) // 2]:.3f} s, p99 {waits[len(waits) * 99 // 100]:.3f} s\n"
    )
    assert failures == []
    # Nothing to keep without the lock: a start had swept the turn up already.
    assert {token for token, _ in outcomes} <= ACCEPTED
    added = history(client)
    assert [text for text in wanted if text not in added] == []
    assert added.count("capsule: retire") == len(old)
    assert git(client.vault, "rev-list", "--merges", "HEAD") == ""
    count = int(git(client.vault, "rev-list", "--count", "HEAD")) - before
    assert count <= SESSIONS * TURNS + len(old) + SESSIONS
    assert git(client.vault, "fsck", "--strict", "--no-dangling") == ""
    assert client.leftovers() == []
    assert git(client.vault, "status", "--porcelain") == ""


def test_the_same_hook_registered_twice_makes_one_commit_a_turn(client: Client, git: Git) -> None:
    for turn in range(6):
        client.prompt(f"Request {turn:04d} of the day, please.")
        both = [client.started("hook", "stop", "--explain") for _ in range(2)]
        tokens = sorted(client.token(process.communicate(timeout=60)[1]) for process in both)
        assert tokens == ["no-change", "saved"]

    subjects = git(client.vault, "log", "--format=%s").splitlines()
    assert len([subject for subject in subjects if "autosave" in subject]) == 6
    assert len(list(client.vault.glob("capsules/*/*.md"))) == 1


def test_two_clears_at_once_get_two_answers(client: Client, git: Git) -> None:
    client.prompt("Split the parser and keep the tests green.")
    client.stop()
    pair = [client.sibling() for _ in range(2)]
    started = [
        one.started("resume", payload=one.payload(hook_event_name="SessionStart", source="clear")) for one in pair
    ]
    told = [process.communicate(timeout=60)[0].decode() for process in started]

    loud = [text for text in told if "may already have been delivered" in text]
    silent = [text for text in told if "Split the parser" in text and text not in loud]
    assert len(silent) == 1
    assert git(client.vault, "fsck", "--strict", "--no-dangling") == ""
