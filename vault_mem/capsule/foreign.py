"""What other programs wrote, as capsules of ours: aigent-OS headers, Harnery checkpoints, plain markdown. Pure; nothing is invented.

A field that the source does not have says that it is unknown; a word that we do not know is kept beside ours.
"""

from __future__ import annotations

from vault_mem import jsontext, stamps
from vault_mem.capsule import codec, draft, gate, header, model, sections
from vault_mem.errors import HeaderError
from vault_mem.record import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from vault_mem.capsule.model import Bullet, Value

NO_OBJECTIVE = "Unknown: no operator objective was captured in what was imported."
NO_WAITING = "Unknown: nothing captured says whether anything is pending."
NO_ACTION = "No concrete next action was captured in what was imported."
_PLACEHOLDERS = {"objective": NO_OBJECTIVE, "waiting_on": NO_WAITING, "next_valid_action": NO_ACTION}
ORIGIN, DIGEST = "imported_from", "imported_digest"
_TITLE = 300
_BLANK = " \t"


class Origin(NamedTuple):
    """Where a file came from: its path below the imported directory, a digest of its bytes, its name without ending, and its own time."""

    path: str
    digest: str
    stem: str
    modified: float


class Made(NamedTuple):
    """A capsule to be written, and what a person should know about it, as (token, text)."""

    document: str
    id: str
    created: float
    notes: tuple[tuple[str, str], ...] = ()


# --- aigent-OS -----------------------------------------------------------------------------------------------------------------


def fields_of(document: str) -> tuple[dict[str, Value], bool]:
    """The header in *document*: as YAML, else line by line as aigent-OS reads it, and whether it was the latter. Raises HeaderError."""
    try:
        return header.read(document), False
    except HeaderError as error:
        if error.token not in ("invalid-frontmatter", "duplicate-key"):
            raise
        return _lines(header.split(document).text), True


def _lines(block: str) -> dict[str, Value]:
    """One `key: value` a line, the first of a key counts, everything behind the colon is the value."""
    rows = block.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    found: dict[str, Value] = {}
    for number, row in enumerate(rows):
        key, colon, rest = row.partition(":")
        if not colon or not key or key != key.strip() or key.startswith("#") or key in found or len(key) > 128:
            continue
        token = rest.strip()
        if token in (">", "|", ">-", "|-", ">+", "|+"):
            found[key] = " ".join(part.strip() for part in _indented(rows, number)) or None
        elif not token and (
            items := [part.strip()[2:] for part in _indented(rows, number) if part.strip()[:2] == "- "]
        ):
            found[key] = tuple(_scalar(item) for item in items)
        elif token[:1] == "[" and token[-1:] == "]":
            found[key] = tuple(_scalar(item.strip()) for item in token[1:-1].split(",") if item.strip())
        else:
            found[key] = None if token.lower() in ("", "null", "~") else _scalar(token)
    return found


def _indented(rows: list[str], number: int) -> list[str]:
    found = []
    for row in rows[number + 1 :]:
        if row and row[0] not in _BLANK:
            break
        if row.strip():
            found.append(row)
    return found


def _scalar(token: str) -> str:
    """A value as aigent-OS decodes it: the comment cut, quotes taken off, control characters made blanks."""
    quote = ""
    for place, char in enumerate(token):
        if quote:
            quote = "" if char == quote and not (quote == '"' and token[place - 1] == "\\") else quote
        elif char in "\"'":
            quote = char
        elif char == "#" and (not place or token[place - 1] in _BLANK):
            token = token[:place].rstrip()
            break
    if len(token) > 1 and token[0] == token[-1] == '"':
        try:
            value = jsontext.loads(token)
            token = value if isinstance(value, str) else token[1:-1]
        except ValueError:
            token = token[1:-1]
    elif len(token) > 1 and token[0] == token[-1] == "'":
        token = token[1:-1].replace("''", "'")
    return "".join(
        " " if ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 or char in "\u2028\u2029" else char for char in token
    )


