"""Standard input as bytes and one document on standard output, whatever the locale."""

from __future__ import annotations

import os
import time

from vault_mem import jsontext

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
else:
    import _signal

INPUT_LIMIT = 64 << 20
PATIENCE = 5.0
PAUSE = 0.5
NOW = "VAULT_MEM_NOW"


def clock() -> float:
    """Epoch seconds. A replay names the recorded time (`VAULT_MEM_NOW`), so that an old session never becomes the newest by being replayed."""
    given = os.environ.get(NOW)
    if not given:
        return time.time()
    try:
        return min(max(float(given), 0.0), time.time())
    except ValueError:
        return time.time()


def cwd() -> str:
    """The working directory; where it was removed, the path it had as far as that is known: a seat above it can still be found."""
    try:
        return os.getcwd()
    except OSError:
        former = os.environ.get("PWD", "")
        return former if os.path.isabs(former) and not os.path.exists(former) else "/removed-working-directory"


def read_input() -> bytes:
    """Everything on standard input; empty when it is closed.

    A client that leaves it open is not waited for until it kills the hook: what looks whole is taken after PAUSE seconds, the rest after PATIENCE.
    """
    parts = []
    size = 0
    former = _signal.signal(_signal.SIGALRM, _give_up)
    try:
        _signal.setitimer(_signal.ITIMER_REAL, PATIENCE)
        while (part := os.read(0, 1 << 20)) and size < INPUT_LIMIT:
            parts.append(part)
            size += len(part)
            if part[-16:].rstrip().endswith(b"}"):
                _signal.setitimer(_signal.ITIMER_REAL, PAUSE)
    except OSError:
        # Closed, or given up.
        pass
    finally:
        _signal.setitimer(_signal.ITIMER_REAL, 0.0)
        _signal.signal(_signal.SIGALRM, former)
    return b"".join(parts)


def _give_up(*_: object) -> None:
    raise TimeoutError


def is_terminal() -> bool:
    """Whether a person sits at standard input (a closed one is nobody)."""
    try:
        return os.isatty(0)
    except OSError:
        return False


def put(handle: int, text: str) -> None:
    """Write all of *text* as UTF-8. Raises OSError when it does not get out."""
    data = memoryview(text.encode("utf-8", "replace"))
    while data:
        data = data[os.write(handle, data) :]


def put_context(text: str, *, event: str = "SessionStart", warning: str = "") -> None:
    """The one document a hook answers with: text for the model, and a warning that clients show the person."""
    document: dict[str, object] = {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}
    if warning:
        document["systemMessage"] = warning
    put(1, jsontext.dumps(document) + "\n")


def complain(token: str, text: str) -> None:
    """One line on standard error: the token first, so that it can be grepped."""
    line = " ".join(text.split())
    try:
        put(2, f"vault-mem: {line if line.startswith(token) else f'{token}: {line}'}\n")
    except OSError:
        pass


def waiting() -> bool:
    """Whether standard input holds something, or its end, right now: an agent's tool may leave it open for ever."""
    import select

    try:
        return bool(select.select([0], [], [], 0.05)[0])
    except (OSError, ValueError):
        return False
