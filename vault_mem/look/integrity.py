"""Whether history and tree are what our own commits made of them. Looks at everything, changes nothing."""

from __future__ import annotations

from vault_mem import files
from vault_mem.capsule import lineage, model, selector
from vault_mem.record import NamedTuple
from vault_mem.repo import history
from vault_mem.report import FAIL, WARN, Finding
from vault_mem.vault import choice, commits, past, tree, vouched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vault_mem.repo.history import Moment
    from vault_mem.repo.store import Store as Reader
    from vault_mem.vault.store import Store

LOOK, KNOWN = "vault-mem diff ID", "vault-mem trust"


class Verdict(NamedTuple):
    """What was found, and how much was looked at."""

    findings: tuple[Finding, ...]
    commits: int
    capsules: int
    head: str


def checked(store: Store, *, since: str = "") -> Verdict:
    """All findings. Commits are held to our trailers from *since* on (a revision or date), else from the anchor of trust.

    Raises GitRefusedError, NoSuchRevisionError, BeforeHistoryError.
    """
    with past.opened(store) as reading:
        head = reading.text("rev-parse", "--verify", "--end-of-options", reading.rev).strip()
        start = past.at(reading, since) if since else store.record.anchor
        moments = history.events(reading)
        blobs = history.tree(reading, head)
        found = list(_line(reading, store, head))
        rewritten = any(each.severity == FAIL for each in found)
        found += _foreign(reading, "" if rewritten and not since else start)
    found += _tree(store, blobs)
    found += _events(store, moments)
    return Verdict(tuple(found), len(moments), len(blobs), head)


def _line(reading: Reader, store: Store, head: str) -> Iterator[Finding]:
    """Whether the history still holds the newest commit that we vouch for."""
    anchor = store.record.anchor
    if not anchor or history.is_ancestor(reading, anchor, head):
        return
    if history.is_ancestor(reading, head, anchor):
        what = f"the history ends before the newest commit we vouch for, {anchor[:12]}"
        yield Finding("rolled-back", FAIL, head, what, "what came later is missing", "vault-mem trust")
        return
    what = f"the newest commit we vouch for, {anchor[:12]}, is no longer in the history"
    yield Finding("history-rewritten", FAIL, head, what, "deliveries may be repeated or lost", "vault-mem trust")


def _foreign(reading: Reader, start: str) -> Iterator[Finding]:
    """Commits that touch capsules and do not carry our trailers."""
    span = [reading.rev, *([f"^{start}"] if start else [])]
    out = reading.text(
        "log", "-z", "--no-show-signature", "--format=%H%x00%an%x00%B", "--end-of-options", *span, "--", history.FOLDER
    )
    fields = out.split("\0")
    for oid, author, body in zip(fields[::3], fields[1::3], fields[2::3], strict=False):
        if lineage.event_of(body) is None:
            what = f"a commit by {author} touches capsules and is none of ours"
            yield Finding("foreign-commit", WARN, oid, what, "nobody recorded why", KNOWN)


def _tree(store: Store, blobs: dict[str, str]) -> Iterator[Finding]:
    """Whether the files are what the newest commit has."""
    owed = set(commits.pending(store))
    here = {each.path for each in tree.entries(store.memory)[0]}
    for path, blob in blobs.items():
        try:
            data = files.read(f"{store.memory}/{path}")
        except FileNotFoundError:
            yield Finding(
                "missing", WARN, path, "the capsule is in history and not in the tree", "", f"git restore {path}"
            )
            continue
        except OSError as error:
            yield Finding("unreadable", WARN, path, str(error.strerror or error))
            continue
        if path not in owed and vouched.differs(data, blob):
            what = "the file is not what was committed last"
            yield Finding("edited-outside", WARN, path, what, "somebody else wrote it", LOOK)
    for path in sorted(here - set(blobs) - owed):
        yield Finding(
            "not-committed",
            WARN,
            path,
            "no commit has this file",
            "somebody put it there",
            "vault-mem capsule validate FILE",
        )


def _events(store: Store, moments: Sequence[Moment]) -> Iterator[Finding]:
    """Whether ids, parents and deliveries fit together."""
    known = {moment.id for moment in moments if moment.event != lineage.CONSUME}
    here = tree.entries(store.memory)[0]
    known |= {selector.text_of(each.fields, "id") for each in here if each.fields is not None}
    for capsule, parent in history.parents(moments).items():
        if parent not in known:
            yield Finding("unknown-parent", WARN, capsule, f"its parent {parent} was never saved here")
    for moment in moments:
        if moment.event == lineage.CONSUME and not moment.consumer:
            yield Finding("no-consumer", WARN, moment.oid, f"a delivery of {moment.id} names no session")
    book, _ = choice.book(store)
    for each in here:
        name = selector.text_of(each.fields or {}, "id")
        delivery = book.delivery(name) if book is not None and name else None
        if delivery is not None and model.status_of(each.fields or {}) == model.ACTIVE:
            what = f"the file says active, the history says delivered to {delivery.consumer}"
            yield Finding(
                "replayed", WARN, each.path, what, "it is not handed out again", "vault-mem capsule reopen ID"
            )
