"""Whether what a resume is about to hand out is what our own commits made of it: the cheap part of `vault-mem verify`.

Two questions. Of the history: does it still hold the newest commit that this user vouches for (the anchor of trust), and is every commit since
then that touches capsules one of ours? Of the chosen file: is it what the newest commit has? In the ordinary case HEAD is the anchor and four
loose objects are read. What is wrong is said beside the data; with `integrity: refuse` nothing of it is handed out.
"""

from __future__ import annotations

from vault_mem import receipts, trust
from vault_mem.capsule import lineage, selector
from vault_mem.capsule.inert import inert
from vault_mem.errors import GitRefusedError, VaultMemError
from vault_mem.record import NamedTuple
from vault_mem.repo import objects, shape
from vault_mem.vault import commits, store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vault_mem.repo.objects import Objects
    from vault_mem.vault.chosen import Chosen
    from vault_mem.vault.store import Store

REFUSE = "refuse"
FOLDER = "capsules"
EDITED, UNKNOWN = "edited-outside", "not-in-history"
ROLLED_BACK, REWRITTEN, FOREIGN, UNCHECKED = "rolled-back", "history-rewritten", "foreign-commit", "integrity-unchecked"


class Fault(NamedTuple):
    """What is wrong, as a token, and in inert words."""

    token: str
    detail: str

    @property
    def said(self) -> str:
        """What the session reads beside the data, on one line."""
        return f"INTEGRITY {self.token}: {self.detail}"


class NotVouchedError(VaultMemError):
    """A capsule was asked for by name that may not be handed out (`integrity: refuse`); the token is that of the fault."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(f"{fault.token}: {fault.detail}; refused by the setting `integrity`")
        self.token = fault.token


class Verdict(NamedTuple):
    """What is wrong with the history, and with the chosen file.

    head: the newest commit when the history up to it is good and the anchor is older, to which the anchor may move; else empty.
    """

    line: Fault | None = None
    file: Fault | None = None
    head: str = ""

    @property
    def faults(self) -> tuple[Fault, ...]:
        """All that is wrong."""
        return tuple(each for each in (self.line, self.file) if each is not None)


GOOD = Verdict()


def refuses(seat: Store) -> bool:
    """Whether the setting `integrity` says `refuse`. A tree cannot switch it off: it is read from the environment and the user's own file."""
    return store.setting("integrity", "report", environ=seat.environ, record=seat.record) == REFUSE


def history(seat: Store) -> Verdict:
    """What is wrong with the history. Nothing can be said of a tree that keeps none."""
    if not seat.keeps_history or not seat.record.anchor:
        return GOOD
    try:
        with _reading(seat) as reading:
            head = objects.head_of(reading.repository, environ=seat.environ) or ""
            if head == seat.record.anchor:
                return GOOD
            return _since(seat, reading, head)
    except (GitRefusedError, OSError) as error:
        return Verdict(_unchecked(error))


def of(seat: Store, chosen: Chosen) -> Verdict:
    """What is wrong with the history and with the file of *chosen*; of one that was read from history, with the history alone."""
    if not seat.keeps_history:
        return GOOD
    try:
        with _reading(seat) as reading:
            head = objects.head_of(reading.repository, environ=seat.environ) or ""
            known = not seat.record.anchor or head == seat.record.anchor
            found = GOOD if known else _since(seat, reading, head)
            fault = None if chosen.gone else _file(seat, reading, head, chosen)
    except (GitRefusedError, OSError) as error:
        return Verdict(_unchecked(error))
    return found._replace(file=fault) if fault is not None else found


def moved(seat: Store, verdict: Verdict) -> None:
    """Move the anchor over commits that were found to be ours, or to touch no capsule. The caller holds the lock. Never fatal."""
    if verdict.head:
        try:
            trust.advance(seat.record, seat.record.anchor, verdict.head, durable=False)
        except OSError:
            pass  # the next look finds the same


def differs(data: bytes, blob: str) -> bool:
    """Whether the bytes of a file are another text than *blob*; a checkout may have given its lines other ends."""
    folded = data.replace(b"\r\n", b"\n")
    return blob not in (objects.blob_oid(data, like=blob), objects.blob_oid(folded, like=blob))


def _reading(seat: Store) -> Objects:
    return objects.Objects(shape.opened(seat.worktree, environ=seat.environ, ref=seat.ref), environ=seat.environ)


def _unchecked(error: Exception) -> Fault:
    token = error.token if isinstance(error, VaultMemError) else type(error).__name__
    return Fault(
        UNCHECKED, f"the history could not be read ({token}), so nobody can say whether the file is what was saved"
    )


def _since(seat: Store, reading: Objects, head: str) -> Verdict:
    """What is wrong between the anchor and *head*, which are two commits."""
    anchor = seat.record.anchor
    if not head:
        return Verdict(Fault(REWRITTEN, f"the history is empty, and {anchor[:12]} was vouched for"))
    try:
        between = objects.commits_between(seat.worktree, anchor, head, environ=seat.environ)
    except objects.NotAnAncestorError:
        return Verdict(_left(seat, anchor, head))
    # What lies in an adopted tree is its owner's, whose own commits are no fault.
    strangers = [oid for oid, message in between if lineage.event_of(message) is None and _touches(reading, oid)]
    if strangers and seat.record.mode != store.ADOPTED:
        what = f"commit {strangers[-1][:12]} changes capsules and is none of ours"
        more = f", and {len(strangers) - 1} before it" if len(strangers) > 1 else ""
        return Verdict(Fault(FOREIGN, f"{what}{more}; look at it, then run `vault-mem trust`"))
    return Verdict(head=head)


def _left(seat: Store, anchor: str, head: str) -> Fault:
    """How a history without the anchor came about."""
    remedy = "deliveries may be repeated or lost; run `vault-mem verify`, then `vault-mem trust`"
    try:
        objects.commits_between(seat.worktree, head, anchor, environ=seat.environ)
    except (objects.NotAnAncestorError, GitRefusedError):
        return Fault(REWRITTEN, f"the history no longer holds {anchor[:12]}, the newest commit vouched for; {remedy}")
    return Fault(ROLLED_BACK, f"the history ends before {anchor[:12]}, the newest commit vouched for; {remedy}")


def _touches(reading: Objects, oid: str) -> bool:
    """Whether a commit changes capsules against any parent."""
    commit = reading.commit(oid)
    mine = reading.entry(commit.tree, FOLDER)
    return any(reading.entry(reading.commit(each).tree, FOLDER) != mine for each in commit.parents) or (
        not commit.parents and mine is not None
    )


def _file(seat: Store, reading: Objects, head: str, chosen: Chosen) -> Fault | None:
    path = chosen.candidate.path
    found = reading.entry(reading.commit(head).tree, path) if head else None
    if found is not None and not differs(chosen.document.encode("utf-8"), found[1]):
        return None
    # Only now: a save that could not be committed, or a delivery that was cut off, is ours all the same.
    name = selector.text_of(chosen.fields, "id")
    if path in commits.pending(seat) or any(intent.capsule == name for intent in receipts.intents(seat.runtime)):
        return None
    if found is None:
        return Fault(UNKNOWN, "the newest commit does not have this file; somebody put it there")
    return Fault(EDITED, f"the file is not what was committed last; `vault-mem diff {inert(name, limit=100)}` shows it")
