"""The whole hook program where git is hostile, odd or in the middle of something: the right commit, or a named refusal that the next hook makes good."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from vault_mem import trust

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.faults.conftest import Client

    Git = Callable[..., str]

FIRST, SECOND = "Split the parser and keep the tests green.", "And now the printer as well, please."
NEVER = "#!/bin/sh\ntouch {mark}\nsleep 60\nexit 1\n"


class Scene(NamedTuple):
    """client, the vault, git, and a file that only a program we must not start would make."""

    client: Client
    vault: Path
    git: Git
    mark: Path

    def program(self, path: Path) -> Path:
        """A program that must not run."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(NEVER.format(mark=self.mark), encoding="utf-8")
        path.chmod(0o755)
        return path

    def fails(self, *arguments: str) -> None:
        """A git that ends in conflict."""
        subprocess.run(["git", *arguments], cwd=self.vault, env=self.client.environ, capture_output=True, check=False)

    def diverged(self) -> None:
        """Branches `main` and `side` that disagree."""
        for branch in ("side", "main"):
            self.git(self.vault, "checkout", "-q", "-B", branch, "main")
            (self.vault / "f").write_text(f"{branch}\n", encoding="utf-8")
            self.git(self.vault, "add", "f")
            self.git(self.vault, "commit", "-qm", branch)


@pytest.fixture
def scene(client: Client, git: Git, tmp_path: Path) -> Scene:
    def quietly(directory: Path, *arguments: str) -> str:
        # The programs of a scene are for the hook to avoid, not for the test to run into.
        return git(directory, "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", *arguments)

    return Scene(client, client.vault, quietly, tmp_path / "must-not-exist")


def checked(scene: Scene) -> None:
    """History and tree agree about the capsules, the repository is sound, nothing of ours is left lying, nothing foreign ran."""
    assert scene.git(scene.vault, "status", "--porcelain", "--", "capsules") == ""
    assert scene.git(scene.vault, "fsck", "--strict", "--no-dangling") == ""
    assert scene.client.leftovers() == []
    assert not scene.mark.exists()


def only_ours(scene: Scene) -> bool:
    names = scene.git(scene.vault, "show", "--format=", "--name-only", "HEAD").splitlines()
    return bool(names) and all(name.startswith("capsules/") for name in names)


# What changes nothing: the save goes through.


def user_hooks(scene: Scene) -> None:
    for name in ("pre-commit", "post-commit", "commit-msg", "reference-transaction", "post-index-change"):
        scene.program(scene.vault / ".git/hooks" / name)


def hooks_path(scene: Scene) -> None:
    scene.program(scene.vault.parent / "hooks/pre-commit")
    scene.git(scene.vault, "config", "core.hooksPath", str(scene.vault.parent / "hooks"))


def signing(scene: Scene) -> None:
    for kind in ("gpg.program", "gpg.ssh.program"):
        scene.git(scene.vault, "config", kind, str(scene.program(scene.vault.parent / "sign")))
    scene.git(scene.vault, "config", "commit.gpgSign", "true")
    scene.git(scene.vault, "config", "user.signingKey", "nobody")


def ssh_signing(scene: Scene) -> None:
    signing(scene)
    scene.git(scene.vault, "config", "gpg.format", "ssh")


def no_identity(scene: Scene) -> None:
    Path(scene.client.environ["GIT_CONFIG_GLOBAL"]).write_text("", encoding="utf-8")


def use_config_only(scene: Scene) -> None:
    no_identity(scene)
    scene.git(scene.vault, "config", "user.useConfigOnly", "true")


def ignored_paths(scene: Scene) -> None:
    exclude = Path(scene.client.environ["HOME"]) / "ignore"
    exclude.write_text("*.md\ncapsules/\n", encoding="utf-8")
    scene.git(scene.vault, "config", "core.excludesFile", str(exclude))


def fsmonitor(scene: Scene) -> None:
    scene.git(scene.vault, "config", "core.fsmonitor", str(scene.program(scene.vault.parent / "monitor")))


