"""Git is run with nothing of the hook's: not its streams, not its variables, not its time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from vault_mem.errors import GitRefusedError
from vault_mem.repo import program

if TYPE_CHECKING:
    from collections.abc import Callable

    Git = Callable[..., str]

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def instead(tmp_path: Path, environ: dict[str, str]) -> Callable[[str], dict[str, str]]:
    """An environment in which `git` is the shell script given."""

    def make(script: str) -> dict[str, str]:
        folder = tmp_path / "bin"
        folder.mkdir()
        (folder / "git").write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        (folder / "git").chmod(0o755)
        return {**environ, "PATH": f"{folder}:{environ['PATH']}"}

    return make


def test_output_errors_and_code_come_back(tmp_path: Path, environ: dict[str, str]) -> None:
    answer = program.run(["rev-parse", "--verify", "x"], worktree=str(tmp_path), environ=environ)

    assert answer.code == 128
    assert b"not a git repository" in answer.err
    assert program.refusal(answer).reason == "not-a-repository"


def test_much_goes_in_and_out_at_once(project: Path, environ: dict[str, str]) -> None:
    data = b"HEAD\n" * 20_000  # more than a pipe holds, both ways

    done = program.run(["cat-file", "--batch-check"], worktree=str(project), environ=environ, data=data, limit=60)

    assert (done.code, done.out.count(b"\n")) == (0, 20_000)


def test_a_program_that_reads_nothing_is_no_error(instead: Callable[[str], dict[str, str]], tmp_path: Path) -> None:
    environ = instead("exec 0<&-; echo done")

    assert program.run([], worktree=str(tmp_path), environ=environ, data=b"x" * 1_000_000).out == b"done\n"


def test_a_program_that_never_ends_is_ended_with_all_it_started(
    instead: Callable[[str], dict[str, str]], tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    environ = instead(f"trap '' TERM\nsleep 300 &\necho $! $$ >'{pids}.new'; mv '{pids}.new' '{pids}'\nsleep 300")
    with pytest.raises(GitRefusedError, match="timeout"):
        program.run([], worktree=str(tmp_path), environ=environ, limit=0.5)

    for pid in pids.read_text(encoding="utf-8").split():
        assert _ends(int(pid))


def _ends(pid: int) -> bool:
    """Whether the process is gone, or a body its new parent has not buried yet, within a moment: signals take effect when they like."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z":
                return True
            os.kill(pid, 0)
        except (FileNotFoundError, ProcessLookupError):
            return True
    return False


def test_somebody_left_behind_with_the_streams_open_is_not_waited_for(
    instead: Callable[[str], dict[str, str]], tmp_path: Path
) -> None:
    environ = instead(f"sleep 300 & echo $! >'{tmp_path}/pid'; echo out")
    began = time.monotonic()

    assert program.run([], worktree=str(tmp_path), environ=environ, limit=60).out == b"out\n"

    assert time.monotonic() - began < 50
    os.kill(int((tmp_path / "pid").read_text(encoding="utf-8")), signal.SIGKILL)


def test_variables_of_git_are_taken_away_but_for_those_that_name_configuration(
    instead: Callable[[str], dict[str, str]], tmp_path: Path
) -> None:
    environ = instead("env")
    kept = dict.fromkeys(("GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"), "x")
    hostile = dict.fromkeys(
        ("GIT_DIR", "GIT_WORK_TREE", "GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS", "GIT_EDITOR", "GIT_SSH", "GIT_TRACE"),
        "x",
    )

    out = program.run([], worktree=str(tmp_path), environ={**environ, **kept, **hostile}).out.decode()

    names = {entry.partition("=")[0] for entry in out.splitlines() if entry.startswith("GIT_")}
    assert names == {*kept, "GIT_CEILING_DIRECTORIES", "GIT_TERMINAL_PROMPT"}
    assert f"GIT_CEILING_DIRECTORIES={tmp_path.parent}" in out.splitlines()


def test_the_child_is_a_session_of_its_own_with_the_usual_signals(
    instead: Callable[[str], dict[str, str]], tmp_path: Path
) -> None:
    environ = instead("ps -o sid=,pgid=,pid= -p $$; cat /proc/$$/status | grep SigIgn")
    if not os.path.exists("/proc/self/status"):
        pytest.skip("no /proc: the session of a child cannot be seen")

    sid, pgid, pid, _, ignored = program.run([], worktree=str(tmp_path), environ=environ).out.decode().split()

    assert sid == pgid == pid
    assert not int(ignored, 16) & 1 << (signal.SIGPIPE - 1)


def test_a_hook_started_with_its_streams_closed_can_still_run_git(
    project: Path, environ: dict[str, str], tmp_path: Path
) -> None:
    script = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
from vault_mem.repo import program
for handle in (0, 1, 2):
    os.close(handle)
out = program.checked(["cat-file", "--batch-check"], worktree={str(project)!r}, environ=dict(os.environ), data=b"HEAD\\n")
os.write(os.open({str(tmp_path / "out")!r}, os.O_WRONLY | os.O_CREAT, 0o600), out)
"""
    subprocess.run([sys.executable, "-c", script], env=environ, check=True)

    assert b" commit " in (tmp_path / "out").read_bytes()


def test_relative_folders_on_the_path_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "git").write_text("#!/bin/sh\n", encoding="utf-8")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.chdir(tmp_path)

    for path in (".", "", ":.:"):
        with pytest.raises(GitRefusedError, match="git-missing"):
            program.found({"PATH": path})
    assert program.found({"PATH": f".:{tmp_path}"}) == f"{tmp_path}/git"


@pytest.mark.parametrize(
    ("said", "reason"),
    (
        ("fatal: detected dubious ownership in repository at 'x'", "other-owner"),
        ("fatal: Unable to create '/x/.git/index.lock': File exists.", "index-locked"),
        ("fatal: cannot lock ref 'HEAD': x", "ref-locked"),
        ("error: insufficient permission for adding an object", "read-only"),
        ("fatal: sha1 file write error: No space left on device", "disk-full"),
        ("fatal: something\x1b[31m else\nmore", "git-failed:something [31m else"),
        ("", "git-failed:exit 128"),
    ),
)
def test_what_git_says_becomes_a_reason(said: str, reason: str) -> None:
    assert program.refusal(program.Finished(128, b"", said.encode())).reason == reason
