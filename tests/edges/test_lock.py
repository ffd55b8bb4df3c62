"""The vault lock: one at a time, no longer than asked, and never on a file that somebody put in its place."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import filelock
import pytest

from vault_mem import lock
from vault_mem.errors import LockBusyError, LockUnusableError

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
HOLD = """
import sys
sys.path.insert(0, sys.argv[1])
from vault_mem import lock
with getattr(lock, sys.argv[3])(sys.argv[2], timeout=5):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "runtime" / "vault.lock")


@pytest.fixture(params=("Locked", "by_library"))
def holder(path: str, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock until its stdin is closed."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(ROOT), path, request.param],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


@pytest.mark.parametrize("timeout", (0.0, 0.05))
def test_a_lock_held_elsewhere_is_busy_after_the_time_given(
    holder: subprocess.Popen[str], path: str, timeout: float
) -> None:
    for kind in (lock.Locked, lock.by_library):
        with pytest.raises(LockBusyError), kind(path, timeout=timeout):
            pass

    assert holder.poll() is None


def test_a_lock_given_up_meanwhile_is_had(holder: subprocess.Popen[str], path: str) -> None:
    threading.Timer(0.05, holder.kill).start()

    with lock.Locked(path, timeout=30):
        assert holder.wait() == -signal.SIGKILL


def test_outside_the_main_thread_the_lock_is_waited_for_all_the_same(holder: subprocess.Popen[str], path: str) -> None:
    said: list[str] = []

    def take() -> None:
        try:
            with lock.Locked(path, timeout=0.05):
                said.append("had")
        except LockBusyError:
            said.append("busy")

    for _ in range(2):
        thread = threading.Thread(target=take)
        thread.start()
        thread.join()
        holder.kill()
        holder.wait()
    assert said == ["busy", "had"]


def test_the_file_stays_and_is_private(path: str) -> None:
    for kind in (lock.Locked, lock.by_library):
        with kind(path, timeout=1):
            pass

        assert os.stat(path).st_mode & 0o777 == 0o600


def test_filelock_of_somebody_else_and_ours_exclude_each_other(path: str) -> None:
    with lock.Locked(path, timeout=1), pytest.raises(filelock.Timeout):
        filelock.FileLock(path, timeout=0).acquire()
    with filelock.FileLock(path, timeout=0), pytest.raises(LockBusyError), lock.Locked(path, timeout=0):
        pass


@pytest.mark.parametrize("kind", (lock.Locked, lock.by_library))
def test_a_link_or_a_pipe_in_place_of_the_file_is_not_locked(
    path: str, tmp_path: Path, kind: type[lock.Locked]
) -> None:
    os.makedirs(os.path.dirname(path))
    os.symlink(tmp_path / "elsewhere", path)

    with pytest.raises(LockUnusableError), kind(path, timeout=0):
        pass

    assert not (tmp_path / "elsewhere").exists()
    os.unlink(path)
    os.mkfifo(path)
    with pytest.raises(LockUnusableError), lock.Locked(path, timeout=0):
        pass


def test_a_lock_on_a_file_that_was_replaced_while_waiting_does_not_count(path: str, tmp_path: Path) -> None:
    os.makedirs(os.path.dirname(path))
    handle = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(handle, fcntl.LOCK_EX)

    def replaced() -> None:
        os.rename(path, tmp_path / "old")
        with open(path, "wb"):
            pass
        os.close(handle)

    threading.Timer(0.05, replaced).start()
    with lock.Locked(path, timeout=30), pytest.raises(LockBusyError), lock.by_library(path, timeout=0):
        pass


def test_the_alarm_of_the_caller_is_given_back_and_still_rings(holder: subprocess.Popen[str], path: str) -> None:
    rung: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, _: rung.append(number))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with pytest.raises(LockBusyError), lock.Locked(path, timeout=0.06):
            pass
        deadline = time.monotonic() + 30
        while not rung and time.monotonic() < deadline:
            signal.sigtimedwait([], 0.01)
        assert rung == [signal.SIGALRM]
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert holder.poll() is None


def test_eight_processes_lose_no_count_and_all_get_their_turn(path: str, tmp_path: Path) -> None:
    counter = tmp_path / "count"
    counter.write_text("0", encoding="utf-8")
    program = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from vault_mem import lock
for _ in range(25):
    with lock.Locked({path!r}, timeout=60):
        with open({str(counter)!r}) as file: number = int(file.read())
        with open({str(counter)!r}, "w") as file: file.write(str(number + 1))
"""
    workers = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(8)]

    assert [worker.wait(timeout=60) for worker in workers] == [0] * 8
    assert counter.read_text(encoding="utf-8") == "200"
