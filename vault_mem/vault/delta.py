"""What happened in a session since its last save: the new turns of the transcript, prompts that only the journal has, the payload's own text."""

from __future__ import annotations

from zlib import crc32

from vault_mem import receipts, redact, transcript
from vault_mem.capsule import text as texts
from vault_mem.harness import claude, registry
from vault_mem.record import NamedTuple
from vault_mem.session import evidence, identity, speaker
from vault_mem.session.turns import OPERATOR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vault_mem.capsule.model import Bullet
    from vault_mem.receipts import Cursor
    from vault_mem.session.event import HookEvent
    from vault_mem.session.evidence import Evidence
    from vault_mem.session.turns import Turn
    from vault_mem.vault.store import Store

TOLD = 256  # latest texts that are remembered
COPIED_WITHIN = 64  # rows in which the first copy of a fork must stand


class Delta(NamedTuple):
    """What is new since the cursor, redacted. newest: time of the newest record or, for payload text without one, of the clock."""

    bullets: tuple[Bullet, ...]
    evidence: Evidence
    position: tuple[int, ...]
    recorded: float
    newest: float
    found: bool


def read(event: HookEvent, store: Store, cursor: Cursor, *, now: float, secrets: tuple[str, ...]) -> tuple[Delta, int]:
    """New turns of the transcript and the payload's last message, distilled and redacted; and how far the journal was read."""

    def clean(text: str) -> str:
        return redact.redact(text, secrets)

    from vault_mem.session import distil

    project = project_of(event, store)
    state = evidence.from_json(cursor.evidence)
    position = (
        transcript.Position(*cursor.position) if len(cursor.position) == len(transcript.START) else transcript.START
    )
    bullets: tuple[Bullet, ...] = ()
    again = state.again
    copied = _copied_until(event, store) if not position.offset and event.harness == "claude" else 0.0
    delta = _opened_transcript(event.transcript_path, position)
    if delta is not None:
        rows_of = registry.reader(event.harness)
        # A file that was rewritten is read again from the start; what was saved of it is not new, and it may grow as it did before.
        again = cursor.saved if delta.restarted else again
        state, bullets = distil.fold(
            state,
            (turn for line in delta for turn in rows_of(line)),
            project=project,
            redact=clean,
            skip_until=max(again, copied),
            undated=now,
        )
        position = delta.position
    recorded = max(cursor.saved, state.newest)
    state = state._replace(again=again if state.newest <= again else 0.0)
    prompts, journal = _journaled(store, cursor, bullets)
    if state.again:
        prompts = tuple(turn for turn in prompts if _mark(clean(turn.text)) not in state.told)
    told, more = distil.fold(state, prompts, project=project, redact=clean)
    state = told._replace(newest=state.newest)  # of records only: the journal's times are the clock's
    bullets += more
    closed, said = distil.payload_message(state, event.last_assistant_message, at=now, redact=clean)
    if state.again and all(_mark(bullet.text) in state.told for bullet in said):
        closed, said = state, ()
    bullets += said
    state = _remembered(closed, bullets)
    newest = max(recorded, *(bullet.at for bullet in (*more, *said)), 0.0)
    return Delta(bullets, state, tuple(position), recorded, min(newest, now), delta is not None), journal


def _mark(text: str) -> int:
    return crc32(texts.cut(texts.fold(text)).encode("utf-8", "replace"))


def _remembered(state: Evidence, bullets: tuple[Bullet, ...]) -> Evidence:
    """*state* with what was said in *bullets*, so that a second reading of it is told from news."""
    said = [_mark(bullet.text) for bullet in bullets if bullet.section == "done" and bullet.tag in ("", OPERATOR)]
    return state._replace(told=(*state.told, *said)[-TOLD:]) if said else state


def _copied_until(event: HookEvent, store: Store) -> float:
    """The time of the last row that a fork took over from a session whose work is saved already; 0.0 for none."""
    delta = _opened_transcript(event.transcript_path, transcript.START)
    if delta is None:
        return 0.0
    saved: dict[str, float] = {}
    last = 0.0
    try:
        for number, line in enumerate(delta):
            other, at = claude.origin(line)
            if other and other not in saved:
                saved[other] = receipts.load_cursor(store.runtime, identity.safe_id(other)).saved
            if other and at is not None and last < at <= saved[other]:
                last = at
            if number > COPIED_WITHIN and not last:
                break  # copies stand at the beginning
    except OSError:
        return last
    finally:
        delta.close()
    return last


def _journaled(store: Store, cursor: Cursor, bullets: tuple[Bullet, ...]) -> tuple[tuple[Turn, ...], int]:
    """Prompts that the prompt hook kept and the transcript does not have: it lags, or the client dropped the turn."""
    rows, end = receipts.prompts(store.runtime, session=cursor.session, offset=cursor.journal)
    told = {bullet.text for bullet in bullets}
    turns = []
    for at, prompt in rows:
        # A command's row in the transcript has another wording; it is left to the transcript.
        turn = speaker.prompt(prompt, at=at, human=True) if prompt[:1] not in ("/", "!") else None
        if turn is not None and turn.text not in told:
            turns.append(turn)
    return tuple(turns), end


def _opened_transcript(path: str, position: transcript.Position) -> transcript.Delta | None:
    """The transcript from *position*; None when there is none to read, the payload's own text is saved all the same."""
    try:
        delta = transcript.Delta(path, position) if path else None
    except (OSError, ValueError):
        return None
    return delta if delta is not None and delta.found else None


def project_of(event: HookEvent, store: Store) -> str:
    """The project's directory: the client's word for it, for `cwd` follows the agent's `cd`."""
    return store.environ.get("CLAUDE_PROJECT_DIR") or event.cwd
