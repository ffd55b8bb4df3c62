"""Keys that stand in names which nobody thinks of as text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.verbs.conftest import Session

KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"


def test_a_key_in_the_name_of_a_branch_is_not_stored(session: Session, git: Callable[..., str]) -> None:
    git(session.seat, "checkout", "--quiet", "-b", f"feature/{KEY}")
    session.prompt("Split the parser.")
    rows = [json.loads(line) for line in session.transcript.read_text("utf-8").splitlines()]
    changed = [{**row, "gitBranch": f"feature/{KEY}", "cwd": f"{session.seat}/{KEY}"} for row in rows]
    session.transcript.write_text("".join(json.dumps(row) + "\n" for row in changed), encoding="utf-8")

    session.stop("Split.")

    text = session.capsule().read_text("utf-8")
    assert "branch: feature/[redacted:github]" in text
    stored = [path for path in session.vault.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert stored == []
