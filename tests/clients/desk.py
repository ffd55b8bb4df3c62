"""A person's desk for a test: a terminal in a private tmux, a clean environment, waiting.

Nothing here waits by the clock: every wait names what has to hold and fails when it does not hold in time.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.clients.loopback import Loopback

KEPT = ("HOME", "PATH", "PYTHONPATH", "TZ", "USER", "LOGNAME", "SHELL")
PATIENCE = 60.0
KEY = "sk-test-fake"
GLYPHS = "\u276f\u203a"


def until(holds: Callable[[], Any], what: str | Callable[[], str], *, seconds: float = PATIENCE) -> Any:
    """The first true answer of *holds*; the test fails with *what* when there is none in time."""
    end = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < end, (
            f"in {seconds:.0f} s it did not happen: {what if isinstance(what, str) else what()}"
        )
        time.sleep(0.03)
    return found


def rows(path: Path) -> list[dict[str, Any]]:
    """The complete lines of a JSONL file that may be growing; none where there is no file yet."""
    if not path.exists():
        return []
    whole = path.read_bytes().rpartition(b"\n")[0]
    return [json.loads(line) for line in whole.splitlines() if line.strip()]


def clean(environ: dict[str, str], api: Loopback, **more: str) -> dict[str, str]:
    """What a client is started with: the test's throw-away places, and us as the only way to anywhere."""
    own = {name: value for name, value in environ.items() if name in KEPT or name.startswith(("XDG_", "GIT_"))}
    way = f"http://127.0.0.1:{api.port}"
    proxies = dict.fromkeys(("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "https_proxy", "http_proxy", "all_proxy"), way)
    terminal = {"TERM": "xterm-256color", "LANG": "C.UTF-8", "TMPDIR": f"{environ['HOME']}/tmp"}
    return {**own, **proxies, **terminal, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", **more}


class Terminal:
    """One tmux server on a socket of its own, with one window in which the client runs. A context manager that ends it."""

    def __init__(self, socket: Path, argv: list[str], *, cwd: Path, environ: dict[str, str]) -> None:
        self.socket, self.environ = socket, environ
        line = f"exec {shlex.join(argv)}"
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", "150", "-y", "50", "-c", str(cwd), line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.tmux("kill-server", check=False)

    def tmux(self, *arguments: str, check: bool = True) -> str:
        done = subprocess.run(
            ["tmux", "-u", "-S", str(self.socket), *arguments],
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=20,
        )
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout

    def screen(self) -> str:
        return self.tmux("capture-pane", "-p", check=False)

    def open(self) -> bool:
        """Whether the client still runs."""
        return bool(self.tmux("list-panes", "-a", check=False))

    def composed(self) -> str:
        """What stands in the composer, white space and borders left out: it is the last place with the prompt's glyph."""
        screen = self.screen()
        return "".join(screen[max(screen.rfind(glyph) for glyph in GLYPHS) + 1 :].split())

    def wait(self, holds: Callable[[], Any], what: str | Callable[[], str], *, seconds: float = PATIENCE) -> Any:
        return until(holds, lambda: f"{what if isinstance(what, str) else what()}\n{self.screen()}", seconds=seconds)

    def type(self, text: str, done: Callable[[], Any], what: str) -> Any:
        """Type a line and press Enter until *done* holds. A client that is not listening yet drops keys, so what does not show is typed again."""
        self.wait(lambda: self._typed(text), f"{text!r} shows in the composer")
        return self.wait(lambda: self._entered(done), what)

    def _typed(self, text: str) -> bool:
        self.tmux("send-keys", "-l", text)
        end = time.monotonic() + 4
        while time.monotonic() < end:
            if "".join(text.split()) in self.composed():
                return True
            time.sleep(0.05)
        self.tmux("send-keys", "C-u")
        return False

    def _entered(self, done: Callable[[], Any]) -> Any:
        # A second Enter in an empty composer does nothing; the first one is lost while a client still takes the text in.
        time.sleep(0.2)
        self.tmux("send-keys", "Enter")
        end = time.monotonic() + 5
        while time.monotonic() < end:
            if found := done():
                return found
            time.sleep(0.05)
        return None


def executable(candidates: Iterable[Path]) -> str:
    """The first program among *candidates* that can be started, "" when there is none."""
    return next((str(path) for path in sorted(candidates) if path.is_file() and os.access(path, os.X_OK)), "")
