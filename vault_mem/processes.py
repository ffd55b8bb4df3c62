"""Other processes as the system shows them, and signals that have to wait. Linux reads `/proc`; elsewhere one `ps` is asked."""

from __future__ import annotations

import os
import time

from vault_mem.record import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from types import FrameType, TracebackType
    from typing import Any, Self
else:
    # The C module itself: `signal` wraps it in enums for 3 ms of CPU.
    import _signal

_ZOMBIE = ("Z", "X", "x")
_DEEPEST = 64


class Process(NamedTuple):
    """A live process; *start* tells it from a later one with the same number."""

    pid: int
    start: str
    name: str
    parent: int


def look(pid: int) -> Process | None:
    """The live process with this number; None when there is none, or none that can be seen."""
    if pid <= 0:
        return None
    if not os.path.exists("/proc/self/stat"):
        return _from_ps(pid)
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            text = file.read(4096).decode("utf-8", "replace")
    except OSError:
        return None
    # The name stands in parentheses and may hold spaces and parentheses itself.
    name, _, rest = text[text.find("(") + 1 :].rpartition(")")
    fields = rest.split()
    if len(fields) < 20 or fields[0] in _ZOMBIE:
        return None
    return Process(pid, f"{_boot()}{fields[19]}", name, int(fields[1]))


def start_time(pid: int) -> str | None:
    """What tells this process from another with the same number; None when it is gone or cannot be seen."""
    found = look(pid)
    return found.start if found else None


def alive(pid: int, start: str) -> bool:
    """Whether the process that was *pid* and began at *start* still runs; one that exists but cannot be read is alive."""
    if pid <= 0:
        return False
    found = look(pid)
    if found is not None:
        return not start or found.start == start
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    # It is there and `/proc` does not show it as running: it has ended and its parent has not looked yet.
    return not os.path.exists("/proc/self/stat")


def ancestors(pid: int) -> tuple[Process, ...]:
    """The parent of *pid*, its parent, and so on; nearest first."""
    found: list[Process] = []
    seen = {pid}
    current = look(pid)
    while current and current.parent not in seen and len(found) < _DEEPEST:
        seen.add(current.parent)
        current = look(current.parent)
        if current:
            found.append(current)
    return tuple(found)


def _boot() -> str:
    """A prefix naming this boot of the machine: process numbers and ticks repeat after the next one."""
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb", buffering=0) as file:
            return file.read(8).decode("ascii", "replace") + "-"
    except OSError:
        return ""


def _from_ps(pid: int) -> Process | None:
    import subprocess

    try:
        answer = subprocess.run(
            ["/bin/ps", "-o", "stat=,ppid=,lstart=,comm=", "-p", str(pid)],
            env={"LC_ALL": "C", "TZ": "UTC"},
            capture_output=True,
            check=False,
            timeout=2,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    fields = answer.stdout.decode("utf-8", "replace").split(None, 7)
    if len(fields) < 8 or fields[0][0] in _ZOMBIE:
        return None
    return Process(pid, "-".join(fields[2:7]), os.path.basename(fields[7].strip()), int(fields[1]))


class Deferred:
    """Holds SIGTERM, SIGHUP and SIGINT back while the body runs and delivers them afterwards, or *limit* seconds after the first came.

    Outside the main thread Python delivers no signals, and nothing is held back.
    """

    def __init__(self, *, limit: float = 1.0) -> None:
        self.limit = limit
        self.waiting: list[int] = []
        self._before: dict[int, Any] = {}
        self._timer: tuple[float, float] = (0.0, 0.0)
        self._armed_at = 0.0

    def __enter__(self) -> Self:
        names = ("SIGTERM", "SIGHUP", "SIGINT")
        try:
            for number in [getattr(_signal, name) for name in names if hasattr(_signal, name)]:
                self._before[number] = _signal.signal(number, self._note)
        except ValueError:
            self._before = {}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release()

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if not self.waiting and hasattr(_signal, "setitimer"):
            self._before[_signal.SIGALRM] = _signal.signal(_signal.SIGALRM, self._late)
            self._timer = _signal.setitimer(_signal.ITIMER_REAL, self.limit)
            self._armed_at = time.monotonic()
        if number not in self.waiting:
            self.waiting.append(number)

    def _late(self, _number: int, _frame: FrameType | None) -> None:
        self._release()

    def _release(self) -> None:
        before, self._before = self._before, {}
        waiting, self.waiting = self.waiting, []
        if waiting and hasattr(_signal, "setitimer"):
            left, interval = self._timer
            # A timer that ran before goes on; one that would have fired meanwhile fires at once.
            left = max(left - (time.monotonic() - self._armed_at), 0.001) if left else 0.0
            _signal.setitimer(_signal.ITIMER_REAL, left, interval)
        for number, handler in before.items():
            # None: the handler was not set from Python and cannot be put back from here.
            _signal.signal(number, handler if handler is not None else _signal.SIG_DFL)
        for number in waiting:
            os.kill(os.getpid(), number)
