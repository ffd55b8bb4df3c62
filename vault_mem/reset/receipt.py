"""The receipt: this session's knowledge reached the disk, bound to a position in its transcript and to the commit of a curated capsule.

An attestation, not a proof: that a sweep happened and was saved can be checked, that it caught everything cannot.
"""

from __future__ import annotations

from vault_mem import files, stamps, version
from vault_mem.reset import evidence, state
from vault_mem.reset.scene import ResetError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from vault_mem.reset.scene import Scene

UNKNOWN = "unknown"


def write(scene: Scene) -> dict[str, Any]:
    """Make the receipt of this session. Raises ResetError, OSError, GitRefusedError; then no file was changed."""
    scan = scene.scan
    if scan.problem or scan.tokens is None:
        raise ResetError(
            "cannot-measure", scan.problem or "no answer was measured since the session began or was compacted"
        )
    found = evidence.find(scene.store, scene.session)
    if found is None:
        raise ResetError(
            "no-curated-capsule",
            "this session has no active capsule written by `vault-mem capsule write`; an autosave is no evidence of a sweep",
        )
    occasion = occasions(scene)
    if not occasion:
        raise ResetError(
            "no-occasion",
            "there is no RESET wake and no approval; a person asks for a reset by typing the phrase that `vault-mem reset status` shows",
        )
    if found.at <= min(occasion.values()):
        raise ResetError(
            "capsule-too-old",
            f"the capsule {found.capsule} was written at {stamps.utc(found.at)}, before the wake or the approval; sweep again",
        )
    human = scan.human
    row = {
        "status": "ok",
        "session_id": scene.session,
        "harness_pid": scene.record.pid,
        "harness_start": scene.record.started,
        "transcript_path": scene.record.transcript,
        "transcript_bytes": scan.size,
        "transcript_inode": scan.inode,
        "tail_digest": scan.digest,
        "context_tokens": scan.tokens,
        "last_human_ts": (human.stamp if human is not None else "") or UNKNOWN,
        "last_human_uuid": human.uuid if human is not None else "",
        "capsule_id": found.capsule,
        "capsule_commit": found.commit,
        "capsule_at": found.at,
        "written_at": scene.now,
        "version": version.__version__,
        "way_back": f"claude --resume {scene.session}",
    }
    state.store(scene.path(state.RECEIPT), row)
    return row


def occasions(scene: Scene) -> dict[str, float]:
    """When the sweep was called for: the time of the last RESET wake, that of an approval by the phrase. Empty when it was not."""
    found: dict[str, float] = {}
    ordered = state.load(scene.path(state.ORDERED)) or {}
    if isinstance(ordered.get("at"), int | float):
        found["wake"] = float(ordered["at"])
    if approval(scene) == "" and scene.scan.human is not None and scene.scan.human.at is not None:
        found["approval"] = scene.scan.human.at
    return found


def approval(scene: Scene) -> str:
    """Why the person's last message is no approval, "" when it holds the session's unused phrase."""
    human = scene.scan.human
    phrase = state.phrase(scene.runtime, scene.session)
    if human is None or not human.approves:
        return "the person's last message cannot serve as an approval"
    if not phrase:
        return "no unused phrase was shown to the person"
    if phrase.casefold() not in " ".join(human.text.split()).casefold():
        return "the person's last message does not hold the phrase"
    return ""


def load(scene: Scene) -> dict[str, Any] | None:
    """The receipt as it lies there; None without one, or when it is a link or no JSON object."""
    return state.load(scene.path(state.RECEIPT))


def spend(scene: Scene) -> None:
    """The receipt was used for a confirmed reset; it is kept under another name."""
    row = load(scene)
    if row is not None:
        state.store(scene.path(state.SPENT), {**row, "spent_at": scene.now})
        files.remove(scene.path(state.RECEIPT))
