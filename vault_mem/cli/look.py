"""`vault-mem list`, `show`, `diff`, `log`, `explain`: looking at the vault changes nothing in it."""

from __future__ import annotations

from vault_mem import jsontext, stamps
from vault_mem.capsule import model
from vault_mem.capsule.inert import clean, inert, plain
from vault_mem.cli import drawing, words
from vault_mem.errors import VaultMemError
from vault_mem.vault import store as seats

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, TextIO

    from vault_mem.look.listing import Row
    from vault_mem.vault.store import Store

AT = words.Option("--at", "REV|DATE", "as it was at a revision of the vault or a date, UTC")
JSON = words.Option("--json", "", "one JSON document")
COMMANDS = {
    "list": words.Command(
        "Capsules, newest first.",
        "vault-mem list --status active",
        (words.Option("--status", "STATUS", "only those with this status"),
         words.Option("--all", "", "also capsules that left the tree"), AT, JSON),
    ),
    "show": words.Command(
        "One capsule: its header and what stands in its sections.",
        "vault-mem show 2026-12-01-auto --history",
        (words.Option("--history", "", "every version it had, and who was given it"), AT, JSON),
        "ID", "its id, or how it begins",
    ),
    "diff": words.Command(
        "What changed in a capsule: between two revisions of the vault, else in its last change.",
        "vault-mem diff 2026-12-01-auto-5e551011-ab12 HEAD~5..HEAD",
        (JSON,), "ID [REV..REV]", "its id or how it begins, then two revisions or dates",
    ),
    "log": words.Command(
        "Lineage from git: parents, consumers, autosaves folded, newest first, times in UTC.",
        "vault-mem log --graph -n 10",
        (words.Option("--graph", "", "capsules with lines to their parents"),
         words.Option("-n", "N", "so many rows, or capsules of the graph; 0 for all (30 unless told)"), AT, JSON),
        "[ID]", "only this capsule; with --graph its ancestors and descendants too",
    ),
    "explain": words.Command(
        "The ledger of the choice that a clear would make now; nothing is handed over.",
        "vault-mem explain --full",
        (words.Option("--full", "", "every capsule by itself instead of in groups"), AT, JSON),
    ),
}  # fmt: skip
SHOWN = 30


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
    """Run one of the commands that look."""
    del program, err
    options = words.read(command, COMMANDS[command], arguments, out=out)
    if options is None:
        return 0
    try:
        store = seats.opened(explicit=options["--root"], environ=environ, cwd=cwd)
        does: dict[str, Callable[..., int]] = {
            "list": _list, "show": _show, "diff": _diff, "log": _log, "explain": _explain,
        }  # fmt: skip
        return does[command](store, options, now=now, out=out, look=drawing.style(out, environ=environ))
    except VaultMemError as error:
        if options["--json"]:
            finding = {"token": error.token, "severity": "fail", "where": "", "what": clean(str(error)), "fix": ""}
            _put(out, command, ok=False, findings=[finding])
            return error.exit_code
        raise


def _put(out: TextIO, command: str, *, ok: bool, findings: Iterable[Any] = (), **more: Any) -> None:
    document = {"schema": f"vault-mem/{command}/1", "command": command, "ok": ok, "findings": list(findings), **more}
    # Brackets stand only within strings there; no client takes one for a tag of its own.
    out.write(jsontext.dumps(document, escaped=True).replace("<", "\\u003c") + "\n")


def capsule_of(row: Row) -> dict[str, Any]:
    """A capsule with the keys every command uses, its words made inert."""
    keys = ("objective", "waiting_on", "next_valid_action", "created_at", "parent_capsule_id")
    fields: dict[str, Any] = {key: clean(row.text(key)) or None for key in keys}
    return {
        "id": clean(row.id), "path": clean(row.path), "status": clean(row.status), **fields,
        "session_id": clean(row.text("session_id")) or None, "harness": clean(row.text("harness")) or None,
        "gone": row.gone, "commit": row.commit or None,
        "problem": clean(f"{row.problem} {row.candidate.detail}") or None,
    }  # fmt: skip


def _list(store: Store, options: words.Options, *, now: float, out: TextIO, look: drawing.Style) -> int:
    del now
    from vault_mem.look import listing

    status = options["--status"]
    if status and status not in (*model.STATUSES, "unreadable"):
        words.refuse("list", f"{status!r} is no status; there are {', '.join(model.STATUSES)}, unreadable")
    found = listing.rows(store, everything=bool(options["--all"]), at=options["--at"], status=status)
    unkept = bool(options["--all"]) and not store.keeps_history
    if options["--json"]:
        _put(
            out,
            "list",
            ok=bool(found),
            findings=_unkept() if unkept else (),
            capsules=[capsule_of(row) for row in found],
            unavailable="" if found else "no-capsules",
        )
        return 0 if found else 4
    if not found:
        kind = f" with status {status}" if status else ""
        raise listing.NothingThereError(f"there is no capsule{kind} here; a session writes one at its first Stop")
    lines = [
        (
            (f"{stamps.utc(row.created)[:16].replace('T', ' ')}Z" if row.created is not None else "no time", ""),
            (plain(row.status, limit=20) + (" gone" if row.gone else ""), "gone" if row.gone else row.status),
            (plain(row.id, limit=120), "id"),
            (_session(row), ""),
            (
                inert(row.text("objective"), limit=160)
                if not row.problem
                else plain(f"{row.problem} {row.candidate.detail}"),
                "",
            ),
        )
        for row in found
    ]
    out.writelines(f"{line}\n" for line in drawing.table(lines, look))
    out.writelines(f"{each['what']}\n" for each in (_unkept() if unkept else ()))
    return 0


