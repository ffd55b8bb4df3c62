"""Asking for a reset inside the turn, typing it after the turn, and confirming it by the record of a new session."""

from __future__ import annotations

import os

from vault_mem import lock, receipts, stamps, tmux
from vault_mem.errors import LockBusyError, VaultMemError
from vault_mem.reset import checks, keys, receipt, state
from vault_mem.reset.scene import ResetError, look, usable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from vault_mem.receipts import SessionRecord
    from vault_mem.reset.scene import Scene
    from vault_mem.tunables import Tunables
    from vault_mem.vault.store import Store

TEXT = "/clear"
REQUEST_LIFE = 900.0
UNPATH = "path=captain-approved; "


def fields(scene: Scene, *, approved: bool, established: bool = True) -> str:
    """The fields that open every log detail: the path, the record taken as the approval, and the way back to the old conversation."""
    human = scene.scan.human
    path = ""
    if approved:
        cited = established and human is not None and human.uuid
        path = (
            f"path=captain-approved approval-record={human.uuid} approval-ts={human.stamp}; "
            if cited and human
            else UNPATH
        )
    return f'{path}session={scene.session} transcript={scene.record.transcript} way-back="claude --resume {scene.session}"; '


def ask(
    scene: Scene, tunables: Tunables, *, approved: bool, only_check: bool, environ: Mapping[str, str]
) -> tuple[dict[str, Any], tmux.Place]:
    """Verify everything; then leave a request, unless *only_check*. Raises ResetError (logged here), OSError when the log cannot be written."""
    try:
        row, place = checks.verify(scene, tunables, approved=approved, environ=environ)
        if not only_check:
            _leave(scene, row, place, approved=approved)
    except VaultMemError as error:
        state.log(
            scene.runtime,
            "refused",
            f"{fields(scene, approved=approved, established=False)}{error.token}: {error}",
            now=scene.now,
        )
        raise
    outcome = "check-passed" if only_check else "requested"
    state.log(
        scene.runtime,
        outcome,
        f"{fields(scene, approved=approved)}{scene.scan.tokens} tokens; pane {place.pane}",
        now=scene.now,
    )
    return row, place


def _leave(scene: Scene, row: dict[str, Any], place: tmux.Place, *, approved: bool) -> None:
    try:
        with lock.Locked(scene.path("lock"), timeout=0.5):
            held = state.load(scene.path(state.REQUEST))
            if held is not None and 0 <= scene.now - float(held.get("at") or 0) < REQUEST_LIFE:
                raise ResetError(
                    "reset-running", "a reset of this session was asked for already; it is typed when the turn ends"
                )
            waits = state.load(scene.path(state.SUBMITTED))
            if waits is not None and waits.get("late"):
                state.forget(scene.path(state.SUBMITTED))  # the person asks anew after one that was never confirmed
            elif waits is not None:
                raise ResetError("reset-running", "a /clear was typed and waits for its confirmation")
            state.forget(scene.path(state.READY))
            human = scene.scan.human
            state.store(
                scene.path(state.REQUEST),
                {
                    "at": scene.now,
                    "approved": approved,
                    "socket": place.socket,
                    "server": place.server,
                    "pane": place.pane,
                    "receipt": row["written_at"],
                    "human_uuid": human.uuid if human else "",
                    "human_ts": human.stamp if human else "",
                },
            )
    except LockBusyError as error:
        raise ResetError("reset-running", "another reset of this session is at work") from error


def place_of(request: dict[str, Any]) -> tmux.Place:
    """The pane that a request names. Raises ResetError."""
    socket, server, pane = request.get("socket"), request.get("server"), request.get("pane")
    if (
        not isinstance(socket, str)
        or not isinstance(server, int)
        or not isinstance(pane, str)
        or not tmux.PANE.match(pane)
    ):
        raise ResetError("pane-address", "the request names no pane")
    return tmux.Place(socket, server, pane)


def serve(store: Store, record: SessionRecord, tunables: Tunables, *, now: float, environ: Mapping[str, str]) -> str:
    """Type a request whose turn has ended; the outcome token, "" when there was nothing to do."""
    path = f"{state.folder(store.runtime, record.session)}"
    request = state.load(f"{path}/{state.REQUEST}")
    if request is None or not os.path.exists(f"{path}/{state.READY}"):
        return ""
    try:
        with lock.Locked(f"{path}/lock", timeout=0.1):
            request = state.load(f"{path}/{state.REQUEST}")
            if request is None or state.load(f"{path}/{state.SUBMITTED}") is not None:
                return ""
            return _serve(store, record, request, tunables, now=now, environ=environ)
    except LockBusyError:
        return "reset-running"


