"""Which processes live, who started whom, and signals that wait until the work is done."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from vault_mem import processes

ROOT = Path(__file__).resolve().parents[2]


def test_this_process_is_alive_and_has_the_parent_it_has() -> None:
    me = processes.look(os.getpid())

    assert me is not None
    assert processes.alive(me.pid, me.start)
    assert me.parent == os.getppid()
    assert me.start == processes.start_time(os.getpid())


def test_ancestors_begin_with_the_parent_and_end() -> None:
    line = processes.ancestors(os.getpid())

    assert line[0].pid == os.getppid()
    assert os.getpid() not in [process.pid for process in line]
    assert len({process.pid for process in line}) == len(line)


def test_a_process_that_ended_is_dead_even_before_its_parent_looks() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        start = processes.start_time(child.pid)
        assert start is not None
        assert processes.alive(child.pid, start)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)

        assert not processes.alive(child.pid, start)
        assert processes.start_time(child.pid) is None


def test_another_process_with_the_same_number_is_not_the_one_that_was() -> None:
    assert not processes.alive(os.getpid(), "an earlier one")


@pytest.mark.parametrize("pid", (0, -1, 2**22 + 5, 2**70))
def test_a_number_no_process_has_is_dead(pid: int) -> None:
    assert not processes.alive(pid, "x")
    assert processes.look(pid) is None


def test_a_name_with_spaces_and_parentheses_is_read_whole(tmp_path: Path) -> None:
    program = tmp_path / "a) b (c"
    program.symlink_to(sys.executable)
    with subprocess.Popen(
        [program, "-c", "print(flush=True); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        found = processes.look(child.pid)
        child.kill()

    assert found is not None
    assert (found.name, found.parent) == ("a) b (c", os.getpid())


@pytest.mark.parametrize("number", (signal.SIGTERM, signal.SIGHUP, signal.SIGINT))
def test_a_signal_comes_after_the_work_and_only_once(number: int) -> None:
    came: list[int] = []
    before = signal.signal(number, lambda got, _: came.append(got))
    try:
        with processes.Deferred():
            os.kill(os.getpid(), number)
            os.kill(os.getpid(), number)
            during = list(came)

        assert (during, came) == ([], [number])
        os.kill(os.getpid(), number)
        assert came == [number, number]
    finally:
        signal.signal(number, before)


def test_work_that_takes_too_long_is_interrupted() -> None:
    def work() -> None:
        with processes.Deferred(limit=0.01):
            os.kill(os.getpid(), signal.SIGINT)
            while True:
                signal.sigtimedwait([], 0.005)

    with pytest.raises(KeyboardInterrupt):
        work()

    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


def test_an_error_in_the_work_still_gives_the_handlers_back() -> None:
    with pytest.raises(ZeroDivisionError), processes.Deferred():
        raise ZeroDivisionError

    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_process_asked_to_end_ends_after_its_work(tmp_path: Path) -> None:
    program = f"""
import os, signal, sys
sys.path.insert(0, {str(ROOT)!r})
from vault_mem import processes
with processes.Deferred():
    os.kill(os.getpid(), signal.SIGTERM)
    open({str(tmp_path / "done")!r}, "w").close()
print("never")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)

    assert (done.returncode, done.stdout) == (-signal.SIGTERM, b"")
    assert (tmp_path / "done").exists()