def _unkept() -> list[dict[str, str]]:
    """That there is no history, as a finding."""
    from vault_mem.look import records

    token = records.NOTE.partition(":")[0]
    fix = "vault-mem init --adopt --mode dedicated"
    return [{"token": token, "severity": "info", "where": "", "what": records.NOTE, "fix": fix}]


def _session(row: Row) -> str:
    return plain(row.text("session_id")[:8]) or "-"


def _show(store: Store, options: words.Options, *, now: float, out: TextIO, look: drawing.Style) -> int:
    del now
    from vault_mem.look import listing, showing

    row = listing.find(store, options["ID"], at=options["--at"])
    view = showing.view(store, row, versions=bool(options["--history"]))
    if options["--json"]:
        sections = {
            name: [
                {
                    "at": stamps.utc(each.at) if each.at else None,
                    "tag": clean(each.tag),
                    "text": clean(each.text),
                    "state": clean(each.state),
                }
                for each in bullets
            ]
            for name, bullets in view.sections.items()
        }
        header = {clean(key): clean(value) for key, value in view.fields.items()}
        history = {"versions": [_version(each) for each in view.versions]} if options["--history"] else {}
        _put(out, "show", ok=True, capsule=capsule_of(row), header=header, sections=sections, **history)
        return 0
    out.writelines(f"{line}\n" for line in _shown(row, view, look))
    if options["--history"]:
        out.write(f"history ({len(view.versions)} versions, newest first):\n")
        lines = [((f"  {stamps.utc(each.epoch)}", ""), (each.oid[:12], ""), (plain(each.event or "by hand", limit=20), each.event), (plain(each.status, limit=20), each.status), (plain(each.detail, limit=160), "")) for each in view.versions]  # fmt: skip
        out.writelines(f"{line}\n" for line in drawing.table(lines, look))
    return 0


def _version(each: Any) -> dict[str, Any]:
    return {"commit": each.oid, "at": stamps.utc_millis(each.epoch), "event": clean(each.event) or None, "status": clean(each.status) or None, "consumer": clean(each.consumer) or None}  # fmt: skip


def _shown(row: Row, view: Any, look: drawing.Style) -> Iterable[str]:
    place = f"{plain(row.path, limit=300)}{f' as of commit {row.commit[:12]}' if row.commit else ''}"
    yield look.paint(plain(row.id, limit=120), "id") + "  " + look.paint(plain(row.status, limit=20), row.status)
    yield f"  {place}{', left the tree' if row.gone else ''}"
    if row.problem:
        yield f"  cannot be used: {plain(f'{row.problem} {row.candidate.detail}', limit=300)}"
    for key, value in view.fields.items():
        if key not in ("id", "status") and value not in (None, "", ()) and (key, value) not in model.FRAMING:
            yield f"  {plain(key, limit=60)}: {inert(value)}"
    for section in model.SECTIONS:
        bullets = view.sections.get(section.name, ())
        if bullets:
            yield f"{section.heading}:"
        for each in bullets:
            when = f"{drawing.minute(each.at)}Z " if each.at else ""
            tag = f"[{plain(each.tag, limit=40)}] " if each.tag else ""
            yield f"  - {when}{tag}{inert(each.text)}{f' → {plain(each.state)}' if each.state else ''}"


def _diff(store: Store, options: words.Options, *, now: float, out: TextIO, look: drawing.Style) -> int:
    del now, look
    from vault_mem.look import listing, showing

    name, _, between = options["ID [REV..REV]"].partition(" ")
    row = listing.find(store, name)
    change = showing.difference(store, row, between)
    lines = [line[:1] + plain(line[1:], limit=600) for line in change.lines]
    if options["--json"]:
        _put(out, "diff", ok=True, capsule=capsule_of(row), old=change.old, new=change.new, lines=lines)
        return 0
    out.write(f"{plain(row.path, limit=300)}  {change.old[:12] or '(nothing)'}..{change.new[:12]}\n")
    out.writelines(f"{line}\n" for line in lines)
    if not lines:
        out.write("no difference\n")
    return 0


