"""Types one line into a session's pane, or nothing: a pane that is ours, an empty composer, the echo, then Enter, then an empty composer."""

from __future__ import annotations

import time
from dataclasses import dataclass

from vault_mem import tmux
from vault_mem.errors import VaultMemError
from vault_mem.reset import checks, state

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from vault_mem.reset.scene import Scene

ECHO, SETTLE, STEP = 2.0, 1.2, 0.05
SUBMITTED, LATER, REFUSED = "submitted", "later", "refused"


@dataclass(frozen=True, slots=True)
class Typed:
    """outcome: `submitted`; `later`: nothing is in the pane, try again; `refused`. *token* and *detail* say why."""

    outcome: str
    token: str = ""
    detail: str = ""


def ready(place: tmux.Place, scene: Scene) -> Typed | None:
    """Why nothing can be typed now, None when the pane is ours, idle and its composer empty (steps 1 to 3). Raises TmuxError."""
    found = tmux.look(place)
    if found is None or found.dead:
        return Typed(REFUSED, "pane-gone", f"the pane {place.pane} is not live")
    if found.server != place.server:
        return Typed(REFUSED, "pane-server", "another tmux server stands at the socket now")
    if not checks.holds(found, scene):
        return Typed(REFUSED, "pane-not-ours", f"the pane {place.pane} does not hold this session's client")
    if found.mode:
        return Typed(LATER, "pane-in-mode", "somebody scrolls in the pane")
    if found.input_off:
        return Typed(LATER, "pane-input-off", "the pane takes no input")
    if found.synchronized:
        return Typed(LATER, "pane-synchronized", "what is typed there goes to every pane of the window")
    if tmux.asking(place):
        return Typed(LATER, "dialog-open", "a question of the client is on the screen")
    text = _composer(place, found, scene)
    if text is None:
        return Typed(LATER, "no-composer", "the cursor stands in no composer: a dialog, a shell or another program")
    if text:
        return Typed(LATER, "composer-not-empty", "somebody is typing")
    if tmux.busy(place, scene.tunables.busy):
        return Typed(LATER, "turn-running", "a turn is running")
    return None


def line(
    place: tmux.Place, scene: Scene, text: str, *, again: Callable[[], str], before: Callable[[], None], now: float
) -> Typed:
    """Type *text* and submit it (steps 1 to 8).

    before: called when nothing was typed yet and all is ready; writes the log, and whatever it raises means that nothing was typed. again:
    the last look before Enter, a reason not to press it or "". The caller holds the mutex of the session.
    """
    try:
        problem = ready(place, scene)
        if problem is not None:
            return problem
        before()
        state.note_typed(scene.runtime, text, client=state.client(scene.record), now=now)
        tmux.type_text(place, text)
    except (VaultMemError, OSError) as error:
        return Typed(LATER, getattr(error, "token", "unwritable"), str(error))
    try:
        if not _until(place, scene, ECHO, lambda held: held == text):
            return _taken_back(place, scene, text, "not-echoed", "the line did not appear as it was typed")
        _rest(SETTLE)
        if _held(place, scene) != text:
            return _taken_back(place, scene, text, "composer-changed", "somebody typed as well")
        reason = again()
        if reason:
            return _taken_back(place, scene, text, "person-spoke-again", reason)
        done = _entered(place, scene, text)
        if done.outcome == SUBMITTED:
            _rest(scene.tunables.pause)
        return done
    except VaultMemError as error:
        return Typed(REFUSED, error.token, f"{error}; the line may stand in the composer")


def _entered(place: tmux.Place, scene: Scene, text: str) -> Typed:
    for _ in range(scene.tunables.presses):
        tmux.press(place, "Enter")
        if _until(place, scene, scene.tunables.wait, lambda held: held == ""):
            return Typed(SUBMITTED)
        if _held(place, scene) != text:
            break
    if _held(place, scene) == "":
        return Typed(SUBMITTED)
    return _taken_back(place, scene, text, "enter-lost", "Enter did not submit the line")


def _taken_back(place: tmux.Place, scene: Scene, text: str, token: str, detail: str) -> Typed:
    """Remove what was typed, one BSpace a character, as far as it stands at the end of the composer; never a character of somebody else."""
    for count in range(len(text), 0, -1):
        held = _held(place, scene)
        if not held or not held.endswith(text[:count]):
            continue
        tmux.press(place, "BSpace", count)
        if _until(place, scene, 1.0, lambda now, before=held, n=count: now == before[:-n].strip()):  # type: ignore[misc] # bound per round
            return Typed(REFUSED, token, f"{detail}; it was removed again")
        break
    held = _held(place, scene)
    left = "nothing of it is there" if held == "" else "it may stand in the composer"
    return Typed(REFUSED, token, f"{detail}; {left}")


def _composer(place: tmux.Place, found: tmux.Pane, scene: Scene) -> str | None:
    numbers = scene.tunables
    return tmux.composer(place, found, dark=numbers.luma, placeholder=numbers.placeholder)


def _held(place: tmux.Place, scene: Scene) -> str | None:
    found = tmux.look(place)
    if found is None or found.dead or found.mode or found.synchronized:
        return None
    return _composer(place, found, scene)


def _until(place: tmux.Place, scene: Scene, seconds: float, holds: Callable[[str | None], bool]) -> bool:
    end = time.monotonic() + seconds
    while True:
        if holds(_held(place, scene)):
            return True
        if time.monotonic() >= end:
            return False
        _rest(STEP)


def _rest(seconds: float) -> None:
    time.sleep(seconds)
