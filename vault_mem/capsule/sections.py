"""The seven sections of a capsule's body: bullets added under their anchors, everything else byte for byte as it was.

An anchor counts when it stands alone on its line, in the body, outside code fences. A mention in prose or in a fenced sample is no anchor.
"""

from __future__ import annotations

from vault_mem import stamps
from vault_mem.capsule import header, model
from vault_mem.capsule import text as texts
from vault_mem.capsule.model import Bullet
from vault_mem.errors import AnchorDamageError, HeaderError
from vault_mem.record import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

BULLETS = 40
"""Bullets of ours a section; notes without a time are a person's and are never taken away."""

SIZE = 65536
"""Bytes a capsule."""

SHARE = 6144
"""Bytes of bullets a section that can be added at once and all stay, beside 20 KB of text that is not ours and all other sections full."""

RESERVE = 2048
"""Bytes of that for the lines about older bullets, at most one a section."""

_OLDER, _HISTORY = " older bullets: vault-mem show ", " --history"
_ANCHORS = {section.anchor: section.name for section in model.SECTIONS}
_MARK = "<!-- swe:"
_ID = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")


class Merged(NamedTuple):
    """The document with the bullets in it, whether that differs from what it was, and how many bullets fell out."""

    document: str
    changed: bool
    dropped: int


class _Item:
    """A bullet in its section: its lines as they stand in the file, and what they say."""

    __slots__ = ("counted", "repeated", "rows", "state", "tag", "text", "when")

    def __init__(self, rows: list[str], day: str) -> None:
        self.rows = rows
        self.repeated = False  # brought again by this merge, so it is not what falls out first
        self.counted = True  # when it falls out; not so for one that may have fallen out before and was brought again
        content = rows[0][2:].strip() if len(rows) == 1 else " ".join(row.strip() for row in (rows[0][2:], *rows[1:]))
        place = texts.time_end(content)
        self.when = content[:16] if place > 6 else f"{day} {content[:5]}" if place else ""
        content = content[place:].lstrip(" ") if place else content
        place = texts.tag_end(content)
        self.tag = content[1 : place - 2] if place else ""
        content = content[place:]
        place = texts.state_at(content)
        self.state = texts.unescape(content[place + len(texts.ARROW) :]) if place >= 0 else ""
        self.text = texts.unescape(content[:place] if place >= 0 else content)

    def resolve(self, state: str) -> None:
        """Give the bullet another state in place; a note of several lines is a person's and stays."""
        if len(self.rows) > 1 or not state or state == self.state:
            return
        row = self.rows[0].rstrip()
        place = texts.state_at(row)
        base = (row[:place] if place >= 0 else row).rstrip(" ")
        self.rows = [f"{base}{texts.ARROW}{texts.escape(state)}{self.rows[0][len(row) :]}"]
        self.state = state

    def size(self) -> int:
        return sum(_bytes(row) + 1 for row in self.rows)


class _Older:
    """The line that says how many bullets have fallen out."""

    __slots__ = ("count", "row")

    def __init__(self, row: str, count: int) -> None:
        self.row, self.count = row, count


