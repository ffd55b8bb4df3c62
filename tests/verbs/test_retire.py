from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from vault_mem import retire
from vault_mem.capsule import header, lineage, model
from vault_mem.vault import commits, upkeep
from vault_mem.vault import store as seats

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    Git = Callable[..., str]
    Run = Callable[..., subprocess.CompletedProcess[bytes]]

DAY = 1_795_000_000.0


@pytest.fixture
def store(seat: Path, environ: dict[str, str]) -> seats.Store:
    """A seat that keeps four capsules in its tree."""
    environ["VAULT_MEM_RETIRE_AFTER"] = "4"
    return seats.opened(explicit=str(seat), environ=environ, cwd=str(seat))


def saved(store: seats.Store, number: int, status: str = "resumed", *, autosave: bool = True) -> str:
    """The id of a capsule written and committed as our writer does; a greater number is newer."""
    name = f"2026-11-20-c{number:03d}"
    path = f"capsules/2026-11/{name}.md"
    at = DAY + number * 60
    fields: dict[str, Any] = {
        "id": name, "parent_capsule_id": None, "status": status, "objective": f"work {number}", "waiting_on": "nothing",
        "trigger": model.STOP_DELTA if autosave else "manual", "next_valid_action": "go on",
        "tags": ("capsule", model.AUTOSAVE) if autosave else ("capsule",),
        "created_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at)), "session_id": f"s{number}",
    }  # fmt: skip
    place = Path(store.memory) / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(f"---\n{header.render(fields)}---\n\nbody of {name}\n", encoding="utf-8")
    event = lineage.Event(id=name, event=lineage.AUTOSAVE, status=status, session=f"s{number}", at=at)
    commits.keep(store, path, place.read_bytes(), event)
    return name


def left(store: seats.Store) -> list[str]:
    return sorted(path.stem for path in Path(store.memory, "capsules").rglob("*.md"))


def test_the_oldest_beyond_the_limit_leave_in_one_commit_that_names_them_all(store: seats.Store, git: Git) -> None:
    ids = [saved(store, number) for number in range(7)]

    outcome = retire.retire(store, now=DAY + 9999)

    assert outcome.retired == tuple(ids[:3])
    assert left(store) == ids[3:]
    assert git(store.memory, "log", "-1", "--format=%(trailers:key=Capsule-Id,valueonly)").split() == ids[:3]
    assert git(store.memory, "log", "-1", "--format=%s") == "capsule: retire 3 capsules"
    assert git(store.memory, "status", "--porcelain") == ""
    assert retire.retire(store, now=DAY + 9999).token == "nothing-to-retire"


def test_a_retired_capsule_is_still_shown_listed_told_and_explained(store: seats.Store, vault_mem: Run) -> None:
    ids = [saved(store, number) for number in range(6)]
    retire.retire(store, now=DAY + 9999)

    shown = vault_mem("show", ids[0], cwd=store.seat.root, check=True).stdout.decode()
    listed = json.loads(vault_mem("list", "--all", "--json", cwd=store.seat.root, check=True).stdout)["capsules"]
    told = vault_mem("log", ids[0], cwd=store.seat.root, check=True).stdout.decode()
    graph = vault_mem("log", "--graph", "-n", "0", cwd=store.seat.root, check=True).stdout.decode()
    then = vault_mem("show", ids[0], "--history", "--json", cwd=store.seat.root, check=True)

    assert '"work 0"' in shown
    assert "left the tree" in shown
    assert [row["id"] for row in listed] == ids[::-1]
    assert [row["id"] for row in listed if row["gone"]] == [ids[1], ids[0]]
    assert "retire" in told
    assert "autosave" in told
    assert ids[0] in graph
    assert [each["event"] for each in json.loads(then.stdout)["versions"]] == ["autosave"]
    assert ids[0] not in vault_mem("list", cwd=store.seat.root, check=True).stdout.decode()
    explained = json.loads(vault_mem("explain", "--at", "HEAD~1", "--json", "--full", cwd=store.seat.root).stdout)
    assert ids[0] in {each["name"] for each in explained["rejected"]}


