"""What a session has shown so far, in a form that is stored between hooks: what is open, what was asked, what failed.

`fold` is pure and does not care where the transcript was cut: folding the pieces one after the other ends in the same evidence
and yields the same bullets as folding the whole. What one piece shows to be over is not told: gates and rows that open and close within
it, reads of files that it modifies.
"""

from __future__ import annotations

from vault_mem.capsule import text as texts
from vault_mem.capsule.model import Contract
from vault_mem.record import NamedTuple
from vault_mem.session.turns import DOING, PENDING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


REQUEST = 300  # characters of a request in the objective
MAKE_PASS = "Make the failing tests pass: "
QUESTION, TODO, TESTS, CLAIM = "QUESTION", "TODO", "TESTS", "CLAIM"


class Use(NamedTuple):
    """A tool call that has no result yet. session: of a command that goes on in the background."""

    ref: str
    name: str
    action: str
    target: str
    items: tuple[str, ...]
    cwd: str
    at: float
    session: str = ""


class Slip(NamedTuple):
    """An error that nothing has resolved yet. words: what a later success has to be about. text: its bullet. label: its target."""

    family: str
    words: tuple[str, ...]
    text: str
    label: str
    at: float


class Todo(NamedTuple):
    """One entry of the agent's own list; *id* is empty in clients that name no ids."""

    id: str
    text: str
    status: str
    at: float


class Failing(NamedTuple):
    """A test command that failed last. words: its runner and what it picks."""

    command: str
    words: tuple[str, ...]
    at: float


class Question(NamedTuple):
    """A question to the person without an answer."""

    ref: str
    text: str
    at: float


class Claim(NamedTuple):
    """A row of a board that this session took."""

    row: str
    at: float


class Refusal(NamedTuple):
    """Something the person stopped without saying why; the next prompt tells."""

    tag: str
    text: str
    at: float