class _Section:
    """The lines behind an anchor up to the next heading."""

    __slots__ = ("_parts", "day", "ending", "rows")

    def __init__(self, day: str, ending: str) -> None:
        self.day, self.ending = day, ending
        self.rows: list[tuple[str, bool]] = []
        self._parts: list[_Item | _Older | str] | None = None

    @property
    def parts(self) -> list[_Item | _Older | str]:
        """Bullets with their indented lines, the count of older ones, other lines as they stand; parsed when first asked for."""
        if self._parts is None:
            self._parts = []
            for row, fenced in self.rows:
                self._append(self._parts, row, fenced=fenced)
        return self._parts

    def _append(self, parts: list[_Item | _Older | str], row: str, *, fenced: bool) -> None:
        if row[:1] in (" ", "\t") and row.strip() and parts and isinstance(parts[-1], _Item):
            parts[-1] = _Item([*parts[-1].rows, row], self.day)
        elif not fenced and row.startswith(("- ", "* ")):
            parts.append(_Item([row], self.day))
        elif count := _older(row):
            parts.append(_Older(row, count))
        else:
            parts.append(row)

    def items(self) -> list[_Item]:
        return [part for part in self.parts if isinstance(part, _Item)]

    def weight(self) -> tuple[int, int]:
        """Bytes of the bullets that can fall out, and of the lines about those that have."""
        older = sum(_bytes(part.row) + 2 + len(self.ending) for part in self.parts if isinstance(part, _Older))
        return sum(item.size() for item in self.items() if item.when), older

    def lines(self) -> Iterator[str]:
        if self._parts is None:
            yield from (row for row, _ in self.rows)
            return
        for part in self._parts:
            if isinstance(part, _Item):
                yield from part.rows
            else:
                yield part.row if isinstance(part, _Older) else part

    def drop(self) -> _Item | None:
        """Let one bullet of ours fall out, the lowest one of the earliest minute; None when there is none."""
        found: _Item | None = None
        for item in self.items():
            if item.when and (found is None or (item.repeated, item.when) <= (found.repeated, found.when)):
                found = item
        if found is not None:
            self.parts.remove(found)
        return found

    def count(self, more: int, identity: _Identity) -> None:
        """Say that *more* bullets have fallen out, in one line at the end of the section."""
        lines = [part for part in self.parts if isinstance(part, _Older)]
        total = sum(line.count for line in lines) + more
        row = f"{total}{_OLDER}{identity}{_HISTORY}{self.ending}"
        if lines:
            lines[-1].row, lines[-1].count = row, total
            self.parts[:] = [part for part in self.parts if part not in lines[:-1]]
            return
        place = len(self.parts)
        while place and isinstance(above := self.parts[place - 1], str) and not above.strip():
            place -= 1
        # The blank line keeps Markdown from reading the count as a part of the last bullet.
        self.parts[place:place] = [self.ending, _Older(row, total)]


class _Body(NamedTuple):
    """A body in pieces: plain lines, and by section name what stands behind its anchor."""

    pieces: list[str | _Section]
    sections: dict[str, _Section]
    problems: list[str]


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _older(row: str) -> int:
    """How many bullets the line says have fallen out, 0 when it is another line."""
    count, behind, rest = row.partition(_OLDER)
    known = behind and rest.rstrip().endswith(_HISTORY) and count.isascii() and count.isdigit() and len(count) < 10
    return int(count) if known else 0


def _taken_apart(document: str, block: header.Block, day: str) -> _Body:
    mark = "\r" if block.newline == "\r" else "\n"
    ending = "\r" if block.newline == "\r\n" else ""
    body = document[block.body :]
    fences = "```" in body or "~~~" in body
    rows = body.split(mark)
    pieces: list[str | _Section] = []
    found: dict[str, _Section] = {}
    problems: list[str] = []
    current: _Section | None = None
    for index, (row, fenced) in enumerate(texts.lines(rows) if fences else ((row, False) for row in rows)):
        name = _ANCHORS.get(row.rstrip()) if row.startswith(_MARK) and not fenced else None
        if current is not None and (name or (row.startswith(("## ", "# ")) and not fenced)):
            current = None
        if current is not None:
            current.rows.append((row, fenced))
            continue
        pieces.append(row)
        if name in found:
            problems.append(f"swe:{name} stands twice, again in line {_number(document, block, mark, index)}")
        elif name:
            current = found[name] = _Section(day, ending)
            pieces.append(current)
    if len(found) < len(model.SECTIONS):
        problems.extend(_missing(document, block, rows, found))
    return _Body(pieces, found, problems)


def _number(document: str, block: header.Block, mark: str, index: int) -> int:
    return document.count(mark, 0, block.body) + 1 + index


def _missing(document: str, block: header.Block, rows: list[str], found: dict[str, _Section]) -> Iterator[str]:
    mark = "\r" if block.newline == "\r" else "\n"
    for section in model.SECTIONS:
        if section.name not in found:
            places = [
                str(_number(document, block, mark, index)) for index, row in enumerate(rows) if section.anchor in row
            ]
            where = f" (line {', '.join(places[:5])} names it, but not alone or inside a code fence)" if places else ""
            yield f"swe:{section.name} is missing{where}"


def damage(document: str) -> tuple[str, ...]:
    """What is wrong with the anchors of *document*, with line numbers; empty when bullets can be merged. Raises HeaderError."""
    return tuple(_taken_apart(document, header.split(document), "").problems)


