"""`vault-mem replay`: recordings of real clients go through the real program; what comes of them is the recording's, not the clock's."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import program, with_package

if TYPE_CHECKING:
    from collections.abc import Callable

RECORDING = Path(__file__).parent.parent / "data" / "sessions" / "csv-importer"
FIRST, SECOND = "00000000-0000-4000-8000-000000000002", "00000000-0000-4000-8000-000000000122"


def _digest(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


@pytest.fixture
def replayed(seat: Path, vault_mem: Callable[..., subprocess.CompletedProcess[bytes]]) -> Callable[..., dict[str, Any]]:
    """Replays something into the seat and gives the document."""

    def run(*arguments: str) -> dict[str, Any]:
        done = vault_mem("replay", "--json", *arguments, cwd=seat, check=True)
        document = json.loads(done.stdout)
        assert document["schema"] == "vault-mem/replay/1"
        return dict(document)

    return run


def _events(git: Callable[..., str], seat: Path) -> list[str]:
    form = "--format=%(trailers:key=Capsule-Event,valueonly,separator=%x2c)"
    return [row for row in git(seat / "vault/memory", "log", "--reverse", form).splitlines() if row]


def test_a_recorded_folder_is_one_autosave_for_every_turn_that_changed_something(
    seat: Path, replayed: Callable[..., dict[str, Any]], git: Callable[..., str]
) -> None:
    document = replayed(str(RECORDING))

    assert document["ok"]
    assert document["turns"] == 5
    assert _events(git, seat) == ["autosave"] * 4 + ["consume"] + ["autosave"] * 2
    assert len(document["commits"]) == 7
    assert git(seat / "vault/memory", "status", "--porcelain") == ""


def test_what_a_recording_says_is_dated_as_it_was_recorded(
    seat: Path, replayed: Callable[..., dict[str, Any]], git: Callable[..., str]
) -> None:
    replayed(str(RECORDING))

    texts = {path.stem: path.read_text("utf-8") for path in (seat / "vault/memory/capsules").rglob("*.md")}
    assert sorted(texts) == ["2026-11-30-auto-00000000-e79a", "2026-12-01-auto-00000000-6fba"]
    assert 'created_at: "2026-12-01T00:06:5' in texts["2026-11-30-auto-00000000-e79a"]
    assert 'started_at: "2026-11-30T23:48:4' in texts["2026-11-30-auto-00000000-e79a"]
    assert git(seat / "vault/memory", "log", "-1", "--format=%aI").startswith("2026-12-01T00:13:04")


def test_the_same_recording_makes_the_same_capsules_everywhere(
    seat: Path, replayed: Callable[..., dict[str, Any]], vault_mem: Any, git: Callable[..., str], tmp_path: Path
) -> None:
    replayed(str(RECORDING))
    other = tmp_path / "elsewhere" / "project"
    shutil.copytree(seat, other, ignore=shutil.ignore_patterns("vault", ".claude", ".aigent"))
    vault_mem("init", "--harness", "claude", "--scope", "project", cwd=other, check=True)
    vault_mem("replay", str(RECORDING), cwd=other, check=True)

    def told(root: Path) -> list[str]:
        texts = [path.read_text("utf-8") for path in sorted((root / "vault/memory/capsules").rglob("*.md"))]
        return [text.replace(f"{root}\n", "HERE\n") for text in texts]

    log = ("log", "--format=%aI %s", "--", "capsules")
    assert told(seat) == told(other)
    assert git(seat / "vault/memory", *log) == git(other / "vault/memory", *log)


def test_the_recording_itself_is_only_read(replayed: Callable[..., dict[str, Any]]) -> None:
    before = _digest(RECORDING)

    replayed(str(RECORDING))

    assert _digest(RECORDING) == before


def test_paths_of_the_recorded_project_become_this_one(seat: Path, replayed: Callable[..., dict[str, Any]]) -> None:
    replayed(str(RECORDING))

    for path in (seat / "vault/memory/capsules").rglob("*.md"):
        text = path.read_text("utf-8")
        assert "/home/user" not in text
        files = text.partition("<!-- swe:files -->")[2].partition("## ")[0]
        assert "README.md" in files or "csv_importer/reader.py" in files
        assert str(seat) not in files


def test_a_bare_transcript_is_saved_turn_by_turn_under_the_name_asked_for(
    seat: Path, replayed: Callable[..., dict[str, Any]], git: Callable[..., str]
) -> None:
    document = replayed("--as", "mine", str(RECORDING / "transcript-1.jsonl"))

    assert document["sessions"] == ["mine"]
    assert document["outcomes"] == {"saved": 4}
    (capsule,) = (seat / "vault/memory/capsules").rglob("*.md")
    assert "session_id: mine\n" in capsule.read_text("utf-8")
    assert FIRST not in git(seat / "vault/memory", "log", "-p")


def test_a_transcript_that_is_replayed_again_changes_nothing(
    seat: Path, replayed: Callable[..., dict[str, Any]], git: Callable[..., str]
) -> None:
    replayed(str(RECORDING / "transcript-1.jsonl"))
    before = git(seat / "vault/memory", "rev-parse", "HEAD")

    again = replayed(str(RECORDING / "transcript-1.jsonl"))

    assert again["commits"] == []
    assert git(seat / "vault/memory", "rev-parse", "HEAD") == before


def test_a_codex_rollout_is_known_by_what_it_holds(
    seat: Path, replayed: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    def said(role: str, kind: str, text: str, second: int) -> dict[str, Any]:
        return {
            "timestamp": f"2026-11-30T10:00:{second:02}.000Z",
            "type": "response_item",
            "payload": {"type": "message", "role": role, "content": [{"type": kind, "text": text}]},
        }

    meta = {
        "timestamp": "2026-11-30T10:00:00.000Z",
        "type": "session_meta",
        "payload": {"id": "codex-1", "cwd": "/home/user/project", "originator": "codex_cli_rs"},
    }
    rows = [
        meta,
        said("user", "input_text", "Rename the reader module", 1),
        said("assistant", "output_text", "The module is renamed.", 2),
        said("user", "input_text", "Now change its tests as well", 3),
        said("assistant", "output_text", "The tests follow.", 4),
    ]
    rollout = tmp_path / "any-name.jsonl"
    rollout.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")

    document = replayed(str(rollout))

    assert document["harness"] == "codex"
    assert document["sessions"] == ["codex-1"]
    assert document["turns"] == 2
    (capsule,) = (seat / "vault/memory/capsules").rglob("*.md")
    assert "Now change its tests as well" in capsule.read_text("utf-8")


@pytest.mark.parametrize(
    ("make", "reason"),
    (
        pytest.param(str, "No such file", id="nothing there"),
        pytest.param(lambda path: path.mkdir(), "has no hooks.jsonl", id="an ordinary folder"),
        pytest.param(lambda path: path.write_text("hello\n"), "is no transcript", id="prose"),
        pytest.param(lambda path: path.write_bytes(b"\xff\xfe\x00\n" * 9), "is no transcript", id="binary"),
        pytest.param(lambda path: path.write_bytes(b""), "is no transcript", id="empty"),
        pytest.param(os.mkfifo, "neither a folder nor a regular file", id="a pipe"),
        pytest.param(
            lambda path: (path.mkdir(), (path / "hooks.jsonl").write_text('{"n": 1}\n')),
            "line 1: no hook call",
            id="a folder without payloads",
        ),
        pytest.param(
            lambda path: (path.mkdir(), (path / "hooks.jsonl").write_text('{"payload": {\n')),
            "line 1",
            id="a folder that was cut",
        ),
    ),
)
def test_what_is_no_recording_is_refused_with_the_reason(
    seat: Path, vault_mem: Any, tmp_path: Path, make: Callable[[Path], Any], reason: str
) -> None:
    path = tmp_path / "input"
    make(path)

    done = vault_mem("replay", str(path), cwd=seat)

    assert done.returncode == 1
    assert b"not-a-recording" in done.stderr
    assert reason.encode() in done.stderr


def test_a_hook_that_saves_nothing_fails_the_replay_and_is_named(seat: Path, vault_mem: Any) -> None:
    done = vault_mem("replay", str(RECORDING), cwd=seat, more={"VAULT_MEM_OFF": "1"})

    assert done.returncode == 1
    assert b"replay-failed: hook 1 (SessionStart)" in done.stderr
    assert b"killed" in done.stderr


def test_the_clock_of_a_replay_cannot_make_the_future(seat: Path, vault_mem: Any, tmp_path: Path) -> None:
    row = {
        "n": 1,
        "t": "2199-01-01T00:00:00Z",
        "label": "Stop",
        "transcript_at_hook": None,
        "payload": {"session_id": "s", "cwd": "/home/user/project", "last_assistant_message": "All is done."},
    }
    folder = tmp_path / "recording"
    folder.mkdir()
    (folder / "hooks.jsonl").write_text(json.dumps(row) + "\n", "utf-8")

    vault_mem("replay", str(folder), cwd=seat, check=True)

    (capsule,) = (seat / "vault/memory/capsules").rglob("*.md")
    assert "2199" not in capsule.read_text("utf-8")


def test_a_client_around_the_replay_is_not_taken_for_the_recorded_one(
    seat: Path, environ: dict[str, str], tmp_path: Path
) -> None:
    client = tmp_path / "claude"
    shutil.copy(os.path.realpath("/bin/sh"), client)
    client.chmod(0o755)
    command = [str(client), "-c", '"$@"; exit $?', "sh", *program("replay", str(RECORDING))]

    subprocess.run(command, cwd=seat, env=with_package(environ), check=True, capture_output=True, timeout=60)

    runtime = seat / "vault/memory/runtime"
    records = [json.loads(path.read_text("utf-8")) for path in (runtime / "sessions").iterdir()]
    assert {record["pid"] for record in records} == {0}
    assert not (runtime / "handoff").exists()


def test_every_session_of_a_folder_gets_a_name_of_its_own(
    seat: Path, replayed: Callable[..., dict[str, Any]], git: Callable[..., str]
) -> None:
    document = replayed("--as", "mine", str(RECORDING))

    assert document["sessions"] == ["mine", "mine-2"]
    log = git(seat / "vault/memory", "log", "-p")
    assert "Capsule-Consumer: mine-2" in log
    assert FIRST not in log
    assert SECOND not in log


@pytest.mark.parametrize(
    "folder", sorted(path.name for path in RECORDING.parent.iterdir() if (path / "hooks.jsonl").is_file())
)
def test_every_recording_goes_through_and_leaves_a_clean_vault(
    seat: Path, replayed: Callable[..., dict[str, Any]], git: Callable[..., str], folder: str
) -> None:
    document = replayed(str(RECORDING.parent / folder))

    assert document["ok"]
    assert document["turns"] > 0
    assert document["commits"]
    assert git(seat / "vault/memory", "status", "--porcelain") == ""
