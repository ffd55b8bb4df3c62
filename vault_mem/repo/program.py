"""Runs the git program for one answer or one commit: found on PATH, with its own process session, a time limit and nothing of the hook's streams.

`subprocess` costs 9-12 ms of CPU to import; `os.posix_spawn` and two pipes do the same here.
"""

from __future__ import annotations

import errno
import os
import select
import time

from vault_mem.errors import GitRefusedError
from vault_mem.record import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Mapping, Sequence
else:
    import _signal

LIMIT = 10.0
NOTHING: Mapping[str, str] = {}
_GRACE = 0.5
_KEPT = ("GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CEILING_DIRECTORIES")
_SWITCHED_OFF = (
    "core.hooksPath=/dev/null",
    "commit.gpgSign=false",
    "tag.gpgSign=false",
    "gpg.program=false",
    "gpg.ssh.program=false",
    "gpg.x509.program=false",
    "core.fsmonitor=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "core.pager=cat",
    "core.editor=true",
    "core.askPass=true",
)
_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin:/opt/homebrew/bin"


class Finished(NamedTuple):
    """How a git process ended."""

    code: int
    out: bytes
    err: bytes


def hardening() -> tuple[str, ...]:
    """The `-c` arguments of every call: nothing that a configuration names is started."""
    return tuple(argument for setting in _SWITCHED_OFF for argument in ("-c", setting))


def scrubbed(environ: Mapping[str, str], *, worktree: str) -> dict[str, str]:
    """The environment of a git process: no `GIT_*` that leads elsewhere, no prompts, English messages, no search above the work tree."""
    kept = {name: value for name, value in environ.items() if not name.startswith("GIT_") or name in _KEPT}
    for name in ("SSH_ASKPASS", "SSH_ASKPASS_REQUIRE", "LC_MESSAGES", "LANGUAGE"):
        kept.pop(name, None)
    ceilings = [os.path.dirname(os.path.realpath(worktree)), kept.get("GIT_CEILING_DIRECTORIES", "")]
    return kept | {
        "LC_ALL": "C",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_CEILING_DIRECTORIES": os.pathsep.join(part for part in ceilings if part),
    }


def found(environ: Mapping[str, str]) -> str:
    """The absolute path of git on PATH; GitRefusedError `git-missing` when it is not there. Relative folders on PATH are passed over."""
    for folder in environ.get("PATH", _DEFAULT_PATH).split(os.pathsep):
        path = f"{folder}/git"
        if folder.startswith("/") and os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    raise GitRefusedError("git-missing", "no git program in any folder of PATH")


def run(
    arguments: Sequence[str | bytes],
    *,
    worktree: str,
    environ: Mapping[str, str],
    data: bytes = b"",
    extra: Mapping[str, str] = NOTHING,
    limit: float = LIMIT,
) -> Finished:
    """Runs `git <arguments>` in *worktree* with *data* on its stdin and *extra* in its environment.

    GitRefusedError `git-missing`, or `timeout` when it takes longer than *limit* seconds.
    """
    git = found(environ)
    child = Child([git, *hardening(), "-C", worktree, *arguments], {**scrubbed(environ, worktree=worktree), **extra})
    return child.finish(data, limit=limit)


def checked(arguments: Sequence[str | bytes], *, worktree: str, environ: Mapping[str, str], data: bytes = b"") -> bytes:
    """Stdout of a git that has to succeed; GitRefusedError with the reason when it does not."""
    answer = run(arguments, worktree=worktree, environ=environ, data=data)
    if answer.code:
        raise refusal(answer)
    return answer.out


def refusal(answer: Finished) -> GitRefusedError:
    """The refusal that a failed git process stands for, told from the first line it wrote."""
    text = (answer.err or answer.out).decode("utf-8", "replace").strip()
    for sign, reason in _SIGNS:
        if sign in text:
            return GitRefusedError(reason, _first_line(text))
    return GitRefusedError(f"git-failed:{_first_line(text) or f'exit {answer.code}'}")


_SIGNS = (
    ("dubious ownership", "other-owner"),
    ("index.lock'", "index-locked"),
    ("cannot lock ref", "ref-locked"),
    ("Unable to create", "ref-locked"),
    ("No space left", "disk-full"),
    ("Disk quota", "disk-full"),
    ("File too large", "disk-full"),
    ("Read-only file system", "read-only"),
    ("ermission denied", "read-only"),
    ("insufficient permission", "read-only"),
    ("during a merge", "merge-in-progress"),
    ("during a cherry-pick", "cherry-pick-in-progress"),
    ("unmerged files", "merge-in-progress"),
    ("not a git repository", "not-a-repository"),
)


def _first_line(text: str) -> str:
    line = text.split("\n", 1)[0].removeprefix("fatal: ").removeprefix("error: ")
    return "".join(character if character.isprintable() else " " for character in line)[:200].strip()


