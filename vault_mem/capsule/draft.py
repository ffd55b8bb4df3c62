"""A capsule that a person or an agent wrote: checked, filled with stamps, its sections found by their headings. Pure."""

from __future__ import annotations

from vault_mem import stamps
from vault_mem.capsule import codec, gate, header, model, sections
from vault_mem.capsule import text as texts
from vault_mem.errors import HeaderError
from vault_mem.report import FAIL, WARN, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vault_mem.capsule.model import Value

MANUAL = "manual"
AHEAD = 600.0
"""Seconds that `created_at` may lie in the future."""
LONGEST_NAME = 128
_SLUG = 48
_HEADINGS = {
    "done": "done",
    "errors": "errors",
    "historical errors": "errors",
    "errors resolutions": "errors",
    "rejected": "rejected",
    "rejected approaches": "rejected",
    "historical rejected approaches": "rejected",
    "files": "files",
    "files read files modified": "files",
    "facts": "facts",
    "operating facts": "facts",
    "gates": "gates",
    "pending gates": "gates",
    "rows": "rows",
    "claimed rows": "rows",
    **{
        " ".join("".join(char if char.isalnum() else " " for char in section.heading.lower()).split()): section.name
        for section in model.SECTIONS
    },
}
_SECTION = {section.name: section for section in model.SECTIONS}


def examine(document: str, *, now: float) -> tuple[Finding, ...]:
    """Every problem of a capsule, worst kind first as they are found: FAIL is a problem, WARN is worth knowing."""
    try:
        fields = header.read(document)
        block = header.split(document)
    except HeaderError as error:
        return (Finding(error.token, FAIL, "header", error.detail or error.token),)
    found = [Finding(token, FAIL, where, text) for token, where, text in gate.named(fields, document[block.body :])]
    found.extend(
        Finding(
            "inline-comment",
            FAIL,
            key,
            f"{key} is followed by a comment, what stands there is lost; put all of the text in double quotes",
        )
        for key in model.REQUIRED
        if _commented(block.text, key)
    )
    name = fields.get("id")
    if isinstance(name, str) and name.strip() and not is_name(name):
        found.append(
            Finding("bad-id", WARN, "id", "id has characters that no file name of ours has; it is read as it stands")
        )
    found.extend(_timed(fields, now=now))
    if not any(each.token == "anchor-damage" for each in found):
        damage = sections.damage(document)
        if damage:
            named = any("names it" in problem for problem in damage)
            text = f"the body: {'; '.join(damage)}; bullets cannot be added there"
            found.append(Finding("anchor-damage", FAIL if named else WARN, "body", text))
    return tuple(found)


def _timed(fields: Mapping[str, Value], *, now: float) -> list[Finding]:
    created = fields.get("created_at")
    stamp = stamps.parse(created) if isinstance(created, str) else None
    if stamp is None:
        return []
    if stamp.epoch > now + AHEAD:
        return [Finding("future-created_at", FAIL, "created_at", "created_at lies in the future; it is never chosen")]
    if not stamp.zoned:
        return [Finding("no-zone", WARN, "created_at", "created_at names no zone and is taken as UTC")]
    return []


def _commented(block: str, key: str) -> bool:
    """Whether the value of *key* is followed, and so perhaps cut, by a comment."""
    for line in block.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        if not line.startswith(f"{key}:"):
            continue
        rest = line[len(key) + 1 :].strip()
        quote = rest[:1]
        if quote in ("|", ">"):
            return False
        if quote in ('"', "'"):
            rest = rest[_closed(rest) :]
            return rest.lstrip().startswith("#")
        return rest.startswith("#") or " #" in rest or "\t#" in rest
    return False


def _closed(rest: str) -> int:
    """Behind the closing quote of the scalar that *rest* begins with; its length when it is not closed in this line."""
    quote, place = rest[0], 1
    while place < len(rest):
        if quote == '"' and rest[place] == "\\":
            place += 1
        elif rest[place] == quote:
            if quote == "'" and rest[place + 1 : place + 2] == "'":
                place += 1
            else:
                return place + 1
        place += 1
    return len(rest)