def doubled(body: str) -> tuple[str, ...]:
    """The anchors that stand more than once in a body; an author may leave sections out, but not have one twice."""
    names: list[str] = []
    for row, fenced in texts.lines(body.replace("\r\n", "\n").replace("\r", "\n").split("\n")):
        name = None if fenced else _ANCHORS.get(row.rstrip())
        if name:
            names.append(name)
    return tuple(f"swe:{section.name} stands twice" for section in model.SECTIONS if names.count(section.name) > 1)


def read(document: str, *, day: str) -> dict[str, tuple[Bullet, ...]]:
    """The bullets of each section, unescaped, in the order of the file; a section that is not there is empty. Raises HeaderError.

    day: the UTC day of the capsule's start, for bullets that carry only a time. A bullet without a time has `at=0.0`.
    """
    body = _taken_apart(document, header.split(document), day)
    return {section.name: _bullets(section.name, body.sections.get(section.name)) for section in model.SECTIONS}


def _bullets(name: str, section: _Section | None) -> tuple[Bullet, ...]:
    items = section.items() if section else []
    days = {day: stamps.epoch_of(day) for day in {item.when[:10] for item in items}}
    return tuple(Bullet(name, _epoch(item.when, days), item.text, item.tag, item.state) for item in items)


def _epoch(when: str, days: dict[str, float | None]) -> float:
    start = days[when[:10]] if when else None
    return 0.0 if start is None else start + int(when[-5:-3]) * 3600 + int(when[-2:]) * 60


def merge(document: str, bullets: Sequence[Bullet], *, day: str) -> Merged:
    """*document* with *bullets* under their anchors, newest first, each normal form (tag and text) once.

    day: the UTC day of the capsule's start; a bullet of another day carries its date. A state replaces the stored one in place.
    Raises AnchorDamageError when an anchor is missing or doubled, HeaderError when there is no header.
    """
    block = header.split(document)
    # A last line without a break gets one meanwhile, so that lines can be added behind it.
    closed = "" if document.endswith(("\n", "\r")) else block.newline
    body = _taken_apart(document + closed, block, day)
    if body.problems:
        raise AnchorDamageError("; ".join(body.problems))
    identity = _Identity(document)
    dropped = 0
    for name, section in body.sections.items():
        own = [bullet for bullet in bullets if bullet.section == name]
        dropped += _add(section, own, identity) if own else 0
    fell, text = _fitted(document[: block.body], body, "\r" if block.newline == "\r" else "\n", identity)
    text = text[: len(text) - len(closed)]
    return Merged(text, text != document, dropped + fell)


def portions(bullets: Sequence[Bullet]) -> list[tuple[Bullet, ...]]:
    """*bullets* in parts, oldest first, none of which lets bullets fall out that it brings itself; one part, as given, when all fit."""
    if len(bullets) <= BULLETS and sum(map(_weight, bullets)) <= SHARE:
        return [tuple(bullets)]
    parts: list[list[Bullet]] = [[]]
    held: dict[str, tuple[int, int]] = {}
    for bullet in sorted(bullets, key=lambda each: each.at):
        count, size = held.get(bullet.section, (0, 0))
        if count == BULLETS or (count and size + _weight(bullet) > SHARE):
            parts.append([])
            held, count, size = {}, 0, 0
        held[bullet.section] = count + 1, size + _weight(bullet)
        parts[-1].append(bullet)
    return [tuple(part) for part in parts] if len(parts) > 1 else [tuple(bullets)]


def _weight(bullet: Bullet) -> int:
    """Bytes of its line, at most."""
    return _bytes(bullet.text[: texts.LIMIT]) + _bytes(bullet.state[: texts.LIMIT]) + 32


class _Identity:
    """The capsule's id as the line about older bullets names it; read only when something fell out."""

    __slots__ = ("_document", "_id")

    def __init__(self, document: str) -> None:
        self._document, self._id = document, ""

    def __str__(self) -> str:
        if not self._id:
            try:
                value = header.read(self._document).get("id")
            except HeaderError:
                value = None
            self._id = value if isinstance(value, str) and value and _ID.issuperset(value) else "ID"
        return self._id


