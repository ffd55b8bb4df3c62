"""`vault-mem reset …` and `vault-mem wakes`: size of the context, the watcher, the receipt, the clear, and what a person declares."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

from vault_mem import files, jsontext, stamps, trust, tunables, wakes
from vault_mem.capsule.inert import inert, plain
from vault_mem.cli.arguments import Parser
from vault_mem.errors import UsageError, VaultMemError
from vault_mem.report import WARN, Finding
from vault_mem.reset import checks, clear, receipt, scene, state, watch
from vault_mem.reset.scene import ResetError
from vault_mem.session import identity, quiet, usage
from vault_mem.vault import store as seats

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence
    from typing import TextIO

    from vault_mem.tunables import Tunables
    from vault_mem.vault.store import Store

VERBS = ("status", "watch", "receipt", "clear", "away", "hold", "release", "decision")
NOT_PROVED = (
    "That record exists, it holds the phrase, and this session filed its knowledge after it; "
    "what it meant is not something this program can check."
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
    """Run `wakes` or one of the reset's verbs."""
    del program
    if command == "wakes":
        return _wakes(arguments, environ=environ, cwd=cwd, now=now, out=out)
    parser = Parser(
        command,
        "Context reset: measure, ask, sweep, file a receipt, clear. There is no force option.",
        example="vault-mem reset status",
    )
    parser.add_argument("verb", choices=VERBS)
    parser.add_argument(
        "words", nargs="*", metavar="KEY", help="away: on or off; hold, release: KEY; decision: open|resolve KEY"
    )
    parser.add_argument("--check", action="store_true", help="clear: every check, nothing typed")
    parser.add_argument(
        "--approved", "--captain-approved", action="store_true", help="clear: the person asked for it by the phrase"
    )
    parser.add_argument("--once", action="store_true", help="watch: one pass, for cron and systemd")
    parser.add_argument("--why", default="", help="hold, decision: the reason")
    parser.add_argument("--show", action="store_true", help="receipt: print it")
    parser.add_argument("--drop", action="store_true", help="receipt: remove it")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    options = parser.read(arguments, out=out)
    if options is None:
        return 0
    store = seats.opened(explicit=options.root, environ=environ, cwd=cwd)
    numbers = tunables.load(environ=environ, seat=trust.seat_id(store.memory))
    err.writelines(
        f"vault-mem: {found.token}: {plain(found.where)}: {plain(found.what, limit=300)}\n"
        for found in numbers.findings
    )
    match options.verb:
        case "status":
            return _status(options, store, numbers, environ=environ, now=now, out=out)
        case "watch":
            return _watch(options, store, numbers, environ=environ, now=now, out=out)
        case "receipt":
            return _receipt(options, store, numbers, environ=environ, now=now, out=out)
        case "clear":
            return _clear(options, store, numbers, environ=environ, now=now, out=out, err=err)
    return _declare(options, store, now=now, out=out)


def _status(
    options: argparse.Namespace,
    store: Store,
    numbers: Tunables,
    *,
    environ: Mapping[str, str],
    now: float,
    out: TextIO,
) -> int:
    rows = [_session(store, record, numbers, environ=environ, now=now) for record in state.live(store.runtime)]
    decided, _ = state.decisions(store.runtime)
    declared = [*state.holds(store.runtime), *quiet.open_decisions(decided)]
    at = wakes.beacon(store.runtime)
    findings = [*numbers.findings]
    stale = wakes.stopped(store.runtime, now=now)
    if stale:
        findings.append(Finding("watcher-stale", WARN, "watcher", stale, fix="vault-mem reset watch"))
    away = state.away(store.runtime)
    document = {
        "schema": "vault-mem/reset/1",
        "command": "reset",
        "ok": not findings,
        "findings": [found._asdict() for found in findings],
        "ceiling": numbers.ceiling,
        "watcher": {
            "at": stamps.utc(at) if at is not None else None,
            "delivers": checks.delivering(store.runtime, numbers, now=now),
        },
        "away": {"on": away is not None, "since": stamps.utc(away) if away else None},
        "declared": [
            {"kind": item.kind, "key": item.key, "why": item.why, "age": int(now - item.since)} for item in declared
        ],
        "sessions": rows,
        "log": state.tail_of_log(store.runtime),
    }
    if options.json:
        out.write(json.dumps(document) + "\n")
        return 0
    out.write(f"ceiling: {numbers.ceiling} tokens\n")
    out.write(
        f"watcher: {'never seen; start `vault-mem reset watch`' if at is None else stale or f'last pass {stamps.utc(at)}'}\n"
    )
    out.write(
        f"away mode: {'on' if away is not None else 'off'}{f' for {quiet.duration(now - away)}' if away else ''}\n"
    )
    out.writelines(
        f"{item.kind} {plain(item.key)} for {quiet.duration(now - item.since)}: {inert(item.why, limit=200)}\n"
        for item in declared
    )
    for row in rows:
        size = (
            row["tokens"]
            if row["tokens"] is not None
            else f"unknown ({plain(row['problem'] or 'not told yet', limit=200)})"
        )
        out.write(
            f"session {plain(row['session'])}: {size} tokens, ceiling {row['ceiling']}; person: {row['person']}; receipt: {row['receipt']}\n"
        )
        if row["phrase"]:
            out.write(f'  to ask for a reset of it at any size, the person types: "{row["phrase"]}"\n')
        out.write(f"  transcript {plain(row['transcript'], limit=400)}; way back: {plain(row['way_back'])}\n")
    if not rows:
        out.write("no live session is recorded here\n")
    out.writelines(f"log: {plain(line, limit=400)}\n" for line in state.tail_of_log(store.runtime))
    return 0


