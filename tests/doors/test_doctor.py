"""`vault-mem doctor` as a person runs it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., subprocess.CompletedProcess[bytes]]


def test_a_fresh_seat_is_sound(seat: Path, vault_mem: Run) -> None:
    done = vault_mem("doctor", cwd=seat)

    assert done.returncode == 0
    assert done.stdout.decode().splitlines()[-1] == "verdict: sound (0 to mend, 0 to look at)"
    assert b"FAIL" not in done.stdout
    assert b"WARN" not in done.stdout


def test_without_a_seat_it_says_so_and_how_to_make_one(tmp_path: Path, vault_mem: Run) -> None:
    done = vault_mem("doctor", "--json", cwd=tmp_path)
    told = json.loads(done.stdout)

    assert done.returncode == 1
    assert told["ok"] is False
    assert [(found["token"], found["fix"]) for found in told["findings"]] == [("no-seat", "vault-mem init")]