class Child:
    """A process of its own session with pipes for its three streams."""

    def __init__(self, arguments: Sequence[str | bytes], environ: Mapping[str, str]) -> None:
        theirs_in, self.stdin = _pipe()
        self.stdout, theirs_out = _pipe()
        self.stderr, theirs_err = _pipe()
        try:
            self.pid = _spawned(list(arguments), dict(environ), (theirs_in, theirs_out, theirs_err))
        except OSError as error:
            for handle in (self.stdin, self.stdout, self.stderr):
                os.close(handle)
            raise GitRefusedError("git-missing", str(error)) from error
        finally:
            for handle in (theirs_in, theirs_out, theirs_err):
                os.close(handle)

    def finish(self, data: bytes, *, limit: float) -> Finished:
        """Feeds *data*, collects what comes and waits for the end; the whole session is ended after *limit* seconds."""
        deadline = time.monotonic() + limit
        got: dict[int, list[bytes]] = {self.stdout: [], self.stderr: []}
        code: int | None = None
        try:
            code = self._exchange(data, got, deadline)
        finally:
            for handle in (self.stdin, self.stdout, self.stderr):
                if handle >= 0:
                    os.close(handle)
            if code is None:
                self.end()
        if code is None:
            raise GitRefusedError("timeout")
        return Finished(code, b"".join(got[self.stdout]), b"".join(got[self.stderr]))

    def _exchange(self, data: bytes, got: dict[int, list[bytes]], deadline: float) -> int | None:
        view = memoryview(data)
        os.set_blocking(self.stdin, False)
        if not view:
            self._close_stdin()
        open_ends, code = set(got), None
        while open_ends and (left := deadline - time.monotonic()) > 0:
            writers = [self.stdin] if self.stdin >= 0 else []
            readable, writable, _ = select.select(
                list(open_ends), writers, [], min(left, 0.02 if code is None else 0.0)
            )
            if writable:
                view = self._feed(view)
            for handle in readable:
                part = os.read(handle, 1 << 16)
                got[handle].append(part)
                if not part:
                    open_ends.discard(handle)
            if not readable:
                if code is not None:
                    # The process is gone and its streams are empty: whoever still holds them is not ours to wait for.
                    return code
                code = self.poll()
        while code is None and time.monotonic() < deadline:
            code = self.poll()
            if code is None:
                time.sleep(0.0005)
        return code

    def _feed(self, view: memoryview) -> memoryview:
        try:
            view = view[os.write(self.stdin, view) :]
        except BlockingIOError:
            return view
        except BrokenPipeError:
            view = view[:0]
        if not view:
            self._close_stdin()
        return view

    def _close_stdin(self) -> None:
        os.close(self.stdin)
        self.stdin = -1

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while the process runs."""
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:
            # Somebody set SIGCHLD to be ignored: the kernel has reaped it and kept no code.
            return 0
        return os.waitstatus_to_exitcode(status) if pid else None

    def end(self) -> None:
        """Ends the whole session: politely first, because git then removes its lock files."""
        for number, patience in ((_signal.SIGTERM, _GRACE), (_signal.SIGKILL, 5.0)):
            try:
                os.killpg(self.pid, number)
            except ProcessLookupError:
                pass
            except PermissionError:
                pass
            deadline = time.monotonic() + patience
            while time.monotonic() < deadline:
                if self.poll() is not None:
                    break
                time.sleep(0.005)
            else:
                continue
            break
        # Those it started and left behind, in the same group.
        try:
            os.killpg(self.pid, _signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass


def _pipe() -> tuple[int, int]:
    """A pipe above the standard streams: a hook may be started with those closed."""
    import fcntl

    ends = os.pipe()
    if min(ends) > 2:
        return ends
    raised = (fcntl.fcntl(ends[0], fcntl.F_DUPFD_CLOEXEC, 3), fcntl.fcntl(ends[1], fcntl.F_DUPFD_CLOEXEC, 3))
    os.close(ends[0])
    os.close(ends[1])
    return raised


def _spawned(arguments: list[str | bytes], environ: dict[str, str], streams: tuple[int, int, int]) -> int:
    actions = [(os.POSIX_SPAWN_DUP2, handle, number) for number, handle in enumerate(streams)]
    # Python ignores SIGPIPE, and what is ignored stays so in a child.
    default = [_signal.SIGPIPE, _signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP]
    try:
        return os.posix_spawn(arguments[0], arguments, environ, file_actions=actions, setsid=True, setsigdef=default)
    except (NotImplementedError, OSError) as error:
        if isinstance(error, OSError) and error.errno not in (errno.ENOSYS, errno.ENOTSUP, errno.EINVAL):
            raise
    return os.posix_spawn(arguments[0], arguments, environ, file_actions=actions, setpgroup=0, setsigdef=default)