def auto_gc(scene: Scene) -> None:
    scene.git(scene.vault, "config", "gc.auto", "1")


def staged_work(scene: Scene) -> None:
    (scene.vault / "staged").write_text("s\n", encoding="utf-8")
    scene.git(scene.vault, "add", "staged")


def packed(scene: Scene) -> None:
    scene.git(scene.vault, "gc", "-q", "--prune=now")


def crlf(scene: Scene) -> None:
    scene.git(scene.vault, "config", "core.autocrlf", "true")


def odd_names(scene: Scene) -> None:
    folder = scene.vault / "capsules/2026-01"
    folder.mkdir(parents=True)
    for name in ("a b.md", "é.md", "-n.md", "new\nline.md", 'quo"te.md', "🙂.md"):
        (folder / name).write_text("no capsule\n", encoding="utf-8")
    scene.git(scene.vault, "add", ".")
    scene.git(scene.vault, "commit", "-qm", "odd")


def index_version_4(scene: Scene) -> None:
    scene.git(scene.vault, "update-index", "--index-version", "4")


def split_index(scene: Scene) -> None:
    scene.git(scene.vault, "update-index", "--split-index")


def untracked_cache(scene: Scene) -> None:
    scene.git(scene.vault, "update-index", "--untracked-cache")


def submodule(scene: Scene) -> None:
    other = scene.vault.parent / "other"
    scene.git(scene.vault.parent, "init", "-q", str(other))
    scene.git(other, "commit", "-q", "--allow-empty", "-m", "o")
    scene.git(scene.vault, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other), "sub")
    scene.git(scene.vault, "commit", "-qm", "sub")


def stale(scene: Scene, name: str) -> None:
    lock = scene.vault / ".git" / name
    lock.write_bytes(b"")
    then = time.time() - 3600
    os.utime(lock, (then, then))


def stale_index_lock(scene: Scene) -> None:
    stale(scene, "index.lock")


def stale_head_lock(scene: Scene) -> None:
    stale(scene, "HEAD.lock")


def stale_branch_lock_for_git_itself(scene: Scene) -> None:
    scene.git(scene.vault, "update-index", "--split-index")
    stale(scene, "refs/heads/main.lock")


def remade(scene: Scene, *shape: str) -> None:
    """The vault's repository made anew in another shape, and trusted as it is."""
    shutil.rmtree(scene.vault / ".git")
    scene.git(scene.vault, "init", "-q", "-b", "main", *shape)
    scene.git(scene.vault, "add", ".gitattributes", ".gitignore")
    scene.git(scene.vault, "commit", "-qm", "vault: begin")
    head = scene.git(scene.vault, "rev-parse", "HEAD")
    identity = trust.Identity("dedicated", "", (head,), head)
    trust.grant(str(scene.vault), identity, seat=str(scene.client.project), environ=scene.client.environ, now=1.0)


def sha256(scene: Scene) -> None:
    remade(scene, "--object-format=sha256")


def reftable(scene: Scene) -> None:
    asked = ["git", "init", "-q", "--ref-format=reftable", str(scene.mark.parent / "tried")]
    if subprocess.run(asked, capture_output=True, check=False).returncode:
        pytest.skip("this git has no reftable")
    remade(scene, "--ref-format=reftable")


def separate_git_dir(scene: Scene) -> None:
    remade(scene, f"--separate-git-dir={scene.mark.parent / 'elsewhere.git'}")


def shared(scene: Scene) -> None:
    remade(scene, "--shared=group")


GOES_THROUGH = (
    user_hooks, hooks_path, signing, ssh_signing, no_identity, use_config_only, ignored_paths, fsmonitor, auto_gc, staged_work,
    packed, crlf, odd_names, index_version_4, split_index, untracked_cache, submodule, stale_index_lock, stale_head_lock,
    stale_branch_lock_for_git_itself, sha256, reftable,
    separate_git_dir, shared,
)  # fmt: skip


