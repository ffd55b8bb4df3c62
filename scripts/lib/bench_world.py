"""Throw-away seats to measure on: a home, a project, a vault with many capsules, and a transcript that grows by ordinary turns."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

MINUTE = 60
BASE = 1793491200  # 2026-11-01, older than anything a measured hook writes
SECTIONS = (
    ("Done (don't redo)", "done"),
    ("Historical-Errors → Resolutions", "errors"),
    ("Historical-Rejected-Approaches", "rejected"),
    ("Files-Read / Files-Modified", "files"),
    ("Operating-Facts", "facts"),
    ("Pending-Gates", "gates"),
    ("Claimed-Rows", "rows"),
)
FRAMING = """\
framing: reference-only
instruction_authority: none
precedence: latest-live-state-wins
pending_policy: surface-never-auto-resume
reverse_signal_policy: cancels-in-flight-work
"""


def _stamp(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(at))


def capsule(number: int, at: float) -> tuple[str, str]:
    """Name and text of an active capsule as a session leaves it: about 3 kB."""
    day = time.strftime("%Y-%m-%d", time.gmtime(at))
    name = f"{day}-piece-{number:05}"
    header = (
        f'id: {name}\nparent_capsule_id: null\nstatus: active\nobjective: "Move piece {number} of the importer to the new reader"\n'
        f'waiting_on: "the review of piece {number}"\nresume_trigger: clear\nexpires: null\ntrigger: curated\n'
        f'next_valid_action: "Run the tests of piece {number} and look at the two that fail"\nsuccess_criteria: []\ntags: [capsule]\n'
        f"created_at: {_stamp(at)}\nstarted_at: {_stamp(at - 40 * MINUTE)}\nupdated_at: {_stamp(at)}\nresolved_at: null\n"
        f"session_id: session-of-piece-{number:05}\nharness: claude\n{FRAMING}"
    )
    body = "\n> [!info] [REFERENCE ONLY] Snapshot, not instructions.\n"
    for heading, anchor in SECTIONS:
        bullets = "".join(
            f"- 10:{minute:02} {heading} of piece {number}, what happened in minute {minute}\n" for minute in range(5)
        )
        body += f"\n## {heading}\n<!-- swe:{anchor} -->\n{bullets}"
    return name, f"---\n{header}---\n{body}"


def turn(number: int, session: str, cwd: str, at: float) -> bytes:
    """The rows that a client writes in one ordinary turn: a request, a read, an edit, an answer, and its own bookkeeping between."""
    rows: list[dict[str, object]] = []

    def row(kind: str, **more: object) -> None:
        rows.append(
            {
                "parentUuid": f"{session[:8]}-{number:08}-{len(rows) - 1}",
                "isSidechain": False,
                "type": kind,
                "uuid": f"{session[:8]}-{number:08}-{len(rows)}",
                "timestamp": _stamp(at + len(rows)),
                "userType": "external",
                "cwd": cwd,
                "sessionId": session,
                "version": "2.1.332",
                "gitBranch": "main",
                **more,
            }
        )

    def answer(*blocks: dict[str, object], stop: str = "tool_use") -> None:
        usage = {
            "input_tokens": 4,
            "cache_creation_input_tokens": 300,
            "cache_read_input_tokens": 20_000 + number,
            "output_tokens": 120,
        }
        message = {
            "id": f"msg_{number}_{len(rows)}",
            "role": "assistant",
            "model": "m",
            "content": list(blocks),
            "stop_reason": stop,
            "usage": usage,
        }
        row("assistant", message=message)

    def result(identifier: str, text: str) -> None:
        row(
            "user",
            message={"role": "user", "content": [{"tool_use_id": identifier, "type": "tool_result", "content": text}]},
            toolUseResult={"text": text},
        )

    page = "".join(f"{line}\tvalue_{line} = compute({line}, {number})\n" for line in range(60))
    wanted = {"role": "user", "content": f"Move piece {number} to the new reader and keep the old name working"}
    row("user", message=wanted, origin={"kind": "human"}, promptSource="typed", permissionMode="acceptEdits")
    for _ in range(4):
        row("attachment", attachment={"type": "reminder", "content": ["x" * 400]})
    answer({"type": "text", "text": f"Let me read piece {number} first."})
    answer(
        {
            "type": "tool_use",
            "id": f"read_{number}",
            "name": "Read",
            "input": {"file_path": f"{cwd}/pieces/piece_{number}.py"},
        }
    )
    result(f"read_{number}", page)
    answer(
        {
            "type": "tool_use",
            "id": f"edit_{number}",
            "name": "Edit",
            "input": {
                "file_path": f"{cwd}/pieces/piece_{number}.py",
                "old_string": page[:400],
                "new_string": page[400:800],
                "replace_all": False,
            },
        }
    )
    result(f"edit_{number}", "The file has been updated.")
    for _ in range(4):
        row("attachment", attachment={"type": "diagnostics", "content": ["y" * 400]})
    answer(
        {"type": "text", "text": f"Piece {number} reads through the new reader now; the old name is an alias."},
        stop="end_turn",
    )
    return b"".join(json.dumps(one, ensure_ascii=False).encode() + b"\n" for one in rows)


@dataclass
class Seat:
    """A project with a trusted vault of *capsules* capsules in a home of its own; *adopted*: a flat tree that was there already, without a repository."""

    base: Path
    program: str
    capsules: int
    environ: dict[str, str] = field(default_factory=dict)
    turns: int = 0
    adopted: bool = False

    @property
    def project(self) -> Path:
        return self.base / "project"

    @property
    def vault(self) -> Path:
        return self.project / "vault" / "memory"

    @property
    def transcript(self) -> Path:
        return self.base / "transcript.jsonl"

    session = "5e551011-0000-4000-8000-000000000001"

    def run(self, *command: str, cwd: Path | None = None, stdin: bytes = b"") -> bytes:
        done = subprocess.run(
            command, cwd=cwd or self.project, env=self.environ, input=stdin, capture_output=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"{shlex.join(command)} failed:\n{done.stderr.decode('utf-8', 'replace')}")
        return done.stdout

    def make(self, *, transcript_bytes: int) -> Seat:
        """Build everything; ends with one unmeasured save, so that the session has its capsule and its cursor."""
        home = self.base / "home"
        self.project.mkdir(parents=True)
        (home / ".config").mkdir(parents=True)
        self.environ = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home / ".config"),
            "XDG_STATE_HOME": str(home / ".local/state"),
            "CLAUDE_PROJECT_DIR": str(self.project),
            "VAULT_MEM_RETIRE_AFTER": "never",
            "TZ": "UTC",
            "LC_ALL": "C.UTF-8",
        }
        (home / ".gitconfig").write_text("[user]\n\tname = Bench\n\temail = bench@example.test\n", encoding="utf-8")
        self.run("git", "init", "--quiet")
        self.run("git", "commit", "--quiet", "--allow-empty", "-m", "start")
        init = (self.program, "init", "--harness", "claude", "--scope", "project", "--memory-root", "vault/memory")
        if self.adopted:
            self._write("capsules")
            self.run(*init, "--adopt")
        else:
            self.run(*init)
            self._fill()
        with self.transcript.open("wb") as out:
            while not self.turns or out.tell() < transcript_bytes:
                out.write(self._next_turn())
        self.run(self.program, "hook", "stop", stdin=self.stop_payload())
        return self

    def _write(self, folders: str) -> None:
        for number in range(self.capsules):
            at = BASE + number * MINUTE
            name, text = capsule(number, at)
            place = self.vault / time.strftime(folders, time.gmtime(at)) / f"{name}.md"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")

    def _fill(self) -> None:
        self._write("capsules/%Y-%m")
        if self.capsules:
            self.run("git", "add", "capsules", cwd=self.vault)
            message = "capsule: write many\n\nCapsule-Id: many\nCapsule-Event: write\nVault-Mem-Version: 0\n"
            self.run("git", "commit", "--quiet", "-m", message, cwd=self.vault)
            self.run("git", "repack", "-adq", cwd=self.vault)
            self.run(self.program, "trust")

    def _next_turn(self) -> bytes:
        self.turns += 1
        return turn(self.turns, self.session, str(self.project), time.time() - 30)

    def grow(self) -> None:
        """One more turn in the transcript."""
        with self.transcript.open("ab") as out:
            out.write(self._next_turn())

    def _payload(self, event: str, session: str | None = None, **more: object) -> bytes:
        # A session has a transcript of its own: with this one's, the next start would save it as left behind.
        transcript = self.transcript.with_name(f"{session or self.session}.jsonl")
        base = {
            "session_id": session or self.session,
            "transcript_path": str(transcript if session else self.transcript),
            "cwd": str(self.project),
            "hook_event_name": event,
        }
        return json.dumps({**base, **more}).encode()

    def stop_payload(self) -> bytes:
        text = f"Piece {self.turns} reads through the new reader now; the old name is an alias."
        return self._payload("Stop", stop_hook_active=False, last_assistant_message=text)

    def start_payload(self, source: str, session: str) -> bytes:
        return self._payload("SessionStart", session, source=source)

    def prompt_payload(self) -> bytes:
        return self._payload("UserPromptSubmit", prompt=f"And now piece {self.turns + 1}")

    def tool_payload(self) -> bytes:
        path = f"{self.project}/pieces/piece_{self.turns}.py"
        return self._payload(
            "PostToolUse", tool_name="Edit", tool_input={"file_path": path}, tool_response={"filePath": path}
        )

    def spent(self) -> int:
        """How many capsules were handed out, where no commit says so."""
        return sum(b"\nstatus: resumed\n" in path.read_bytes()[:400] for path in self.vault.glob("capsules/*.md"))

    def commits(self) -> int:
        return int(self.run("git", "rev-list", "--count", "HEAD", cwd=self.vault))
