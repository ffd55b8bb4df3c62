"""`vault-mem statusline [-- COMMAND…]`: one line about context, capsule and last save; the person's own status line is passed through first.

Clients run it at every turn of a session and show what it prints. It never fails: what is unknown is left out, and the exit code is 0.
"""

from __future__ import annotations

import os
import subprocess
import sys

from vault_mem import checkpoints, receipts, settings
from vault_mem.capsule.inert import plain
from vault_mem.context import cycle
from vault_mem.errors import VaultMemError
from vault_mem.harness import registry
from vault_mem.session import briefing, continuity, identity, usage
from vault_mem.vault import store as seats

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, TextIO

    from vault_mem.session.continuity import State
    from vault_mem.vault.store import Store

LIMIT = 5.0
HELP = """usage: vault-mem statusline [--root DIR] [-- COMMAND…]

Reads the client's status line payload from standard input and prints one line: context in use, capsule of the session, age of the last save.
After `--` comes a status line of your own: it gets the same payload, and what it prints stands first, unchanged.

example: vault-mem statusline -- ~/.claude/statusline.sh
"""


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
    """Print the line; always exit 0, but for `--help` nothing else is read from the command line than `--root` and what follows `--`."""
    del command, program, err
    given = list(arguments)
    split = given.index("--") if "--" in given else len(given)
    options, theirs = given[:split], given[split + 1 :]
    if "--help" in options or "-h" in options:
        out.write(HELP)
        return 0
    payload = b"" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.buffer.read()
    first = _passed_through(theirs, payload, environ)
    if first:
        out.write(first if first.endswith("\n") else f"{first}\n")
        out.flush()
    line = _ours(payload, root=_root(options), environ=environ, cwd=cwd, now=now)
    if line:
        out.write(f"{line}\n")
    return 0


def _root(options: list[str]) -> str:
    for number, word in enumerate(options):
        if word.startswith("--root="):
            return word[7:]
        if word == "--root" and number + 1 < len(options):
            return options[number + 1]
    return ""


def _passed_through(theirs: list[str], payload: bytes, environ: Mapping[str, str]) -> str:
    """What the person's own status line prints; nothing when it fails, as the client itself would show nothing."""
    if not theirs:
        return ""
    # One word is what stood in the settings, and clients give that to a shell.
    words = ["/bin/sh", "-c", theirs[0]] if len(theirs) == 1 else theirs
    try:
        done = subprocess.run(
            words,
            input=payload,
            env=dict(environ),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=LIMIT,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("utf-8", "replace")


def _ours(payload: bytes, *, root: str, environ: Mapping[str, str], cwd: str, now: float) -> str:
    try:
        event = registry.parse(payload)
        given = event.given
        directory = environ.get("CLAUDE_PROJECT_DIR") or _project(given) or event.cwd or cwd
        store = seats.opened(explicit=root, environ=environ, cwd=directory)
    except (VaultMemError, OSError) as error:
        token = error.token if isinstance(error, VaultMemError) else type(error).__name__
        # No memory here is the ordinary case of a project without one: no line at all.
        return "" if token in ("no-seat", "bad-payload") else f"vault-mem: {token}"
    try:
        return _line(store, event.session_id, given, event.transcript_path, event.model, now=now)
    except (VaultMemError, OSError) as error:
        return f"vault-mem: {plain(error, 120)}"


def _project(given: Mapping[str, Any]) -> str:
    workspace = given.get("workspace")
    directory = workspace.get("project_dir") if isinstance(workspace, dict) else None
    return directory if isinstance(directory, str) else ""


def _line(store: Store, raw: str, given: Mapping[str, Any], transcript: str, model: str, *, now: float) -> str:
    sample = usage.of_payload(given, source=usage.STATUS_LINE, at=now)
    if not raw.strip():
        return f"ctx {_used(sample)}"
    session = identity.safe_id(raw)
    subject = cycle.Subject(
        session,
        "claude",
        store.environ.get("CLAUDE_PROJECT_DIR") or _project(given) or store.seat.root,
        transcript,
        model,
    )
    state = _fed(store, subject, sample, now=now)
    cursor = receipts.load_cursor(store.runtime, session)
    capsule = os.path.basename(cursor.capsule).removesuffix(".md")
    parts = [f"ctx {_used(sample)}", plain(capsule, 80) if capsule else "no capsule yet"]
    if capsule:
        parts.append(f"saved {_age(store, session, now)}")
    if state is not None and state.phase == continuity.DEGRADED:
        parts.append(f"CONTINUITY DEGRADED ({state.degraded})")
    return " · ".join(parts)


def _fed(store: Store, subject: cycle.Subject, sample: usage.Sample | None, *, now: float) -> State | None:
    """Keep the measurement; when it crosses the threshold and both numbers are the client's own, make a checkpoint of it."""
    before = checkpoints.load(store.runtime, subject.session)
    try:
        state = cycle.sampled(store, subject, sample, now=now)
        if before is None or state.samples != before.samples:
            chosen = settings.load(environ=store.environ)
            if usage.over(state.samples, ceiling=chosen.ceiling, share=chosen.ceiling_share):
                cycle.snapshot(store, subject, reason=continuity.PRESSURE, now=now)
    except (VaultMemError, OSError):
        return before
    return state


def _used(sample: usage.Sample | None) -> str:
    if sample is None:
        return "?"
    tokens = "?" if sample.tokens is None else _short(sample.tokens)
    window = f"/{_short(sample.window)}" if sample.window else ""
    percent = f" {sample.percent:.0f}%" if sample.percent is not None else ""
    return f"{tokens}{window}{percent}"


def _short(number: int) -> str:
    return f"{number / 1000:.0f}k" if number >= 1000 else str(number)


def _age(store: Store, session: str, now: float) -> str:
    try:
        saved = os.stat(f"{store.runtime}/cursors/{session}.json").st_mtime
    except OSError:
        return "never"
    return f"{briefing.age(now - saved)} ago"
