"""Every finding has a row in one of the tables beside, and `--fix` does what the table of findings says."""

from __future__ import annotations

import re
from pathlib import Path

from vault_mem.doctor import repair
from vault_mem.doctor.catalogue import KINDS

NOT_IN_THE_TABLE = {
    # Their own tests below or beside: another kind of seat, a full disk, another clock, a proof.
    "vault-adopted-no-repo",
    "mirrored",
    "read-only",
    "disk-full",
    "disk-low",
    "clock",
    "root-uninspectable",
    "check-failed",
    "proof-save",
    "proof-resume",
    "proof-undo",
    "proof-touched",
    "proved",
    "proved-despite",
}


def test_every_finding_has_a_row() -> None:
    pages = [path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_doctor_*.py")]
    listed = {token for page in pages for token in re.findall(r'^    \("([a-z-]+)", ', page, re.MULTILINE)}

    # The names of parameters stand at the same place of a line; a row with a token that does not exist fails as a row.
    assert set(KINDS) - listed == NOT_IN_THE_TABLE


def test_what_says_it_is_mended_by_fix_is() -> None:
    assert {token for token, kind in KINDS.items() if kind.fixed} == repair.MENDED