def _session(store: Store, record: Any, numbers: Tunables, *, environ: Mapping[str, str], now: float) -> dict[str, Any]:
    seen = scene.look(store, record, numbers, now=now)
    held = receipt.load(seen)
    tokens = seen.scan.tokens
    try:
        phrase = state.phrase(store.runtime, record.session, make=now)
    except OSError:
        phrase = ""
    return {
        "session": record.session,
        "pid": record.pid,
        "tokens": tokens,
        "window": seen.window,
        "percent": round(tokens / seen.window * 100, 1) if tokens is not None and seen.window else None,
        "source": usage.TRANSCRIPT if tokens is not None else None,
        "measured_at": stamps.utc(seen.scan.measured) if seen.scan.measured is not None else None,
        "ceiling": seen.ceiling,
        "problem": seen.scan.problem,
        "stale": seen.scan.stale,
        "person": seen.person.token,
        "unfinished": [quiet.said(item, now=now) for item in seen.unfinished],
        "way_back_in": scene.broken(seen, environ=environ) or "ok",
        "receipt": stamps.utc(float(held["written_at"]))
        if held and isinstance(held.get("written_at"), int | float)
        else None,
        "capsule": held.get("capsule_id") if held else None,
        "phrase": phrase,
        "wakes": len(wakes.waiting(store.runtime, record.session)),
        "unconfirmed": clear.unconfirmed(store.runtime, record.session),
        "transcript": record.transcript,
        "way_back": f"claude --resume {record.session}",
    }


def _watch(
    options: argparse.Namespace, store: Store, numbers: Tunables, *, environ: Mapping[str, str], now: float, out: TextIO
) -> int:
    def say(line: str) -> None:
        out.write(f"{plain(line, limit=1500)}\n")
        out.flush()

    if options.once:
        for line in watch.step(store, numbers, watch.Memory(), now=now, environ=environ, loops=False):
            say(line)
        waits = watch.undelivered(store.runtime)
        if waits:
            say(waits)
        return 0
    try:
        watch.loop(store, numbers, clock=time.time, environ=environ, say=say)
    except KeyboardInterrupt:
        return 0
    return 0


def _own(store: Store, numbers: Tunables, *, environ: Mapping[str, str], now: float) -> scene.Scene:
    record = scene.own(store, environ=environ, pid=os.getpid())
    return scene.look(store, record, numbers, now=now)


def _receipt(
    options: argparse.Namespace, store: Store, numbers: Tunables, *, environ: Mapping[str, str], now: float, out: TextIO
) -> int:
    seen = _own(store, numbers, environ=environ, now=now)
    if options.show:
        row = receipt.load(seen)
        if row is None:
            raise ResetError("no-receipt", "there is no receipt")
        out.write(json.dumps(row) + "\n")
        return 0
    if options.drop:
        return 0 if files.remove(seen.path(state.RECEIPT)) else 4
    row = receipt.write(seen)
    if options.json:
        out.write(
            json.dumps(
                {"schema": "vault-mem/reset/1", "command": "reset receipt", "ok": True, "findings": [], "receipt": row}
            )
            + "\n"
        )
    else:
        out.write(
            f"receipt filed at {row['context_tokens']} tokens for capsule {plain(row['capsule_id'])} ({row['capsule_commit'][:12]})\n"
        )
    return 0