def _add(section: _Section, bullets: Sequence[Bullet], identity: _Identity) -> int:
    """Add *bullets*, or their states where they are there already; how many bullets fell out by number."""
    stored = {(item.tag, item.text): item for item in reversed(section.items())}
    full = any(isinstance(part, _Older) for part in section.parts)
    earliest = min((item.when for item in stored.values() if item.when), default="~") if full else ""
    fresh: dict[tuple[str, str], _Item] = {}
    order: list[_Item] = []
    for bullet in sorted(bullets, key=lambda each: each.at):
        item = _made(bullet, section)
        if item is None:
            continue
        key = (item.tag, item.text)
        old = stored.get(key) or fresh.get(key)
        if old is not None:
            if not item.when or item.when >= old.when:
                old.resolve(item.state)
            if key in stored:
                old.repeated = True
                order.extend([old] if item.when == old.when else ())
        else:
            item.counted = not full
            fresh[key] = item
            order.append(item)
    dropped = _place(section.parts, order, {id(item) for item in fresh.values()}, earliest)
    excess = sum(1 for item in section.items() if item.when) - BULLETS
    for _ in range(excess):
        item_out = section.drop()
        dropped += item_out is not None and item_out.counted
    if dropped:
        section.count(dropped, identity)
    return dropped


def _made(bullet: Bullet, section: _Section) -> _Item | None:
    """The bullet as a line of this section; None when it says nothing."""
    text, tag, state = texts.cut(texts.fold(bullet.text)), texts.tag(bullet.tag), texts.cut(texts.fold(bullet.state))
    if not text:
        return None
    if state and not texts.is_state(state):
        state = f"closed: {state}"
    when = ""
    if bullet.at > 0:
        day = stamps.day(bullet.at)
        when = f"{stamps.minute(bullet.at)} " if day == section.day else f"{day} {stamps.minute(bullet.at)} "
    label = f"[{tag}] " if tag else ""
    escaped = texts.escape(text, timed=bool(when), tagged=bool(tag))
    row = f"- {when}{label}{escaped}{texts.ARROW + texts.escape(state) if state else ''}{section.ending}"
    return _Item([row], section.day)


def _place(parts: list[_Item | _Older | str], order: list[_Item], fresh: set[int], earliest: str) -> int:
    """Insert the *fresh* ones of *order* (oldest first) by time, within a minute the later above; how many are too many at once.

    What is older than a stored bullet of the same batch, or than all stored ones where some have fallen out (*earliest*), was brought before:
    it goes to its place, falls out again, and is not counted twice.
    """
    ceiling = placed = untimed = dropped = 0
    again = False
    for item in reversed(order):
        if id(item) not in fresh:
            ceiling, again = max(ceiling, parts.index(item) + 1), True
            continue
        item.counted = item.counted and not again
        if not item.when:
            parts.insert(untimed, item)
            untimed += 1
        elif placed == BULLETS:
            dropped += not again and item.when >= earliest
        else:
            ceiling = _below(parts, item.when, ceiling)
            parts.insert(ceiling, item)
            ceiling += 1
            placed += 1
    return dropped


def _below(parts: list[_Item | _Older | str], when: str, ceiling: int) -> int:
    """The first place at or behind *ceiling* that has no later bullet below it."""
    for index in range(len(parts) - 1, ceiling - 1, -1):
        part = parts[index]
        if isinstance(part, _Item) and part.when > when:
            return index + 1
    return ceiling


def _put_together(head: str, body: _Body, mark: str) -> str:
    rows: list[str] = []
    for piece in body.pieces:
        if isinstance(piece, str):
            rows.append(piece)
        else:
            rows.extend(piece.lines())
    return head + mark.join(rows)


def _fitted(head: str, body: _Body, mark: str, identity: _Identity) -> tuple[int, str]:
    """The document within its bound: the oldest bullets of the fullest section have fallen out; how many, and the text.

    Where the text that is not ours exceeds the bound by itself, nothing of it is touched and nothing of ours would help.
    """
    text = _put_together(head, body, mark)
    size = _bytes(text)
    if size <= SIZE:
        return 0, text
    weights = {name: section.weight() for name, section in body.sections.items()}
    if size - sum(ours + older for ours, older in weights.values()) > SIZE - RESERVE:
        return 0, text
    left = {name: ours for name, (ours, _) in weights.items()}
    dropped = 0
    while size > SIZE:
        name = max(left, key=lambda each: left[each])
        item = body.sections[name].drop()
        if item is None:
            break
        left[name] -= item.size()
        if item.counted:
            dropped += 1
            body.sections[name].count(1, identity)
        size -= item.size()
        if size <= SIZE:  # the lines about older bullets take room too
            text = _put_together(head, body, mark)
            size = _bytes(text)
    return dropped, text
