"""Replay: a recorded session, hook by hook, or a bare transcript, turn by turn, through the real program as processes of its own.

The recording is only read. What the hooks see are copies below a scratch directory, cut to the rows that were there when the hook ran;
paths of the recorded project become those of this seat, and `VAULT_MEM_NOW` tells the hooks the recorded time.
"""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vault_mem import files, stamps
from vault_mem.errors import GitRefusedError, VaultMemError
from vault_mem.harness import registry
from vault_mem.repo import objects
from vault_mem.session import identity, turns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vault_mem.vault.store import Store

DOORS = {
    "SessionStart": ("resume",),
    "UserPromptSubmit": ("hook", "user-prompt-submit"),
    "PostToolUse": ("hook", "post-tool-use"),
    "Stop": ("hook", "stop"),
    "PreCompact": ("hook", "pre-compact"),
    "PostCompact": ("hook", "post-compact"),
    "SessionEnd": ("hook", "session-end"),
}
"""Recorded event -> arguments of the program; every other event has no hook of ours."""
LOST = frozenset(
    [
        "bad-payload",
        "usage",
        "killed",
        "recursion",
        "no-seat",
        "untrusted",
        "untrusted-seat",
        "bad-memory-root",
        "unsafe-git-config",
        "lock-busy",
        "lock-unusable",
        "changed-meanwhile",
        "anchor-damage",
        "checkpoint-unwritable",
        "not-delivered",
        "consume-pending",
        "consume-unrecordable",
    ]
)
"""Outcomes of a hook that did not do what it is for."""
LOST_KINDS = ("error", "git-refused", "exit-")
CLIENT_VARIABLES = ("CLAUDE", "CODEX_", "VAULT_MEM_HOOK", "VAULT_MEM_NOW", "GIT_")
KEPT_VARIABLES = ("CLAUDE_CONFIG_DIR", "CODEX_HOME")
HOOKS, SESSION = "hooks.jsonl", "session.json"
RECORDED = "/home/user/project"
SMALL = 64 << 20
TIMEOUT = 60.0
WORK = (turns.SAID, turns.USE, turns.RESULT, turns.INTERRUPT)
"""What a turn must hold before the next request ends it."""


class NotARecordingError(VaultMemError):
    """What was given is neither a transcript nor the folder of a recorded session; the message says what is wrong with it."""

    token = "not-a-recording"


@dataclass(frozen=True, slots=True)
class Source:
    """A recorded session: the file of its transcript ("" without one), the session id in it, the id it is replayed under."""

    path: str
    recorded: str
    session: str


@dataclass(frozen=True, slots=True)
class Step:
    """One hook call: number, event, time (0: unknown), payload as recorded, transcript with the number of rows to be there (None: no file)."""

    number: int
    event: str
    at: float
    payload: Mapping[str, Any]
    source: Source | None = None
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class Recording:
    """What is to be replayed."""

    name: str
    harness: str
    steps: tuple[Step, ...]
    sessions: tuple[str, ...]
    project: str = RECORDED


@dataclass(frozen=True, slots=True)
class Answer:
    """How one hook answered. token: its outcome; detail: its own words; commits: made meanwhile, oldest first."""

    step: Step
    token: str
    detail: str = ""
    commits: tuple[str, ...] = ()
    problem: str = ""


@dataclass(slots=True)
class _Copy:
    """A transcript as the hooks see it, grown row by row from the recorded one."""

    source: Source
    place: str
    rows: int = 0
    offset: int = 0
    changes: tuple[tuple[re.Pattern[bytes], bytes], ...] = field(default=())


# --- reading -------------------------------------------------------------------------------------------------------------------


def load(path: str, *, session: str = "") -> Recording:
    """The recording at *path*, a folder or a transcript; *session* replaces the recorded id. Raises NotARecordingError."""
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        raise NotARecordingError(f"{path}: {error.strerror or error}") from error
    if stat.S_ISDIR(mode):
        return _folder(path, session=session)
    if stat.S_ISREG(mode):
        return _transcript(path, session=session)
    raise NotARecordingError(f"{path} is neither a folder nor a regular file")


