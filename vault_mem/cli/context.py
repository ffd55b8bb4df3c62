"""`vault-mem context`: orientation, and a look at what compactions did: status, checkpoint, show, brief, list, prune, rebuild, bench."""

from __future__ import annotations

from vault_mem import checkpoints, jsontext, receipts, stamps
from vault_mem.capsule.inert import inert, plain
from vault_mem.cli.arguments import Parser
from vault_mem.context import cycle, orient, upkeep
from vault_mem.errors import UsageError
from vault_mem.harness import registry
from vault_mem.session import briefing, continuity, drift, identity, usage
from vault_mem.session.continuity import State
from vault_mem.vault import store as seats

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence
    from typing import Any, TextIO

    from vault_mem.vault.store import Store

ACTIONS = ("status", "checkpoint", "show", "brief", "list", "prune", "rebuild", "bench")
RECENT = 8  # sessions without a compaction that status measures
BY_HAND = (continuity.MANUAL, continuity.PRESSURE, continuity.SESSION_END)
TEXT = """Without a word: where this session stands. status: sessions, phases, how full they are (exit 3: degraded, 4: nothing known).
checkpoint: one by hand. show: a checkpoint as it is kept. brief: what would be told now. list: checkpoints. prune: let old ones go.
rebuild: make the states again from their events. bench: our real hooks on recorded payloads of each client (exit 1: drift)."""


def _parser() -> Parser:
    parser = Parser("context", TEXT, example="vault-mem context status --json")
    parser.add_argument("action", nargs="?", default="", metavar="ACTION", help=" | ".join(ACTIONS))
    parser.add_argument("--session", default="", metavar="ID", help="else the client's own, else the one seen last")
    parser.add_argument("--note", default="", metavar="TEXT", help="checkpoint: what to go on with")
    parser.add_argument("--reason", default=continuity.MANUAL, metavar="WHY", help=f"checkpoint: {', '.join(BY_HAND)}")
    parser.add_argument("--generation", type=int, default=0, metavar="N", help="show, brief: this one, not the newest")
    parser.add_argument("--against", type=int, default=0, metavar="N", help="show: what moved since generation N")
    parser.add_argument("--section", action="append", metavar="NAME", help="orientation: only this section")
    parser.add_argument("--keep", type=int, default=upkeep.KEEP, metavar="N", help="prune: generations of a session")
    parser.add_argument("--days", type=int, default=upkeep.DAYS, metavar="D", help="prune: days without a change")
    parser.add_argument("--dry-run", action="store_true", help="prune: only say what would go")
    parser.add_argument("--check", action="store_true", help="rebuild: compare, write nothing (exit 1: not the same)")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    return parser


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
    """Run one action; exit 0 fine, 1 no or failed, 3 degraded, 4 nothing there."""
    del command, err
    chosen = _parser().read(arguments, out=out)
    if chosen is None:
        return 0
    if chosen.action and chosen.action not in ACTIONS:
        raise UsageError(f"unknown action {chosen.action!r}; one of {', '.join(ACTIONS)}")
    if chosen.action == "bench":
        from vault_mem.context import bench

        return _bench(bench.run(program=program, environ=environ), chosen, out)
    store = seats.opened(explicit=chosen.root, environ=environ, cwd=cwd)
    match chosen.action:
        case "status":
            return _status(store, chosen, out)
        case "checkpoint":
            return _checkpoint(store, chosen, cwd, now, out)
        case "show":
            return _show(store, chosen, now, out)
        case "brief":
            return _brief(store, chosen, now, out)
        case "list":
            return _list(store, chosen, out)
        case "prune":
            return _prune(store, chosen, now, out)
        case "rebuild":
            return _rebuild(store, chosen, out)
    report = orient.report(store, session=_named(store, chosen), cwd=cwd, now=now, only=chosen.section or ())
    _put(out, chosen, {"ok": True, "sections": report}, orient.text(report))
    return 0


def _put(out: TextIO, chosen: argparse.Namespace, document: Mapping[str, Any], text: str) -> None:
    if chosen.json:
        head = {"schema": "vault-mem/context/1", "command": f"context {chosen.action}".strip()}
        out.write(jsontext.dumps({**head, **document}, escaped=True) + "\n")
    else:
        out.write(text if text.endswith("\n") else f"{text}\n")


def _own(store: Store) -> str:
    for name in ("CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID"):
        if store.environ.get(name, "").strip():
            return identity.safe_id(store.environ[name].strip())
    return ""


def _named(store: Store, chosen: argparse.Namespace) -> str:
    """The session that is meant: named, the client's own, or the one whose hooks were seen last. "" for none."""
    if chosen.session or _own(store):
        return identity.safe_id(chosen.session) if chosen.session else _own(store)
    found = [(state.updated, state.session) for state in checkpoints.states(store.runtime)]
    return max(found + receipts.seen(store.runtime), default=(0.0, ""))[1]


def _wanted(store: Store, chosen: argparse.Namespace) -> str:
    name = _named(store, chosen)
    if not name:
        raise upkeep.NoContextError("no session is known here; name one with --session")
    return name


