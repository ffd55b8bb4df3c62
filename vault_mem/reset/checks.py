"""Every reason a reset is refused, in order. Inside a turn all of them are asked; the watcher asks them again before it types."""

from __future__ import annotations

import os

from vault_mem import processes, stamps, tmux, wakes
from vault_mem.errors import VaultMemError
from vault_mem.reset import receipt, state
from vault_mem.reset.scene import ResetError, broken
from vault_mem.session import presence, quiet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from vault_mem.reset.scene import Scene
    from vault_mem.tunables import Tunables

DELIVERY = "delivery.json"


def verify(
    scene: Scene, tunables: Tunables, *, approved: bool, environ: Mapping[str, str], place: tmux.Place | None = None
) -> tuple[dict[str, Any], tmux.Place]:
    """The receipt that holds, and the pane to type into. Raises ResetError with the first check that fails.

    place: the pane as the request named it; None asks *environ*, as a command inside the session does.
    """
    row = _receipt(scene, tunables, approved=approved)
    _person(scene, row, approved=approved)
    if scene.unfinished:
        said = "; ".join(quiet.said(item, now=scene.now) for item in scene.unfinished[:3])
        raise ResetError("not-quiet", f"something is unfinished: {said}")
    problem = broken(scene, environ=environ, capsule=str(row.get("capsule_id", "")))
    if problem:
        raise ResetError("way-back-broken", f"the way back in is broken: {problem}")
    _supervision(scene, tunables)
    return row, pane(scene, environ=environ, place=place)


def _receipt(scene: Scene, tunables: Tunables, *, approved: bool) -> dict[str, Any]:
    scan, record = scene.scan, scene.record
    if scan.problem or scan.tokens is None:
        raise ResetError(
            "cannot-measure", scan.problem or "no answer was measured since the session began or was compacted"
        )
    if not os.path.isfile(record.transcript):
        raise ResetError("size-unreadable", f"the size of {record.transcript} cannot be read")
    row = receipt.load(scene)
    if row is None:
        raise ResetError("no-receipt", "there is no receipt; sweep, then run `vault-mem reset receipt`")
    if row.get("status") != "ok":
        raise ResetError("receipt-not-ok", "the receipt is not in its ok state")
    if row.get("session_id") != scene.session:
        raise ResetError("receipt-session", "the receipt is of another session")
    if (row.get("harness_pid"), row.get("harness_start")) != (record.pid, record.started):
        raise ResetError("receipt-process", "the receipt was written by another client process")
    if row.get("transcript_path") != record.transcript:
        raise ResetError("receipt-transcript", "the receipt is bound to another transcript")
    written = row.get("written_at")
    if not isinstance(written, int | float) or isinstance(written, bool):
        raise ResetError("receipt-time", "the receipt's time cannot be read")
    if written > scene.now:
        raise ResetError("receipt-future", "the receipt's time lies ahead of the clock")
    if not approved and scene.now - written > tunables.receipt_age:
        raise ResetError("receipt-old", f"the receipt is older than {tunables.receipt_age:.0f}s")
    _position(scene, tunables, row)
    return row


def _position(scene: Scene, tunables: Tunables, row: dict[str, Any]) -> None:
    scan, position = scene.scan, row.get("transcript_bytes")
    if not isinstance(position, int) or isinstance(position, bool):
        raise ResetError("receipt-position", "the receipt records no position in the transcript")
    if scan.size < position:
        raise ResetError("transcript-shrunk", "the transcript is smaller than when the receipt was written")
    if scan.inode != row.get("transcript_inode") or (scan.size == position and scan.digest != row.get("tail_digest")):
        raise ResetError("transcript-rewritten", "the transcript is not the file the receipt was bound to")
    if scan.size - position > tunables.growth:
        raise ResetError("moved-on", f"the transcript has moved on by {scan.size - position} bytes since the receipt")


def _person(scene: Scene, row: dict[str, Any], *, approved: bool) -> None:
    human = scene.scan.human
    stamp = human.stamp if human is not None else ""
    if human is None or not stamp or row.get("last_human_ts") in (receipt.UNKNOWN, "", None):
        what = "so there is nothing to take as an approval" if approved else "and two unknowns are not equal"
        raise ResetError("person-unknown", f"the person's last message could not be established, {what}")
    if (row.get("last_human_ts"), row.get("last_human_uuid")) != (stamp, human.uuid):
        raise ResetError("person-spoke", "the person has spoken since the receipt was written; sweep again")
    if approved:
        _approval(scene, row)
    if state.away(scene.runtime) is not None:
        how = "end it first: whoever approves a reset is back" if approved else "a reset is the person's call then"
        raise ResetError("away", f"away mode is on; {how} (`vault-mem reset away off`)")
    if not approved:
        _absent(scene, row)


