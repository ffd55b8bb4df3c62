"""`vault-mem doctor`: every fault of root, hooks, git and vault, each with the command that mends it, and one verdict line last."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from vault_mem import stamps, version
from vault_mem.capsule.inert import clean, plain
from vault_mem.cli.arguments import Parser
from vault_mem.doctor import collect
from vault_mem.doctor.examine import FAMILIES, examine, ordered
from vault_mem.report import FAIL, WARN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TextIO

    from vault_mem.doctor.scene import Scene
    from vault_mem.report import Finding

WIDEST = 900


def run(
    command: str,
    arguments: Sequence[str],
    *,
    environ: Mapping[str, str],
    cwd: str,
    now: float,
    program: str,
    out: TextIO,
    err: TextIO,
) -> int:
    """Exit code 0 when nothing fails, else 1; warnings and notes do not count."""
    del err
    parser = Parser(
        command,
        "Every fault of root, hooks, git and vault, with the command that mends it. Writes nothing without --fix, --prove or --attest.",
        example="vault-mem doctor --fix",
    )
    parser.add_argument("--json", action="store_true", help="one JSON document")
    options = parser.read(arguments, out=out)
    if options is None:
        return 0
    scene, odd = collect.look(explicit=options.root, environ=environ, cwd=cwd, now=now, program=program)
    findings = ordered((*examine(scene), *odd))
    if options.json:
        out.write(json.dumps(document(scene, findings)) + "\n")
    else:
        _show(scene, findings, out)
    return 1 if any(finding.severity == FAIL for finding in findings) else 0


def verdict(findings: Sequence[Finding]) -> str:
    """The last line."""
    failures = sum(finding.severity == FAIL for finding in findings)
    warnings = sum(finding.severity == WARN for finding in findings)
    word = "not working" if failures else "working, with warnings" if warnings else "sound"
    return f"verdict: {word} ({failures} to mend, {warnings} to look at)"


def document(scene: Scene, findings: Sequence[Finding]) -> dict[str, Any]:
    """The findings as one JSON value; text from files is cleaned of what a terminal or a client obeys."""
    return {
        "schema": "vault-mem/doctor/1",
        "command": "doctor",
        "ok": not any(finding.severity == FAIL for finding in findings),
        "version": version.__version__,
        "at": stamps.utc(scene.now),
        "seat": clean(scene.place.root),
        "memory_root": clean(scene.place.memory),
        "head": scene.git.head,
        "findings": [{key: clean(value)[:WIDEST] for key, value in finding._asdict().items()} for finding in findings],
        "verdict": verdict(findings),
    }


def _show(scene: Scene, findings: Sequence[Finding], out: TextIO) -> None:
    place = scene.place
    out.write(f"seat         {plain(place.root, limit=300) or 'none'}\n")
    if place.memory:
        out.write(f"memory root  {plain(place.memory, limit=300)} ({plain(place.source)})\n")
    if scene.git.head:
        out.write(
            f"vault        {scene.git.head[:12]}, {len(scene.memory.candidates)} capsules, {scene.trusting.state}\n"
        )
    versions = ", ".join(f"{client.name} {plain(client.version)}" for client in scene.wiring.clients if client.version)
    hooks = sum(1 for each in scene.wiring.commands if each.ours)
    if hooks or versions:
        out.write(
            f"hooks        {hooks} wired, {len(scene.wiring.runs)} run as installed{f'; {versions}' if versions else ''}\n"
        )
    out.write(f"looked at    {', '.join(name for name, _ in FAMILIES)}\n\n")
    for finding in findings:
        mark = finding.severity.upper() if finding.severity in (FAIL, WARN) else finding.severity
        out.write(f"{mark:<4}  {finding.token}  {plain(finding.where, limit=300)}\n")
        out.write(f"      {plain(finding.what, limit=WIDEST)}\n")
        if finding.why:
            out.write(f"      why:  {plain(finding.why, limit=300)}\n")
        if finding.fix:
            out.write(f"      mend: {plain(finding.fix, limit=WIDEST)}\n")
    out.write(f"{verdict(findings)}\n")
