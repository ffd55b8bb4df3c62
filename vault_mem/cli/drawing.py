"""Tables and the graph of capsules as lines of text. Every word of a capsule has gone through `inert` before it comes here or does here."""

from __future__ import annotations

import os

from vault_mem import stamps
from vault_mem.capsule.inert import plain
from vault_mem.record import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import TextIO

    from vault_mem.look.tale import Entry, Node

COLOURS = {
    "active": "32",
    "paused": "33",
    "resumed": "36",
    "resolved": "2",
    "superseded": "2",
    "abandoned": "2",
    "gone": "2",
    "unreadable": "31",
    "(absent)": "31",
    "consume": "36",
    "re-deliver": "35;1",
    "retire": "2",
    "id": "1",
}
DASH = "\u2013"  # between two times; what people write between them
ASCII = str.maketrans(
    {"●": "*", "│": "|", "├": "|", "─": "-", "┴": "'", "╯": "'", "┊": ":", "┼": "+", "\u2013": "-", "…": ".", "→": ">"}
)


class Style(NamedTuple):
    """How to write to a stream: with colour or not, with line drawing characters or ASCII."""

    colour: bool = False
    unicode: bool = True
    width: int = 0

    def paint(self, text: str, kind: str) -> str:
        """*text* in the colour of *kind*, as it is where there is none."""
        code = COLOURS.get(kind, "")
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour and code else text

    def drawn(self, text: str) -> str:
        """A line of ours in the characters the stream can carry."""
        return text if self.unicode else text.translate(ASCII)


def style(out: TextIO, *, environ: Mapping[str, str]) -> Style:
    """Colour only on a terminal that wants it (NO_COLOR, TERM=dumb)."""
    try:
        terminal = out.isatty()
        width = os.get_terminal_size(out.fileno()).columns if terminal else 0
    except (OSError, ValueError):
        terminal, width = False, 0
    colour = terminal and not environ.get("NO_COLOR") and environ.get("TERM", "") != "dumb"
    encoding = (getattr(out, "encoding", "") or "utf-8").lower().replace("-", "")
    return Style(colour, encoding.startswith("utf"), width)


def table(rows: Sequence[Sequence[tuple[str, str]]], look: Style) -> Iterator[str]:
    """Rows of (text, kind) as lines; on a terminal in columns cut to its width, otherwise separated by two blanks."""
    if not rows:
        return
    widths = [max(len(row[column][0]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [text.ljust(width) for (text, _), width in zip(row, widths, strict=True)]
        left = look.width
        line = []
        for cell, (_, kind) in zip(cells, row, strict=True):
            shown = cell if not look.width else cell[: max(0, left)]
            left -= len(cell) + 2
            line.append(look.paint(shown, kind))
        yield look.drawn("  ".join(line).rstrip())


def minute(epoch: float) -> str:
    """`2026-12-01 14:02`, UTC."""
    return f"{stamps.day(epoch)} {stamps.minute(epoch)}"


def span(entry: Entry) -> str:
    """`2026-12-01 14:02-16:40Z`; a day is repeated where it changes."""
    if entry.times == 1 or minute(entry.first) == minute(entry.last):
        return f"{minute(entry.last)}Z"
    if stamps.day(entry.first) == stamps.day(entry.last):
        return f"{minute(entry.first)}{DASH}{stamps.minute(entry.last)}Z"
    return f"{minute(entry.first)}{DASH}{minute(entry.last)}Z"


def what(entry: Entry) -> str:
    """`12 autosaves`, `re-deliver`: the event in words."""
    if entry.moment.event != "autosave":
        return plain(entry.event, limit=20) + (f" {entry.times} capsules" if entry.times > 1 else "")
    more = "+" if entry.open else ""
    return "autosave" if entry.times == 1 and not more else f"{entry.times}{more} autosaves"


def detail(entry: Entry) -> str:
    """Who took it, or what it came from."""
    moment = entry.moment
    if entry.times > 1 and moment.event == "retire":
        return f"and {entry.times - 1} more"
    if moment.consumer:
        return f"→ session {plain(moment.consumer, limit=80)}"
    if moment.parent and moment.event in ("autosave", "write"):
        return f"from {plain(moment.parent, limit=120)}"
    return ""


def _trim(lanes: list[str | None]) -> None:
    """Drop free lanes at the right."""
    while lanes and lanes[-1] is None:
        lanes.pop()


def graph(nodes: Sequence[Node], look: Style) -> Iterator[str]:
    """Capsules with lines to their parents, newest first."""
    shown = {node.id for node in nodes}
    lanes: list[str | None] = []
    for node in nodes:
        mine = [column for column, waiting in enumerate(lanes) if waiting == node.id]
        if not mine:
            mine = [lanes.index(None) if None in lanes else len(lanes)]
            lanes[mine[0] : mine[0] + 1] = [node.id]
        if len(mine) > 1:
            yield look.drawn(_joined(lanes, mine))
        for column in mine[1:]:
            lanes[column] = None
        _trim(lanes)
        head = " ".join("●" if column == mine[0] else "│" if lane else " " for column, lane in enumerate(lanes))
        state = look.paint(plain(node.status or "-", limit=20), node.status)
        yield (
            look.drawn(f"{head}  ")
            + look.paint(plain(node.id, limit=120), "id")
            + f"  {state}  {_origin(node)}".rstrip()
        )
        lanes[mine[0]] = node.parent if node.parent in shown else None
        _trim(lanes)
        margin = " ".join("│" if lane else " " for lane in lanes)
        margin += " " * (len(head) - len(margin))
        lines = [
            f"{span(entry)}  {what(entry)}  {detail(entry) if entry.moment.consumer else ''}".rstrip()
            for entry in node.entries
        ]
        if node.parent and node.parent not in shown:
            lines.append(f"┊ from {plain(node.parent, limit=120)}, further back")
        for line in lines:
            yield look.drawn(f"{margin}    {line}")


def _origin(node: Node) -> str:
    session = f"session {plain(node.session, limit=80)}" if node.session else ""
    return f"{session} ({plain(node.harness, limit=20)})" if node.harness and session else session


def _joined(lanes: Sequence[str | None], mine: Sequence[int]) -> str:
    """The line where several children meet above their parent."""
    first, last = mine[0], mine[-1]
    cells = []
    for column, lane in enumerate(lanes):
        if column == first:
            cell = "├"
        elif column in mine:
            cell = "╯" if column == last else "┴"
        elif first < column < last:
            cell = "┼" if lane else "─"
        else:
            cell = "│" if lane else " "
        cells.append(cell + ("─" if first <= column < last else " "))
    return "".join(cells).rstrip()
