"""What goes into a checkpoint: the session's work from its cursor and capsule, and a look at the project's repository."""

from __future__ import annotations

import os

from vault_mem import files, redact, worktree
from vault_mem.capsule import gate, header, model, sections, selector
from vault_mem.digest import sha256
from vault_mem.errors import GitRefusedError, HeaderError
from vault_mem.record import NamedTuple
from vault_mem.repo import program
from vault_mem.session import drift, evidence, places
from vault_mem.session.checkpoint import LISTS, Work
from vault_mem.session.drift import Look
from vault_mem.vault import tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from vault_mem.receipts import Cursor
    from vault_mem.vault.store import Store

STATUS = ("--no-optional-locks", "status", "--porcelain=v2", "-z", "--branch", "--ahead-behind")
LIMIT, AGAIN = 2.0, 1.0
HELD, KEPT, WHOLE = 50, 60, 256 * 1024
CHANGED = ("modified ", "modified? ")
BLANK = "Unknown: nothing captured says"


class Held(NamedTuple):
    """The session's capsule. path: relative to the memory root, "" for none; document: its text, None when it cannot be read."""

    path: str = ""
    id: str = ""
    status: str = ""
    document: str | None = None
    problem: str = ""
    fields: Mapping[str, model.Value] = {}


def held(store: Store, cursor: Cursor) -> Held:
    """The capsule that the session saves into."""
    if not cursor.capsule:
        return Held()
    try:
        document = tree.read_document(f"{store.memory}/{cursor.capsule}")
        fields = header.read(document)
    except HeaderError as error:
        return Held(cursor.capsule, problem=error.token)
    return Held(cursor.capsule, selector.text_of(fields, "id"), model.status_of(fields) or "", document, "", fields)


class Redacting:
    """Cleans texts and counts those that held a secret."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.secrets = redact.environment_secrets(environ)
        self.count = 0

    def text(self, text: str) -> str:
        """*text* without secrets."""
        clean = redact.redact(text, self.secrets)
        self.count += clean != text
        return clean


def work(cursor: Cursor, capsule: Held, clean: Redacting, *, note: str = "", delegated: Sequence[str] = ()) -> Work:
    """What the session was doing, every text redacted once more: a header may be a person's own."""
    seen = evidence.from_json(cursor.evidence)
    rows: dict[str, tuple[model.Bullet, ...]] = {}
    if capsule.document is not None:
        day = selector.text_of(capsule.fields, "started_at") or selector.text_of(capsule.fields, "created_at")
        try:
            rows = sections.read(capsule.document, day=day[:10])
        except HeaderError:
            rows = {}
    done, touched = rows.get("done", ()), rows.get("files", ())
    told = {
        "objective": _captured(capsule, "objective"),
        "request": seen.latest,
        "next_action": _captured(capsule, "next_valid_action"),
        "waiting_on": _captured(capsule, "waiting_on"),
        "conclusion": seen.said or seen.concluded,
        "note": note,
    }
    lists = {
        # Bullets stand newest first; a checkpoint keeps the newest last.
        "requests": [row.text for row in done if row.tag == "OPERATOR" and row.text != seen.latest][:6][::-1],
        "todos": [f"{todo.status}: {todo.text}" for todo in seen.todos if todo.status in ("in_progress", "pending")][
            :20
        ],
        "errors": [slip.text for slip in seen.slips][-10:],
        "questions": [question.text for question in seen.questions],
        "failing": [failing.command for failing in seen.failing],
        "commits": [row.text for row in done if row.tag == "COMMIT"][:10][::-1],
        "files": list(_paths(touched, CHANGED))[:HELD][::-1],
        "reads": list(_paths(touched, ("read ",)))[:20][::-1],
        "delegated": list(delegated),
    }
    fields: dict[str, Any] = {name: clean.text(text) for name, text in told.items()}
    fields |= {name: tuple(clean.text(item) for item in lists[name]) for name in LISTS}
    return Work(**fields)


def _captured(capsule: Held, key: str) -> str:
    """A field of the contract; a sentence that only says that nothing was captured is nothing."""
    text = selector.text_of(capsule.fields, key)
    return "" if gate.not_captured(text) or text.startswith(BLANK) else text


def _paths(bullets: Sequence[model.Bullet], prefixes: tuple[str, ...]) -> dict[str, None]:
    found: dict[str, None] = {}
    for bullet in bullets:
        prefix = next((prefix for prefix in prefixes if bullet.text.startswith(prefix)), "")
        if prefix:
            found[bullet.text[len(prefix) :]] = None
    return found


def look(directory: str, *, changed: Sequence[str], environ: Mapping[str, str]) -> Look:
    """One look at the repository around *directory*; what cannot be known is named in `unknown`. At most two runs of git, three seconds.

    changed: files whose content is marked, relative to *directory*.
    """
    empty = Look(cwd=directory, held=marks(directory, changed))
    if not os.path.isdir(directory):
        return empty._replace(unknown="directory-missing")
    top = worktree.here(directory).top
    if not top:
        return empty._replace(unknown=drift.NOT_A_REPOSITORY)
    git_dir, common = worktree.directories(top)
    seen = empty._replace(root=os.path.realpath(top), common=os.path.realpath(common))
    output, untracked, why = _status(top, environ)
    if output is None:
        return seen._replace(unknown=why)
    return drift.parsed(output, seen._replace(operation=_operation(git_dir), stash=_stash(common), untracked=untracked))


def _status(top: str, environ: Mapping[str, str]) -> tuple[bytes | None, bool, str]:
    """Git's answer, whether untracked files are in it, and why there is none. A work tree too large to walk is asked for tracked files alone."""
    why = ""
    for untracked, limit in ((True, LIMIT), (False, AGAIN)):
        mode = "--untracked-files=all" if untracked else "--untracked-files=no"
        try:
            answer = program.run([*STATUS, mode], worktree=top, environ=environ, limit=limit)
        except GitRefusedError as error:
            why = error.reason
            if why != "timeout":
                break
        except OSError as error:
            return None, False, error.strerror or "git cannot be started"
        else:
            if not answer.code:
                return answer.out, untracked, ""
            why = program.refusal(answer).reason
            break
    return None, False, why


def cut(seen: Look) -> Look:
    """*seen* with at most KEPT paths, for keeping; total and digest still tell of all."""
    return seen._replace(dirty=seen.dirty[:KEPT])


def _operation(git_dir: str) -> str:
    return next((name for file, name in drift.OPERATIONS if os.path.lexists(f"{git_dir}/{file}")), "")


def _stash(common: str) -> int | None:
    try:
        return files.read_followed(f"{common}/logs/refs/stash", limit=4 << 20).count(b"\n")
    except FileNotFoundError:
        return None if os.path.lexists(f"{common}/refs/stash") else 0
    except OSError:
        return None


def marks(directory: str, changed: Sequence[str]) -> dict[str, str]:
    """A mark of the content of each file: a hash, for large ones size and time, "" where there is none."""
    return {path: _mark(places.joined(directory, path)) for path in changed[-HELD:]}


def _mark(path: str) -> str:
    try:
        found = os.stat(path)
        if found.st_size > WHOLE:
            return f"{found.st_size}@{found.st_mtime_ns}"
        return sha256(files.read_followed(path, limit=WHOLE))[:16]
    except OSError:
        return ""