@pytest.mark.parametrize(
    ("status", "autosave", "goes"),
    (
        pytest.param("resumed", True, True, id="resumed"),
        pytest.param("resolved", False, True, id="resolved"),
        pytest.param("abandoned", False, True, id="abandoned"),
        pytest.param("superseded", True, True, id="superseded"),
        pytest.param("active", True, True, id="active autosave"),
        pytest.param("active", False, False, id="active curated"),
        pytest.param("paused", False, False, id="paused"),
        pytest.param("paused", True, False, id="paused autosave"),
    ),
)
def test_what_may_still_be_wanted_stays(store: seats.Store, status: str, autosave: bool, goes: bool) -> None:
    oldest = saved(store, 0, status, autosave=autosave)
    for number in range(1, 6):
        saved(store, number, "paused")

    outcome = retire.retire(store, now=DAY + 9999)

    assert (oldest in outcome.retired) is goes
    assert (oldest not in left(store)) is goes
    assert goes or outcome.kept[oldest] == status


def test_active_autosaves_that_left_are_counted_in_the_ledger(store: seats.Store, vault_mem: Run) -> None:
    for number in range(7):
        saved(store, number, "active")
    retire.retire(store, now=DAY + 9999)

    assert json.loads(vault_mem("explain", "--json", cwd=store.seat.root, check=True).stdout)["left"] == 3
    assert b"\n3 active autosaves left the tree" in vault_mem("explain", cwd=store.seat.root, check=True).stdout
    Path(store.runtime, "index/gone.json").write_text('{"head": "HEAD", "gone": [[]]}', "utf-8")
    assert b"\n3 active autosaves left the tree" in vault_mem("explain", cwd=store.seat.root, check=True).stdout


def test_an_edited_or_uncommitted_file_is_never_taken_away(store: seats.Store) -> None:
    ids = [saved(store, number) for number in range(7)]
    edited = Path(store.memory, "capsules/2026-11", f"{ids[0]}.md")
    edited.write_text(edited.read_text("utf-8") + "a word of mine\n", encoding="utf-8")

    outcome = retire.retire(store, now=DAY + 9999)

    assert outcome.kept[ids[0]] == "edited-outside"
    assert "a word of mine" in edited.read_text("utf-8")
    assert outcome.retired == tuple(ids[1:3])


def test_the_capsule_that_may_be_delivered_again_stays(store: seats.Store, vault_mem: Run) -> None:
    ids = [saved(store, number) for number in range(9)]

    retire.retire(store, now=DAY + 9999)

    assert ids[-1] in left(store)
    assert ids[-1] in vault_mem("explain", "--full", cwd=store.seat.root).stdout.decode()


def test_a_dry_run_names_them_and_changes_nothing(store: seats.Store, vault_mem: Run, git: Git) -> None:
    ids = [saved(store, number) for number in range(6)]
    head = git(store.memory, "rev-parse", "HEAD")

    done = vault_mem("retire", "--dry-run", cwd=store.seat.root, environ=dict(store.environ), check=True)

    assert done.stdout.decode().splitlines() == [f"would retire  {name}" for name in ids[:2]]
    assert (git(store.memory, "rev-parse", "HEAD"), left(store)) == (head, ids)


def test_never_is_never(store: seats.Store, vault_mem: Run) -> None:
    for number in range(6):
        saved(store, number)

    done = vault_mem("retire", cwd=store.seat.root, more={"VAULT_MEM_RETIRE_AFTER": "never"}, check=True)

    assert done.stdout.startswith(b"never")
    assert len(left(store)) == 6


def test_a_retirement_that_died_after_its_commit_is_finished_by_the_next(store: seats.Store, git: Git) -> None:
    ids = [saved(store, number) for number in range(6)]
    place = Path(store.memory, "capsules/2026-11", f"{ids[0]}.md")
    data = place.read_bytes()
    blob = git(store.memory, "rev-parse", f"HEAD:capsules/2026-11/{ids[0]}.md")
    commits.retire(store, {f"capsules/2026-11/{ids[0]}.md": ids[0]}, at=DAY + 9000)
    place.write_bytes(data)
    Path(store.runtime, retire.RECORD).write_text(json.dumps({f"capsules/2026-11/{ids[0]}.md": blob}), "utf-8")

    retire.retire(store, now=DAY + 9999)

    assert left(store) == ids[2:]
    assert not Path(store.runtime, retire.RECORD).exists()
    assert git(store.memory, "status", "--porcelain") == ""


