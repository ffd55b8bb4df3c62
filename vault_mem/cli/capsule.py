"""`vault-mem capsule …` and `vault-mem note`: the curated verbs, for a person or one JSON document."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from vault_mem import curate, jsontext
from vault_mem.capsule import draft, header, lifecycle, selector
from vault_mem.capsule.inert import plain
from vault_mem.cli.arguments import Parser
from vault_mem.curate import Done, InvalidCapsuleError, Session
from vault_mem.errors import HeaderError, UsageError
from vault_mem.report import FAIL, Finding
from vault_mem.session import identity
from vault_mem.vault import store as seats
from vault_mem.vault import tree

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence
    from typing import TextIO

LIFE = (lifecycle.RESOLVE, lifecycle.PAUSE, lifecycle.ABANDON, lifecycle.REOPEN)
VERBS = ("validate", "write", *LIFE)
SCHEMA = "vault-mem/capsule/1"
SHOWN = (
    "id",
    "status",
    "objective",
    "waiting_on",
    "next_valid_action",
    "created_at",
    "parent_capsule_id",
)
USAGE = """usage: vault-mem capsule VERB …

  validate FILE|-           every problem of a capsule, with its token; exit 1 when there is one
  write [FILE|-]            check, stamp and commit a curated capsule; the session's autosave gives way to it
  resolve|pause|abandon|reopen ID [--why TEXT]
                            one step of a capsule's life, one commit