def _folder(path: str, *, session: str) -> Recording:
    rows = _hook_rows(os.path.join(path, HOOKS))
    about = _object(os.path.join(path, SESSION))
    listed = about.get("sessions")
    named = {
        str(row.get("session_id")): str(row.get("file"))
        for row in (listed if isinstance(listed, list) else [])
        if isinstance(row, dict)
    }
    ids = list(dict.fromkeys(str(row["payload"].get("session_id", "")) for row in rows))
    found = sorted(
        (name for name in os.listdir(path) if re.fullmatch(r"(transcript|rollout)-\d+\.jsonl", name)),
        key=lambda name: (len(name), name),
    )
    sources = {}
    for number, (recorded, fallback) in enumerate(zip(ids, [*found, *[""] * len(ids)], strict=False)):
        name = named.get(recorded, "" if named else fallback)
        is_there = bool(name) and os.path.basename(name) == name and os.path.isfile(os.path.join(path, name))
        given = session if not number else f"{session}-{number + 1}"
        sources[recorded] = Source(
            os.path.join(path, name) if is_there else "", recorded, given if session else recorded
        )
    project = next((str(row["payload"].get("cwd", "")) for row in rows if row["payload"].get("cwd")), RECORDED)
    client = str(about.get("client", ""))
    if client not in registry.NAMES:
        client = "codex" if any(name.startswith("rollout-") for name in (*named.values(), *found)) else registry.DEFAULT
    return Recording(
        os.path.basename(os.path.normpath(path)),
        client,
        tuple(_steps(rows, sources)),
        tuple(source.session for source in sources.values()),
        project,
    )


def _steps(rows: Sequence[Mapping[str, Any]], sources: Mapping[str, Source]) -> Iterator[Step]:
    for number, row in enumerate(rows, 1):
        payload = row["payload"]
        there = row.get("transcript_at_hook")
        count = there.get("rows") if isinstance(there, dict) else None
        yield Step(
            row["n"] if type(row.get("n")) is int else number,
            str(row.get("label") or payload.get("hook_event_name", "")).partition(":")[0],
            stamps.epoch_of(row.get("t")) or 0.0,
            payload,
            sources.get(str(payload.get("session_id", ""))),
            count if type(count) is int and count >= 0 else None,
        )


