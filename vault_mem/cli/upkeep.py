"""`vault-mem retire` and `vault-mem gc`: what the hooks also start by themselves, detached, when it is due."""

from __future__ import annotations

from vault_mem import jsontext, receipts, retire
from vault_mem.capsule.inert import clean, plain
from vault_mem.cli import words
from vault_mem.context import upkeep as checkpoints
from vault_mem.vault import store as seats

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TextIO

    from vault_mem.vault.store import Store

JSON = words.Option("--json", "", "one JSON document")
COMMANDS = {
    "retire": words.Command(
        "Take capsules beyond the limit (setting retire_after, 256) out of the tree, oldest first; they stay in history.",
        "vault-mem retire --dry-run",
        (words.Option("--dry-run", "", "only say which"), JSON),
    ),
    "gc": words.Command(
        "Retire what is due, pack loose objects, write a commit graph with changed paths. No hook waits for it.",
        "vault-mem gc",
        (words.Option("--background", "", "only what is due, and nothing printed; what the hooks start"), JSON),
    ),
}


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
    """Run one of the two."""
    del program, err
    options = words.read(command, COMMANDS[command], arguments, out=out)
    if options is None:
        return 0
    store = seats.opened(explicit=options["--root"], environ=environ, cwd=cwd)
    if command == "retire":
        return _retire(store, options, now=now, out=out)
    if options["--background"]:
        for token in retire.background(store, now=now):
            receipts.log(store.runtime, now=now, door="upkeep", outcome=token.partition(":")[0], detail=token)
        checkpoints.prune(store.runtime, now=now)
        return 0
    outcome = retire.retire(store, now=now)
    packed = retire.pack(store)
    checkpoints.prune(store.runtime, now=now)
    receipts.log(store.runtime, now=now, door="gc", outcome=packed, detail=f"{outcome.token} {len(outcome.retired)}")
    if options["--json"]:
        document = {"schema": "vault-mem/gc/1", "command": "gc", "ok": True, "findings": [], "outcome": packed}
        out.write(jsontext.dumps({**document, "retired": len(outcome.retired)}, escaped=True) + "\n")
    else:
        out.write(f"{packed}; {outcome.token}: {len(outcome.retired)} capsules\n")
    return 0


def _retire(store: Store, options: words.Options, *, now: float, out: TextIO) -> int:
    dry = bool(options["--dry-run"])
    outcome = retire.retire(store, now=now, dry_run=dry)
    if not dry:
        detail = f"{len(outcome.retired)} capsules"
        receipts.log(store.runtime, now=now, door="retire", outcome=outcome.token, detail=detail)
    if options["--json"]:
        kept = [{"id": clean(name), "reason": reason} for name, reason in outcome.kept.items()]
        document = {"schema": "vault-mem/retire/1", "command": "retire", "ok": True, "findings": [], "dry_run": dry}
        document |= {"outcome": outcome.token, "retired": [clean(name) for name in outcome.retired], "kept": kept}
        out.write(jsontext.dumps(document, escaped=True) + "\n")
        return 0
    out.writelines(f"{'would retire' if dry else 'retired'}  {plain(name)}\n" for name in outcome.retired)
    out.writelines(f"stays  {plain(name)}  ({plain(reason)})\n" for name, reason in outcome.kept.items())
    if outcome.token == "never":
        out.write("never: capsules of this tree are not retired (setting retire_after)\n")
    elif not outcome.retired:
        out.write(f"nothing-to-retire: at most {outcome.limit} capsules that may go lie in the tree\n")
    return 0