@pytest.mark.parametrize("state", [pytest.param(state, id=state.__name__) for state in GOES_THROUGH])
def test_a_save_goes_through(state: Callable[[Scene], None], scene: Scene) -> None:
    state(scene)
    staged = scene.git(scene.vault, "diff", "--cached", "--name-only")
    for text in (FIRST, SECOND):
        scene.client.prompt(text)
        assert scene.client.stop() == "saved"
        assert only_ours(scene)

    assert SECOND in scene.git(scene.vault, "grep", "-h", SECOND, "HEAD", "--", "capsules")
    assert scene.git(scene.vault, "diff", "--cached", "--name-only") == staged
    assert FIRST in scene.client.sibling().start() + scene.git(scene.vault, "log", "-p")
    checked(scene)


HOSTILE_ENVIRONMENT = {
    "GIT_DIR": "/nowhere",
    "GIT_WORK_TREE": "/nowhere",
    "GIT_INDEX_FILE": "/nowhere/index",
    "GIT_OBJECT_DIRECTORY": "/nowhere/objects",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "core.hooksPath",
    "GIT_CONFIG_VALUE_0": "/nowhere",
    "GIT_AUTHOR_DATE": "garbage",
    "GIT_EDITOR": "false",
    "GIT_ASKPASS": "false",
    "GIT_NAMESPACE": "other",
    "GIT_LITERAL_PATHSPECS": "0",
    "GIT_TRACE": "1",
    "LC_ALL": "de_DE.UTF-8",
}


@pytest.mark.parametrize("state", (staged_work, split_index, sha256), ids=lambda state: state.__name__)
def test_inherited_git_variables_lead_nowhere(state: Callable[[Scene], None], scene: Scene) -> None:
    state(scene)
    scene.client.prompt(FIRST)

    assert scene.client.stop(**HOSTILE_ENVIRONMENT) == "saved"

    assert only_ours(scene)
    checked(scene)


def test_inherited_git_variables_lead_an_embedded_save_nowhere(guest: Client, git: Git) -> None:
    guest.prompt(FIRST)
    before = git(guest.project, "status", "--porcelain=v2", "--branch")

    assert guest.stop(**HOSTILE_ENVIRONMENT) == "saved"

    assert git(guest.project, "status", "--porcelain=v2", "--branch") == before
    assert FIRST in git(guest.project, "grep", "-h", FIRST, "refs/vault-mem/vault-memory")


def test_an_embedded_reference_that_is_gone_or_locked_refuses_by_name(guest: Client, git: Git) -> None:
    ref = guest.project / ".git/refs/vault-mem/vault-memory"
    lock, head = ref.with_name(f"{ref.name}.lock"), ref.read_text("utf-8")
    lock.write_bytes(b"")
    guest.prompt(FIRST)
    assert guest.stop() == "git-refused:ref-locked"
    lock.unlink()
    ref.unlink()
    assert guest.stop() == "git-refused:unborn"
    (capsule,) = guest.vault.glob("capsules/*/*.md")
    assert FIRST in capsule.read_text("utf-8")

    git(guest.project, "update-ref", "refs/vault-mem/vault-memory", head.strip())

    assert guest.stop() in ("saved", "no-change")
    assert FIRST in git(guest.project, "grep", "-h", FIRST, "refs/vault-mem/vault-memory")
    assert guest.leftovers() == []


# What a person is in the middle of, or what is broken: refused by name, the text on disk, made good by the next hook.


def undone(*command: str) -> Callable[[Scene], None]:
    return lambda scene: scene.fails(*command)


def merging(scene: Scene) -> None:
    scene.diverged()
    scene.fails("merge", "side")


def rebasing(scene: Scene) -> None:
    scene.diverged()
    scene.fails("rebase", "side")


def picking(scene: Scene) -> None:
    scene.diverged()
    scene.fails("cherry-pick", "side")


def bisecting(scene: Scene) -> None:
    scene.diverged()
    scene.git(scene.vault, "bisect", "start", "HEAD", "HEAD^")


