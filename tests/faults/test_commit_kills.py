"""A writer killed at every single step: what it leaves is mended by the next one, without repair by hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from vault_mem.repo import commit as engine
from vault_mem.repo.commit import Change, Request

if TYPE_CHECKING:
    from collections.abc import Callable

    Git = Callable[..., str]

ROOT = Path(__file__).resolve().parents[2]
PATH = "capsules/2026-12/a.md"
# Every call into the system that changes something is counted; the process kills itself before the n-th, or, with `after`, behind it.
KILLED = """
import os, signal, sys
root, tree, state, step, when = sys.argv[1:6]
sys.path.insert(0, root)
left = int(step)
def counted(call):
    def run(*arguments, **more):
        global left
        left -= 1
        if left == 0 and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        if left == 0 and when == "half" and call is write:
            write(arguments[0], arguments[1][: len(arguments[1]) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            return call(*arguments, **more)
        finally:
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
    return run
write = os.write
from vault_mem.repo import commit as engine
data = b"killed at %s\\n" % step.encode()
with open(os.path.join(tree, "capsules/2026-12/a.md"), "wb") as file:
    file.write(data)
for name in ("open", "write", "link", "rename", "unlink", "utime", "mkdir", "fsync"):
    setattr(os, name, counted(getattr(os, name)))
asked = engine.Request((engine.Change("capsules/2026-12/a.md", data),), "capsule: autosave a", (("Capsule-Id", "a"),), 1796083200.0)
done = engine.commit(tree, asked, environ=dict(os.environ), state=state, durable=True)
print(done.backend, flush=True)
"""


@pytest.mark.parametrize("when", ("before", "half"))
def test_a_writer_killed_at_any_step_leaves_what_the_next_one_mends(
    when: str, tmp_path: Path, git: Git, environ: dict[str, str]
) -> None:
    tree, state = tmp_path / "vault", str(tmp_path / "state")
    (tree / PATH).parent.mkdir(parents=True)
    git(tree, "init", "-q")
    (tree / PATH).write_bytes(b"v0\n")
    (tree / "staged").write_text("s\n", encoding="utf-8")
    git(tree, "add", PATH)
    git(tree, "commit", "-qm", "start")
    git(tree, "add", "staged")
    outcomes: list[bytes] = []
    for step in range(1, 400):
        before = git(tree, "rev-parse", "HEAD")
        done = subprocess.run(
            [sys.executable, "-c", KILLED, str(ROOT), str(tree), state, str(step), when],
            env=environ,
            capture_output=True,
            check=False,
        )
        assert done.returncode in (0, -9), done.stderr
        during = git(tree, "rev-parse", "HEAD")
        assert during == before or git(tree, "rev-parse", "HEAD^") == before

        data = b"saved after %d\n" % step
        (tree / PATH).write_bytes(data)
        asked = Request((Change(PATH, data),), "capsule: autosave a", (("Capsule-Id", "a"),), 1_796_083_200.0)
        after = engine.commit(str(tree), asked, environ=environ, state=state, durable=False)

        assert (after.parent, after.backend) == (during, "light")
        assert git(tree, "show", "--format=", "--name-only", "HEAD") == PATH
        assert git(tree, "status", "--porcelain") == "A  staged"
        outcomes.append(done.stdout)
        if done.returncode == 0:
            break

    assert len(outcomes) > 30
    assert outcomes[-1] == b"light\n"
    assert git(tree, "fsck", "--strict", "--no-dangling") == ""
    assert not [name for name in os.listdir(tree / ".git") if "vault-mem" in name or name.endswith(".lock")]
    assert os.listdir(state) == ["identity.json"]


@pytest.fixture
def vault(tmp_path: Path, git: Git) -> Path:
    tree = tmp_path / "vault"
    tree.mkdir()
    git(tree, "init", "-q")
    (tree / "a").write_bytes(b"v0\n")
    git(tree, "add", "a")
    git(tree, "commit", "-qm", "start")
    return tree


def test_the_record_of_a_living_writer_is_left_alone(vault: Path, tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        path = _record(vault, tmp_path, pid=other.pid, start="")
        before = path.read_bytes()

        assert engine.recover(str(vault), state=str(path.parent)) == ("writer-alive",)
        assert path.read_bytes() == before
        other.kill()


@pytest.mark.parametrize("text", (b"", b"{", b"[]", b"null", b'{"pid": "x"}', b"\xff"))
def test_a_record_cut_short_is_removed(vault: Path, tmp_path: Path, text: bytes) -> None:
    path = _record(vault, tmp_path, pid=0, start="")
    path.write_bytes(text)

    assert engine.recover(str(vault), state=str(path.parent)) == ("unreadable-record-removed",)
    assert not path.exists()


def test_a_lock_of_somebody_else_is_not_touched_by_a_record(vault: Path, tmp_path: Path) -> None:
    path = _record(vault, tmp_path, pid=2**22 + 5, start="x")
    (vault / ".git" / "index.lock").write_bytes(b"theirs")
    (vault / ".git" / "HEAD.lock").write_bytes(b"theirs")

    assert engine.recover(str(vault), state=str(path.parent)) == ()
    assert (vault / ".git" / "index.lock").read_bytes() == b"theirs"
    assert (vault / ".git" / "HEAD.lock").read_bytes() == b"theirs"


def test_a_record_removes_no_file_outside_the_repository(vault: Path, tmp_path: Path) -> None:
    path = _record(vault, tmp_path, pid=2**22 + 5, start="x", index=str(tmp_path / "vault-mem-1.index.tmp"))
    (tmp_path / "vault-mem-1.index.tmp").write_bytes(b"")

    engine.recover(str(vault), state=str(path.parent))

    assert (tmp_path / "vault-mem-1.index.tmp").exists()


def _record(vault: Path, tmp_path: Path, *, pid: int, start: str, index: str = "") -> Path:
    path = tmp_path / "state" / "committing.json"
    path.parent.mkdir()
    gitdir = str(vault / ".git")
    fields = {
        "pid": pid, "start": start, "gitdir": gitdir, "common": gitdir, "ref": "refs/heads/main", "old": "0" * 40, "new": "1" * 40,
        "index": {"path": index or f"{gitdir}/vault-mem-1.index.tmp", "inode": 1}, "branch": {"path": f"{gitdir}/vault-mem-1.ref.tmp", "inode": 2},
    }  # fmt: skip
    path.write_text(json.dumps(fields), encoding="utf-8")
    return path