class Evidence(NamedTuple):
    """The state between two deltas. newest: epoch of the newest record, 0.0 for none. clock: of the last one.

    again: the transcript is being read a second time, records until then are no news; 0.0 when it is not.
    told: checksums of what was said, as its bullets say it, latest last.
    """

    newest: float = 0.0
    clock: float = 0.0
    cwd: str = ""
    branch: str = ""
    first: str = ""
    latest: str = ""
    asked: str = ""
    turn: str = ""
    said: str = ""
    said_ref: str = ""
    said_at: float = 0.0
    concluded: str = ""
    test: str = ""
    edited: float = 0.0
    halted: bool = False
    todos: tuple[Todo, ...] = ()
    uses: tuple[Use, ...] = ()
    slips: tuple[Slip, ...] = ()
    failing: tuple[Failing, ...] = ()
    questions: tuple[Question, ...] = ()
    claims: tuple[Claim, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    changed: tuple[int, ...] = ()
    seen: tuple[int, ...] = ()
    again: float = 0.0
    told: tuple[int, ...] = ()


EMPTY = Evidence()
FORMAT = 1
_ROWS: dict[str, Any] = {
    "todos": Todo("", "", "", 0.0),
    "uses": Use("", "", "", "", (), "", 0.0, ""),
    "slips": Slip("", (), "", "", 0.0),
    "failing": Failing("", (), 0.0),
    "questions": Question("", "", 0.0),
    "claims": Claim("", 0.0),
    "refusals": Refusal("", "", 0.0),
    "changed": 0,
    "seen": 0,
    "told": 0,
}


def to_json(evidence: Evidence) -> dict[str, Any]:
    """*evidence* as a JSON value; what is empty is left out."""
    kept = zip(Evidence._fields, evidence, EMPTY, strict=True)
    return {"format": FORMAT, **{name: value for name, value, empty in kept if value != empty}}


def from_json(stored: object) -> Evidence:
    """The evidence that `to_json` wrote; EMPTY for anything that it cannot have written."""
    if not isinstance(stored, dict) or stored.get("format") != FORMAT:
        return EMPTY
    values: dict[str, Any] = {}
    for name, empty in zip(Evidence._fields, EMPTY, strict=True):
        if name not in stored:
            continue
        value = stored[name]
        if name in _ROWS:
            if not isinstance(value, (list, tuple)):
                return EMPTY
            rows = tuple(_like(row, _ROWS[name]) for row in value)
            if None in rows:
                return EMPTY
            values[name] = rows
        else:
            values[name] = _like(value, empty)
            if values[name] is None:
                return EMPTY
    return Evidence(**values)


def _like(value: Any, example: Any) -> Any:
    """*value* in the shape of *example*, None when it has another one."""
    if isinstance(example, bool) or isinstance(value, bool):
        return value if isinstance(value, bool) and isinstance(example, bool) else None
    if isinstance(example, float):
        return float(value) if isinstance(value, (int, float)) else None
    if isinstance(example, (int, str)):
        return value if isinstance(value, type(example)) else None
    if not isinstance(value, (list, tuple)):
        return None
    if type(example) is tuple:
        return tuple(value) if all(isinstance(item, str) for item in value) else None
    if len(value) != len(example):
        return None
    fields = [_like(item, part) for item, part in zip(value, example, strict=True)]
    return None if None in fields else type(example)(*fields)


def open_items(evidence: Evidence) -> dict[tuple[str, str, str], float]:
    """What is open now, as section, tag and text of its bullet, with the time since when."""
    found: dict[tuple[str, str, str], float] = {}
    for question in evidence.questions:
        found["gates", QUESTION, question.text] = question.at
    for failing in evidence.failing:
        found["gates", TESTS, f"failing: {failing.command}"] = failing.at
    if evidence.edited and evidence.test and not evidence.failing:
        found["gates", TESTS, f"not run since the last edit: {evidence.test}"] = evidence.edited
    for todo in evidence.todos:
        if todo.status == PENDING:
            found["gates", TODO, todo.text] = todo.at
        elif todo.status == DOING:
            found["rows", TODO, todo.text] = todo.at
    for claim in evidence.claims:
        found["rows", CLAIM, claim.row] = claim.at
    return found


def contract(evidence: Evidence) -> Contract:
    """What a fresh session acts on, from structured evidence only; None for what was not captured."""
    return Contract(_objective(evidence), _waiting_on(evidence), _next_action(evidence))


def _objective(evidence: Evidence) -> str | None:
    if not evidence.latest:
        return None
    latest = texts.cut(evidence.latest, REQUEST)
    if evidence.first in ("", evidence.latest):
        return latest
    return f"{latest} · within: {texts.cut(evidence.first, REQUEST)}"


def _waiting_on(evidence: Evidence) -> str | None:
    if evidence.questions:
        return texts.cut(" / ".join(question.text for question in evidence.questions), REQUEST)
    if evidence.slips:
        count = len(evidence.slips)
        labels = list(dict.fromkeys(texts.cut(slip.label, 120) for slip in reversed(evidence.slips)))
        more = "; …" if len(labels) > 3 else ""
        return f"Unknown: {count} unresolved tool error{'s' if count > 1 else ''} may be pending: {'; '.join(labels[:3])}{more}"
    return None


def _next_action(evidence: Evidence) -> str | None:
    for wanted in (DOING, PENDING):
        for todo in evidence.todos:
            if todo.status == wanted:
                return texts.cut(todo.text, REQUEST)
    if evidence.claims:
        rows = ", ".join(claim.row for claim in evidence.claims[-8:])
        return texts.cut(f"Re-verify claimed row(s) {rows} before acting on them", REQUEST)
    if evidence.failing:
        return texts.cut(f"{MAKE_PASS}{evidence.failing[-1].command}", REQUEST)
    return None


def passes(evidence: Evidence, action: str) -> bool:
    """Whether *action* asks for tests to pass and this session ran them and saw nothing fail."""
    if not action.startswith(MAKE_PASS) or not evidence.test or evidence.failing:
        return False
    from vault_mem.session import outcome, shell

    now, wanted = (outcome.ran_tests(shell.parse(text)) for text in (evidence.test, action[len(MAKE_PASS) :]))
    return bool(now and wanted) and shell.covers(now[-1][1], wanted[-1][1])
