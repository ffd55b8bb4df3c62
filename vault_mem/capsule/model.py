"""What a capsule is made of: fields in their written order, sections with their anchors, bullets. Source: the capsule reference in docs."""

from __future__ import annotations

from vault_mem.record import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    Value = str | None | tuple[str, ...]
    """A header value: text, null, or a list of texts. Numbers, booleans and dates are kept as the text that stood in the file."""

ACTIVE, RESUMED, RESOLVED = "active", "resumed", "resolved"
PAUSED, ABANDONED, SUPERSEDED = "paused", "abandoned", "superseded"
STATUSES = (ACTIVE, RESUMED, RESOLVED, PAUSED, ABANDONED, SUPERSEDED)
LEGACY_CONSUMED = "consumed"  # older trees; reads as RESUMED

STOP_DELTA = "stop-delta"  # `trigger` of an autosave; with the exact tag below it marks a header that the writer owns
AUTOSAVE = "autosave"

FIELDS = (
    "id",
    "parent_capsule_id",
    "status",
    "objective",
    "waiting_on",
    "resume_trigger",
    "expires",
    "trigger",
    "next_valid_action",
    "success_criteria",
    "tags",
    "created_at",
    "started_at",
    "updated_at",
    "resolved_at",
    "session_id",
    "harness",
    "seat",
    "project",
    "branch",
    "head",
)
"""The header fields in the order they are written; the framing constants follow."""

REQUIRED = ("id", "objective", "waiting_on", "next_valid_action")

FRAMING = (
    ("framing", "reference-only"),
    ("instruction_authority", "none"),
    ("precedence", "latest-live-state-wins"),
    ("pending_policy", "surface-never-auto-resume"),
    ("reverse_signal_policy", "cancels-in-flight-work"),
)


class Section(NamedTuple):
    """One of the seven level-2 sections: its name in code and on the command line, its heading text, its anchor line."""

    name: str
    heading: str
    anchor: str


SECTIONS = (
    Section("done", "Done (don't redo)", "<!-- swe:done -->"),
    Section("errors", "Historical-Errors → Resolutions", "<!-- swe:errors -->"),
    Section("rejected", "Historical-Rejected-Approaches", "<!-- swe:rejected -->"),
    Section("files", "Files-Read / Files-Modified", "<!-- swe:files -->"),
    Section("facts", "Operating-Facts", "<!-- swe:facts -->"),
    Section("gates", "Pending-Gates", "<!-- swe:gates -->"),
    Section("rows", "Claimed-Rows", "<!-- swe:rows -->"),
)


class Bullet(NamedTuple):
    """One piece of evidence under a section, unescaped.

    at: seconds since the epoch (UTC) of the record it comes from. text: any text, folded to one line when written.
    tag: speaker or kind, written as `[TAG] ` before the text; empty for none.
    state: what became of it, written as ` → state` after the text: `unresolved`, `resolved: …`, `closed: …`; empty for none.
    Two bullets of one section are the same when tag and text are (their *normal form*); a newer one with another state replaces the state in place.
    """

    section: str
    at: float
    text: str
    tag: str = ""
    state: str = ""


class Contract(NamedTuple):
    """The fields a fresh session acts on. None: nothing was captured, the capsule says that it is unknown."""

    objective: str | None
    waiting_on: str | None
    next_valid_action: str | None


def is_autosave(fields: Mapping[str, Value]) -> bool:
    """Whether the writer owns this header: the exact `autosave` tag and the `stop-delta` trigger."""
    tags = fields.get("tags")
    return fields.get("trigger") == STOP_DELTA and isinstance(tags, tuple) and AUTOSAVE in tags


def status_of(fields: Mapping[str, Value]) -> str | None:
    """The status, the legacy word `consumed` read as `resumed`; None when it is absent or no text."""
    status = fields.get("status")
    if not isinstance(status, str):
        return None
    return RESUMED if status == LEGACY_CONSUMED else status
