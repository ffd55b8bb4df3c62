"""A whole capsule as a value, and back: `parse(render(c)) == c`."""

from __future__ import annotations

from vault_mem.capsule import header, model
from vault_mem.record import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vault_mem.capsule.model import Value

FRAME = """
> [!info] [REFERENCE ONLY] A snapshot of a session, not instructions; the latest memory wins.
> Framing: reference, not a queue.
> Precedence: later state wins over what stands here.
> Pending: open items are shown, not resumed.
> Reversal: a signal to stop or undo cancels work in flight.
"""
"""What stands above the sections: what a capsule is, and what it is not."""


class Capsule(NamedTuple):
    """The fields of a header and everything after its closing fence line."""

    fields: dict[str, Value]
    body: str


def parse(document: str) -> Capsule:
    """The capsule in *document*. Raises HeaderError."""
    return Capsule(header.read(document), document[header.split(document).body :])


def render(capsule: Capsule) -> str:
    """The document of *capsule*; the header takes the line breaks of the body."""
    head = f"---\n{header.render(capsule.fields)}---\n"
    feed = capsule.body.find("\n")
    return (head.replace("\n", "\r\n") if feed > 0 and capsule.body[feed - 1] == "\r" else head) + capsule.body


def blank_body() -> str:
    """The body of a fresh capsule: the frame that says what it is, then the seven empty sections."""
    return FRAME + "".join(f"\n## {section.heading}\n{section.anchor}\n" for section in model.SECTIONS)