def _approval(scene: Scene, row: dict[str, Any]) -> None:
    human = scene.scan.human
    if human is None or not human.uuid:
        raise ResetError("approval-no-id", "the person's record has no id that the log could cite")
    if human.at is None:
        raise ResetError("approval-no-time", "the time of the person's record cannot be read")
    written = float(row["written_at"])
    try:
        stamps.utc(written)
    except (ValueError, OverflowError, OSError) as error:
        raise ResetError("receipt-time", "the receipt's time cannot be written as a date") from error
    problem = receipt.approval(scene)
    if problem:
        phrase = state.phrase(scene.runtime, scene.session, make=scene.now)
        raise ResetError("no-approval", f'{problem}; they agree by typing: "{phrase}"')
    if int(written) <= int(human.at):
        raise ResetError(
            "receipt-before-approval", "the receipt was not written after the approval; sweep again, then write it anew"
        )
    if float(row.get("capsule_at") or 0.0) <= human.at:
        raise ResetError("capsule-too-old", "the capsule was written before the approval; sweep again")


def _absent(scene: Scene, row: dict[str, Any]) -> None:
    if scene.person.token == presence.SPOKE:
        raise ResetError(
            "person-present",
            f"{scene.person.clause}; ask them, and use --approved only after they typed the phrase",
        )
    if scene.person.here:
        raise ResetError(
            f"person-{scene.person.token}",
            f"{scene.person.clause}; presence that cannot be established counts as present: mend the cause, or ask and use --approved",
        )
    ordered = state.load(scene.path(state.ORDERED)) or {}
    if not isinstance(ordered.get("at"), int | float):
        raise ResetError("no-occasion", "no RESET wake ordered this; only the person can ask for it now (--approved)")
    if float(row.get("capsule_at") or 0.0) <= float(ordered["at"]):
        raise ResetError("capsule-too-old", "the capsule was written before the RESET wake; sweep again")
    if scene.scan.tokens is not None and scene.scan.tokens < scene.ceiling:
        raise ResetError("below-ceiling", f"{scene.scan.tokens} tokens is below the ceiling of {scene.ceiling}")
    if (state.load(scene.path(state.BREAKER)) or {}).get("open"):
        raise ResetError(
            "breaker-open",
            "an earlier /clear of this session was never confirmed; only the person can ask for another (--approved)",
        )


def _supervision(scene: Scene, tunables: Tunables) -> None:
    at = wakes.beacon(scene.runtime)
    if at is None:
        raise ResetError("watcher-dead", "no watcher runs; start `vault-mem reset watch`")
    if not -1 <= scene.now - at < 2 * tunables.interval:
        raise ResetError("watcher-stale", f"the watcher was last seen at {stamps.utc(at)}")
    _, recorded = state.decisions(scene.runtime)
    if recorded and not delivering(scene.runtime, tunables, now=scene.now):
        raise ResetError(
            "no-delivery", "work is recorded here and no watcher loop runs that could wake the fresh session"
        )


def delivering(runtime: str, tunables: Tunables, *, now: float) -> bool:
    """Whether a watcher loop runs that types wakes."""
    row = state.load(f"{state.folder(runtime)}/{DELIVERY}") or {}
    at, pid, start = row.get("at"), row.get("pid"), row.get("start")
    return (
        isinstance(at, int | float)
        and -1 <= now - at < 2 * tunables.interval
        and isinstance(pid, int)
        and isinstance(start, str)
        and processes.alive(pid, start)
    )


def pane(scene: Scene, *, environ: Mapping[str, str], place: tmux.Place | None) -> tmux.Place:
    """The session's own pane, live. Raises ResetError for the checks 31 to 37."""
    if scene.record.harness not in ("", "claude"):
        raise ResetError(
            "client-unsupported", f"{scene.record.harness} is not supported: its way back in was never shown to work"
        )
    if place is None:
        if not environ.get("TMUX") and not environ.get("TMUX_PANE"):
            other = next(
                (name for name in ("ZELLIJ", "STY", "WEZTERM_PANE", "KITTY_WINDOW_ID") if environ.get(name)), ""
            )
            if other:
                raise ResetError("not-tmux", f"the terminal is not tmux ({other} is set); only tmux is supported")
            raise ResetError("terminal-unknown", "no tmux was detected; the clear is never typed on a guess")
        if not environ.get("TMUX_PANE"):
            raise ResetError("pane-unknown", "TMUX_PANE is not set; this session's own pane is not known")
        place = tmux.place(environ)
        if place is None:
            raise ResetError("pane-address", "TMUX and TMUX_PANE do not name a pane of a server")
    try:
        found = tmux.look(place)
    except VaultMemError as error:
        raise ResetError("pane-unresolved", str(error)) from error
    if found is None or found.dead:
        raise ResetError("pane-gone", f"the pane {place.pane} is not live")
    if found.server != place.server:
        raise ResetError("pane-server", "another tmux server stands at the socket now")
    if not holds(found, scene):
        raise ResetError("pane-not-ours", f"the pane {place.pane} does not hold this session's client")
    return place


def holds(found: tmux.Pane, scene: Scene) -> bool:
    """Whether the client runs in the pane: it is the pane's process or below it, or has the pane's terminal."""
    pid = scene.record.pid
    if not processes.alive(pid, scene.record.started):
        return False
    if found.pid == pid or any(process.pid == found.pid for process in processes.ancestors(pid)):
        return True
    try:
        return os.readlink(f"/proc/{pid}/fd/0") == found.tty
    except OSError:
        return False
