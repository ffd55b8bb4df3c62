"""`vault-mem resume` by hand: text or one JSON document, and an exit code that says what came of it."""

from __future__ import annotations

import os

from vault_mem import jsontext, resume
from vault_mem.capsule import selector
from vault_mem.capsule.inert import clean
from vault_mem.errors import MemoryRootError, VaultMemError
from vault_mem.hooks import answers, streams
from vault_mem.resume import Answer, Request
from vault_mem.vault import store as seats

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from vault_mem.hooks.answers import Options

HELP = """usage: vault-mem resume [--source SOURCE] [--peek] [--capsule ID] [--at REV|DATE] [--json] [--root DIR]

The SessionStart hook reads its payload from standard input. By hand it prints what a fresh session would be given; only
`--source clear` hands the capsule over and records that.

  --source SOURCE  clear: hand the capsule over; anything else only prints
  --peek           print, change nothing
  --capsule ID     the capsule with this id, or the only one whose id begins so; one that left the tree is put back first
  --at REV|DATE    what would have been handed out at a revision of the vault or a date, UTC; implies --peek
  --json           one JSON document
  --root DIR       the memory at DIR instead of the one of this directory

example: vault-mem resume --peek
"""
KEYS = (
    "status",
    "objective",
    "waiting_on",
    "next_valid_action",
    "created_at",
    "parent_capsule_id",
    "session_id",
    "harness",
)


def run(chosen: Options, *, environ: Mapping[str, str], cwd: str, now: float) -> int:
    """Answer a person or an agent; the exit code is 0 for a capsule, 4 for none, 1 for what failed."""
    session = environ.get("CLAUDE_CODE_SESSION_ID", "").strip()
    hands_over = chosen.source == resume.CLEAR and not chosen.peek and not chosen.at
    request = Request(
        chosen.source,
        session or (manual(now) if hands_over else None),
        chosen.capsule,
        peek=not hands_over,
        project=environ.get("CLAUDE_PROJECT_DIR") or cwd,
    )
    try:
        if chosen.help:
            streams.put(1, HELP)
            return 0
        try:
            return _answered(chosen, request, environ=environ, cwd=cwd, now=now)
        except VaultMemError as error:
            return _failed(chosen, request, error, now=now)
    except OSError as error:
        streams.complain("not-delivered", str(error))
        return 1


def _answered(chosen: Options, request: Request, *, environ: Mapping[str, str], cwd: str, now: float) -> int:
    store = seats.opened(explicit=chosen.root, environ=environ, cwd=cwd)

    def say(answer: Answer) -> None:
        streams.put(1, _dumped(document(answer)) if chosen.json else answer.text)

    if not request.peek:
        answer = resume.hand_over(request, store, clock=streams.clock, token=answers.mark(), say=say)
    else:
        if chosen.at:
            answer = resume.then(request, store, chosen.at, now=now, token=answers.mark())
        else:
            answer = resume.peek(request, store, now=now, token=answers.mark())
        say(answer)
    answers.recorded(request, store, answer, now=now)
    if answer.token == "not-delivered":
        return 1
    return 0 if answer.selection.chosen is not None and answer.capsule else 4


def _failed(chosen: Options, request: Request, error: VaultMemError, *, now: float) -> int:
    """Say what is wrong; where the memory root is, also what a session must know that starts without it."""
    bad_root = isinstance(error, MemoryRootError)
    if chosen.json:
        unavailable = "bad-memory-root" if bad_root else ""
        empty = Answer(error.token, selector.Selection(None, selector.NONE, (), unavailable))
        finding = {"token": error.token, "severity": "fail", "where": "", "what": clean(str(error)), "fix": ""}
        streams.put(1, _dumped({**document(empty), "findings": [finding]}))
    elif bad_root:
        streams.put(1, answers.unresolved(request._replace(source=resume.CLEAR), str(error), now=now))
    streams.complain(error.token, str(error))
    return error.exit_code


def manual(now: float) -> str:
    """A consumer for a delivery that no client session asked for: it counts as having saved nothing. Time first, so that it sorts."""
    return f"{resume.MANUAL}{round(now * 1000):011x}-{os.urandom(5).hex()}"


def document(answer: Answer) -> dict[str, Any]:
    """The answer with the keys of the command line reference, its words made inert."""
    chosen = answer.selection.chosen
    return {
        "schema": "vault-mem/resume/1",
        "command": "resume",
        "ok": chosen is not None,
        "findings": [],
        "outcome": answer.token,
        "tier": answer.selection.tier,
        "capsule": _capsule(answer) if chosen is not None else None,
        "rejected": [
            {
                "name": clean(each.name),
                "reason": each.reason,
                "detail": clean(each.detail),
                "path": clean(each.path),
                "ordinary": each.ordinary,
            }
            for each in answer.selection.rejected
        ],
        "unavailable": answer.selection.unavailable,
        "text": answer.text,
    }


def _capsule(answer: Answer) -> dict[str, str | None]:
    chosen = answer.selection.chosen
    fields = chosen.fields or {} if chosen else {}
    made: dict[str, str | None] = {"id": clean(answer.capsule), "path": clean(chosen.path) if chosen else None}
    return made | {key: clean(selector.text_of(fields, key)) or None for key in KEYS}


def _dumped(value: dict[str, Any]) -> str:
    return jsontext.dumps(value, escaped=True) + "\n"
