"""What a check found: one value for the doctor, the installer, the settings and the integrity check."""

from __future__ import annotations

from vault_mem.record import NamedTuple

OK, WARN, FAIL = "ok", "warn", "fail"


class Finding(NamedTuple):
    """One fact. token: a reason that can be grepped; where: a path or place; what: the fact; why: why it matters; fix: the command that mends it.

    Everything here may hold stored or foreign text: whoever prints it sends it through `inert`.
    """

    token: str
    severity: str
    where: str
    what: str
    why: str = ""
    fix: str = ""


def worst(findings: tuple[Finding, ...]) -> str:
    """The greatest severity among *findings*; ok when there is none."""
    severities = {found.severity for found in findings}
    return FAIL if FAIL in severities else WARN if WARN in severities else OK