def is_name(text: str) -> bool:
    """Whether *text* can be the id of a capsule that we name a file after."""
    rest = text.replace(".", "").replace("_", "").replace("-", "")
    return 0 < len(text) <= LONGEST_NAME and text.isascii() and text[0].isalnum() and rest.isalnum()


def name(objective: str, day: str) -> str:
    """`<UTC date>-<slug>` of an objective; words without ASCII letters give the plain `capsule`."""
    plain = "".join(char if char.isascii() and char.isalnum() else " " for char in objective.lower())
    slug = ""
    for word in plain.split():
        if len(slug) + len(word) > _SLUG:
            break
        slug += ("-" if slug else "") + word
    return f"{day}-{slug or 'capsule'}"


def unified(document: str) -> str:
    """The document as we write new files: no byte order mark, line feeds only."""
    return document.removeprefix(header.BOM).replace("\r\n", "\n").replace("\r", "\n")


def stamped(document: str, known: Mapping[str, Value], *, session: str, name: str) -> str:
    """*document* with *known* where a field is missing or null; the author's own values stay. Raises HeaderError.

    Marks that would make it an autosave, which the writer owns, are taken off; session and id are what they are.
    """
    block = header.split(document)
    given = header.read(document)
    fields = {**given, **{key: value for key, value in known.items() if given.get(key) in (None, "")}}
    fields["id"] = name
    if session:
        fields["session_id"] = session
    if model.is_autosave(fields):
        tags = fields["tags"]
        fields["trigger"] = MANUAL
        fields["tags"] = tuple(tag for tag in tags if tag != model.AUTOSAVE) if isinstance(tags, tuple) else ()
    if header.scan(block.text) is not None and "#" not in block.text:
        return codec.render(codec.Capsule(dict(fields), document[block.body :]))
    for key, value in fields.items():
        if key not in given or given[key] != value:
            document = header.put(document, key, value)
    return document


def redacted(document: str, redact: Callable[[str], str]) -> str:
    """*document* without secrets: each value, then the body; comments of the header go where they hold one. Raises HeaderError."""
    fields = header.read(document)
    clean = {key: _clean(value, redact) for key, value in fields.items()}
    for key, value in clean.items():
        if value != fields[key]:
            document = header.edit(document, key, value)
    block = header.split(document)
    body = redact(document[block.body :])
    if "#" in block.text and redact(block.text) != block.text:
        return codec.render(codec.Capsule(clean, body))
    return document[: block.body] + body


def _clean(value: Value, redact: Callable[[str], str]) -> Value:
    if isinstance(value, str):
        return redact(value)
    return tuple(redact(item) for item in value) if value is not None else None


def sectioned(document: str) -> str:
    """*document* with the anchors of all seven sections: behind a heading that names one, else as an empty section at the end."""
    block = header.split(document)
    body = document[block.body :]
    there = {section.name for section in model.SECTIONS if _stands(body, section.anchor)}
    rows: list[str] = []
    for row, fenced in texts.lines(body.split("\n")):
        named = "" if fenced or not row.startswith("## ") else _HEADINGS.get(_plain(row), "")
        if named and named not in there:
            there.add(named)
            rows += [""] if rows and rows[-1].strip() else []
            rows += [f"## {_SECTION[named].heading}", _SECTION[named].anchor]
        else:
            rows.append(row)
    body = "\n".join(rows)
    frame = "" if "[REFERENCE ONLY]" in body else codec.FRAME
    if frame and body and not body.startswith("\n"):
        frame += "\n"
    missing = [section for section in model.SECTIONS if section.name not in there]
    if missing and body and not body.endswith("\n"):
        body += "\n"
    body += "".join(f"\n## {section.heading}\n{section.anchor}\n" for section in missing)
    return document[: block.body] + frame + body


def _plain(heading: str) -> str:
    return " ".join("".join(char if char.isalnum() else " " for char in heading[3:].lower()).split())


def _stands(body: str, anchor: str) -> bool:
    """Whether the anchor stands alone on a line outside fences."""
    return any(row.rstrip() == anchor and not fenced for row, fenced in texts.lines(body.split("\n")))
