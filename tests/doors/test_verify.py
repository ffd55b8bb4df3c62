from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from vault_mem.capsule import header, lineage
from vault_mem.vault import commits
from vault_mem.vault import store as seats

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    Git = Callable[..., str]
    Run = Callable[..., subprocess.CompletedProcess[bytes]]

AT = 1_794_990_400.0


def save(store: seats.Store, name: str, minute: int, event: str, **given: Any) -> Path:
    consumer = given.pop("consumer", "")
    fields: dict[str, Any] = {
        "id": name, "parent_capsule_id": None, "status": "active", "objective": "work", "waiting_on": "nobody",
        "next_valid_action": "go on", "created_at": "2026-11-18T08:00:00Z", "session_id": f"s-{name}", **given,
    }  # fmt: skip
    place = Path(store.memory, "capsules/2026-11", f"{name}.md")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(f"---\n{header.render(fields)}---\n{minute}\n", encoding="utf-8")
    one = lineage.Event(
        name, event, fields["status"], fields["parent_capsule_id"] or "", f"s-{name}", "claude", consumer, AT + minute
    )
    commits.keep(store, f"capsules/2026-11/{name}.md", place.read_bytes(), one)
    return place


@pytest.fixture
def store(seat: Path, environ: dict[str, str]) -> seats.Store:
    """Capsule a, delivered to the session that wrote b."""
    opened = seats.opened(explicit=str(seat), environ=environ, cwd=str(seat))
    save(opened, "a", 1, lineage.AUTOSAVE)
    save(opened, "a", 2, lineage.CONSUME, status="resumed", consumer="s-b")
    save(opened, "b", 3, lineage.AUTOSAVE, parent_capsule_id="a")
    return opened


def tokens(run: Run, store: seats.Store, *arguments: str) -> list[str]:
    done = run("verify", "--json", *arguments, cwd=store.seat.root)
    found = json.loads(done.stdout)
    assert done.returncode == int(bool(found["findings"]))
    assert found["ok"] is not bool(found["findings"])
    return [each["token"] for each in found["findings"]]


def test_what_our_own_commits_made_is_in_order(store: seats.Store, vault_mem: Run) -> None:
    assert tokens(vault_mem, store) == []
    assert vault_mem("verify", cwd=store.seat.root, check=True).stdout.startswith(b"ok: 3 events, 2 capsules")


def test_a_file_changed_added_or_taken_away_by_hand_is_named(store: seats.Store, vault_mem: Run) -> None:
    folder = Path(store.memory, "capsules/2026-11")
    (folder / "a.md").write_text((folder / "a.md").read_text("utf-8") + "mine\n", encoding="utf-8")
    (folder / "b.md").unlink()
    (folder / "x.md").write_text("---\nid: x\n---\n", encoding="utf-8")

    assert tokens(vault_mem, store) == ["edited-outside", "missing", "not-committed"]


def test_a_commit_by_hand_is_named_and_one_beside_the_capsules_is_not(
    store: seats.Store, vault_mem: Run, git: Git
) -> None:
    Path(store.memory, "note.txt").write_text("n\n", encoding="utf-8")
    git(store.memory, "add", "note.txt")
    git(store.memory, "commit", "-qm", "a note")
    assert tokens(vault_mem, store) == []

    place = Path(store.memory, "capsules/2026-11/a.md")
    place.write_text(place.read_text("utf-8") + "mine\n", encoding="utf-8")
    git(store.memory, "commit", "-qam", "by hand")

    assert tokens(vault_mem, store) == ["foreign-commit"]
    assert tokens(vault_mem, store, "--since", "HEAD") == []


def test_a_history_that_was_cut_or_written_anew_is_named(store: seats.Store, vault_mem: Run, git: Git) -> None:
    git(store.memory, "reset", "-q", "--hard", "HEAD~1")
    assert tokens(vault_mem, store) == ["rolled-back"]

    git(store.memory, "commit", "-q", "--amend", "--date", "2026-01-01T00:00:00Z", "--no-edit")
    assert "history-rewritten" in tokens(vault_mem, store)


def test_a_delivered_capsule_that_says_active_again_is_named(store: seats.Store, vault_mem: Run, git: Git) -> None:
    git(store.memory, "checkout", "-q", "HEAD~2", "--", "capsules")

    assert set(tokens(vault_mem, store)) == {"edited-outside", "replayed"}


def test_a_parent_that_was_never_saved_is_named(store: seats.Store, vault_mem: Run) -> None:
    save(store, "c", 9, lineage.AUTOSAVE, parent_capsule_id="nobody")

    assert tokens(vault_mem, store) == ["unknown-parent"]
