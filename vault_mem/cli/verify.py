"""`vault-mem verify`: integrity of history and tree, one line a finding, exit 1 when there is one."""

from __future__ import annotations

from vault_mem import jsontext, report
from vault_mem.capsule.inert import clean, plain
from vault_mem.cli import drawing, words
from vault_mem.vault import store as seats

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TextIO

COMMAND = words.Command(
    "Integrity of history and tree: are they what our own commits made of them?",
    "vault-mem verify --since 2026-12-01",
    (
        words.Option(
            "--since", "REV|DATE", "hold commits to our trailers from there on, instead of from the anchor of trust"
        ),
        words.Option("--json", "", "one JSON document"),
    ),
)


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
    """Check everything; 0 when nothing was found."""
    del now, program, err
    options = words.read(command, COMMAND, arguments, out=out)
    if options is None:
        return 0
    from vault_mem.look import integrity

    store = seats.opened(explicit=options["--root"], environ=environ, cwd=cwd)
    verdict = integrity.checked(store, since=options["--since"])
    if options["--json"]:
        findings = [
            {
                "token": each.token,
                "severity": each.severity,
                "where": clean(each.where),
                "what": clean(each.what),
                "fix": clean(each.fix),
            }
            for each in verdict.findings
        ]
        document = {"schema": "vault-mem/verify/1", "command": command, "ok": not findings, "findings": findings}
        document |= {"commits": verdict.commits, "capsules": verdict.capsules, "head": verdict.head}
        out.write(jsontext.dumps(document, escaped=True) + "\n")
        return int(bool(findings))
    look = drawing.style(out, environ=environ)
    for each in verdict.findings:
        kind = "unreadable" if each.severity == report.FAIL else "paused"
        fix = f"  ({plain(each.fix)})" if each.fix else ""
        out.write(
            f"{look.paint(each.severity.upper(), kind)} {each.token}  {plain(each.where)}: {plain(each.what, limit=300)}{fix}\n"
        )
    state = "ok" if not verdict.findings else f"{len(verdict.findings)} findings"
    out.write(f"{state}: {verdict.commits} events, {verdict.capsules} capsules in the tree, head {verdict.head[:12]}\n")
    return int(bool(verdict.findings))
