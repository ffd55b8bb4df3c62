"""What the SessionStart hook and a person's `resume` have in common: the options, the mark of a delivery, the receipt of what was said."""

from __future__ import annotations

import os

from vault_mem import injections, receipts, resume
from vault_mem.capsule import procedure, selector
from vault_mem.capsule.inert import inert
from vault_mem.hooks import streams
from vault_mem.record import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vault_mem.resume import Answer, Request
    from vault_mem.vault.store import Store

UNDONE = ("not-delivered", "consume-pending", "consume-unrecordable", "lock-busy")
"""Outcomes that a person must hear of: something was not handed over, or is not recorded yet."""
NO_SELECTION = selector.Selection(None, selector.NONE, ())


class Options(NamedTuple):
    """What stood on the command line."""

    source: str = ""
    peek: bool = False
    capsule: str = ""
    at: str = ""
    json: bool = False
    root: str = ""
    harness: str = ""
    help: bool = False

    @property
    def by_hand(self) -> bool:
        """Whether these options make sense without a payload."""
        return bool(self.source or self.peek or self.capsule or self.at or self.json or self.help)


def recorded(request: Request, store: Store, answer: Answer, *, now: float) -> None:
    """Keep what was told, log what came of it, and say on standard error what was not done as asked."""
    _noted(request, store, answer, now=now)
    receipts.log(
        store.runtime,
        now=now,
        door="resume",
        outcome=answer.token,
        session=(request.session or "")[:128],
        detail=f"{answer.capsule} {answer.detail}",
    )
    if answer.token in UNDONE:
        streams.complain(answer.token, answer.detail or answer.token)


def _noted(request: Request, store: Store, answer: Answer, *, now: float) -> None:
    """Keep what the session was told, and say in the log what of the declared lines was refused or held."""
    if not answer.text or request.peek:
        return
    session = request.session or ""
    try:
        injections.note(store.runtime, session=session, source=request.source or "unknown", text=answer.text, at=now)
    except OSError as error:
        streams.complain("injection-unrecorded", str(error))
    for line in answer.text.split("\n"):
        if line.startswith("LIFECYCLE-EXTENSION:"):
            receipts.log(store.runtime, now=now, door="resume", outcome="extension", session=session[:128], detail=line)
            streams.complain("LIFECYCLE-EXTENSION", line)


def mark() -> str:
    """A random mark around the data of one delivery: stored text cannot close a fence it does not know."""
    return os.urandom(6).hex()


def unresolved(request: Request, problem: str, *, now: float) -> str:
    """What is said where the memory root is declared in a way that cannot be honoured: nothing was read."""
    selection = NO_SELECTION._replace(unavailable="bad-memory-root")
    if request.source == resume.CLEAR:
        view = procedure.View(selection, procedure.Session(request.session), now, mark(), root_problem=problem)
        return procedure.render(view)
    fault = f"MEMORY ROOT UNRESOLVED: {inert(problem, limit=600)}. Nothing was read; fix the declaration, then run `vault-mem doctor`."
    return procedure.orientation(None, path="", others=(), unavailable="bad-memory-root", faults=(fault,))