--json prints one document; --root DIR names the seat; `vault-mem capsule VERB --help` explains one.
example: vault-mem capsule resolve 2026-12-01-fix-the-importer --why "released as 0.3.1"
"""


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
    """One verb; 0 done or nothing to do, 1 refused with every reason on standard error."""
    del program
    if command == "note":
        return _note(arguments, environ=environ, cwd=cwd, now=now, out=out)
    rest = list(arguments)
    root: list[str] = []
    while rest[:1] == ["--root"] and len(rest) > 1:
        root, rest = rest[:2], rest[2:]
    if not rest or rest[0] in ("-h", "--help"):
        out.write(USAGE)
        return 0 if rest else 64
    verb, rest = rest[0], [*root, *rest[1:]]
    if verb not in VERBS:
        raise UsageError(f"unknown verb {verb!r}; known: {', '.join(VERBS)}; see `vault-mem capsule --help`")
    if verb == "validate":
        return _validate(rest, cwd=cwd, now=now, out=out, err=err)
    if verb == "write":
        return _write(rest, environ=environ, cwd=cwd, now=now, out=out, err=err)
    return _life(verb, rest, environ=environ, cwd=cwd, now=now, out=out)


# --- validate ------------------------------------------------------------------------------------------------------------------


def _validate(arguments: Sequence[str], *, cwd: str, now: float, out: TextIO, err: TextIO) -> int:
    parser = Parser(
        "capsule validate",
        "Every problem of a capsule. Reads only.",
        example="vault-mem capsule validate capsule.md",
    )
    parser.add_argument("file", metavar="FILE|-", help="a capsule; - reads standard input")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    options = parser.read(arguments, out=out)
    if options is None:
        return 0
    fields: Mapping[str, Any] = {}
    try:
        document = _document(options.file, cwd=cwd)
        found = draft.examine(document, now=now)
        fields = header.read(document)
    except HeaderError as error:
        found = (Finding(error.token, FAIL, "file" if not fields else "header", error.detail or error.token),)
    where = "standard input" if options.file == "-" else options.file
    ok = not any(each.severity == FAIL for each in found)
    if options.json:
        out.write(
            jsontext.dumps(_report("capsule validate", found, ok=ok, capsule=_capsule(fields)), escaped=True) + "\n"
        )
        return 0 if ok else 1
    _tell(found, out if ok else err)
    if ok:
        out.write(f"ok: {plain(where, 300)}\n")
    return 0 if ok else 1


def _document(file: str, *, cwd: str) -> str:
    """The text of a capsule from a regular file, no link, or from standard input. Raises HeaderError."""
    if file != "-":
        return tree.read_document(os.path.join(cwd, os.path.expanduser(file)))
    return curate.decoded(sys.stdin.buffer.read(tree.DOCUMENT_LIMIT + 1))


def _tell(found: Sequence[Finding], out: TextIO) -> None:
    for each in found:
        mark = "" if each.severity == FAIL else "warning: "
        out.write(f"vault-mem: {each.token}: {mark}{plain(each.what, 400)}\n")


# --- write ---------------------------------------------------------------------------------------------------------------------


def _write(
    arguments: Sequence[str], *, environ: Mapping[str, str], cwd: str, now: float, out: TextIO, err: TextIO
) -> int:
    parser = Parser(
        "capsule write",
        "Check, stamp and commit a curated capsule; the session's autosave gives way to it. Prints the id.",
        example="vault-mem capsule write - < capsule.md",
    )
    parser.add_argument(
        "file", nargs="?", default="-", metavar="FILE|-", help="the capsule; - or nothing: standard input"
    )
    _session_options(parser)
    options = parser.read(arguments, out=out)
    if options is None:
        return 0
    if options.file == "-" and sys.stdin.isatty():
        err.write("vault-mem: write the capsule, end with Ctrl-D\n")
    store = seats.opened(explicit=options.root, environ=environ, cwd=cwd)
    try:
        document = _document(options.file, cwd=cwd)
        done = curate.write(store, document, _session(options, environ=environ, cwd=cwd), now=now)
    except InvalidCapsuleError as error:
        return _refused("capsule write", error.findings, as_json=options.json, out=out, err=err)
    except HeaderError as error:
        finding = Finding(error.token, FAIL, "header", error.detail or error.token)
        return _refused("capsule write", (finding,), as_json=options.json, out=out, err=err)
    if options.json:
        out.write(jsontext.dumps({**_report("capsule write", done.notes, ok=True), **_done(done)}, escaped=True) + "\n")
        return 0
    _tell(done.notes, err)
    out.write(f"{plain(done.id, 200)}\n")
    if not done.changed:
        err.write("vault-mem: no-change: this capsule is written and committed already\n")
    err.writelines(f"vault-mem: superseded the autosave {plain(name, 200)}\n" for name in done.superseded)
    return 0


def _refused(command: str, found: Sequence[Finding], *, as_json: bool, out: TextIO, err: TextIO) -> int:
    if as_json:
        out.write(jsontext.dumps(_report(command, found, ok=False), escaped=True) + "\n")
        return 1
    _tell(found, err)
    count = sum(each.severity == FAIL for each in found)
    err.write(f"vault-mem: invalid-capsule: nothing was written; {count} problem{'s' * (count != 1)} to mend\n")
    return 1


def _session_options(parser: Parser) -> None:
    parser.add_argument("--session", default="", metavar="ID", help="the session; the client's own when it names one")
    parser.add_argument("--json", action="store_true", help="one JSON document")


def _session(options: argparse.Namespace, *, environ: Mapping[str, str], cwd: str) -> Session:
    """The session as the client names it to the commands it runs."""
    claude, codex = environ.get("CLAUDE_CODE_SESSION_ID", "").strip(), environ.get("CODEX_THREAD_ID", "").strip()
    raw = getattr(options, "session", "") or claude or codex
    harness = "claude" if claude and raw == claude else "codex" if codex and raw == codex else ""
    return Session(identity.safe_id(raw) if raw else "", harness, environ.get("CLAUDE_PROJECT_DIR") or cwd)


# --- life and notes ------------------------------------------------------------------------------------------------------------


def _life(verb: str, arguments: Sequence[str], *, environ: Mapping[str, str], cwd: str, now: float, out: TextIO) -> int:
    parser = Parser(
        f"capsule {verb}",
        f"{verb.capitalize()} one capsule, as one commit.",
        example=f'vault-mem capsule {verb} 2026-12-01-fix --why "done"',
    )
    parser.add_argument("id", metavar="ID", help="its id, or how it begins when that fits one capsule only")
    parser.add_argument("--why", default="", metavar="TEXT", help="the reason, kept in the commit")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    options = parser.read(arguments, out=out)
    if options is None:
        return 0
    store = seats.opened(explicit=options.root, environ=environ, cwd=cwd)
    session = _session(options, environ=environ, cwd=cwd)
    done = curate.change(store, options.id, verb, why=options.why, session=session, now=now)
    if options.json:
        out.write(jsontext.dumps({**_report(f"capsule {verb}", (), ok=True), **_done(done)}, escaped=True) + "\n")
    elif done.changed:
        out.write(
            f"{plain(done.id, 200)}: {plain(done.before)} → {plain(done.status)} ({done.commit[:12] or 'not committed'})\n"
        )
    else:
        out.write(f"{plain(done.id, 200)} is {plain(done.status)} already; nothing was changed\n")
    return 0


def _note(arguments: Sequence[str], *, environ: Mapping[str, str], cwd: str, now: float, out: TextIO) -> int:
    parser = Parser(
        "note",
        "One bullet into the session's active capsule, committed at once.",
        example='vault-mem note "the staging database is read-only" --section facts',
    )
    parser.add_argument("text", metavar="TEXT", help="the bullet")
    parser.add_argument("--section", choices=curate.NOTED, default="facts", help="where it goes (facts)")
    _session_options(parser)
    options = parser.read(arguments, out=out)
    if options is None:
        return 0
    if not options.text.strip():
        raise UsageError("a note needs a text; see `vault-mem note --help`")
    store = seats.opened(explicit=options.root, environ=environ, cwd=cwd)
    session = _session(options, environ=environ, cwd=cwd)
    done = curate.note(store, options.text, options.section, session, now=now)
    if options.json:
        out.write(jsontext.dumps({**_report("note", (), ok=True), **_done(done)}, escaped=True) + "\n")
    elif done.changed:
        out.write(f"noted in {plain(done.id, 200)} ({done.commit[:12] or 'not committed'})\n")
    else:
        out.write(f"{plain(done.id, 200)} has that note already; nothing was changed\n")
    return 0


# --- documents -----------------------------------------------------------------------------------------------------------------


def _report(
    command: str, found: Sequence[Finding], *, ok: bool, capsule: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "command": command,
        "ok": ok,
        "findings": [
            {
                "token": each.token,
                "severity": each.severity,
                "where": plain(each.where, 300),
                "what": plain(each.what, 400),
                "fix": each.fix,
            }
            for each in found
        ],
        "capsule": capsule,
    }


def _capsule(fields: Mapping[str, Any]) -> dict[str, Any] | None:
    if not fields:
        return None
    return {key: plain(selector.text_of(fields, key), 2000) if fields.get(key) is not None else None for key in SHOWN}


def _done(done: Done) -> dict[str, Any]:
    return {
        "changed": done.changed,
        "commit": done.commit,
        "superseded": [plain(name, 200) for name in done.superseded],
        "capsule": {"id": plain(done.id, 200), "path": plain(done.path, 400), "status": plain(done.status)},
    }