def _log(store: Store, options: words.Options, *, now: float, out: TextIO, look: drawing.Style) -> int:
    del now
    from vault_mem.look import tale
    from vault_mem.vault import past

    count = words.number("log", "-n", options["-n"], SHOWN)
    unkept = not store.keeps_history and not options["--at"]
    capsule = ""
    if options["[ID]"]:
        from vault_mem.look import listing

        capsule = listing.find(store, options["[ID]"], at=options["--at"]).id
    nodes: tuple[tale.Node, ...] = ()
    entries: tuple[tale.Entry, ...] = ()
    if unkept:
        from vault_mem.look import records

        moments = records.moments(store)
        if options["--graph"]:
            nodes, more = tale.grown_of(moments, count=count, capsule=capsule)
        else:
            entries, more = tale.told_of(moments, count=count, capsule=capsule)
    else:
        reading = past.quick(store)
        rev = past.at(reading, options["--at"]) if options["--at"] else ""
        if options["--graph"]:
            nodes, more = tale.grown(reading, count=count, capsule=capsule, rev=rev)
        else:
            entries, more = tale.told(reading, count=count, capsule=capsule, rev=rev)
    entries = entries or tuple(entry for node in nodes for entry in node.entries)
    findings = _unkept() if unkept else []
    if options["--json"]:
        graph = {"nodes": [clean(node.id) for node in nodes]} if options["--graph"] else {}
        _put(
            out,
            "log",
            ok=bool(entries),
            findings=findings,
            entries=[_entry(each) for each in entries],
            more=more,
            **graph,
        )
        return 0 if entries else 4
    if not entries:
        from vault_mem.look import listing

        raise listing.NothingThereError("nothing has been saved in this vault yet")
    lines = drawing.graph(nodes, look) if options["--graph"] else drawing.table([_line(each) for each in entries], look)
    out.writelines(f"{line}\n" for line in lines)
    if more:
        out.write(look.drawn(f"… more: vault-mem log -n 0{' --graph' if options['--graph'] else ''}\n"))
    out.writelines(f"{each['what']}\n" for each in findings)
    return 0


def _line(entry: Any) -> list[tuple[str, str]]:
    return [
        (drawing.span(entry), ""),
        (drawing.what(entry), entry.event),
        (plain(entry.moment.id, limit=120), "id"),
        (drawing.detail(entry), ""),
    ]


def _entry(entry: Any) -> dict[str, Any]:
    moment = entry.moment
    return {
        "event": clean(entry.event), "id": clean(moment.id), "count": entry.times, "open": entry.open,
        "first": stamps.utc_millis(entry.first), "last": stamps.utc_millis(entry.last), "commit": moment.oid or None,
        "status": clean(moment.status) or None, "parent": clean(moment.parent) or None,
        "session": clean(moment.session) or None, "consumer": clean(moment.consumer) or None,
        "harness": clean(moment.harness) or None,
    }  # fmt: skip


def _explain(store: Store, options: words.Options, *, now: float, out: TextIO, look: drawing.Style) -> int:
    from vault_mem.capsule import procedure
    from vault_mem.look import ledger, listing

    found = ledger.then(store, options["--at"], now=now) if options["--at"] else ledger.now(store, now=now)
    selection = found.selection
    row = (
        listing.row_of(selection.chosen._replace(fields=found.fields), commit=found.commit)
        if selection.chosen
        else None
    )
    if options["--json"]:
        rejected = [
            {"name": clean(each.name), "reason": each.reason, "detail": clean(each.detail), "ordinary": each.ordinary}
            for each in selection.rejected
        ]
        findings = [
            {"token": line.partition(":")[0], "severity": "warn", "where": "", "what": clean(line), "fix": ""}
            for line in found.faults
        ]
        _put(out, "explain", ok=row is not None, findings=findings, tier=selection.tier, capsule=capsule_of(row) if row else None, rejected=rejected, unavailable=selection.unavailable, at=stamps.utc(found.now), left=found.left)  # fmt: skip
        return 0 if row else 4
    out.writelines(f"{line}\n" for line in found.faults)
    if row is not None:
        out.write(
            f"{'then' if options['--at'] else 'now'} a clear {'would have handed' if options['--at'] else 'would hand'} out: {look.paint(plain(row.id, limit=120), 'id')}  (tier: {selection.tier})\n"
        )
        out.write(
            f"  written at: {inert(row.text('created_at'), limit=60)}\n  objective: {inert(row.text('objective'))}\n"
        )
        out.write(f"  next_valid_action: {inert(row.text('next_valid_action'))}\n")
        if found.delivered:
            out.write(f"  {found.delivered}\n")
    else:
        out.write(f"a clear would hand out nothing: {selection.unavailable or 'none'}\n")
    if options["--full"]:
        rows = [
            ((f"  {plain(each.name, limit=120)}", "id"), (each.reason, ""), (plain(each.detail, limit=200), ""))
            for each in selection.rejected
        ]
        lines = [f"NOT SELECTED ({len(rows)}):", *drawing.table(rows, look)] if rows else []
    else:
        head, groups, tail = procedure.ledger(selection.rejected)
        lines = [head, *groups, *tail] if head else []
    out.writelines(f"{line}\n" for line in lines)
    if found.left:
        out.write(
            f"{found.left} active autosaves left the tree behind newer capsules: vault-mem list --all --status active\n"
        )
    return 0 if row is not None else 4