def _row(store: Store, state: State) -> dict[str, Any]:
    record = receipts.load_session(store.runtime, state.session)
    cursor = receipts.load_cursor(store.runtime, state.session)
    path = cursor.transcript or (record.transcript if record else "")
    subject = cycle.Subject(state.session, state.harness, "", path)
    sample = cycle.measured(state, subject) or (state.samples[-1] if state.samples else None)
    last = state.cycle
    return {
        "session": state.session,
        "harness": state.harness,
        "phase": state.phase,
        "generation": state.generation,
        "checkpointed_at": stamps.utc_millis(state.checkpointed) if state.checkpointed else None,
        "tokens": sample.tokens if sample else None,
        "window": sample.window if sample else None,
        "percent": sample.percent if sample else None,
        "source": sample.source if sample else None,
        "measured_at": stamps.utc_millis(sample.at) if sample and sample.at else None,
        "tokens_per_minute": usage.rate(state.samples),
        "degraded": state.degraded or None,
        "degradations": state.degradations,
        "cycle": {**last._asdict(), "signals": list(last.signals)} if last else None,
    }


def _known(store: Store, session: str) -> tuple[State, ...]:
    """The sessions with a compaction behind them, then the recent ones without: how full these are can be told all the same."""
    held = {state.session: state for state in checkpoints.states(store.runtime)}
    seen = list(dict.fromkeys(name for _, name in sorted(receipts.seen(store.runtime), reverse=True)))
    for name in seen[:RECENT] if not session else [name for name in seen if name == session]:
        if name not in held:
            record = receipts.load_session(store.runtime, name)
            harness = receipts.load_cursor(store.runtime, name).harness or (record.harness if record else "")
            held[name] = State(name, harness or registry.DEFAULT)
    if session:
        held = {name: state for name, state in held.items() if name == session}
    if not held:
        raise upkeep.NoContextError(f"no context of {f'session {session}' if session else 'any session'} is known here")
    return tuple(held.values())


def _status(store: Store, chosen: argparse.Namespace, out: TextIO) -> int:
    states = _known(store, identity.safe_id(chosen.session) if chosen.session else "")
    rows = [_row(store, state) for state in states]
    found = continuity.findings(states)
    degraded = any(state.phase == continuity.DEGRADED for state in states)
    lines = []
    for row in rows:
        lines.append(
            f"{plain(row['session'], 128)}  {row['phase']}  generation {row['generation']}  {measure(row)}"
            + (f"  last checkpoint {row['checkpointed_at']}" if row["checkpointed_at"] else "")
        )
        last = row["cycle"]
        if last:
            told = last["delivery"] or ("briefing printed" if last["injected"] else last["closed"] or "no briefing yet")
            lines.append(f"  last compaction: {last['trigger'] or 'trigger not told'}, {told}")
        if row["degraded"]:
            lines.append(f"  degraded: {continuity.WHY.get(row['degraded'], plain(row['degraded']))}")
    named = [{key: value for key, value in each._asdict().items() if key != "why"} for each in found]
    _put(out, chosen, {"ok": not degraded, "sessions": rows, "findings": named}, "\n".join(lines))
    return 3 if degraded else 0


def measure(row: Mapping[str, Any]) -> str:
    """`14,057 of 1,000,000 tokens (1.41 %)`; what is unknown stays out or is said."""
    tokens, window, percent = row["tokens"], row["window"], row["percent"]
    if tokens is None and window is None and percent is None:
        return "context unknown"
    used = f"{tokens:,}" if tokens is not None else "?"
    size = f" of {window:,}" if window else ", window unknown"
    return f"{used}{size} tokens" + (f" ({percent} %)" if percent is not None else "")


def _checkpoint(store: Store, chosen: argparse.Namespace, cwd: str, now: float, out: TextIO) -> int:
    if chosen.reason not in BY_HAND:
        raise UsageError(
            f"--reason {chosen.reason!r}: one of {', '.join(BY_HAND)}; a client's own compaction makes the others"
        )
    session = _wanted(store, chosen)
    cursor = receipts.load_cursor(store.runtime, session)
    known = checkpoints.load(store.runtime, session)
    directory = store.environ.get("CLAUDE_PROJECT_DIR") or store.seat.root or cwd
    harness = cursor.harness or (known.harness if known else "") or "unknown"
    subject = cycle.Subject(session, harness, directory, cursor.transcript)
    record = cycle.snapshot(store, subject, reason=chosen.reason, note=chosen.note, now=now)
    path = checkpoints.path_of(checkpoints.folder(store.runtime, session), record["generation"])
    document = {
        "ok": True,
        "session": session,
        "checkpoint": record["id"],
        "generation": record["generation"],
        "path": path,
        "capsule": record["capsule"],
        "truncated": record["truncated"],
        "redacted": record["redacted"],
    }
    _put(out, chosen, document, f"generation {record['generation']}: {plain(path, 400)}")
    return 0


