"""What kind of record each contract field of a capsule rests on, and since when. Derived from the bullets of the same capsule, so it travels with it.

Nothing is claimed that the bullets do not show: a field is told from a matching bullet, from the parent's header where it says the same, or it
is called unknown. Every line is inert.
"""

from __future__ import annotations

from vault_mem import stamps
from vault_mem.capsule import gate, model, selector
from vault_mem.capsule import text as texts
from vault_mem.capsule.inert import inert

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vault_mem.capsule.model import Bullet, Value

    Sections = Mapping[str, tuple[Bullet, ...]]

FIELDS = ("objective", "waiting_on", "next_valid_action")
WITHIN = " · within: "
SURELY = 60
"""Characters that must be the same where one of two texts was cut."""
CLAIMED, MAKE_PASS = "re-verify claimed row(s) ", "make the failing tests pass: "
OPEN = ("", "unresolved")
NO_RECORD = "none of the bullets kept in this capsule says so (older ones: `vault-mem show ID --history`)"


def evidence(fields: Mapping[str, Value], sections: Sections, parent: Mapping[str, Value] | None) -> dict[str, str]:
    """A line for each contract field that has a value. parent: the header of the parent capsule, None when it is not at hand."""
    found = {}
    for key in FIELDS:
        value = selector.text_of(fields, key)
        if not value:
            continue
        if unknown(key, value):
            found[key] = _unknown(key, value, sections)
            continue
        shown = _shown(key, value, sections)
        if model.is_autosave(fields):
            found[key] = shown or _inherited(key, value, fields, parent) or NO_RECORD
        else:
            found[key] = f"{_author(fields)}{f'; {shown}' if shown else ''}"
    return found


def unknown(key: str, value: str) -> bool:
    """Whether a field only says that nothing was captured."""
    return gate.not_captured(value) or (key == "waiting_on" and value.lower().startswith("unknown:"))


def _unknown(key: str, value: str, sections: Sections) -> str:
    if key == "waiting_on" and "tool error" in value:
        slips = [bullet for bullet in sections.get("errors", ()) if bullet.state in OPEN]
        if slips:
            return f"tool errors that nothing resolved, {_when(slips)}"
    return "none, this is unknown; unknown is not the same as nothing"


def _author(fields: Mapping[str, Value]) -> str:
    session = selector.text_of(fields, "session_id")
    by = f" in session {inert(session, limit=40)}" if session else ""
    return f"stated by the author of this capsule{by}, {inert(selector.text_of(fields, 'created_at') or 'no time', limit=30)}"


def _shown(key: str, value: str, sections: Sections) -> str:
    """The record that a bullet of this capsule shows for *value*, empty for none."""
    if key == "objective":
        latest = value.partition(WITHIN)[0]
        return _told("operator request", latest, _tagged(sections, "done", "OPERATOR"))
    if key == "waiting_on":
        asked = [bullet for bullet in _tagged(sections, "gates", "QUESTION") if bullet.state in OPEN]
        named = [bullet for bullet in asked if _within(bullet.text, value)]
        return f"question to the person, not answered, {_when(named)}" if named else ""
    return (
        _told("todo in progress", value, _open(sections, "rows", "TODO"))
        or _told("todo pending", value, _open(sections, "gates", "TODO"))
        or _rows(value, sections)
        or _tests(value, sections)
    )


def _rows(value: str, sections: Sections) -> str:
    if not value.lower().startswith(CLAIMED):
        return ""
    claims = _open(sections, "rows", "CLAIM") or [
        bullet for bullet in sections.get("rows", ()) if not bullet.tag and bullet.state in OPEN
    ]
    return f"rows claimed on the board, {_when(claims)}" if claims else ""


def _tests(value: str, sections: Sections) -> str:
    if not value.lower().startswith(MAKE_PASS):
        return ""
    command = value[len(MAKE_PASS) :]
    failing = [bullet for bullet in _open(sections, "gates", "TESTS") if bullet.text.startswith("failing: ")]
    return _told("failing tests", command, [bullet._replace(text=bullet.text[9:]) for bullet in failing])


def _tagged(sections: Sections, name: str, tag: str) -> list[Bullet]:
    return [bullet for bullet in sections.get(name, ()) if bullet.tag == tag]


def _open(sections: Sections, name: str, tag: str) -> list[Bullet]:
    return [bullet for bullet in _tagged(sections, name, tag) if bullet.state in OPEN]


def _told(kind: str, value: str, bullets: Iterable[Bullet]) -> str:
    same = [bullet for bullet in bullets if _same(bullet.text, value)]
    return f"{kind}, {_when(same)}" if same else ""


def _when(bullets: list[Bullet]) -> str:
    newest = max(bullet.at for bullet in bullets)
    return f"recorded {stamps.day(newest)}T{stamps.minute(newest)}Z" if newest else "at a time that is not recorded"


def _same(one: str, other: str) -> bool:
    """Whether two texts are one, each cut perhaps at another length."""
    one, one_cut = _uncut(one)
    other, other_cut = _uncut(other)
    if not one_cut and not other_cut:
        return one == other
    if one_cut and other_cut:
        short = min(len(one), len(other))
        return short >= SURELY and one[:short] == other[:short]
    begin, whole = (one, other) if one_cut else (other, one)
    return len(begin) >= SURELY and whole.startswith(begin)


def _within(text: str, value: str) -> bool:
    text, cut = _uncut(text)
    whole, _ = _uncut(value)
    return text in whole or (cut and text[:SURELY] in whole) or (len(whole) >= SURELY and text.startswith(whole))


def _uncut(text: str) -> tuple[str, bool]:
    text = texts.fold(text)
    place = texts.omission(text)
    return (text, False) if place < 0 else (text[:place], True)


def _inherited(key: str, value: str, fields: Mapping[str, Value], parent: Mapping[str, Value] | None) -> str:
    name = selector.text_of(fields, "parent_capsule_id")
    if not name:
        return ""
    quoted = inert(name, limit=60)
    if parent is None:
        return (
            f"none in this session; perhaps INHERITED from the parent capsule {quoted}, whose file is not in the tree"
        )
    theirs = selector.text_of(parent, key)
    # Of a capsule that is spent the index keeps beginnings only.
    if theirs and (theirs == value or (len(theirs) >= SURELY and value.startswith(theirs))):
        return f"INHERITED from the parent capsule {quoted}; nothing in this session says so"
    return ""
