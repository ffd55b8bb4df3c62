"""`vault-mem import DIR` and `vault-mem export`: in and out, a line for each file."""

from __future__ import annotations

import io
import json
import os
import sys
from typing import TYPE_CHECKING, Any

from vault_mem import files, importing, jsontext
from vault_mem.capsule.inert import plain
from vault_mem.cli.arguments import Parser
from vault_mem.errors import UsageError
from vault_mem.vault import store as seats

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TextIO

    from vault_mem.importing import Item
    from vault_mem.vault.store import Store

FORMATS = ("jsonl", "tar")


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
    """Import or export; 0 done, 1 when something was left out, each with its reason."""
    del program
    if command == "import":
        return _import(arguments, environ=environ, cwd=cwd, now=now, out=out, err=err)
    return _export(arguments, environ=environ, cwd=cwd, out=out, err=err)


# --- import --------------------------------------------------------------------------------------------------------------------


def _import(
    arguments: Sequence[str], *, environ: Mapping[str, str], cwd: str, now: float, out: TextIO, err: TextIO
) -> int:
    parser = Parser(
        "import",
        "Take over an aigent-OS tree, Harnery checkpoints or plain markdown. Nothing is written over; a second run adds nothing.",
        example="vault-mem import ~/old-project/memory --dry-run",
    )
    parser.add_argument("directory", metavar="DIR", help="only read")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    options = parser.read(arguments, out=out)
    if options is None:
        return 0
    store = seats.opened(explicit=options.root, environ=environ, cwd=cwd)
    found = importing.sources(os.path.join(cwd, os.path.expanduser(options.directory)))
    items: list[Item] = []
    shown = err.isatty()
    for number, item in enumerate(importing.run(store, found, now=now, dry_run=options.dry_run), 1):
        items.append(item)
        if shown:
            err.write(f"\r\033[K{number} of {len(found)}")
            err.flush()
        if not options.json and item.outcome != importing.KNOWN:
            err.write("\r\033[K" if shown else "")
            out.write(_line(item, dry_run=options.dry_run))
    err.write("\r\033[K" if shown else "")
    skipped = sum(item.outcome == importing.SKIPPED for item in items)
    if options.json:
        out.write(jsontext.dumps(_document(items, dry_run=options.dry_run), escaped=True) + "\n")
    else:
        counts = {name: sum(item.outcome == name for item in items) for name in (importing.IMPORTED, importing.KNOWN)}
        word = "would be imported" if options.dry_run else "imported"
        out.write(f"{counts[importing.IMPORTED]} {word}, {counts[importing.KNOWN]} here already, {skipped} left out\n")
    return 1 if skipped else 0


def _line(item: Item, *, dry_run: bool) -> str:
    source = plain(item.source, 300)
    if item.outcome == importing.SKIPPED:
        return f"left out  {source}: {item.token}: {plain(item.text, 300)}\n"
    done = f"{'would be' if dry_run else 'imported'}  {source} → {plain(item.id, 200)}\n"
    return done + "".join(f"            {token}: {plain(text, 300)}\n" for token, text in item.notes)


def _document(items: Sequence[Item], *, dry_run: bool) -> dict[str, Any]:
    findings = [
        {"token": token, "severity": severity, "where": plain(item.source, 300), "what": plain(text, 300), "fix": ""}
        for item in items
        for severity, token, text in (
            *([("fail", item.token, item.text)] if item.outcome == importing.SKIPPED else []),
            *(("warn", token, text) for token, text in item.notes),
        )
    ]
    return {
        "schema": "vault-mem/import/1",
        "command": "import",
        "ok": not any(found["severity"] == "fail" for found in findings),
        "dry_run": dry_run,
        "files": [
            {
                "source": plain(item.source, 300),
                "kind": item.kind,
                "outcome": item.outcome,
                "id": plain(item.id, 200),
                "path": plain(item.path, 300),
                "commit": item.commit,
            }
            for item in items
        ],
        "findings": findings,
    }


# --- export --------------------------------------------------------------------------------------------------------------------


def _export(arguments: Sequence[str], *, environ: Mapping[str, str], cwd: str, out: TextIO, err: TextIO) -> int:
    parser = Parser(
        "export",
        "Every capsule of the tree, as one JSON object a line or as a tar of the files.",
        example="vault-mem export --format tar --output memory.tar",
    )
    parser.add_argument("--format", choices=FORMATS, default="jsonl", help="jsonl (default) or tar")
    parser.add_argument("--output", default="", metavar="FILE", help="a new file, instead of standard output")
    options = parser.read(arguments, out=out)
    if options is None:
        return 0
    store = seats.opened(explicit=options.root, environ=environ, cwd=cwd)
    if options.format == "tar" and not options.output and out.isatty():
        raise UsageError("a tar is no text for a terminal; give --output FILE or a pipe")
    data, count, left = _exported(store, options.format)
    if options.output:
        path = os.path.join(cwd, os.path.expanduser(options.output))
        try:
            files.create(path, data, mode=0o600)
        except FileExistsError as error:
            raise UsageError(f"{path} exists; nothing is written over") from error
    else:
        out.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    err.writelines(f"vault-mem: {token}: {plain(path, 300)} is left out\n" for path, token in left)
    if options.output:
        err.write(f"{count} capsules in {plain(options.output, 300)}\n")
    if not count and not left:
        err.write("vault-mem: no-capsules-on-disk: there is nothing to export\n")
        return 4
    return 1 if left else 0


def _exported(store: Store, form: str) -> tuple[bytes, int, tuple[tuple[str, str], ...]]:
    if form == "tar":
        buffer = io.BytesIO()
        count, left = importing.archive(store, buffer)
        return buffer.getvalue(), count, left
    rows = list(importing.rows(store))
    lines = "".join(json.dumps(row) + "\n" for row in rows).encode("ascii")
    return lines, len(rows), tuple((row["path"], row["problem"]) for row in rows if "problem" in row)