def detached(scene: Scene) -> None:
    scene.git(scene.vault, "checkout", "-q", "--detach")


def unborn(scene: Scene) -> None:
    scene.git(scene.vault, "symbolic-ref", "HEAD", "refs/heads/empty")


def live(name: str) -> Callable[[Scene], None]:
    return lambda scene: (scene.vault / ".git" / name).write_bytes(b"") and None


def unlocked(name: str) -> Callable[[Scene], None]:
    return lambda scene: (scene.vault / ".git" / name).unlink()


def gone(scene: Scene) -> None:
    (scene.vault / ".git").rename(scene.vault.parent / "aside.git")


def back(scene: Scene) -> None:
    (scene.vault.parent / "aside.git").rename(scene.vault / ".git")


def no_objects(scene: Scene) -> None:
    objects = scene.vault / ".git/objects"
    objects.rename(scene.vault.parent / "objects")
    objects.write_text("no folder\n", encoding="utf-8")


def objects_back(scene: Scene) -> None:
    (scene.vault / ".git/objects").unlink()
    (scene.vault.parent / "objects").rename(scene.vault / ".git/objects")


ATTACHED = undone("symbolic-ref", "HEAD", "refs/heads/main")
REFUSES = (
    pytest.param(merging, undone("merge", "--abort"), "merge-in-progress", id="merging"),
    pytest.param(rebasing, undone("rebase", "--abort"), "rebase-in-progress", id="rebasing"),
    pytest.param(picking, undone("cherry-pick", "--abort"), "cherry-pick-in-progress", id="picking"),
    pytest.param(bisecting, undone("bisect", "reset"), "bisect-in-progress", id="bisecting"),
    pytest.param(detached, ATTACHED, "detached-head", id="detached"),
    pytest.param(unborn, ATTACHED, "unborn", id="unborn"),
    pytest.param(live("index.lock"), unlocked("index.lock"), "index-locked", id="a live index.lock"),
    pytest.param(live("HEAD.lock"), unlocked("HEAD.lock"), "ref-locked", id="a live HEAD.lock"),
    pytest.param(live("refs/heads/main.lock"), unlocked("refs/heads/main.lock"), "ref-locked", id="a live branch lock"),
    pytest.param(gone, back, "not-a-repository", id="no repository"),
    pytest.param(no_objects, objects_back, "", id="no object store"),
)


@pytest.mark.parametrize(("state", "undo", "reason"), REFUSES)
def test_a_save_is_refused_by_name_and_made_good_by_the_next(
    state: Callable[[Scene], None], undo: Callable[[Scene], None], reason: str, scene: Scene
) -> None:
    state(scene)
    scene.client.prompt(FIRST)

    told = scene.client.stop()

    assert told == f"git-refused:{reason}" if reason else told.startswith("git-refused:")
    (capsule,) = scene.vault.glob("capsules/*/*.md")
    assert FIRST in capsule.read_text("utf-8")
    undo(scene)
    other = scene.client.sibling()
    other.prompt(SECOND)
    assert other.stop() == "saved"
    assert scene.client.stop() in ("saved", "no-change")
    assert FIRST in scene.git(scene.vault, "grep", "-h", FIRST, "HEAD", "--", "capsules")
    checked(scene)


UNSAFE = (
    ("filter.x.clean", "cat"), ("merge.x.driver", "true"), ("core.sshCommand", "true"), ("credential.helper", "store"),
    ("remote.x.url", "ext::sh -c true"), ("include.path", "elsewhere"),
)  # fmt: skip


@pytest.mark.parametrize(("key", "value"), UNSAFE, ids=[key for key, _ in UNSAFE])
def test_a_configuration_that_starts_programs_is_refused_before_git(key: str, value: str, scene: Scene) -> None:
    scene.git(scene.vault, "config", key, value)
    scene.client.prompt(FIRST)

    assert scene.client.stop() == "unsafe-git-config"

    scene.git(scene.vault, "config", "--unset-all", key)
    assert scene.client.stop() == "saved"
    checked(scene)


