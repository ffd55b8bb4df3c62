from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.faults.conftest import Client

    Git = Callable[..., str]

LOUD = ("re-deliver", "reusing", "already delivered", "already have been")
CLEAR = {"hook_event_name": "SessionStart", "source": "clear"}


def loud(text: str) -> bool:
    return any(word in text.lower() for word in LOUD)


@contextmanager
def _closed_pipe() -> Iterator[int]:
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


@contextmanager
def _full_pipe() -> Iterator[int]:
    """Takes the beginning of a document and then no more."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    os.set_blocking(writer, False)
    os.write(writer, b"x" * 1000)
    yield writer
    os.close(writer)
    os.close(reader)


@contextmanager
def _full_disk() -> Iterator[int]:
    handle = os.open("/dev/full", os.O_WRONLY)
    yield handle
    os.close(handle)


@contextmanager
def _read_only() -> Iterator[int]:
    handle = os.open(os.devnull, os.O_RDONLY)
    yield handle
    os.close(handle)


SINKS = (
    pytest.param(_closed_pipe, (), id="closed pipe"),
    pytest.param(_full_pipe, (), id="short write"),
    pytest.param(_full_disk, (), id="full disk"),
    pytest.param(_read_only, (), id="read only"),
    pytest.param(_full_disk, ("bash", "-c", 'exec "$@" >&-', "_"), id="closed"),
)


def _into(client: Client, handle: int, before: tuple[str, ...], *arguments: str, payload: bytes) -> tuple[int, str]:
    done = subprocess.run(
        [*before, sys.executable, "-m", "vault_mem", "resume", *arguments],
        cwd=client.project,
        env=client.environ,
        input=payload,
        stdout=handle,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stderr.decode()


def _consumed(client: Client, git: Git) -> int:
    rows = git(client.vault, "log", "--format=%(trailers:key=Capsule-Event,valueonly)").splitlines()
    return rows.count("consume")


@pytest.mark.parametrize("arguments", ((), ("--source", "clear"), ("--source", "clear", "--json")), ids=("hook", "text", "json"))  # fmt: skip
@pytest.mark.parametrize(("sink", "before"), SINKS)
def test_a_text_that_did_not_get_out_consumes_nothing_and_the_next_is_an_ordinary_delivery(
    sink: Callable[[], Iterator[int]], before: tuple[str, ...], arguments: tuple[str, ...], client: Client, git: Git
) -> None:
    client.prompt("Split the parser and keep the tests green.")
    assert client.stop() == "saved"
    first = client.sibling()

    with sink() as handle:  # type: ignore[attr-defined]  # made by contextmanager
        payload = b"" if arguments else first.payload(**CLEAR)
        code, err = _into(first, handle, before, *arguments, payload=payload)

    assert code == (1 if arguments else 0)
    assert "not-delivered" in err
    assert _consumed(client, git) == 0
    assert not list((client.vault / "runtime/deliveries").glob("*"))
    assert "\nstatus: active\n" in next(client.vault.glob("capsules/*/*.md")).read_text("utf-8")
    text = client.sibling().start()
    assert "Split the parser and keep the tests green." in text
    assert not loud(text)
    assert _consumed(client, git) == 1


def test_the_very_session_whose_text_did_not_get_out_is_given_it_silently(client: Client, git: Git) -> None:
    client.prompt("Split the parser and keep the tests green.")
    client.stop()
    first = client.sibling()
    with _closed_pipe() as handle:
        _into(first, handle, (), payload=first.payload(**CLEAR))

    text = first.start()

    assert "Split the parser" in text
    assert not loud(text)
    assert _consumed(client, git) == 1


def test_an_orientation_that_does_not_get_out_is_said_and_nothing_else(client: Client, git: Git) -> None:
    client.prompt("Split the parser and keep the tests green.")
    client.stop()
    for source in ("startup", "resume"):
        with _closed_pipe() as handle:
            code, err = _into(client, handle, (), payload=client.payload(hook_event_name="SessionStart", source=source))
        assert (code, "not-delivered" in err) == (0, True)
    assert _consumed(client, git) == 0


def test_clears_while_the_session_they_take_from_is_being_saved(
    client: Client, git: Git, history: Callable[[Client], str]
) -> None:
    """A Stop and a clear of another session start together, several times: nothing said is lost, nothing is handed out twice in silence."""
    silent: dict[str, int] = {}
    wanted = []
    for turn in range(6):
        wanted.append(f"Request {turn} of the long day, please.")
        client.prompt(wanted[-1])
        other = client.sibling()
        stop = client.started("hook", "stop", "--explain")
        clear = other.started("resume", payload=other.payload(**CLEAR))
        outs = [process.communicate(timeout=120) for process in (stop, clear)]
        assert (stop.returncode, clear.returncode) == (0, 0), outs
        assert outs[0][0] == b""
        text = outs[1][0].decode()
        if "capsule id: " in text and not loud(text):
            name = text.partition("capsule id: ")[2][:60]
            silent[name] = silent.get(name, 0) + 1
        other.prompt(f"I am session {turn} and go on.")
        assert other.stop() in ("saved", "no-change")

    assert client.stop() in ("saved", "no-change")
    assert set(silent.values()) <= {1}
    kept = history(client)
    assert not [text for text in wanted if text not in kept]
    assert git(client.vault, "fsck", "--strict", "--no-dangling") == ""
    assert git(client.vault, "status", "--porcelain") == ""
