"""When a commit cannot be made it is refused with a reason, nothing of the repository has moved, and the next one goes through."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from vault_mem.errors import GitRefusedError
from vault_mem.repo import commit as engine
from vault_mem.repo.commit import Change, Request

if TYPE_CHECKING:
    from collections.abc import Callable

    Git = Callable[..., str]

ROOT = Path(__file__).resolve().parents[2]
PATH = "capsules/2026-12/a.md"
NOBODY = 65534


@pytest.fixture
def vault(tmp_path: Path, git: Git) -> Path:
    """A repository whose branches `main` and `side` disagree about the file `f`."""
    tree = tmp_path / "vault"
    (tree / PATH).parent.mkdir(parents=True)
    git(tree, "init", "-q")
    (tree / PATH).write_bytes(b"v0\n")
    (tree / "f").write_text("base\n", encoding="utf-8")
    git(tree, "add", ".")
    git(tree, "commit", "-qm", "start")
    git(tree, "checkout", "-qb", "side")
    (tree / "f").write_text("side\n", encoding="utf-8")
    git(tree, "commit", "-qam", "side")
    git(tree, "checkout", "-q", "main")
    (tree / "f").write_text("main\n", encoding="utf-8")
    git(tree, "commit", "-qam", "main")
    return tree


@pytest.fixture
def save(environ: dict[str, str], tmp_path: Path) -> Callable[..., engine.Committed]:
    def run(tree: Path, data: bytes = b"v1\n", path: str = PATH, **more: str) -> engine.Committed:
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_bytes(data)
        asked = Request((Change(path, data),), "capsule: autosave a", (("Capsule-Id", "a"),), 1_796_083_200.0)
        return engine.commit(str(tree), asked, environ={**environ, **more}, state=str(tmp_path / "state"))

    return run


def everything(tree: Path) -> dict[str, bytes | str]:
    """The bytes of every file of the repository that is no object, and where it has one, its target."""
    found = {}
    for path in sorted((tree / ".git").rglob("*")):
        if path.is_file() and "objects" not in path.parts:
            found[str(path)] = path.read_bytes()
    return found


def fails(tree: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=tree, capture_output=True, check=False, stdin=subprocess.DEVNULL)


def detached(tree: Path, git: Git) -> None:
    git(tree, "checkout", "-q", "--detach")


def unborn(tree: Path, git: Git) -> None:
    git(tree, "checkout", "-q", "--orphan", "empty")


def merging(tree: Path, _git: Git) -> None:
    fails(tree, "merge", "side")


def rebasing(tree: Path, _git: Git) -> None:
    fails(tree, "rebase", "side")


def applying(tree: Path, git: Git) -> None:
    patch = git(tree, "format-patch", "-1", "--stdout", "side")
    subprocess.run(["git", "am"], cwd=tree, input=patch.encode(), capture_output=True, check=False)


def picking(tree: Path, _git: Git) -> None:
    fails(tree, "cherry-pick", "side")


def reverting(tree: Path, git: Git) -> None:
    (tree / "f").write_text("again\n", encoding="utf-8")
    git(tree, "commit", "-qam", "again")
    fails(tree, "revert", "--no-edit", "HEAD^")


def bisecting(tree: Path, git: Git) -> None:
    git(tree, "bisect", "start", "HEAD", "HEAD^")


STATES = (
    (detached, "detached-head"), (unborn, "unborn"), (merging, "merge-in-progress"), (rebasing, "rebase-in-progress"),
    (applying, "rebase-in-progress"), (picking, "cherry-pick-in-progress"), (reverting, "revert-in-progress"), (bisecting, "bisect-in-progress"),
)  # fmt: skip


@pytest.mark.parametrize("odd", (False, True), ids=("plain", "split-index"))
@pytest.mark.parametrize(("state", "reason"), [pytest.param(*row, id=row[0].__name__) for row in STATES])
def test_what_a_person_is_in_the_middle_of_is_left_alone(
    state: Callable[[Path, Git], None],
    reason: str,
    odd: bool,
    vault: Path,
    git: Git,
    save: Callable[..., engine.Committed],
) -> None:
    if odd:
        git(vault, "update-index", "--split-index")
    state(vault, git)
    before = everything(vault)

    with pytest.raises(GitRefusedError) as refused:
        save(vault)

    assert (refused.value.reason, refused.value.token) == (reason, f"git-refused:{reason}")
    assert everything(vault) == before


def test_a_file_in_conflict_is_not_settled_by_a_save(
    vault: Path, git: Git, save: Callable[..., engine.Committed]
) -> None:
    (vault / "f").write_text("stashed\n", encoding="utf-8")
    git(vault, "stash", "-q")
    (vault / "f").write_text("later\n", encoding="utf-8")
    git(vault, "commit", "-qam", "later")
    fails(vault, "stash", "pop")
    before = everything(vault)

    with pytest.raises(GitRefusedError, match="merge-in-progress"):
        save(vault, path="f")
    assert everything(vault) == before

    assert save(vault).backend == "light"
    assert git(vault, "status", "--porcelain") == "UU f"


@pytest.mark.parametrize(
    "spoilt",
    (
        pytest.param(shutil.rmtree, id="none"),
        pytest.param(lambda path: (shutil.rmtree(path), path.write_text("nonsense\n")), id="a file that is none"),
        pytest.param(
            lambda path: (shutil.rmtree(path), path.write_text("gitdir: gone\n")), id="a repository that is gone"
        ),
        pytest.param(lambda path: (path / "HEAD").unlink(), id="no HEAD"),
        pytest.param(lambda path: shutil.rmtree(path / "refs"), id="no refs"),
    ),
)
def test_where_there_is_no_repository_the_one_around_it_is_not_used(
    project: Path, vault: Path, spoilt: Callable[[Path], object], save: Callable[..., engine.Committed]
) -> None:
    inside = project / "vault"
    vault.rename(inside)
    spoilt(inside / ".git")
    before = everything(project)

    with pytest.raises(GitRefusedError, match="not-a-repository"):
        save(inside)

    assert {path: data for path, data in everything(project).items() if "/vault/" not in path} == {
        path: data for path, data in before.items() if "/vault/" not in path
    }


def test_an_index_locked_by_another_git_refuses_and_the_lock_stays(
    vault: Path, save: Callable[..., engine.Committed]
) -> None:
    (vault / ".git" / "index.lock").write_bytes(b"theirs")
    before = everything(vault)

    with pytest.raises(GitRefusedError, match="index-locked"):
        save(vault)

    assert everything(vault) == before


@pytest.mark.parametrize("name", ("refs/heads/main.lock", "HEAD.lock"))
def test_a_branch_locked_by_another_git_refuses_and_the_index_is_as_before(
    vault: Path, name: str, save: Callable[..., engine.Committed]
) -> None:
    save(vault)
    (vault / ".git" / name).write_bytes(b"")
    before = everything(vault)

    with pytest.raises(GitRefusedError, match="ref-locked"):
        save(vault, b"v2\n")

    assert everything(vault) == before
    (vault / ".git" / name).unlink()
    assert save(vault, b"v2\n").backend == "light"


def test_a_lock_that_is_let_go_in_time_is_waited_for(vault: Path, save: Callable[..., engine.Committed]) -> None:
    lock = vault / ".git" / "index.lock"
    lock.write_bytes(b"")
    with subprocess.Popen([sys.executable, "-c", f"import os; os.unlink({str(lock)!r})"]):
        assert save(vault).notes == ()


def _aged(path: Path, minutes: int) -> None:
    path.write_bytes(b"")
    then = time.time() - 60 * minutes
    os.utime(path, (then, then))


@pytest.mark.skipif(
    not os.path.exists("/proc/self/stat"), reason="processes cannot be listed here: a stale lock is never removed"
)
def test_a_lock_nobody_can_have_is_removed_and_that_is_said(
    vault: Path, git: Git, save: Callable[..., engine.Committed]
) -> None:
    _aged(vault / ".git" / "index.lock", 11)

    done = save(vault)

    assert done.notes == ("stale-index-lock-removed",)
    assert git(vault, "status", "--porcelain") == ""
    assert save(vault, b"v2\n").notes == ()


LOCKS = (
    pytest.param("index.lock", "index-locked", id="index"),
    pytest.param("HEAD.lock", "ref-locked", id="HEAD"),
    pytest.param("refs/heads/main.lock", "ref-locked", id="branch"),
)


@pytest.mark.skipif(
    not os.path.exists("/proc/self/stat"), reason="processes cannot be listed here: a stale lock is never removed"
)
@pytest.mark.parametrize("name", ("HEAD.lock", "refs/heads/main.lock"))
def test_a_lock_of_head_or_branch_that_nobody_can_have_is_removed_and_that_is_said(
    vault: Path, name: str, git: Git, save: Callable[..., engine.Committed]
) -> None:
    save(vault)
    _aged(vault / ".git" / name, 11)

    done = save(vault, b"v2\n")

    assert (done.backend, done.notes) == ("light", ("stale-ref-lock-removed",))
    assert not (vault / ".git" / name).exists()
    assert git(vault, "status", "--porcelain") == ""


@pytest.mark.skipif(
    not os.path.exists("/proc/self/stat"), reason="processes cannot be listed here: a stale lock is never removed"
)
def test_a_stale_lock_of_the_person_is_left_by_a_save_on_a_private_reference(
    vault: Path, tmp_path: Path, git: Git, environ: dict[str, str]
) -> None:
    request = engine.Request((engine.Change("capsules/2026-05/a.md", b"v1\n"),), "capsule: autosave a", (), 1.0)
    reference = "refs/vault-mem/x"
    git(vault, "update-ref", reference, "HEAD")
    for name in ("HEAD.lock", "index.lock", "refs/heads/main.lock"):
        _aged(vault / ".git" / name, 60)
    _aged(vault / ".git" / f"{reference}.lock", 60)

    done = engine.commit(str(vault), request, environ=environ, state=str(tmp_path / "state"), ref=reference)

    assert done.notes == ("stale-ref-lock-removed",)
    assert not (vault / ".git" / f"{reference}.lock").exists()
    assert all((vault / ".git" / name).exists() for name in ("HEAD.lock", "index.lock", "refs/heads/main.lock"))


@pytest.mark.parametrize("minutes", (0, 9))
@pytest.mark.parametrize(("name", "reason"), LOCKS)
def test_a_young_lock_stays(
    vault: Path, name: str, reason: str, minutes: int, save: Callable[..., engine.Committed]
) -> None:
    save(vault)
    _aged(vault / ".git" / name, minutes)

    with pytest.raises(GitRefusedError, match=reason):
        save(vault, b"v2\n")

    assert (vault / ".git" / name).exists()


@pytest.mark.parametrize(("name", "reason"), LOCKS)
def test_a_link_in_place_of_the_lock_stays(
    vault: Path, name: str, reason: str, save: Callable[..., engine.Committed]
) -> None:
    save(vault)
    (vault / ".git" / name).symlink_to("nowhere")

    with pytest.raises(GitRefusedError, match=reason):
        save(vault, b"v2\n")

    assert (vault / ".git" / name).is_symlink()


HELD = (
    pytest.param("folder", "index.lock", "index-locked", id="folder, index"),
    pytest.param("-C", "index.lock", "index-locked", id="-C, index"),
    pytest.param("GIT_DIR", "index.lock", "index-locked", id="GIT_DIR, index"),
    pytest.param("folder", "HEAD.lock", "ref-locked", id="folder, HEAD"),
    pytest.param("-C", "refs/heads/main.lock", "ref-locked", id="-C, branch"),
)


@pytest.mark.parametrize(("way", "name", "reason"), HELD)
def test_an_old_lock_stays_while_a_git_works_in_the_repository(
    vault: Path,
    way: str,
    name: str,
    reason: str,
    tmp_path: Path,
    environ: dict[str, str],
    save: Callable[..., engine.Committed],
) -> None:
    save(vault)
    _aged(vault / ".git" / name, 60)
    arguments = {"folder": ["git"], "-C": ["git", "-C", str(vault)], "GIT_DIR": ["git"]}[way]
    where = vault if way == "folder" else tmp_path
    more = {"GIT_DIR": str(vault / ".git")} if way == "GIT_DIR" else {}
    # `git cat-file --batch` waits for its stdin, like a commit waits for its editor.
    with subprocess.Popen(
        [*arguments, "cat-file", "--batch"],
        cwd=where,
        env={**environ, **more},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        other.stdin.write(b"HEAD\n")
        other.stdin.flush()
        other.stdout.readline()

        with pytest.raises(GitRefusedError, match=reason):
            save(vault, b"v2\n")

        other.kill()
    assert save(vault, b"v2\n").notes == (f"stale-{reason.removesuffix('ed')}-removed",)


CHILD = """
import os, resource, sys
root, tree, state, what = sys.argv[1:5]
sys.path.insert(0, root)
from vault_mem.errors import GitRefusedError
from vault_mem.repo import commit as engine
import fcntl, select
import vault_mem.repo.porcelain
if what.startswith("user"):
    os.setgid(int(what[4:])); os.setuid(int(what[4:]))