@pytest.mark.parametrize("name", ("capsules", "capsules/2026-12"))
def test_a_link_in_place_of_a_folder_leads_no_save_out_of_the_vault(name: str, scene: Scene, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (scene.vault / name).parent.mkdir(exist_ok=True)
    (scene.vault / name).symlink_to(outside)
    scene.client.prompt(FIRST)

    scene.client.stop()

    assert list(outside.rglob("*")) == []


def test_a_link_in_place_of_the_runtime_leads_nothing_out_of_the_vault(scene: Scene, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    shutil.rmtree(scene.vault / "runtime")
    (scene.vault / "runtime").symlink_to(outside)
    scene.client.prompt(FIRST)

    assert scene.client.stop() == "bad-memory-root"

    assert list(outside.rglob("*")) == []
    (scene.vault / "runtime").unlink()
    assert scene.client.stop() == "saved"
    checked(scene)


LIMITED = """
import os, resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
size = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
os.execv(sys.argv[2], sys.argv[2:])
"""


@pytest.mark.parametrize("size", (0, 1, 100, 200, 400, 800, 1600))
def test_a_disk_that_fills_up_loses_nothing(size: int, scene: Scene) -> None:
    scene.client.prompt(FIRST)
    assert scene.client.stop() == "saved"
    scene.client.prompt(SECOND)

    told = scene.client.stop(before=(sys.executable, "-c", LIMITED, str(size)))

    assert told not in ("saved", "no-change")
    assert told.startswith(("git-refused:disk-full", "error:OSError", "spooled", "lock-unusable")), told
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    assert scene.client.stop() == "saved"
    assert SECOND in scene.git(scene.vault, "grep", "-h", SECOND, "HEAD", "--", "capsules")
    checked(scene)


def _mounted(place: Path, size: str) -> bool:
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)], capture_output=True, check=False
    )
    return done.returncode == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
@pytest.mark.parametrize("kind", ("full", "read-only"))
def test_a_vault_on_a_disk_of_its_own_that_is_full_or_read_only(kind: str, scene: Scene, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    shutil.move(scene.vault, kept)
    scene.vault.mkdir()
    if not _mounted(scene.vault, "2m"):
        pytest.skip("cannot mount here")
    try:
        shutil.copytree(kept, scene.vault, dirs_exist_ok=True)
        scene.client.prompt(FIRST)
        assert scene.client.stop() == "saved"
        scene.client.prompt(SECOND)
        if kind == "full":
            subprocess.run(["dd", "if=/dev/zero", f"of={scene.vault / 'filler'}"], capture_output=True, check=False)
        else:
            subprocess.run(["mount", "-o", "remount,ro", str(scene.vault)], check=True)

        told = scene.client.stop()

        assert told.startswith(("git-refused:", "error:OSError", "spooled", "lock-unusable", "error:Not", "saved")), (
            told
        )
        if kind == "full":
            (scene.vault / "filler").unlink()
        else:
            subprocess.run(["mount", "-o", "remount,rw", str(scene.vault)], check=True)
        assert scene.client.stop() in ("saved", "no-change")
        assert SECOND in scene.git(scene.vault, "grep", "-h", SECOND, "HEAD", "--", "capsules")
        checked(scene)
    finally:
        subprocess.run(["umount", str(scene.vault)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to somebody else")
def test_a_vault_of_another_user_is_refused_by_name(scene: Scene) -> None:
    scene.client.prompt(FIRST)
    subprocess.run(["chown", "-R", "65534", str(scene.vault / ".git")], check=True)

    assert scene.client.stop() == "git-refused:other-owner"

    subprocess.run(["chown", "-R", "0", str(scene.vault / ".git")], check=True)
    assert scene.client.stop() in ("saved", "no-change")
    assert FIRST in scene.git(scene.vault, "grep", "-h", FIRST, "HEAD", "--", "capsules")
    checked(scene)
