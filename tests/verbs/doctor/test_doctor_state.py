"""Faults of state and capsules: each is made for real, found, mended the way the doctor says, and gone.

`command` runs the command of the finding in a shell, `fix` is `--fix`; a function mends what only a person can.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from vault_mem import stamps
from vault_mem.capsule import lineage

if TYPE_CHECKING:
    from collections.abc import Callable

PROGRAM = str(Path(sys.executable).parent / "vault-mem")
OLD = 3600


def aged(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    then = time.time() - OLD
    os.utime(path, (then, then))


def variable(name: str, value: str) -> Callable[[Any], Any]:
    def make(box: Any) -> Any:
        box.environ[name] = value
        return lambda: box.environ.pop(name)

    return make


def runtime_is_a_file(box: Any) -> None:
    shutil.rmtree(box.runtime, ignore_errors=True)
    box.runtime.write_text("")


def runtime_is_a_link(box: Any) -> None:
    shutil.rmtree(box.runtime, ignore_errors=True)
    (box.seat.parent / "away").mkdir()
    box.runtime.symlink_to(box.seat.parent / "away")


def locked(box: Any) -> Any:
    box.runtime.mkdir(exist_ok=True)
    (box.runtime / "vault.lock").touch()
    code = "import fcntl,sys; f=open(sys.argv[1]); fcntl.flock(f, 2); print('held', flush=True); sys.stdin.read()"
    holder = subprocess.Popen(
        [sys.executable, "-I", "-c", code, str(box.runtime / "vault.lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"

    def let_go() -> None:
        holder.communicate()

    box.cleanup.append(let_go)
    return let_go


def lock_is_a_link(box: Any) -> None:
    box.runtime.mkdir(exist_ok=True)
    (box.runtime / "vault.lock").unlink(missing_ok=True)
    (box.runtime / "vault.lock").symlink_to("elsewhere")


def owed(box: Any) -> None:
    path = box.capsule("2026-01-01-owed", commit=False)
    row = {"id": path.stem, "event": "autosave", "status": "active", "parent": "", "session": "s", "harness": "claude"}
    whole = lineage.Event(**row, at=time.time())._asdict()
    box.runtime.mkdir(exist_ok=True)
    (box.runtime / "pending.json").write_text(json.dumps({f"capsules/{path.name}": whole}))


def intent(box: Any, capsule: str = "c") -> Path:
    path = box.runtime / "deliveries/s1.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"capsule": capsule, "session": "s1", "at": time.time() - 60}))
    return path


def unfinished_delivery(box: Any) -> Any:
    return intent(box).unlink


def stale_delivery(box: Any) -> None:
    intent(box)
    head = box.git(box.vault, "rev-parse", "HEAD")
    (box.runtime / "index").mkdir(parents=True, exist_ok=True)
    (box.runtime / "index/consumed").write_text(f"\nD c s1 1000\nH {head}\n")


def spooled(box: Any) -> Any:
    path = box.runtime / "spool/s-1.json"
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    return path.unlink


def damaged_state(box: Any) -> None:
    (box.runtime / "cursors").mkdir(parents=True)
    (box.runtime / "cursors/s.json").write_text('{"session": ')


def leftovers(box: Any) -> None:
    aged(box.vault / "capsules/.vault-mem-999999999-1.tmp")


def unsaved(box: Any) -> Any:
    transcript = box.seat.parent / "t.jsonl"
    transcript.write_text('{"type":"user"}\n')
    path = box.runtime / "cursors/s.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"session": "s", "position": [0], "transcript": str(transcript)}))
    return path.unlink


def logged(box: Any, outcome: str = "error:ValueError") -> Path:
    box.runtime.mkdir(exist_ok=True)
    path = box.runtime / "log.jsonl"
    row = {"at": stamps.utc_millis(time.time() - 60), "door": "stop", "outcome": outcome, "session": "s", "detail": "x"}
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")
    return path


def failed_lately(box: Any) -> Any:
    path = logged(box)
    return path.unlink


def bad_setting_file(box: Any) -> Any:
    path = Path(box.environ["XDG_CONFIG_HOME"]) / "vault-mem/config.toml"
    path.parent.mkdir()
    path.write_text("ceiling = false\n")
    return path.unlink


def capsules_link(box: Any) -> Any:
    shutil.rmtree(box.vault / "capsules", ignore_errors=True)
    (box.vault / "capsules").symlink_to(box.seat)
    return (box.vault / "capsules").unlink


def bad_capsule(**fields: str) -> Callable[[Any], Any]:
    def make(box: Any) -> Any:
        return box.capsule("2026-01-01-bad", commit=False, **fields).unlink

    return make


def doubled_id(box: Any) -> Any:
    box.capsule("2026-01-01-one", commit=False)
    return box.capsule("2026-01-01-two", commit=False, id="2026-01-01-one").unlink


def damaged_sections(box: Any) -> Any:
    fields = {"trigger": "stop-delta", "tags": "[capsule, autosave]"}
    return box.capsule("2026-01-01-auto-x", commit=False, body="## Done (don't redo)\n", **fields).unlink


def many(box: Any) -> Any:
    paths = [box.capsule(f"2026-01-01-{number:02}", commit=False) for number in range(13)]
    return lambda: [path.unlink() for path in paths]


def stale_watcher(box: Any) -> None:
    path = box.runtime / "reset/beacon.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"at": time.time() - 700, "interval": 300}))


def undrained(box: Any) -> None:
    box.runtime.mkdir(exist_ok=True)
    row = {"seq": 1, "at": time.time() - 700, "session": "s", "key": "context-ceiling", "kind": "reset", "text": "t"}
    (box.runtime / "wakes.jsonl").write_text(json.dumps(row) + "\n")


FIX, COMMAND = "fix", "command"
KNOWS_NOTHING = bad_capsule(
    objective='"Unknown: no operator objective was captured in this session."',
    next_valid_action="No concrete next action was captured.",
)

FAULTS = (
    ("runtime-unusable", runtime_is_a_file, COMMAND),
    ("runtime-unusable", runtime_is_a_link, COMMAND),
    ("vault-lock-held", locked, None),
    ("lock-unusable", lock_is_a_link, COMMAND),
    ("commit-owed", owed, FIX),
    ("delivery-unfinished", unfinished_delivery, None),
    ("delivery-stale", stale_delivery, FIX),
    ("spooled", spooled, None),
    ("state-damaged", damaged_state, FIX),
    ("leftovers", leftovers, FIX),
    ("unsaved-work", unsaved, None),
    ("recent-failures", failed_lately, None),
    ("bad-settings", variable("VAULT_MEM_CEILING", "much"), None),
    ("bad-settings", bad_setting_file, None),
    ("bad-tunable", variable("FM_CONTEXT_CHECK_INTERVAL", "often"), None),
    ("watcher-stale", stale_watcher, COMMAND),
    ("wake-undrained", undrained, COMMAND),
    ("capsules-unreadable", capsules_link, None),
    ("capsule-rejected", bad_capsule(objective=""), None),
    ("capsule-rejected", bad_capsule(created_at="soon"), None),
    ("capsule-rejected", bad_capsule(status="done"), None),
    ("capsule-future", bad_capsule(created_at="2999-01-01T00:00:00Z"), None),
    ("capsule-duplicate-id", doubled_id, None),
    ("capsule-anchors", damaged_sections, None),
    ("capsule-invalid", bad_capsule(waiting_on="null"), None),
    ("only-placeholders", KNOWS_NOTHING, None),
    ("capsules-waiting", many, None),
)


@pytest.mark.parametrize(
    ("token", "make", "how"),
    tuple(pytest.param(*row, id=f"{row[0]}-{number}") for number, row in enumerate(FAULTS)),
)
def test_a_fault_is_found_mended_and_gone(box: Any, token: str, make: Callable[[Any], Any], how: str | None) -> None:
    box.cured(token, make, how)