data = b"v" * 200000
asked = engine.Request((engine.Change("capsules/2026-12/a.md", data),), "capsule: autosave a", (), 1796083200.0)
if what == "full":
    import signal
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[5]), int(sys.argv[5])))
try:
    engine.commit(tree, asked, environ=dict(os.environ), state=state)
except GitRefusedError as refusal:
    print(refusal.reason)
"""


def _in_child(vault: Path, tmp_path: Path, environ: dict[str, str], *what: str) -> str:
    arguments = [sys.executable, "-c", CHILD, str(ROOT), str(vault), str(tmp_path / "state"), *what]
    done = subprocess.run(arguments, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("size", (0, 1, 60, 150, 230))
def test_a_disk_that_fills_up_refuses_and_leaves_everything_as_it_was(
    vault: Path, size: int, tmp_path: Path, environ: dict[str, str], git: Git, save: Callable[..., engine.Committed]
) -> None:
    save(vault)
    before = everything(vault)

    assert _in_child(vault, tmp_path, environ, "full", str(size)) == "disk-full"

    assert everything(vault) == before
    assert not list((vault / ".git").rglob("tmp_obj*"))
    assert save(vault, b"v2\n").backend == "light"
    assert git(vault, "fsck", "--strict", "--no-dangling") == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_repository_of_somebody_else_is_left_to_git_which_refuses(
    vault: Path, tmp_path: Path, environ: dict[str, str]
) -> None:
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid() and not folder.stat().st_mode & 0o005:
            folder.chmod(folder.stat().st_mode | 0o055)
    before = everything(vault)

    assert _in_child(vault, tmp_path, environ, f"user{NOBODY}") == "other-owner"

    assert everything(vault) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file belong to somebody else")
def test_root_behind_sudo_may_write_what_belongs_to_the_person(
    vault: Path, save: Callable[..., engine.Committed]
) -> None:
    for path in (vault, vault / ".git"):
        os.chown(path, NOBODY, NOBODY)

    with pytest.raises(GitRefusedError, match="other-owner"):
        save(vault)

    assert save(vault, SUDO_UID=str(NOBODY)).backend == "light"


@pytest.mark.parametrize(
    ("number", "reason"),
    (
        (errno.EROFS, "read-only"),
        (errno.EACCES, "read-only"),
        (errno.ENOSPC, "disk-full"),
        (errno.EDQUOT, "disk-full"),
        (errno.EIO, "git-failed:Input/output error"),
    ),
)
@pytest.mark.parametrize("call", ("open", "link", "rename", "write", "fsync"))
def test_a_system_call_that_fails_refuses_and_leaves_everything_as_it_was(
    number: int,
    reason: str,
    call: str,
    vault: Path,
    save: Callable[..., engine.Committed],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    save(vault)
    before = everything(vault)
    real = getattr(os, call)
    left = [1]

    def failing(*arguments: object, **more: object) -> object:
        writes = call != "open" or (len(arguments) > 1 and isinstance(arguments[1], int) and arguments[1] & os.O_CREAT)
        left[0] -= bool(writes)
        if left[0] < 0:
            raise OSError(number, os.strerror(number), "somewhere")
        return real(*arguments, **more)

    (vault / PATH).write_bytes(b"v2\n")
    asked = Request((Change(PATH, b"v2\n"),), "capsule: autosave a", (), 1_796_083_200.0)
    monkeypatch.setattr(os, call, failing)
    with pytest.raises(GitRefusedError) as refused:
        engine.commit(str(vault), asked, environ=dict(os.environ), state=str(vault.parent / "state"))
    monkeypatch.undo()

    assert refused.value.reason == reason
    assert everything(vault) == before


def test_without_git_the_light_way_works_and_the_other_says_so(
    vault: Path, git: Git, tmp_path: Path, save: Callable[..., engine.Committed]
) -> None:
    assert save(vault, PATH=str(tmp_path / "nowhere")).backend == "light"
    assert git(vault, "log", "-1", "--format=%an") == "vault-mem"
    git(vault, "update-index", "--split-index")

    with pytest.raises(GitRefusedError, match="git-missing"):
        save(vault, b"v2\n", PATH=f"relative:{tmp_path / 'nowhere'}")


def test_where_links_cannot_be_made_git_does_it(
    vault: Path, git: Git, save: Callable[..., engine.Committed], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "no links on this file system")

    monkeypatch.setattr(os, "link", refuse)

    assert save(vault).backend == "program"
    assert git(vault, "status", "--porcelain") == ""


def test_a_damaged_index_is_not_written_over(vault: Path, save: Callable[..., engine.Committed]) -> None:
    index = vault / ".git" / "index"
    index.write_bytes(b"no index at all")
    before = everything(vault)

    with pytest.raises(GitRefusedError, match="git-failed"):
        save(vault)

    assert everything(vault) == before


def test_what_git_added_to_its_index_is_taken_back_when_it_then_refuses(
    vault: Path, git: Git, save: Callable[..., engine.Committed]
) -> None:
    git(vault, "update-index", "--split-index")
    (vault / ".git" / "refs" / "heads" / "main.lock").write_bytes(b"")

    with pytest.raises(GitRefusedError, match="ref-locked"):
        save(vault, path="capsules/new.md")

    assert git(vault, "status", "--porcelain") == "?? capsules/new.md"
