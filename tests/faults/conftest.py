"""A seat and sessions in it whose hooks are whole processes: to be killed, raced and put into hostile surroundings."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from vault_mem import trust
from vault_mem.repo import create

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Git = Callable[..., str]

ROOT = Path(__file__).resolve().parents[2]
MEMORY = "vault/memory"


class Client:
    """One session of one seat. Every hook is a process of its own; `run` answers with the outcome token it gave."""

    clock = itertools.count(int(time.time()) - 360_000)

    def __init__(self, project: Path, environ: Mapping[str, str], name: str = "") -> None:
        self.project = project
        self.vault = project / MEMORY
        self.environ = {**environ, "PYTHONPATH": str(ROOT), "CLAUDE_PROJECT_DIR": str(project)}
        self.id = name or str(uuid.uuid4())
        self.transcript = Path(environ["HOME"]) / ".claude/projects/p" / f"{self.id}.jsonl"
        self.transcript.parent.mkdir(parents=True, exist_ok=True)

    @staticmethod
    def token(err: bytes) -> str:
        return token(err)

    def sibling(self) -> Client:
        return Client(self.project, self.environ)

    def prompt(self, text: str) -> None:
        """A turn as the transcript has it: what the person typed, and an answer."""
        human = {"origin": {"kind": "human"}, "promptSource": "typed"}
        self._row(type="user", message={"role": "user", "content": text}, **human)
        said = {"id": f"m{uuid.uuid4().hex}", "role": "assistant", "content": [{"type": "text", "text": "Done."}]}
        self._row(type="assistant", message=said)

    def _row(self, **fields: Any) -> None:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(next(self.clock)))
        row = {"isSidechain": False, "cwd": str(self.project), "sessionId": self.id, "uuid": str(uuid.uuid4())}
        with self.transcript.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**row, "timestamp": stamp, **fields}) + "\n")

    def payload(self, **more: Any) -> bytes:
        base = {"session_id": self.id, "transcript_path": str(self.transcript), "cwd": str(self.project)}
        return json.dumps({**base, **more}).encode()

    def started(
        self, *arguments: str, payload: bytes = b"", before: tuple[str, ...] = (), **more: str
    ) -> subprocess.Popen[bytes]:
        """The process of a hook, its payload already given. *before*: a program to start it under; *more*: environment."""
        process = subprocess.Popen(
            [*before, sys.executable, "-m", "vault_mem", *arguments],
            cwd=self.project,
            env={**self.environ, **more},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdin is not None
        try:
            process.stdin.write(payload or self.payload(hook_event_name="Stop"))
            process.stdin.close()
        except BrokenPipeError:
            pass
        process.stdin = None
        return process

    def stop(self, *, event: str = "stop", before: tuple[str, ...] = (), **more: str) -> str:
        """The token of a Stop that ran to its end."""
        process = self.started("hook", event, "--explain", before=before, **more)
        out, err = process.communicate(timeout=120)
        assert (process.returncode, out) == (0, b""), err
        return token(err)

    def start(self, source: str = "clear") -> str:
        """What the SessionStart hook prints for the model; empty when it printed nothing."""
        process = self.started("resume", payload=self.payload(hook_event_name="SessionStart", source=source))
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        return said(out)

    def half_files(self) -> list[str]:
        """Temporary files beside the ones they were to replace; a start removes those of the dead."""
        return sorted(str(path) for path in self.vault.rglob(".vault-mem-*") if ".git" not in path.parts)

    def leftovers(self) -> list[str]:
        """Files that only a writer at work may have."""
        found = []
        for folder in (self.vault, self.vault / ".git", self.vault / "runtime", self.project / ".git"):
            for path in folder.rglob("*") if folder.is_dir() else ():
                name = path.name
                if name.endswith(".lock") and ".git" in path.parts and name != "vault.lock":
                    found.append(str(path))
                if name.startswith("vault-mem-") or name in ("committing.json", "pending.json"):
                    found.append(str(path))
        return sorted(set(found))


def token(err: bytes) -> str:
    """The outcome that `--explain` put on standard error."""
    lines = [line for line in err.decode("utf-8", "replace").splitlines() if line.startswith("vault-mem: ")]
    first = lines[0].removeprefix("vault-mem: ") if lines else ""
    return first.split(": ")[0].rstrip(":")


def said(out: bytes) -> str:
    """The text of a whole document on standard output; empty for none or half of one."""
    try:
        return str(json.loads(out)["hookSpecificOutput"]["additionalContext"])
    except (ValueError, KeyError):
        return ""


def declared(project: Path) -> Path:
    (project / ".aigent").mkdir(parents=True)
    state = {"schemaVersion": 1, "memory_root": MEMORY}
    (project / ".aigent/state.json").write_text(json.dumps(state), encoding="utf-8")
    return project / MEMORY


@pytest.fixture
def client(project: Path, environ: dict[str, str]) -> Client:
    """A session in a seat with a vault of its own."""
    memory = declared(project)
    head = create.init_repository(str(memory), environ=environ, at=1.0)
    create.exclude(str(project), MEMORY, environ=environ)
    identity = trust.Identity("dedicated", "", (head,), head)
    trust.grant(str(memory), identity, seat=str(project), environ=environ, now=1.0)
    return Client(project, environ)


@pytest.fixture
def guest(project: Path, environ: dict[str, str], git: Git) -> Client:
    """A session in a vault that is embedded in the project's repository, where the person has staged something."""
    memory = declared(project)
    ref = create.embedded_ref(MEMORY)
    head = create.embed(str(project), MEMORY, ref=ref, environ=environ, at=1.0)
    identity = trust.Identity("embedded", ref, (head,), head)
    trust.grant(str(memory), identity, seat=str(project), environ=environ, now=1.0)
    (project / "staged").write_text("s\n", encoding="utf-8")
    git(project, "add", "staged")
    return Client(project, environ)


@pytest.fixture
def history(git: Git) -> Callable[[Client], str]:
    """Every line any commit of the vault ever added."""

    def read(client: Client) -> str:
        return git(client.vault, "log", "-p", "--format=%H %s", "HEAD")

    return read
