"""Our real hook program on recorded payloads of each client version, its answers held against that client's own rules for them.

Everything runs in a throw-away home, project and vault. A claim of the registry that the run does not bear out, and an answer that the client would
refuse, is `drift`. What the run cannot show keeps the word it had.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from importlib import resources
from typing import TYPE_CHECKING, Any, NamedTuple

from vault_mem import checkpoints
from vault_mem.context import registry
from vault_mem.session import continuity, identity

if TYPE_CHECKING:
    from collections.abc import Mapping

HOME, SESSION = "/home/user", "00000000-0000-4000-8000-000000000001"
DRIFT, OK = "drift", "ok"
KEPT = ("PATH", "LANG", "LC_ALL", "PYTHONPATH", "SYSTEMROOT")
ROLLOUT = {
    "timestamp": "2026-11-30T23:09:51.000Z",
    "type": "event_msg",
    "payload": {
        "type": "token_count",
        "info": {"last_token_usage": {"input_tokens": 60000}, "model_context_window": 258400},
    },
}


class Row(NamedTuple):
    """One line of the answer."""

    harness: str
    version: str
    dimension: str
    declared: str
    observed: str
    verdict: str
    basis: str
    note: str


class Seen(NamedTuple):
    """What the run of one client showed. problems: (event, sentence)."""

    checkpoints: int
    announced: int
    completed: bool
    briefings: int
    cycles: int
    sampled: str
    problems: tuple[tuple[str, str], ...]


def recordings() -> tuple[dict[str, Any], ...]:
    """The recorded payloads and output rules, one document a client version."""
    folder = resources.files("vault_mem.context") / "recorded"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".json")), key=lambda file: file.name)
    return tuple(json.loads(file.read_text(encoding="utf-8")) for file in files)


def run(
    *, program: str, environ: Mapping[str, str], given: tuple[dict[str, Any], ...] | None = None
) -> tuple[Row, ...]:
    """All rows: claims of every client we know, and for recorded ones the check of each answer."""
    rows: list[Row] = []
    recorded = recordings() if given is None else given
    for recording in recorded:
        with tempfile.TemporaryDirectory(prefix="vault-mem-bench-") as place:
            seen = _driven(recording, os.path.realpath(place), program=program, environ=environ)
        rows += _judged(recording, seen)
    for harness in registry.CLAIMS.keys() - {recording["client"] for recording in recorded}:
        rows += [
            Row(harness, "", dimension, claim.state, registry.UNKNOWN, claim.state, claim.basis, claim.note)
            for dimension, claim in registry.CLAIMS[harness].items()
        ]
    return tuple(rows)


def _driven(recording: dict[str, Any], place: str, *, program: str, environ: Mapping[str, str]) -> Seen:
    home, project = f"{place}/home", f"{place}/home/project"
    os.makedirs(project)
    client = recording["client"]
    clean = {name: environ[name] for name in KEPT if name in environ}
    clean |= {"HOME": home, "XDG_STATE_HOME": f"{home}/state", "XDG_CONFIG_HOME": f"{home}/config", "GIT_CONFIG_NOSYSTEM": "1",
              "GIT_CONFIG_GLOBAL": f"{home}/gitconfig", "TMPDIR": place}  # fmt: skip
    with open(f"{home}/gitconfig", "w", encoding="utf-8") as file:
        file.write("[user]\n\tname = bench\n\temail = bench@localhost\n")
    start = (
        [program]
        if os.access(program, os.X_OK) and not program.endswith(".py")
        else [sys.executable, "-m", "vault_mem"]
    )

    def call(arguments: list[str], stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*start, *arguments], input=stdin, cwd=project, env=clean, capture_output=True, check=False, timeout=60
        )

    for command in (["git", "init", "-q"], ["git", "commit", "-q", "--allow-empty", "-m", "start"]):
        subprocess.run(command, cwd=project, env=clean, capture_output=True, check=True, timeout=60)
    made = call(["init", "--harness", client, "--scope", "project"])
    problems: list[tuple[str, str]] = []
    if made.returncode:
        problems.append(("init", made.stderr.decode("utf-8", "replace")[:300]))
    runtime = f"{project}/vault/memory/runtime"
    session = identity.safe_id(SESSION)
    briefings = announced = 0
    for step in recording["steps"]:
        payload = _moved(step["payload"], home)
        _prepared(payload, client)
        arguments = {"session-start": ["resume", "--harness", client], "statusline": ["statusline"]}.get(
            step["hook"], ["hook", step["hook"], "--harness", client]
        )
        done = call(arguments, json.dumps(payload).encode())
        name = str(payload.get("hook_event_name", "statusLine"))
        announced += name == "PreCompact"
        if done.returncode:
            problems.append((name, f"exit {done.returncode}"))
        if name != "statusLine":
            answer, wrong = judge(done.stdout, name, recording)
            problems += [(name, each) for each in wrong]
            briefings += "[VAULT MEMORY] The context of this session was compacted" in answer
        if step["hook"] == "session-end":
            break
    state = checkpoints.load(runtime, session) or continuity.State()
    sampled = state.samples[-1].source if state.samples else ""
    completed = state.cycle is not None and bool(state.cycle.completed)
    return Seen(state.generation, announced, completed, briefings, state.cycles, sampled, tuple(problems))


def _moved(payload: dict[str, Any], home: str) -> dict[str, Any]:
    """The payload with the paths of this run and one session."""
    moved: dict[str, Any] = json.loads(json.dumps(payload).replace(HOME, home))
    return {**moved, "session_id": SESSION, "cwd": f"{home}/project"}


def _prepared(payload: dict[str, Any], client: str) -> None:
    """A transcript where the payload says there is one."""
    path = str(payload.get("transcript_path") or "")
    if client == "codex" and path and not os.path.exists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(json.dumps(ROLLOUT) + "\n")


def judge(stdout: bytes, event: str, recording: Mapping[str, Any]) -> tuple[str, list[str]]:
    """The text for the model in an answer, and what the client would not accept about it."""
    rules = recording["outputs"].get(event)
    if rules is None:
        return "", [f"no rules for {event} are recorded"]
    if not stdout:
        return "", []
    if rules["silent"]:
        return "", ["something was printed on an event that reaches no model"]
    try:
        document = json.loads(stdout.decode("utf-8"))
    except ValueError:
        return "", ["not one JSON document"]
    if not isinstance(document, dict):
        return "", ["not an object"]
    wrong = [f"unknown key {key}" for key in document if key not in rules["properties"]]
    special = document.get("hookSpecificOutput", {})
    if not isinstance(special, dict) or set(special) - {"hookEventName", "additionalContext"}:
        return "", [*wrong, "hookSpecificOutput holds something else"]
    if special and special.get("hookEventName") != event:
        wrong.append("hookEventName is not the event's")
    text = special.get("additionalContext", "")
    if not isinstance(text, str) or not isinstance(document.get("systemMessage", ""), str):
        return "", [*wrong, "a text is no text"]
    limit = recording["limit"]
    size = len(text.encode("utf-8")) if limit["unit"] == "bytes" else len(text.encode("utf-16-le")) // 2
    if size > limit["most"]:
        wrong.append(f"{size} {limit['unit']} are more than the client passes on")
    return text, wrong


def _judged(recording: Mapping[str, Any], seen: Seen) -> list[Row]:
    client, version = recording["client"], recording["version"]
    observed = {
        registry.TELEMETRY: registry.PARTIAL if seen.sampled else registry.UNKNOWN,
        registry.PRE: registry.SUPPORTED if 0 < seen.announced <= seen.checkpoints else registry.UNSUPPORTED,
        registry.POST: registry.SUPPORTED if seen.completed and seen.briefings == seen.cycles else registry.UNSUPPORTED,
        registry.TRIGGER: registry.UNKNOWN,
    }
    notes = {
        registry.TELEMETRY: f"kept from {seen.sampled or 'nothing'}",
        registry.PRE: f"{seen.announced} announcements, {seen.checkpoints} checkpoints",
        registry.POST: f"{seen.cycles} compactions, {seen.briefings} briefings",
        registry.TRIGGER: registry.NO_TRIGGER,
    }
    rows = []
    for dimension, claim in registry.CLAIMS[client].items():
        found = observed[dimension]
        verdict = claim.state if found in (claim.state, registry.UNKNOWN) else DRIFT
        rows.append(Row(client, version, dimension, claim.state, found, verdict, claim.basis, notes[dimension]))
    for event in ("init", *recording["outputs"]):
        wrong = [text for name, text in seen.problems if name == event]
        verdict, note = (DRIFT, "; ".join(wrong)) if wrong else (OK, "")
        rows.append(Row(client, version, f"answer:{event}", OK, DRIFT if wrong else OK, verdict, "fixture", note))
    return rows
