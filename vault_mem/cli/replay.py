"""`vault-mem replay`: a recorded session through the real hooks, a line for each turn, a summary at the end."""

from __future__ import annotations

import json
import os
import tempfile
from typing import TYPE_CHECKING, Any

from vault_mem import replay, stamps
from vault_mem.capsule.inert import inert, plain
from vault_mem.cli.arguments import Parser
from vault_mem.vault import store as seats

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TextIO

    from vault_mem.replay import Answer, Recording

SHOWN = ("SessionStart", "Stop", "PreCompact", "SessionEnd")
WORDS = {"Stop": "turn", "SessionStart": "start", "SessionEnd": "end", "PreCompact": "compact"}


def run(
    command: str,
    arguments: Sequence[str],
    *,
    environ: Mapping[str, str],
    cwd: str,
    now: float,
    program: str,
    out: TextIO,
    err: TextIO,
) -> int:
    """Replay one recording into the seat; 1 when a hook failed, the reason is on standard error."""
    del now
    parser = Parser(
        command,
        "Feed a recorded session folder hook by hook, or a bare transcript turn by turn, through the real hooks of this seat.",
        example="vault-mem replay ~/.claude/projects/-home-me-project/5e551011.jsonl",
    )
    parser.add_argument("recording", metavar="TRANSCRIPT|FOLDER", help="what a client wrote; it is only read")
    parser.add_argument("--as", dest="session", default="", metavar="SESSION", help="the session id to replay it under")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    options = parser.read(arguments, out=out)
    if options is None:
        return 0
    store = seats.opened(explicit=options.root, environ=environ, cwd=cwd)
    recording = replay.load(os.path.join(cwd, os.path.expanduser(options.recording)), session=options.session)
    answers: list[Answer] = []
    with tempfile.TemporaryDirectory(prefix="vault-mem-replay-") as scratch:
        progress = _Progress(len(recording.steps), err)
        for answer in replay.answers(recording, store, program=program, environ=environ, scratch=scratch):
            progress.at(answer.step.number)
            answers.append(answer)
            if not options.json and (answer.step.event in SHOWN or answer.problem):
                progress.clear()
                out.write(_line(answer) + "\n")
        progress.clear()
    return _end(recording, answers, as_json=options.json, out=out, err=err)


def _end(recording: Recording, answers: Sequence[Answer], *, as_json: bool, out: TextIO, err: TextIO) -> int:
    faults = [answer for answer in answers if answer.problem]
    if as_json:
        out.write(json.dumps(_document(recording, answers)) + "\n")
    else:
        out.write("\n" + _summary(recording, answers) + "\n")
    err.writelines(
        f"vault-mem: replay-failed: hook {answer.step.number} ({plain(answer.step.event)}): {inert(answer.problem)}\n"
        for answer in faults
    )
    return 1 if faults or not answers else 0


class _Progress:
    """One line on a terminal that is written over; nothing anywhere else."""

    def __init__(self, total: int, err: TextIO) -> None:
        self._total, self._err, self._shown = total, err, err.isatty()

    def at(self, number: int) -> None:
        if self._shown:
            self._err.write(f"\r\033[Kreplaying hook {number} of {self._total}")
            self._err.flush()

    def clear(self) -> None:
        if self._shown:
            self._err.write("\r\033[K")
            self._err.flush()


def _line(answer: Answer) -> str:
    step = answer.step
    at = stamps.utc(step.at) if step.at else "-"
    word = WORDS.get(step.event, step.event)
    more = plain(step.payload.get("source") or step.payload.get("reason") or "", 40)
    commits = f"  {' '.join(oid[:8] for oid in answer.commits)}" if answer.commits else ""
    return f"{step.number:>4}  {at:<20}  {word + (' ' + more if more else ''):<24} {plain(answer.token, 60)}{commits}"


def _counts(answers: Sequence[Answer]) -> dict[str, int]:
    found: dict[str, int] = {}
    for answer in answers:
        found[answer.token] = found.get(answer.token, 0) + 1
    return dict(sorted(found.items(), key=lambda each: (-each[1], each[0])))


def _summary(recording: Recording, answers: Sequence[Answer]) -> str:
    turns = sum(answer.step.event == "Stop" for answer in answers)
    commits = sum(len(answer.commits) for answer in answers)
    outcomes = ", ".join(f"{plain(token, 60)} {count}" for token, count in _counts(answers).items())
    sessions = len(recording.sessions)
    return (
        f"{plain(recording.name)} ({recording.harness}): {turns} turn{'s' * (turns != 1)} of {sessions} session{'s' * (sessions != 1)}, "
        f"{len(answers)} hooks, {commits} commit{'s' * (commits != 1)}\noutcomes: {outcomes or 'none'}"
    )


def _document(recording: Recording, answers: Sequence[Answer]) -> dict[str, Any]:
    faults = [answer for answer in answers if answer.problem]
    return {
        "schema": "vault-mem/replay/1",
        "command": "replay",
        "ok": bool(answers) and not faults,
        "recording": plain(recording.name),
        "harness": recording.harness,
        "sessions": [plain(name, 128) for name in recording.sessions],
        "turns": sum(answer.step.event == "Stop" for answer in answers),
        "commits": [oid for answer in answers for oid in answer.commits],
        "outcomes": {plain(token, 60): count for token, count in _counts(answers).items()},
        "hooks": [
            {
                "n": answer.step.number,
                "event": plain(answer.step.event, 60),
                "at": stamps.utc_millis(answer.step.at) if answer.step.at else None,
                "outcome": plain(answer.token, 60),
                "detail": inert(answer.detail, limit=300),
                "commits": list(answer.commits),
            }
            for answer in answers
        ],
        "findings": [
            {
                "token": "replay-failed",
                "severity": "fail",
                "where": f"hook {answer.step.number} ({plain(answer.step.event, 60)})",
                "what": inert(answer.problem),
                "fix": "vault-mem doctor",
            }
            for answer in faults
        ],
    }
