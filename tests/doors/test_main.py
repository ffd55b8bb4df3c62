"""The program in surroundings nobody plans for: no directory to stand in, streams that are closed, full or speak no UTF-8, no git."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from vault_mem.capsule import header, lineage
from vault_mem.cli import main as commands
from vault_mem.vault import commits
from vault_mem.vault import store as seats

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., subprocess.CompletedProcess[bytes]]

ID = "2026-11-18-auto-a"
START = [sys.executable, "-m", "vault_mem"]
EVERY = tuple(
    pytest.param(arguments, id=" ".join(arguments))
    for arguments in (
        ("--help",), ("list",), ("list", "--json"), ("log",), ("log", "--graph"), ("explain",), ("show", ID), ("diff", ID),
        ("show", "--help"), ("doctor",), ("verify",), ("root",), ("export",), ("resume", "--peek"), ("resume", "--help"),
        ("context",), ("init", "--dry-run"),
    )
)  # fmt: skip


@pytest.fixture
def filled(seat: Path, environ: dict[str, str]) -> Path:
    """A seat with one active capsule whose words are not ASCII."""
    store = seats.opened(explicit=str(seat), environ=environ, cwd=str(seat))
    fields = {
        "id": ID, "parent_capsule_id": None, "status": "active", "objective": "Löse es · jetzt",
        "waiting_on": "nobody", "next_valid_action": "go on", "created_at": "2026-11-18T08:00:00Z", "session_id": "s-a",
    }  # fmt: skip
    place = Path(store.memory, "capsules/2026-11", f"{ID}.md")
    place.parent.mkdir(parents=True)
    place.write_text(f"---\n{header.render(fields)}---\n", encoding="utf-8")
    event = lineage.Event(ID, lineage.AUTOSAVE, "active", "", "s-a", "claude", "", 1_794_990_400.0)
    commits.keep(store, f"capsules/2026-11/{ID}.md", place.read_bytes(), event)
    return seat


def shell(line: str, *, cwd: Path, environ: dict[str, str], **more: str) -> subprocess.CompletedProcess[str]:
    """Run a line of bash in which `vm` is the program of this checkout."""
    root = str(Path(__file__).resolve().parents[2])
    return subprocess.run(
        ["bash", "-c", f'vm() {{ "{sys.executable}" -m vault_mem "$@"; }}\n{line}'],
        cwd=cwd,
        env={**environ, "PYTHONPATH": root, **more},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


def quiet(done: subprocess.CompletedProcess[str]) -> bool:
    return "Traceback" not in done.stderr and "Exception ignored" not in done.stderr


@pytest.mark.parametrize("arguments", EVERY)
@pytest.mark.parametrize(
    ("how", "code"),
    (
        pytest.param(">&-", (0, 1), id="closed standard output"),
        pytest.param("| true", (0,), id="a reader that goes away"),
        pytest.param("<&- 2>&- >/dev/null", (0, 1), id="closed standard input and error"),
    ),
)
def test_no_stream_makes_a_traceback(
    filled: Path, environ: dict[str, str], arguments: tuple[str, ...], how: str, code: tuple[int, ...]
) -> None:
    done = shell(f"vm {' '.join(arguments)} {how}", cwd=filled, environ=environ)

    assert quiet(done)
    assert done.returncode in code


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize("arguments", EVERY)
def test_a_full_disk_behind_standard_output_is_one_line_and_exit_1(
    filled: Path, environ: dict[str, str], arguments: tuple[str, ...]
) -> None:
    done = shell(f"vm {' '.join(arguments)} >/dev/full", cwd=filled, environ=environ)

    assert quiet(done)
    assert done.returncode == 1
    assert done.stderr.startswith("vault-mem: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", EVERY)
def test_a_terminal_without_utf_8_gets_every_line(
    filled: Path, environ: dict[str, str], arguments: tuple[str, ...]
) -> None:
    usual = shell(f"vm {' '.join(arguments)}", cwd=filled, environ=environ)
    narrow = shell(f"vm {' '.join(arguments)}", cwd=filled, environ=environ, PYTHONIOENCODING="ascii")

    assert quiet(narrow)
    assert narrow.returncode == usual.returncode
    assert narrow.stdout.count("\n") == usual.stdout.count("\n")


def test_a_delivery_to_a_closed_standard_output_is_none(
    filled: Path, environ: dict[str, str], git: Callable[..., str]
) -> None:
    lock = filled / "vault/memory/runtime/vault.lock"
    before = lock.read_bytes() if lock.exists() else b""
    commits_before = git(filled / "vault/memory", "rev-list", "--count", "HEAD")

    done = shell("vm resume --source clear >&-", cwd=filled, environ=environ)

    assert done.stderr.startswith("vault-mem: not-delivered:")
    assert lock.read_bytes() == before
    assert git(filled / "vault/memory", "rev-list", "--count", "HEAD") == commits_before


@pytest.mark.parametrize("arguments", EVERY)
def test_a_directory_that_was_removed_is_no_traceback(
    tmp_path: Path, environ: dict[str, str], arguments: tuple[str, ...]
) -> None:
    done = shell(f"mkdir gone && cd gone && rmdir ../gone && vm {' '.join(arguments)}", cwd=tmp_path, environ=environ)

    assert quiet(done)
    assert "Errno" not in done.stderr
    assert not (tmp_path / "gone").exists()


def test_from_a_removed_directory_the_seat_above_is_found(filled: Path, environ: dict[str, str]) -> None:
    done = shell("mkdir gone && cd gone && rmdir ../gone && vm list", cwd=filled, environ=environ)

    assert ID in done.stdout


def test_an_init_in_a_removed_directory_is_refused(tmp_path: Path, environ: dict[str, str]) -> None:
    done = shell("mkdir gone && cd gone && rmdir ../gone && vm init", cwd=tmp_path, environ=environ)

    assert (done.returncode, done.stdout) == (64, "")
    assert "is not there any more" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_was_named_and_is_no_seat_is_named(seat: Path, vault_mem: Run) -> None:
    done = vault_mem("list", "--root", "/nonexistent", cwd=seat)

    assert done.stderr == b"vault-mem: no-seat: /nonexistent is no seat\n"


def test_without_git_init_refuses_before_anything_is_made(
    tmp_path: Path, vault_mem: Run, environ: dict[str, str]
) -> None:
    project = tmp_path / "project"
    project.mkdir()

    done = vault_mem("init", cwd=project, environ={**environ, "PATH": "/nowhere"})

    assert done.returncode == 1
    assert done.stderr == b"vault-mem: git-refused:git-missing: no git program in any folder of PATH\n"
    assert list(project.iterdir()) == []


@pytest.mark.parametrize("arguments", EVERY)
def test_without_git_a_command_does_what_it_can_or_says_so(
    filled: Path, vault_mem: Run, environ: dict[str, str], arguments: tuple[str, ...]
) -> None:
    done = vault_mem(*arguments, cwd=filled, environ={**environ, "PATH": "/nowhere"})

    assert b"Traceback" not in done.stderr
    assert b"GIT_PYTHON_REFRESH" not in done.stderr
    if done.returncode and arguments != ("doctor",):
        assert b"git-missing" in done.stderr


@pytest.mark.parametrize("arguments", (("hook", "stop"), ("hook", "session-end"), ("resume",)), ids=" ".join)
def test_a_hook_whose_input_is_never_closed_ends_all_the_same(
    filled: Path, environ: dict[str, str], arguments: tuple[str, ...]
) -> None:
    payload = {"session_id": "s-b", "transcript_path": "", "cwd": str(filled), "source": "startup", "reason": "other"}
    environ = {**environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb", buffering=0) as kept_open:
        kept_open.write(json.dumps(payload).encode())
        # Nothing is asserted of how long that takes; without an end of its own the hook would wait for ever.
        done = subprocess.run(
            [*START, *arguments], cwd=filled, env=environ, stdin=reading, capture_output=True, timeout=60, check=False
        )
    os.close(reading)

    assert done.returncode == 0
    assert b"bad-payload" not in done.stderr


def test_an_interrupt_is_no_traceback(filled: Path, environ: dict[str, str]) -> None:
    root = str(Path(__file__).resolve().parents[2])
    reading, writing = os.pipe()
    command = [*START, "capsule", "validate", "-"]
    environ = {**environ, "PYTHONPATH": root}
    with subprocess.Popen(command, cwd=filled, env=environ, stdin=reading, stderr=subprocess.PIPE) as process:
        os.close(reading)
        _until_it_reads(process.pid)
        process.send_signal(signal.SIGINT)
        _, complained = process.communicate(timeout=60)
    os.close(writing)

    assert (process.returncode, complained) == (130, b"")


def _until_it_reads(pid: int) -> None:
    """Wait until the process sleeps in a read of its standard input."""
    if not os.path.exists(f"/proc/{pid}/syscall"):
        pytest.skip("no /proc/<pid>/syscall: nobody says when the process reads")
    import time

    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        words = Path(f"/proc/{pid}/syscall").read_text(encoding="ascii").split()
        # read(0, …) is number 0 on x86-64 and 63 on arm64.
        if len(words) > 1 and words[0] in ("0", "63") and words[1] == "0x0":
            return
        time.sleep(0.01)
    pytest.fail("the program never read its standard input")


@pytest.mark.parametrize("command", (*commands.COMMANDS, *commands.BEFORE_PARSING))
def test_every_command_has_help_with_an_example(vault_mem: Run, command: str) -> None:
    done = vault_mem(command, "--help", check=True)

    assert done.stdout.startswith(b"usage: vault-mem ")
    assert b"example:" in done.stdout
    assert done.stderr == b""


def test_the_usage_names_every_command() -> None:
    text = commands.usage()

    assert all(f"\n  {name} " in text for name in (*commands.COMMANDS, *commands.BEFORE_PARSING))
