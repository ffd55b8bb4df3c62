"""`vault-mem init`, `uninstall` and `trust`: what they did, in lines for a person or one document."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from vault_mem import jsontext, roots, trust
from vault_mem.cli.arguments import Parser
from vault_mem.errors import UnsafeGitConfigError, VaultMemError
from vault_mem.install import launcher, setup
from vault_mem.install import seat as seats
from vault_mem.report import FAIL, OK, WARN, Finding

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence
    from typing import TextIO

    from vault_mem.install.setup import Outcome, Plan


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
    """One of the three commands; raises VaultMemError for what it refuses."""
    del err
    options = _parser(command).read(arguments, out=out)
    if options is None:
        return 0
    line = launcher.program_line(program, sys.executable)
    try:
        return _act(command, options, line, environ=environ, cwd=cwd, now=now, out=out)
    except VaultMemError as error:
        if options.json:
            refused = Finding(error.token, FAIL, "", str(error))
            document = {"schema": 1, "command": command, "ok": False, "findings": [found(refused)]}
            out.write(jsontext.dumps(document) + "\n")
        raise


def _act(
    command: str,
    options: argparse.Namespace,
    line: str,
    *,
    environ: Mapping[str, str],
    cwd: str,
    now: float,
    out: TextIO,
) -> int:
    try:
        if command == "trust":
            return _trust(options, environ=environ, cwd=cwd, now=now, out=out)
        return _set_up(command, options, line, environ=environ, cwd=cwd, now=now, out=out)
    except BrokenPipeError:
        raise
    except OSError as error:
        # Space, permissions, a file system that went away. What was done stays and is passed over when the command runs again.
        raise seats.RefusedError("not-writable", f"{error}; run the command again when that is mended") from error


def _set_up(
    command: str,
    options: argparse.Namespace,
    line: str,
    *,
    environ: Mapping[str, str],
    cwd: str,
    now: float,
    out: TextIO,
) -> int:
    script = launcher.mendable(sys.executable) if command == "init" else ""
    broken = script if script and not launcher.can_start(script) else ""
    wish = setup.Wish(
        shlex.quote(broken) if broken else line,
        options.root,
        getattr(options, "memory_root", ""),
        options.harness,
        options.scope,
        getattr(options, "mode", ""),
        adopt=getattr(options, "adopt", False),
        replace_hooks=getattr(options, "replace_hooks", False),
        no_hooks=getattr(options, "no_hooks", False),
        source=getattr(options, "source", ""),
        status_line=getattr(options, "status_line", False),
    )
    removing = command == "uninstall"
    plan = (setup.planned_removal if removing else setup.planned)(wish, environ=environ, cwd=cwd)
    if script:
        plan = replace(
            plan, findings=(_script_mended(script, broken=bool(broken), dry_run=options.dry_run), *plan.findings)
        )
    outcome = None
    if not options.dry_run:
        outcome = (setup.removed if removing else setup.carried_out)(plan, environ=environ, now=now)
    _show(command, plan, outcome, options, out=out)
    return 0


def _script_mended(script: str, *, broken: bool, dry_run: bool) -> Finding:
    """Gives the installed script its beginning, unless nothing is to be written, and says so.

    Raises:
        seats.RefusedError: nothing can start the script (`not-writable`).
    """
    if not dry_run and not launcher.mend(script, sys.executable):
        raise seats.RefusedError("not-writable", f"{script} cannot be started as it is, and cannot be mended")
    if broken:
        return Finding(
            "script-mended",
            OK,
            script,
            f"{script} could not be started (a blank in its path, or a long one) and got another beginning",
        )
    return Finding(
        "script-lean",
        OK,
        script,
        f"{script} starts Python without the packages and variables that a hook does not need",
    )


def _parser(command: str) -> Parser:
    if command == "trust":
        parser = Parser(
            command,
            "Trusts the seat here for this user, as it is now: its memory is read and written from now on.",
            example="vault-mem trust",
        )
        parser.add_argument("--revoke", action="store_true", help="forget the trust; nothing of the seat is touched")
        parser.add_argument("--json", action="store_true", help="one document")
        return parser
    if command == "uninstall":
        parser = Parser(
            command,
            "Removes exactly our hook entries and the skills nobody edited, from every settings file a client reads here. The vault stays.",
            example="vault-mem uninstall --dry-run",
        )
        parser.add_argument("--harness", choices=("claude", "codex", "all"), default="", help="this client alone")
        parser.add_argument("--scope", choices=("project", "user", "local"), default="", help="this file alone")
    else:
        parser = Parser(
            command,
            "Makes this project a seat: memory root, vault, hooks, skills, trust. What is there already stays; run it again after an upgrade or a move.",
            example="vault-mem init --harness claude --scope project",
        )
        parser.add_argument(
            "--memory-root", default="", metavar="REL", help="where the memory lies below the seat (vault/memory)"
        )
        parser.add_argument(
            "--harness", choices=("claude", "codex", "all"), default="claude", help="which client is wired (claude)"
        )
        parser.add_argument(
            "--scope",
            choices=("project", "user", "local"),
            default="project",
            help="whose settings get the hooks (project)",
        )
        parser.add_argument(
            "--mode",
            choices=("dedicated", "embedded"),
            default="",
            help="a vault of its own, or a private ref of the project's repository",
        )
        parser.add_argument(
            "--adopt",
            action="store_true",
            help="take over a memory tree that is there already, nothing moved or rewritten",
        )
        parser.add_argument(
            "--replace-hooks", action="store_true", help="take out the hooks of another lifecycle (aigent-OS, Harnery)"
        )
    if command != "uninstall":
        parser.add_argument(
            "--status-line", action="store_true", help="show ours as well: around your own, which uninstall gives back"
        )
        parser.add_argument(
            "--from", dest="source", default="", metavar="URL", help="clone an existing vault into the memory root"
        )
        parser.add_argument(
            "--no-hooks", action="store_true", help="the seat alone: the plugin, or another scope, has the hooks"
        )
    parser.add_argument("--dry-run", action="store_true", help="show what would change, as a diff, and change nothing")
    parser.add_argument("--json", action="store_true", help="one document")
    return parser


def _show(command: str, plan: Plan, outcome: Outcome | None, options: argparse.Namespace, *, out: TextIO) -> None:
    seat = {"root": plan.target.root}
    if plan.site is not None:
        seat |= {"memory_root": plan.site.memory, "relative": plan.site.relative, "mode": plan.site.mode}
    done = list(outcome.done) if outcome else []
    if options.json:
        document = {
            "schema": 1,
            "command": command,
            "ok": True,
            "dry_run": outcome is None,
            "findings": [found(each) for each in plan.findings],
            "seat": seat,
            "done": done,
            "backups": list(outcome.backups) if outcome else [],
            "diff": list(plan.diff()),
        }
        out.write(jsontext.dumps(document) + "\n")
        return
    lines = [f"seat {seat['root']}" + (f", memory {seat['relative']}" if "relative" in seat else "")]
    if outcome is None:
        changes = list(plan.diff())
        lines += changes or ["nothing would change in a file"]
        if plan.site is not None and plan.site.is_new:
            lines.append(
                f"would {f'clone {plan.site.source} to' if plan.site.source else 'make'} the vault {plan.site.memory}"
            )
    else:
        lines += done or ["everything was in place, nothing changed"]
        lines += [f"the former bytes are kept in {path}" for path in outcome.backups]
    for each in plan.findings:
        kind = "warning" if each.severity == WARN else "note"
        lines.append(
            f"{kind}: {each.what if each.token == kind else f'{each.token}: {each.what}'}"
            + (f" ({each.fix})" if each.fix else "")
        )
    if command == "uninstall" and outcome is not None:
        lines.append("the vault and its declaration stay: they are your data")
    out.writelines(_visible(line) + "\n" for line in lines)


def _visible(line: str) -> str:
    """A line of somebody else's file or path for a terminal: what is not printable shows as its escape, blanks stay."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in line)


