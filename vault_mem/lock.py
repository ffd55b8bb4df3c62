"""One lock file per vault, taken with a blocking `flock` under a timer.

Polling starves whoever comes late (p99 of 8 waiting processes 0.9 s against 0.25 s, docs/explanation/performance.md), and `filelock` costs
40 ms to import. Both take the same kernel lock on the same file, so a cold command may use either. The file is never unlinked.
"""

from __future__ import annotations

import os
import stat
import time

from vault_mem.errors import LockBusyError, LockUnusableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import fcntl
    import signal as _signal
    from types import FrameType, TracebackType
    from typing import Any, Self

    HAS_FLOCK: bool
else:
    import _signal

    try:
        import fcntl
    except ImportError:  # no flock on this system: filelock has another way
        fcntl = None
    HAS_FLOCK = fcntl is not None

_POLL = 0.005
# The timer repeats: an alarm between the interpreter's last check and the system call would otherwise be lost and the call never end.
_REPEAT = 0.02
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


class Locked:
    """Holds the lock file *path* while the body runs; LockBusyError when it is not had within *timeout* seconds."""

    def __init__(self, path: str, *, timeout: float) -> None:
        self.path = path
        self.timeout = timeout
        self._handle = -1
        self._library: Any = None

    def __enter__(self) -> Self:
        if not HAS_FLOCK:
            self._library = by_library(self.path, timeout=self.timeout)
            self._library.__enter__()
            return self
        deadline = time.monotonic() + self.timeout
        while True:
            handle = _opened(self.path)
            try:
                _take(handle, deadline, self.path)
                current = _is_current(handle, self.path)
            except BaseException:
                os.close(handle)
                raise
            if current:
                self._handle = handle
                return self
            # Somebody put another file in place while we waited: ours locks nothing anybody else looks at.
            os.close(handle)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._library is not None:
            self._library.__exit__(kind, error, trace)
            return
        handle, self._handle = self._handle, -1
        os.close(handle)


class by_library:  # noqa: N801 - used like a function: `with by_library(path, timeout=5):`
    """The same lock through `filelock`, for systems without `flock` and for commands that wait long; interoperates with `Locked`."""

    def __init__(self, path: str, *, timeout: float) -> None:
        import inspect

        import filelock  # noqa: TID251 - this module is its owner

        os.makedirs(os.path.dirname(path) or ".", mode=0o700, exist_ok=True)
        if os.path.islink(path):
            raise LockUnusableError(path, "a link stands in its place")
        # Newer versions unlink the file on release unless told not to; older ones do not know the argument and never unlink.
        known = inspect.signature(filelock.FileLock.__init__).parameters
        extra: dict[str, Any] = {"preserve_lock_file": True} if "preserve_lock_file" in known else {}
        self.path = path
        self._busy: type[BaseException] = filelock.Timeout
        self._lock: Any = filelock.FileLock(path, timeout=timeout, mode=0o600, **extra)

    def __enter__(self) -> Self:
        try:
            self._lock.acquire()
        except self._busy as error:
            raise LockBusyError(self.path) from error
        except OSError as error:
            raise LockUnusableError(self.path, str(error)) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()


def _opened(path: str) -> int:
    try:
        try:
            handle = os.open(path, _FLAGS, 0o600)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            handle = os.open(path, _FLAGS, 0o600)
    except OSError as error:
        raise LockUnusableError(path, error.strerror or "cannot be opened") from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise LockUnusableError(path, "not a regular file")
    return handle


def _take(handle: int, deadline: float, path: str) -> None:
    if _free(handle, path):
        return
    left = deadline - time.monotonic()
    if left <= 0:
        raise LockBusyError(path)
    try:
        taken = _waited(handle, left)
    except ValueError:
        # Not the main thread: no signal of ours would reach the waiting call.
        taken = _polled(handle, deadline, path)
    except OSError as error:
        raise LockUnusableError(path, error.strerror or "flock failed") from error
    if not taken:
        raise LockBusyError(path)


def _free(handle: int, path: str) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise LockUnusableError(path, error.strerror or "flock failed") from error
    return True


def _polled(handle: int, deadline: float, path: str) -> bool:
    while not _free(handle, path):
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(_POLL, left))
    return True


def _is_current(handle: int, path: str) -> bool:
    held = os.fstat(handle)
    try:
        there = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return (held.st_dev, held.st_ino) == (there.st_dev, there.st_ino)


def _waited(handle: int, seconds: float) -> bool:
    """Whether the blocking call got the lock within *seconds*; ValueError outside the main thread."""
    alarm = _Alarm()
    before = _signal.signal(_signal.SIGALRM, alarm.ring)
    began = time.monotonic()
    left, interval = _signal.setitimer(_signal.ITIMER_REAL, seconds, _REPEAT)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        alarm.armed = False
    except _TimeIsUpError:
        return False
    finally:
        alarm.armed = False
        # A timer that ran before goes on; one that would have fired meanwhile fires at once.
        left = max(left - (time.monotonic() - began), 0.001) if left else 0.0
        _signal.setitimer(_signal.ITIMER_REAL, 0.0)
        _signal.signal(_signal.SIGALRM, before if before is not None else _signal.SIG_DFL)
        _signal.setitimer(_signal.ITIMER_REAL, left, interval)
    return True


class _TimeIsUpError(Exception):
    """Raised by our own alarm inside the waiting call."""


class _Alarm:
    """A handler that interrupts once, and only while somebody waits."""

    armed = True

    def ring(self, _number: int, _frame: FrameType | None) -> None:
        if self.armed:
            self.armed = False
            raise _TimeIsUpError