def capsule(document: str, origin: Origin) -> Made:
    """A capsule of another tree with its values, its body and its name. Raises HeaderError."""
    document = draft.unified(document)
    given, is_dialect = fields_of(document)
    body = document[header.split(document).body :]
    notes: list[tuple[str, str]] = []
    if is_dialect:
        notes.append(("foreign-header", "the header is no YAML and was read line by line"))
    fields = {**dict.fromkeys(model.FIELDS), **given}
    for key, placeholder in _PLACEHOLDERS.items():
        value = fields.get(key)
        if not isinstance(value, str) or not value.strip():
            prose = _prose(body, key)
            fields[key] = prose or placeholder
            if not prose:
                notes.append(("missing-required-field", f"{key} is not given; it says that it is unknown"))
    status = model.status_of(fields)
    if status not in model.STATUSES:
        notes.append(("bad-status", f"the status {status or '(absent)'} is unknown here; it is kept as paused"))
        status = model.PAUSED
    fields["status"] = status
    created, note = _created(fields, origin)
    notes += [note] if note else []
    fields["created_at"] = (
        fields["created_at"] if stamps.epoch_of(fields.get("created_at")) is not None else stamps.utc(created)
    )
    fields["id"] = _name(fields, origin, created)
    fields.update({key: value for key, value in model.FRAMING if fields.get(key) is None})
    return _made(fields, body, origin, created, notes)


def _prose(body: str, key: str) -> str:
    """The text under a heading of that name, as trees written by hand have it."""
    wanted = key.replace("_", " ")
    found: list[str] | None = None
    for line in body.split("\n"):
        title = line.lstrip("#")
        if 0 < len(line) - len(title) <= 6:
            if found is not None:
                break
            if title.strip().replace("_", " ").lower() == wanted:
                found = []
        elif found is not None:
            found.append(line)
    return " ".join(" ".join(found or ()).split())


def _created(fields: Mapping[str, Value], origin: Origin) -> tuple[float, tuple[str, str] | None]:
    """When it was made: its own stamp, else the day in its name, else the time of its file; and what to say about that."""
    given = fields.get("created_at")
    own = stamps.epoch_of(given)
    if own is not None:
        return own, None
    day = stamps.epoch_of(origin.stem[:10])
    where = "the day in its name" if day is not None else "the time of its file"
    shown = given if isinstance(given, str) else "(absent)"
    return (origin.modified if day is None else day), (
        "bad-created_at",
        f"created_at {shown} is no time; {where} is taken",
    )


def _name(fields: Mapping[str, Value], origin: Origin, created: float) -> str:
    for candidate in (fields.get("id"), fields.get("capsule_id"), origin.stem):
        if isinstance(candidate, str) and draft.is_name(candidate):
            return candidate
    return draft.name(str(fields.get("id") or origin.stem), stamps.day(created))


def _made(fields: dict[str, Value], body: str, origin: Origin, created: float, notes: list[tuple[str, str]]) -> Made:
    fields[ORIGIN], fields[DIGEST] = origin.path, origin.digest
    document = codec.render(codec.Capsule(fields, body))
    damage = sections.doubled(body)
    if damage:
        notes.append(("anchor-damage", "; ".join(damage)))
    else:
        document = draft.sectioned(document)
    notes += [(token, text) for token, where, text in gate.named(fields) if where in ("objective", "next_valid_action")]
    return Made(document, str(fields["id"]), created, tuple(notes))


# --- Harnery -------------------------------------------------------------------------------------------------------------------


