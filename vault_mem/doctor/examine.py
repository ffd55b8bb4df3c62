"""All checks over one scene, in the order in which a person should mend things."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vault_mem.doctor.catalogue import NOTE
from vault_mem.doctor.checks import capsules, hooks, others, place, state, vault
from vault_mem.report import FAIL, WARN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vault_mem.doctor.scene import Scene
    from vault_mem.report import Finding

FAMILIES = (
    ("seat and trust", place.check),
    ("vault repository", vault.check),
    ("room, locks, owed work", state.check),
    ("hooks", hooks.check),
    ("clients, other tools, skills", others.check),
    ("capsules", capsules.check),
)
_ORDER = {FAIL: 0, WARN: 1, NOTE: 2}


def examine(scene: Scene) -> tuple[Finding, ...]:
    """Every finding once, failures first; within a severity in the order of the families."""
    everything = dict.fromkeys(finding for _, check in FAMILIES for finding in check(scene))
    return ordered(everything)


def ordered(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Failures, then warnings, then notes."""
    return tuple(sorted(findings, key=lambda finding: _ORDER[finding.severity]))