def found(finding: Finding) -> dict[str, str]:
    """A finding as it stands in a document."""
    return {
        "token": finding.token,
        "severity": finding.severity,
        "where": finding.where,
        "what": finding.what,
        "fix": finding.fix,
    }


def _trust(options: argparse.Namespace, *, environ: Mapping[str, str], cwd: str, now: float, out: TextIO) -> int:
    seat = roots.find(
        explicit=options.root,
        environ=environ,
        cwd=cwd,
        is_trusted=lambda memory: trust.trusted(memory, environ=environ) is not None,
        allow_missing=True,
    )
    if seat is None:
        raise roots.nowhere(explicit=options.root, environ=environ, cwd=cwd)
    memory = seat.memory.path
    document: dict[str, object] = {
        "schema": 1,
        "command": "trust",
        "ok": True,
        "seat": {"root": seat.root, "memory_root": memory},
    }
    if options.revoke:
        gone = trust.revoke(memory, environ=environ)
        document |= {"trusted": False, "changed": gone, "findings": []}
        lines = [f"{memory} is not trusted any more" if gone else f"{memory} was not trusted"]
    else:
        unsafe, ignored = trust.program_keys(memory, seat=seat.root)
        if unsafe:
            raise UnsafeGitConfigError(
                f"unsafe-git-config: {', '.join(unsafe)} could start a program; remove them from the configuration of {memory}"
            )
        known = seats.recognised(seat, environ=environ)
        trust.grant(memory, known, seat=seat.root, environ=environ, now=now)
        found_keys = [
            Finding("git-config-ignored", "ok", memory, f"{key} can run a program; it is switched off on every call")
            for key in ignored
        ]
        document |= {
            "trusted": True,
            "changed": True,
            "mode": known.mode,
            "anchor": known.anchor,
            "findings": [found(each) for each in found_keys],
        }
        lines = [
            f"{memory} is trusted as it is now, at commit {known.anchor[:12] or 'none'} ({known.mode})",
            *(each.what for each in found_keys),
        ]
    if options.json:
        out.write(jsontext.dumps(document) + "\n")
    else:
        out.write("".join(_visible(line) + "\n" for line in lines))
    return 0