def _hook_rows(path: str) -> list[dict[str, Any]]:
    try:
        text = files.read_followed(path, limit=SMALL).decode("utf-8")
    except FileNotFoundError as error:
        raise NotARecordingError(
            f"{os.path.dirname(path)} has no {HOOKS}; a recorded session folder has one, and a transcript is given as a file"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise NotARecordingError(f"{path} cannot be read: {error}") from error
    rows = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise NotARecordingError(f"{path}, line {number}: {error}") from error
        if not isinstance(row, dict) or not isinstance(row.get("payload"), dict):
            raise NotARecordingError(f"{path}, line {number}: no hook call with a payload")
        rows.append(row)
    if not rows:
        raise NotARecordingError(f"{path} records no hook call")
    return rows


def _object(path: str) -> dict[str, Any]:
    try:
        value = json.loads(files.read_followed(path, limit=SMALL))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise NotARecordingError(f"{path}: {error}") from error
    return value if isinstance(value, dict) else {}


def _transcript(path: str, *, session: str) -> Recording:
    """Turn by turn: the Stop hook runs where the next request begins, and at the end."""
    harness, recorded, project, known = _described(path)
    if not known:
        raise NotARecordingError(f"{path} is no transcript of {' or '.join(registry.NAMES)}: no row of a session in it")
    recorded = recorded or os.path.splitext(os.path.basename(path))[0]
    source = Source(path, recorded, session or recorded)
    read = registry.reader(harness)
    steps: list[Step] = []
    said, worked, at, count = "", False, 0.0, 0

    def stop(rows: int) -> None:
        payload = {
            "session_id": recorded,
            "transcript_path": path,
            "cwd": project,
            "hook_event_name": "Stop",
            "stop_hook_active": False,
            "last_assistant_message": said,
        }
        steps.append(Step(len(steps) + 1, "Stop", at, payload, source, rows))

    for line in _lines(path):
        for turn in read(line.rstrip(b"\r\n")):
            if turn.kind == turns.PROMPT and turn.status != turns.MIDTURN and worked:
                stop(count)
                said, worked = "", False
            if turn.kind == turns.SAID:
                said = turn.text
            worked = worked or turn.kind in WORK
            at = max(at, turn.at or 0.0)
        count += 1
    stop(count)
    return Recording(os.path.basename(path), harness, tuple(steps), (source.session,), project)


def _described(path: str) -> tuple[str, str, str, bool]:
    """Client, session id and project of a transcript, and whether it is one at all."""
    session, project, known = "", "", False
    harness = "codex" if os.path.basename(path).startswith("rollout-") else ""
    for number, line in enumerate(_lines(path)):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(row, dict):
            continue
        inner = row.get("payload")
        if row.get("type") == "session_meta" and isinstance(inner, dict):
            return "codex", str(inner.get("id", "")), str(inner.get("cwd", "")), True
        known = known or row.get("type") in ("user", "assistant", "response_item")
        session = session or str(row.get("sessionId", "") or "")
        project = project or str(row.get("cwd", "") or "")
        if (known and session and project) or number > 2000:
            break
    return harness or registry.DEFAULT, session, project, known


def _lines(path: str, offset: int = 0) -> Iterator[bytes]:
    """Rows of a file from *offset*, with their line ends; a FIFO never blocks."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise NotARecordingError(f"{path} is no regular file")
        file.seek(offset)
        yield from file


# --- running -------------------------------------------------------------------------------------------------------------------


def answers(
    recording: Recording, store: Store, *, program: str, environ: Mapping[str, str], scratch: str
) -> Iterator[Answer]:
    """Run every step that has a hook of ours, in order, one answer for each; ends after the first hook that did not answer 0.

    scratch: an empty directory of the caller for the cut transcripts. Raises OSError when the program cannot be started.
    """
    copies: dict[str, _Copy] = {}
    head = _head(store)
    for step in recording.steps:
        arguments = DOORS.get(step.event)
        if arguments is None or (step.event == "PostToolUse" and not _is_file_tool(step.payload)):
            continue
        payload = _payload(step, recording.project, store.seat.root, copies, scratch)
        try:
            done = subprocess.run(
                [*_started(program), *arguments, *_flags(arguments, recording, store)],
                input=json.dumps(payload).encode("utf-8"),
                cwd=store.seat.root,
                env=_environment(recording, store, step, program, environ),
                capture_output=True,
                check=False,
                timeout=TIMEOUT,
            )
        except subprocess.TimeoutExpired:
            yield Answer(step, "timeout", problem=f"no answer within {TIMEOUT:.0f} s")
            return
        after = _head(store)
        answer = _answer(step, done, consumed=after != head)
        yield Answer(step, answer.token, answer.detail, _between(store, head, after), answer.problem)
        head = after
        if done.returncode:
            return


def _head(store: Store) -> str:
    if not store.keeps_history:
        return ""
    return objects.head(store.worktree, environ=store.environ, ref=store.ref) or ""


def _between(store: Store, old: str, new: str) -> tuple[str, ...]:
    if not new or old == new:
        return ()
    try:
        return tuple(oid for oid, _ in objects.commits_between(store.worktree, old, new, environ=store.environ))
    except (GitRefusedError, OSError):
        return (new,)


def _is_file_tool(payload: Mapping[str, Any]) -> bool:
    return payload.get("tool_name") in ("Edit", "MultiEdit", "Write", "NotebookEdit", "apply_patch")


def _started(program: str) -> list[str]:
    """The command line of the program: the installed script, else the package that runs now."""
    if os.path.basename(program) == "vault-mem" and os.access(program, os.X_OK):
        return [program]
    return [sys.executable, "-m", "vault_mem"]


def _flags(arguments: Sequence[str], recording: Recording, store: Store) -> list[str]:
    flags = ["--harness", recording.harness, "--root", store.seat.root]
    return [*flags, "--explain"] if arguments[0] == "hook" else flags


def _environment(
    recording: Recording, store: Store, step: Step, program: str, environ: Mapping[str, str]
) -> dict[str, str]:
    """What the client would give a hook: nothing of the client that may run around this replay."""
    env = {
        name: value
        for name, value in environ.items()
        if name in KEPT_VARIABLES or not name.startswith(CLIENT_VARIABLES) or name.startswith("GIT_CONFIG")
    }
    if recording.harness == "claude":
        env["CLAUDE_PROJECT_DIR"] = store.seat.root
    if step.at:
        env["VAULT_MEM_NOW"] = f"{step.at:.6f}"
    if _started(program) != [program]:
        package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        env["PYTHONPATH"] = os.pathsep.join(filter(None, (package, environ.get("PYTHONPATH", ""))))
    return env


def _payload(step: Step, project: str, root: str, copies: dict[str, _Copy], scratch: str) -> dict[str, Any]:
    """The payload for this seat; its transcript is there, cut to the rows of that moment."""
    given = dict(step.payload)
    recorded = str(given.get("transcript_path") or "")
    place = os.path.join(scratch, os.path.basename(recorded)) if recorded else ""
    session = step.source.session if step.source else str(given.get("session_id", ""))
    changes = _changes(project, root, str(given.get("session_id", "")), session)
    if place:
        given.pop("transcript_path")
    text = json.dumps(given, ensure_ascii=False).encode("utf-8", "surrogatepass")
    payload: dict[str, Any] = json.loads(_changed(text, changes).decode("utf-8", "surrogatepass"))
    if place and step.source:
        if session != step.source.recorded:
            # Two replays under different names are two transcripts.
            place = os.path.join(scratch, identity.safe_id(session), os.path.basename(recorded))
        if step.rows is not None and step.source.path:
            copy = copies.setdefault(place, _Copy(step.source, place, changes=changes))
            _grow(copy, step.rows)
    if place:
        payload["transcript_path"] = place
    return payload


def _changes(project: str, root: str, recorded: str, session: str) -> tuple[tuple[re.Pattern[bytes], bytes], ...]:
    """Replacements in JSON text: the recorded project by this seat's root, the recorded session id by the one asked for."""
    changes = []
    if os.path.isabs(project) and project.strip("/"):
        here, there = os.path.realpath(root), os.path.realpath(project)
        if there != here and not there.startswith(here.rstrip("/") + "/"):
            changes.append((_word(project, rb"(?![\w-]|\.\w)", rb"(?<!\w)"), _inside_json(root)))
    if recorded and session != recorded:
        changes.append((_word(recorded, rb"(?![\w-])", rb"(?<![\w-])"), _inside_json(session)))
    return tuple(changes)


def _word(text: str, after: bytes, before: bytes) -> re.Pattern[bytes]:
    return re.compile(before + re.escape(_inside_json(text)) + after)


def _inside_json(text: str) -> bytes:
    return json.dumps(text, ensure_ascii=False)[1:-1].encode("utf-8", "surrogatepass")


def _changed(data: bytes, changes: tuple[tuple[re.Pattern[bytes], bytes], ...]) -> bytes:
    for pattern, new in changes:
        data = pattern.sub(new.replace(b"\\", rb"\\"), data)
    return data


def _grow(copy: _Copy, rows: int) -> None:
    """Let the copy have the first *rows* rows; a smaller number than before is a file that was rewritten."""
    if rows < copy.rows:
        copy.rows = copy.offset = 0
        files.remove(copy.place)
    os.makedirs(os.path.dirname(copy.place), mode=0o700, exist_ok=True)
    with open(copy.place, "ab") as file:
        if rows == copy.rows:
            return
        for line in _lines(copy.source.path, copy.offset):
            file.write(_changed(line, copy.changes))
            copy.rows += 1
            copy.offset += len(line)
            if copy.rows >= rows:
                break


def _answer(step: Step, done: subprocess.CompletedProcess[bytes], *, consumed: bool) -> Answer:
    """The outcome in a hook's own words, and what is wrong with the answer, if anything."""
    said = done.stderr.decode("utf-8", "replace").strip()
    first = said.partition("\n")[0].removeprefix("vault-mem: ")
    token = first.partition(": ")[0].rstrip(": ")
    detail = first.partition(": ")[2]
    if done.returncode:
        problem = f"exit code {done.returncode}" + (f": {said[-400:]}" if said else "")
        return Answer(step, f"exit-{done.returncode}", detail, problem=problem)
    if step.event != "SessionStart":
        problem = "printed on standard output, which no saving hook may" if done.stdout else ""
        return Answer(step, token or "silent", detail, problem=problem or (first if _is_lost(token) else ""))
    if done.stdout.strip():
        try:
            json.loads(done.stdout)
        except ValueError:
            return Answer(step, "bad-answer", first, problem="standard output is not one JSON document")
    if not token:
        token = "handed-over" if consumed else "oriented" if done.stdout.strip() else "silent"
    return Answer(step, token, detail, problem=first if _is_lost(token) else "")


def _is_lost(token: str) -> bool:
    return token in LOST or token.startswith(LOST_KINDS)