def test_a_session_whose_capsule_was_retired_goes_on_in_a_new_file(store: seats.Store, vault_mem: Run) -> None:
    transcript = Path(store.environ["HOME"], "t.jsonl")
    transcript.touch()

    def turn(text: str) -> None:
        row = {
            "type": "user", "uuid": text, "sessionId": "long-lived", "cwd": store.seat.root, "isSidechain": False,
            "timestamp": "2026-11-01T10:00:00.000Z", "origin": {"kind": "human"}, "promptSource": "typed",
            "message": {"role": "user", "content": text},
        }  # fmt: skip
        with transcript.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        payload = {"session_id": "long-lived", "transcript_path": str(transcript), "cwd": store.seat.root}
        done = vault_mem("hook", "stop", "--explain", stdin=json.dumps(payload).encode(), cwd=store.seat.root)
        assert done.stderr.startswith(b"vault-mem: saved"), done.stderr

    turn("Begin the long work on the parser.")
    (mine,) = left(store)
    for number in range(5):
        saved(store, number)
    assert mine in retire.retire(store, now=DAY + 9999).retired

    turn("Now write the tests for it as well.")

    (again,) = set(left(store)) - {f"2026-11-20-c{number:03d}" for number in range(5)}
    assert "Now write the tests" in next(Path(store.memory).rglob(f"{again}.md")).read_text("utf-8")


def test_upkeep_that_runs_already_is_not_started_twice(store: seats.Store) -> None:
    from vault_mem import lock

    os.makedirs(store.runtime, exist_ok=True)
    with lock.Locked(f"{store.runtime}/{upkeep.LOCK}", timeout=0.0):
        assert retire.background(store, now=DAY) == ("upkeep-running",)


def test_the_end_of_a_session_starts_upkeep_that_is_due_and_does_not_wait(
    store: seats.Store, vault_mem: Run, environ: dict[str, str]
) -> None:
    upkeep.store_note(store.runtime, upkeep.Note(0.0, 0, 4))
    ids = [saved(store, number) for number in range(4 + upkeep.SLACK + 1)]
    payload = {"session_id": "s", "transcript_path": "/nowhere", "cwd": store.seat.root, "reason": "exit"}
    marked = {**environ, "VAULT_MEM_HOOK": "1:never"}

    done = vault_mem(
        "hook", "session-end", stdin=json.dumps(payload).encode(), cwd=store.seat.root, environ=marked, check=True
    )

    assert done.stdout == b""
    until = time.monotonic() + 30
    while len(left(store)) > 4 and time.monotonic() < until:
        time.sleep(0.05)
    assert left(store) == ids[-4:]


def test_packing_leaves_nothing_loose_and_everything_readable(store: seats.Store, vault_mem: Run, git: Git) -> None:
    for number in range(6):
        saved(store, number)
    before = git(store.memory, "log", "--format=%H")

    done = vault_mem("gc", cwd=store.seat.root, environ=dict(store.environ), check=True)

    assert done.stdout.decode() == "packed; retired: 2 capsules\n"
    assert git(store.memory, "count-objects").startswith("0 objects")
    assert before in git(store.memory, "log", "--format=%H")
    git(store.memory, "fsck", "--strict")
    assert saved(store, 10) in left(store)


@pytest.mark.parametrize(
    ("known", "capsules", "expected"),
    (
        pytest.param(upkeep.Note(0.0, 0, 4), 4 + upkeep.SLACK - 1, False, id="within the slack"),
        pytest.param(upkeep.Note(0.0, 0, 4), 4 + upkeep.SLACK, True, id="beyond it"),
        pytest.param(upkeep.Note(0.0, 30, 4), 4 + upkeep.SLACK, False, id="as many stayed last time"),
        pytest.param(upkeep.Note(0.0, 0, 0), 4 + upkeep.SLACK, False, id="never"),
        pytest.param(upkeep.Note(DAY - 5.0, 0, 4), 4 + upkeep.SLACK, False, id="just done"),
    ),
)
def test_upkeep_is_due_when_it_would_do_something(
    store: seats.Store, known: upkeep.Note, capsules: int, expected: bool
) -> None:
    folder = Path(store.memory, "capsules/2026-11")
    folder.mkdir(parents=True)
    for number in range(capsules):
        (folder / f"{number}.md").touch()
    upkeep.store_note(store.runtime, known)

    assert upkeep.due(store, now=DAY) is expected


def test_active_autosaves_that_left_are_counted_in_the_ledger_of_a_resume(store: seats.Store, vault_mem: Run) -> None:
    for number in range(4 + upkeep.SLACK + 1):
        saved(store, number, model.ACTIVE)

    assert f"retired:{upkeep.SLACK + 1}" in retire.background(store, now=DAY + 9999)

    text = vault_mem("resume", "--peek", cwd=store.seat.root, environ=dict(store.environ), check=True).stdout.decode()
    assert f"\n  - {upkeep.SLACK + 1}x retired-active: " in text
