"""`vault-mem doctor`: every fault of root, hooks, git and vault, each with the command that mends it, and one verdict line last."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

from vault_mem import clients, files, jsontext, redact, stamps, version
from vault_mem.capsule.inert import clean, plain
from vault_mem.cli.arguments import Parser
from vault_mem.doctor import collect, prove, repair
from vault_mem.doctor.examine import FAMILIES, examine, ordered
from vault_mem.errors import VaultMemError
from vault_mem.install import launcher, wiring
from vault_mem.report import FAIL, WARN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TextIO

    from vault_mem.doctor.repair import Mended
    from vault_mem.doctor.scene import Scene
    from vault_mem.report import Finding

WIDEST = 900


class AttestError(VaultMemError):
    """The file for the findings cannot be written."""

    token = "attest-unwritable"


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
    parser = Parser(
        command,
        "Every fault of root, hooks, git and vault, with the command that mends it. Writes nothing without --fix, --prove or --attest.",
        example="vault-mem doctor --fix",
    )
    parser.add_argument("--fix", action="store_true", help="mend what is safe to mend, and say what was done")
    parser.add_argument("--prove", action="store_true", help="make a real save, resume and undo on a scratch reference")
    parser.add_argument("--attest", default="", metavar="FILE", help="write the findings with the commit they hold for")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    options = parser.read(arguments, out=out)
    if options is None:
        return 0

    def looked() -> tuple[Scene, tuple[Finding, ...]]:
        scene, odd = collect.look(explicit=options.root, environ=environ, cwd=cwd, now=now, program=program)
        return scene, ordered((*examine(scene), *odd))

    scene, findings = looked()
    mended: tuple[Mended, ...] = ()
    if options.fix:
        mended = repair.mend(scene, findings, _tools(scene, environ=environ, now=now, program=program))
        scene, findings = looked()
    if options.prove:
        findings = ordered((*findings, *prove.prove(scene, environ=environ, now=now)))
    told = document(scene, findings, mended)
    if options.attest:
        told["attested"] = _attested(told, os.path.join(cwd, options.attest))
    if options.json:
        out.write(jsontext.dumps(told, escaped=True) + "\n")
    else:
        _show(scene, findings, mended, out)
        if options.attest:
            err.write(f"vault-mem: attested: {plain(told['attested'], limit=300)}\n")
    return 1 if any(finding.severity == FAIL for finding in findings) else 0


def _tools(scene: Scene, *, environ: Mapping[str, str], now: float, program: str) -> repair.Tools:
    """The doctor knows nothing of the installer; the door hands it over."""
    line = launcher.program_line(program, sys.executable)

    def wire(harness: str, scope: str, without: Sequence[tuple[str, int, int]]) -> Sequence[str]:
        place = clients.place(harness, scope, project=scene.place.root, environ=environ)
        planned = wiring.planned(place, program=line, environ=environ, without=without)
        if not planned.changed:
            return planned.notes
        backup = wiring.applied(planned, environ=environ, now=now)
        said = [text for text in planned.done if "another tool's hook" not in text]
        return [*said, *planned.notes, *([f"backup {backup}"] if backup else [])]

    return repair.Tools(environ, now, program, wire)


def _attested(told: Mapping[str, Any], path: str) -> str:
    """Writes the document and gives its path. Raises AttestError."""
    try:
        files.write_atomic(path, (json.dumps(told, indent=2) + "\n").encode(), mode=0o644)
    except OSError as error:
        raise AttestError(f"{path}: cannot be written ({error.strerror})") from error
    return path


def verdict(findings: Sequence[Finding]) -> str:
    """The last line."""
    failures = sum(finding.severity == FAIL for finding in findings)
    warnings = sum(finding.severity == WARN for finding in findings)
    word = "not working" if failures else "working, with warnings" if warnings else "sound"
    return f"verdict: {word} ({failures} to mend, {warnings} to look at)"


def document(scene: Scene, findings: Sequence[Finding], mended: Sequence[Mended] = ()) -> dict[str, Any]:
    """The findings as one JSON value; text from files is cleaned of what a terminal or a client obeys, and of secrets."""
    return {
        "schema": "vault-mem/doctor/1",
        "command": "doctor",
        "ok": not any(finding.severity == FAIL for finding in findings),
        "version": version.__version__,
        "at": stamps.utc(scene.now),
        "seat": clean(scene.place.root),
        "memory_root": clean(scene.place.memory),
        "head": scene.git.head,
        "findings": [{key: _harmless(value) for key, value in finding._asdict().items()} for finding in findings],
        "mended": [
            {"token": each.token, "where": _harmless(each.where), "what": _harmless(each.what), "done": each.done}
            for each in mended
        ],
        "verdict": verdict(findings),
    }


def _harmless(text: str) -> str:
    """Text of a finding without what a terminal obeys and without secrets: other tools' command lines may hold some."""
    return redact.redact(clean(text))[:WIDEST]


def _show(scene: Scene, findings: Sequence[Finding], mended: Sequence[Mended], out: TextIO) -> None:
    place = scene.place
    out.write(f"seat         {plain(place.root, limit=300) or 'none'}\n")
    if place.memory:
        out.write(f"memory root  {plain(place.memory, limit=300)} ({plain(place.source)})\n")
    if scene.git.head:
        out.write(
            f"vault        {scene.git.head[:12]}, {len(scene.memory.candidates)} capsules, {scene.trusting.state}\n"
        )
    versions = ", ".join(f"{client.name} {plain(client.version)}" for client in scene.wiring.clients if client.version)
    for file in scene.wiring.files:
        hooks = sum(1 for each in file.commands if each.ours)
        if hooks:
            out.write(f"hooks        {hooks} in {plain(file.path, limit=300)} ({file.harness}, {file.scope})\n")
    ran = sum(not each.problem for each in scene.wiring.runs)
    if scene.wiring.runs or versions:
        out.write(
            f"             {ran} of {len(scene.wiring.runs)} commands run as installed{f'; {versions}' if versions else ''}\n"
        )
    out.write(f"looked at    {', '.join(name for name, _ in FAMILIES)}\n\n")
    for each in mended:
        out.write(f"{'mended' if each.done else 'left'}  {each.token}  {plain(_harmless(each.where), limit=300)}\n")
        out.write(f"      {plain(_harmless(each.what), limit=WIDEST)}\n")
    for finding in findings:
        mark = finding.severity.upper() if finding.severity in (FAIL, WARN) else finding.severity
        out.write(f"{mark:<4}  {finding.token}  {plain(_harmless(finding.where), limit=300)}\n")
        out.write(f"      {plain(_harmless(finding.what), limit=WIDEST)}\n")
        if finding.why:
            out.write(f"      why:  {plain(finding.why, limit=300)}\n")
        if finding.fix:
            out.write(f"      mend: {plain(_harmless(finding.fix), limit=WIDEST)}\n")
    out.write(f"{verdict(findings)}\n")