def is_checkpoint(value: object) -> bool:
    """Whether a JSON value is one of Harnery's continuity capsules."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("capsule_id"), str)
        and isinstance(value.get("session"), dict)
        and type(value.get("generation")) is int
    )


def checkpoint(value: Mapping[str, Any], origin: Origin, *, session: str, newest: bool) -> Made:
    """A Harnery checkpoint; *session* is the safe id. Only the *newest* of a session is active. Raises HeaderError."""
    work, repo, about = (_table(value.get(key)) for key in ("work", "repo", "session"))
    notes: list[tuple[str, str]] = []
    own = stamps.epoch_of(value.get("created_at"))
    if own is None:
        notes.append(("bad-created_at", "created_at is no time; the time of its file is taken"))
    created = origin.modified if own is None else own
    stamp = stamps.utc_millis(created)
    task, note = _text(work, "task"), _text(work, "continuation_note")
    fields: dict[str, Value] = dict.fromkeys(model.FIELDS)
    fields.update(
        id=f"{stamps.day(created)}-checkpoint-{session[:8]}-{int(value['generation']):06d}",
        status=model.ACTIVE if newest else model.SUPERSEDED,
        objective=task or NO_OBJECTIVE,
        waiting_on=NO_WAITING,
        next_valid_action=note or NO_ACTION,
        resume_trigger="clear",
        trigger=f"harnery-{_text(value, 'reason') or 'checkpoint'}",
        success_criteria=(),
        tags=("capsule", "checkpoint"),
        created_at=stamp,
        started_at=stamp,
        updated_at=stamp,
        session_id=session,
        harness=_text(about, "harness") or _text(about, "adapter") or None,
        project=(_text(repo, "root") or _text(repo, "cwd")).rstrip("/").rpartition("/")[2] or None,
        branch=_text(repo, "branch") or None,
        head=_text(repo, "head") or None,
    )
    fields.update(dict(model.FRAMING))
    fields[ORIGIN], fields[DIGEST] = origin.path, origin.digest
    if not draft.is_name(str(fields["id"])):
        fields["id"] = draft.name(str(fields["id"]), stamps.day(created))
    document = codec.render(codec.Capsule(fields, codec.blank_body()))
    document = sections.merge(document, _bullets(work, repo, created), day=stamps.day(created)).document
    return Made(document, str(fields["id"]), created, tuple(notes))


def _bullets(work: Mapping[str, Any], repo: Mapping[str, Any], at: float) -> list[Bullet]:
    rows = [("done", _text(work, "turn_summary"), ""), ("facts", _text(work, "continuation_note"), "NOTE")]
    rows += [("files", path, "HELD") for path in _texts(work.get("files_held"))]
    rows += [("files", path, "DIRTY") for path in _texts(repo.get("dirty_paths"))]
    rows += [("facts", f"{key}: {_text(repo, key)}", "") for key in ("cwd", "branch", "head") if _text(repo, key)]
    return [model.Bullet(section, at, text, tag) for section, text, tag in rows if text]


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(table: Mapping[str, Any], key: str) -> str:
    value = table.get(key)
    return value.strip() if isinstance(value, str) else ""


def _texts(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str) and item.strip()] if isinstance(value, list) else []


# --- plain markdown ------------------------------------------------------------------------------------------------------------


def prose(text: str, origin: Origin) -> Made:
    """A markdown file without a header: its text is kept, found and shown, and handed to nobody (`resolved`). Raises HeaderError."""
    text = draft.unified(text)
    created, _ = _created({}, origin)
    title = next((line.strip("# \t") for line in text.split("\n") if line.startswith("#") and line.strip("# \t")), "")
    fields: dict[str, Value] = dict.fromkeys(model.FIELDS)
    fields.update(
        id=_name({}, origin, created),
        status=model.RESOLVED,
        objective=title[:_TITLE] or NO_OBJECTIVE,
        waiting_on=NO_WAITING,
        next_valid_action=NO_ACTION,
        trigger="import",
        success_criteria=(),
        tags=("capsule", "note"),
        created_at=stamps.utc_millis(created),
        started_at=stamps.utc_millis(created),
        updated_at=stamps.utc_millis(created),
        **dict(model.FRAMING),
    )
    return _made(fields, ("" if text.startswith("\n") else "\n") + text, origin, created, [])