def _serve(
    store: Store,
    record: SessionRecord,
    request: dict[str, Any],
    tunables: Tunables,
    *,
    now: float,
    environ: Mapping[str, str],
) -> str:
    approved = request.get("approved") is True
    scene = look(store, record, tunables, now=now)
    head = fields(scene, approved=approved)
    try:
        usable(record)
        asked = request.get("at")
        if not isinstance(asked, int | float) or not -5 <= now - asked <= REQUEST_LIFE:
            raise ResetError("request-old", "the request is too old to be typed")
        place = place_of(request)
        checks.verify(scene, tunables, approved=approved, environ=environ, place=place)
    except VaultMemError as error:
        state.forget(scene.path(state.REQUEST))
        state.log(store.runtime, "refused", f"{head}{error.token}: {error}", now=now)
        return error.token
    done = keys.line(
        place,
        scene,
        TEXT,
        again=lambda: _again(scene, tunables, approved=approved),
        before=lambda: _attempt(scene, head, place, approved=approved),
        now=now,
    )
    if done.outcome != keys.SUBMITTED:
        state.forget(f"{state.folder(store.runtime)}/cleared.json")
        state.forget(scene.path(state.SUBMITTED))
    if done.outcome == keys.SUBMITTED:
        human = scene.scan.human
        if approved and human is not None:
            held = state.load(scene.path(state.PHRASE)) or {}
            state.store(scene.path(state.PHRASE), {**held, "used": human.uuid})
        state.forget(scene.path(state.REQUEST))
        state.log(store.runtime, "submitted", f"{head}{scene.scan.tokens} tokens; pane {place.pane}", now=now)
        return "submitted"
    if done.outcome == keys.REFUSED or request.get("last") != done.token:
        state.log(store.runtime, "refused", f"{head}{done.token}: {done.detail}", now=now)
    if done.outcome == keys.REFUSED:
        state.forget(scene.path(state.REQUEST))
    elif request.get("last") != done.token:
        state.store(scene.path(state.REQUEST), {**request, "last": done.token})
    return done.token


def _attempt(scene: Scene, head: str, place: tmux.Place, *, approved: bool) -> None:
    """The last thing before a key is pressed. Raises OSError; then nothing is typed.

    What waits for a confirmation is stored before anything is typed, so that a watcher that is killed after Enter leaves it to the next pass.
    """
    state.log(scene.runtime, "attempt", f"{head}{scene.scan.tokens} tokens; pane {place.pane}", now=scene.now)
    row = {"session": scene.session, "transcript": scene.record.transcript, "at": scene.now}
    state.store(f"{state.folder(scene.runtime)}/cleared.json", row)
    waits = {"at": scene.now, "approved": approved, "head": head, "tokens": scene.scan.tokens}
    state.store(scene.path(state.SUBMITTED), {**waits, "place": [place.socket, place.server, place.pane]})


def _again(scene: Scene, tunables: Tunables, *, approved: bool) -> str:
    """The last look at the person before Enter, on both paths (checks 38 and 39)."""
    fresh = look(scene.store, scene.record, tunables, now=scene.now)
    before, after = scene.scan.human, fresh.scan.human
    if fresh.scan.problem or after is None or before is None:
        return f"the transcript can no longer be read ({fresh.scan.problem or 'no message of the person'})"
    if (before.uuid, before.stamp) != (after.uuid, after.stamp):
        what = "after approving; a fresh approval is needed" if approved else "meanwhile"
        return f"the person spoke {what}: record {before.uuid} at {before.stamp}, now {after.uuid} at {after.stamp}"
    return ""


def settle(
    store: Store, tunables: Tunables, *, now: float
) -> tuple[tuple[str, str, SessionRecord | None, tmux.Place | None], ...]:
    """Look after every `/clear` that waits for its confirmation: (`confirmed` or `unconfirmed`, old session, new record, pane) for each decided now."""
    decided: list[tuple[str, str, SessionRecord | None, tmux.Place | None]] = []
    try:
        names = sorted(os.listdir(state.folder(store.runtime)))
    except OSError:
        return ()
    for session in names:
        path = f"{state.folder(store.runtime, session)}/{state.SUBMITTED}"
        row = state.load(path) if os.path.isdir(os.path.dirname(path)) else None
        if row is None:
            continue
        old = receipts.load_session(store.runtime, session)
        new = successor(store.runtime, old, since=float(row.get("at") or 0)) if old is not None else None
        head = str(row.get("head", ""))
        place = row.get("place")
        at = (
            tmux.Place(str(place[0]), int(place[1]), str(place[2]))
            if isinstance(place, list) and len(place) == 3
            else None
        )
        if old is not None and new is not None:
            state.log(
                store.runtime, "confirmed", f"{head}{row.get('tokens')} tokens; new session {new.session}", now=now
            )
            receipt.spend(look(store, old, tunables, now=now))
            for name in (
                state.THROTTLE,
                state.ORDERED,
                state.BREAKER,
                state.PHRASE,
                state.READY,
                state.REQUEST,
                state.SUBMITTED,
            ):
                state.forget(f"{state.folder(store.runtime, session)}/{name}")
            decided.append(("confirmed", session, new, at))
        elif not row.get("late") and not 0 <= now - float(row.get("at") or 0) < tunables.confirm:
            state.log(
                store.runtime,
                "unconfirmed",
                f"{head}no new session was recorded within {tunables.confirm:.0f}s",
                now=now,
            )
            state.store(f"{state.folder(store.runtime, session)}/{state.BREAKER}", {"open": True, "at": now})
            state.store(path, {**row, "late": True})
            state.forget(f"{state.folder(store.runtime, session)}/{state.REQUEST}")
            decided.append(("unconfirmed", session, None, at))
    return tuple(decided)


def successor(runtime: str, old: SessionRecord, *, since: float) -> SessionRecord | None:
    """The session that the same client process started by a clear after *since*; None while there is none."""
    boot = state.load(f"{runtime}/boot-receipt.json") or {}
    for record in state.live(runtime):
        if (record.pid, record.started) != (old.pid, old.started) or record.session == old.session:
            continue
        if record.at < since - 1:
            continue
        other = boot.get("session_id") == record.session and boot.get("source") not in ("clear", None)
        return None if other else record
    return None


def unconfirmed(runtime: str, session: str) -> str:
    """A clause about a `/clear` that was never confirmed, "" for none."""
    row = state.load(f"{state.folder(runtime, session)}/{state.SUBMITTED}") or {}
    if not row.get("late"):
        return ""
    return f"a /clear typed at {stamps.utc(float(row.get('at') or 0))} was never confirmed by a new session; look at the pane"