def _clear(
    options: argparse.Namespace,
    store: Store,
    numbers: Tunables,
    *,
    environ: Mapping[str, str],
    now: float,
    out: TextIO,
    err: TextIO,
) -> int:
    try:
        try:
            seen = _own(store, numbers, environ=environ, now=now)
        except VaultMemError as error:
            path = clear.UNPATH if options.approved else ""
            if os.path.isdir(store.runtime):
                state.log(store.runtime, "refused", f"{path}{error.token}: {error}", now=now)
            raise
        _, place = clear.ask(seen, numbers, approved=options.approved, only_check=options.check, environ=environ)
    except VaultMemError as error:
        err.write(
            f"vault-mem reset: REFUSED: {error.token}: {plain(str(error), limit=900)}\nvault-mem reset: nothing was discarded and nothing was typed\n"
        )
        if options.json:
            found = Finding(error.token, WARN, "reset clear", str(error))._asdict()
            out.write(
                json.dumps({"schema": "vault-mem/reset/1", "command": "reset clear", "ok": False, "findings": [found]})
                + "\n"
            )
        return 1
    except OSError as error:
        err.write(
            f"vault-mem reset: REFUSED: log-unwritable: {error}; a reset that nobody can check later is not done\n"
        )
        return 1
    what = "every check passed" if options.check else "the reset was asked for; it is typed when this turn has ended"
    if options.json:
        out.write(
            json.dumps(
                {
                    "schema": "vault-mem/reset/1",
                    "command": "reset clear",
                    "ok": True,
                    "findings": [],
                    "tokens": seen.scan.tokens,
                    "pane": place.pane,
                }
            )
            + "\n"
        )
        return 0
    out.write(
        f"{what}: {seen.scan.tokens} tokens, pane {place.pane}; the old conversation stays: claude --resume {plain(seen.session)}\n"
    )
    human = seen.scan.human
    if options.approved and human is not None:
        out.write(f"the approval was taken to be record {plain(human.uuid)} at {plain(human.stamp)}\n{NOT_PROVED}\n")
    return 0


def _declare(options: argparse.Namespace, store: Store, *, now: float, out: TextIO) -> int:
    words, runtime = list(options.words), store.runtime
    folder = state.folder(runtime)
    match options.verb, words:
        case "away", [] | ["on"]:
            state.store(f"{folder}/away.json", {"at": now})
            out.write("away mode is on\n")
        case "away", ["off"]:
            state.forget(f"{folder}/away.json")
            out.write("away mode is off\n")
        case "hold", [key] if quiet.is_key(key) and options.why.strip():
            state.store(f"{folder}/holds/{key}.json", {"at": now, "why": options.why[:300]})
            out.write(f"held: {key}\n")
        case "release", [key] if quiet.is_key(key):
            if not files.remove(f"{folder}/holds/{key}.json"):
                return 4
            out.write(f"released: {key}\n")
        case "decision", ["open", key] if quiet.is_key(key):
            state.decide(runtime, "open", key, options.why, now=now)
            out.write(f"open: {key}\n")
        case "decision", ["resolve", key] if quiet.is_key(key):
            rows, _ = state.decisions(runtime)
            if not any(item.key == key for item in quiet.open_decisions(rows)):
                return 4
            state.decide(runtime, "resolved", key, options.why, now=now)
            out.write(f"resolved: {key}\n")
        case _:
            raise UsageError(
                "away [on|off]; hold KEY --why TEXT; release KEY; decision open|resolve KEY [--why TEXT]; KEY is of letters, digits and ._-"
            )
    return 0


def _wakes(arguments: Sequence[str], *, environ: Mapping[str, str], cwd: str, now: float, out: TextIO) -> int:
    parser = Parser(
        "wakes",
        "The notices for this session; `drain` shows them and takes them out of the queue.",
        example="vault-mem wakes drain",
    )
    parser.add_argument("verb", nargs="?", choices=("drain",))
    parser.add_argument("--session", default="", help="another session's")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    options = parser.read(arguments, out=out)
    if options is None:
        return 0
    store = seats.opened(explicit=options.root, environ=environ, cwd=cwd)
    session = identity.safe_id(options.session) if options.session else ""
    if not session:
        try:
            session = scene.own(store, environ=environ, pid=os.getpid()).session
        except VaultMemError:
            session = identity.safe_id(environ.get("CLAUDE_CODE_SESSION_ID", "").strip() or "none")
            if options.verb is None:
                session = ""  # a person at another terminal sees everybody's, and drains nobody's
    found = wakes.waiting(store.runtime, session)
    shown = wakes.folded(found)
    if options.json:
        rows = [{**wake._asdict(), "at": stamps.utc(wake.at)} for wake in shown]
        out.write(
            jsontext.dumps(
                {"schema": "vault-mem/wakes/1", "command": "wakes", "ok": True, "findings": [], "wakes": rows},
                escaped=True,
            )
            + "\n"
        )
    else:
        out.writelines(
            f"{wake.seq} {stamps.utc(wake.at)} {plain(wake.session)} {plain(wake.kind)}: {inert(wake.text, limit=2000)}\n"
            for wake in shown
        )
    out.flush()
    if options.verb == "drain" and found:
        wakes.drop(store.runtime, frozenset(wake.seq for wake in found))
    if not found and not options.json:
        out.write("no wakes\n")
    del now
    return 0