def _show(store: Store, chosen: argparse.Namespace, now: float, out: TextIO) -> int:
    del now
    session = _wanted(store, chosen)
    record = upkeep.record(store.runtime, session, chosen.generation)
    document: dict[str, Any] = {"ok": True, "checkpoint": record}
    lines = []
    if chosen.against:
        before = upkeep.record(store.runtime, session, chosen.against)
        moved, known = briefing.comparison(before, drift.from_json(record["repo"]))
        document |= {"against": chosen.against, "moved": list(moved), "known": known}
        lines = [
            f"since generation {chosen.against}:",
            *(f"  {plain(line, 300)}" for line in moved or ("nothing moved",)),
        ]
    if not chosen.json:
        lines = [*_lines(record), *lines]
    _put(out, chosen, document, "\n".join(lines))
    return 0


def _lines(value: Mapping[str, Any], indent: str = "") -> list[str]:
    lines = []
    for key, held in value.items():
        if isinstance(held, dict):
            lines += [f"{indent}{plain(key, 200)}:", *_lines(held, indent + "  ")] if held else []
        elif isinstance(held, list):
            lines += [f"{indent}{plain(key)}:", *(f"{indent}  - {inert(row)}" for row in held)] if held else []
        elif held not in (None, ""):
            lines.append(f"{indent}{plain(key, 200)}: {inert(held, limit=1000) if isinstance(held, str) else held}")
    return lines


def _brief(store: Store, chosen: argparse.Namespace, now: float, out: TextIO) -> int:
    session = _wanted(store, chosen)
    known = checkpoints.load(store.runtime, session)
    last = known.cycle if known is not None else None
    generation = chosen.generation or (last.generation if last else 0)
    record = upkeep.record(store.runtime, session, generation)
    degraded = known.degraded if known is not None and known.phase == continuity.DEGRADED else ""
    text = cycle.text_of(store, record, cycle=last.id if last else "none", now=now, degraded=degraded)
    _put(out, chosen, {"ok": True, "session": session, "generation": record["generation"], "text": text}, text)
    return 0


def _list(store: Store, chosen: argparse.Namespace, out: TextIO) -> int:
    states = upkeep.states(store.runtime, identity.safe_id(chosen.session) if chosen.session else "")
    rows = [row for state in states for row in upkeep.listing(store.runtime, state.session)]
    lines = [
        f"{plain(row['session'], 128)}  {row['generation']}  "
        + (
            f"{plain(row['created_at'], 40)}  {plain(row['reason'], 20)}  {plain(row['capsule'], 120)}"
            if row["readable"]
            else "unreadable"
        )
        for row in rows
    ]
    _put(out, chosen, {"ok": bool(rows), "checkpoints": rows}, "\n".join(lines) or "no checkpoint yet")
    return 0 if rows else 4


def _prune(store: Store, chosen: argparse.Namespace, now: float, out: TextIO) -> int:
    if chosen.keep < 1 or chosen.days < 1:
        raise UsageError("--keep and --days are numbers of at least 1")
    gone = upkeep.prune(store.runtime, now=now, keep=chosen.keep, days=chosen.days, dry=chosen.dry_run)
    rows = [{**each._asdict(), "generations": list(each.generations)} for each in gone]
    verb = "would go" if chosen.dry_run else "gone"
    lines = [
        f"{plain(each.session, 128)}: {'all of it' if each.whole else f'{len(each.generations)} generations'} {verb}"
        for each in gone
    ]
    _put(out, chosen, {"ok": True, "pruned": rows, "dry_run": chosen.dry_run}, "\n".join(lines) or "nothing to let go")
    return 0


def _rebuild(store: Store, chosen: argparse.Namespace, out: TextIO) -> int:
    session = identity.safe_id(chosen.session) if chosen.session else ""
    upkeep.states(store.runtime, session)
    made = upkeep.rebuild(store.runtime, session=session, write=not chosen.check)
    rows = [
        {"session": each.session, "same": each.same, "phase": each.state.phase if each.state else None,
         "generation": each.state.generation if each.state else None}
        for each in made
    ]  # fmt: skip
    lines = [
        f"{plain(row['session'], 128)}  {'the same' if row['same'] else 'was not the same'}  {row['phase']}  {row['generation']}"
        for row in rows
    ]
    same = all(each.same for each in made)
    _put(out, chosen, {"ok": same or not chosen.check, "rebuilt": rows}, "\n".join(lines))
    return 1 if chosen.check and not same else 0


def _bench(found: Any, chosen: argparse.Namespace, out: TextIO) -> int:
    rows = [row._asdict() for row in found]
    drifted = [row for row in rows if row["verdict"] == "drift"]
    lines = [
        f"{row['harness']:<7} {row['version'] or '-':<10} {row['dimension']:<12} {row['verdict']:<12} {row['basis']:<8} {plain(row['note'], 160)}"
        for row in rows
    ]
    lines.append(f"{len(rows)} rows, {len(drifted)} drift")
    _put(out, chosen, {"ok": not drifted, "results": rows, "drift": len(drifted)}, "\n".join(lines))
    return 1 if drifted else 0
