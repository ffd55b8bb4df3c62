"""Faults of the vault repository: each is made for real, found, mended the way the doctor says, and gone.

`command` runs the command of the finding in a shell, `fix` is `--fix`; a function mends what only a person can.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

PROGRAM = str(Path(sys.executable).parent / "vault-mem")
OLD = 3600


def aged(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    then = time.time() - OLD
    os.utime(path, (then, then))


def git_gone(box: Any) -> Any:
    before = box.environ["PATH"]
    box.environ["PATH"] = "/nonexistent"
    return lambda: box.environ.update(PATH=before)


def old_git(box: Any) -> Any:
    folder = box.seat.parent / "old"
    folder.mkdir()
    wrapper = folder / "git"
    wrapper.write_text(
        '#!/bin/sh\nfor word; do [ "$word" = version ] && { echo git version 2.11.4; exit; }; done\nexec /usr/bin/git "$@"\n'
    )
    wrapper.chmod(0o755)
    before = box.environ["PATH"]
    box.environ["PATH"] = f"{folder}:{before}"
    return lambda: box.environ.update(PATH=before)


def no_repository(box: Any) -> None:
    shutil.rmtree(box.dot)


def head_to_nowhere(box: Any) -> Any:
    head = next((box.dot / "refs/heads").iterdir())
    text = head.read_text()
    head.write_text("1" * 40 + "\n")
    return lambda: head.write_text(text)


def lost_object(box: Any) -> Any:
    box.capsule("2026-01-01-lost")
    oid = box.git(box.vault, "rev-parse", "HEAD^{tree}")
    path = box.dot / "objects" / oid[:2] / oid[2:]
    data = path.read_bytes()
    path.unlink()
    return lambda: path.write_bytes(data)


def bare(box: Any) -> None:
    box.git(box.vault, "config", "core.bare", "true")


def unborn(box: Any) -> None:
    box.git(box.vault, "symbolic-ref", "HEAD", "refs/heads/fresh")


def detached(box: Any) -> None:
    box.git(box.vault, "checkout", "-q", "--detach")


def state_file(name: str, text: str = "x\n") -> Callable[[Any], Any]:
    def make(box: Any) -> Any:
        path = box.dot / name
        path.write_text(text)
        return path.unlink

    return make


def rebasing(box: Any) -> Any:
    (box.dot / "rebase-merge").mkdir()
    return (box.dot / "rebase-merge").rmdir


def bisecting(box: Any) -> None:
    box.git(box.vault, "bisect", "start")


def other_owner(box: Any) -> Any:
    folder = box.seat.parent / "owned"
    folder.mkdir()
    wrapper = folder / "git"
    wrapper.write_text('#!/bin/sh\nGIT_TEST_ASSUME_DIFFERENT_OWNER=1 exec /usr/bin/git "$@"\n')
    wrapper.chmod(0o755)
    before = box.environ["PATH"]
    box.environ["PATH"] = f"{folder}:{before}"
    return lambda: box.environ.update(PATH=before)


def configured(key: str, value: str) -> Callable[[Any], Any]:
    def make(box: Any) -> Any:
        box.git(box.vault, "config", key, value)
        return lambda: box.git(box.vault, "config", "--unset-all", key)

    return make


def configured_for_all(**values: str) -> Callable[[Any], Any]:
    def make(box: Any) -> Any:
        before = Path(box.environ["GIT_CONFIG_GLOBAL"]).read_text()
        for key, value in values.items():
            box.git(box.vault, "config", "--global", key.replace("__", "."), value)
        return lambda: Path(box.environ["GIT_CONFIG_GLOBAL"]).write_text(before)

    return make


def nobody(text: str) -> Callable[[Any], Any]:
    def make(box: Any) -> None:
        Path(box.environ["GIT_CONFIG_GLOBAL"]).write_text(text)

    return make


def hostile_attributes(box: Any) -> Any:
    path = box.vault / ".gitattributes"
    before = path.read_text()
    path.write_text(before + "*.md filter=evil\n")
    return lambda: path.write_text(before)


def old_lock(name: str) -> Callable[[Any], Any]:
    return lambda box: aged(box.dot / name)


def young_lock(name: str) -> Callable[[Any], Any]:
    def make(box: Any) -> Any:
        path = box.dot / name
        path.write_text("")
        return path.unlink

    return make


def branch_lock(box: Any) -> None:
    aged(box.dot / (box.git(box.vault, "symbolic-ref", "HEAD") + ".lock"))


def killed_writer(box: Any) -> None:
    box.runtime.mkdir(exist_ok=True)
    record = {"pid": 999999999, "start": "x", "ref": "", "gitdir": "", "old": "", "new": ""}
    where = {"path": "/nonexistent", "inode": 0}
    (box.runtime / "committing.json").write_text(json.dumps({**record, "index": where, "branch": where}))


def ignored(box: Any) -> Any:
    path = box.seat.parent / "ignore"
    path.write_text("capsules/\n")
    box.git(box.vault, "config", "--global", "core.excludesFile", str(path))
    return path.unlink


def no_driver(box: Any) -> None:
    box.git(box.vault, "config", "--unset", "merge.vault-mem.driver")


def driver_gone(box: Any) -> None:
    box.git(box.vault, "config", "merge.vault-mem.driver", "/gone/bin/vault-mem merge-driver %O %A %B %P")


def no_attributes(box: Any) -> None:
    box.git(box.vault, "rm", "-q", ".gitattributes")
    box.git(box.vault, "commit", "-q", "-m", "gone")


def not_excluded(box: Any) -> None:
    (box.seat / ".git/info/exclude").write_text("")


def tracked(box: Any) -> Any:
    blob = box.git(box.seat, "hash-object", "-w", "--stdin", stdin="x")
    box.git(box.seat, "update-index", "--add", "--cacheinfo", f"100644,{blob},vault/memory/x.md")


def edited(box: Any) -> Any:
    path = box.capsule("2026-01-01-edited")
    text = path.read_text()
    path.write_text(text + "\nby hand\n")
    return lambda: path.write_text(text)


def untracked(box: Any) -> None:
    box.capsule("2026-01-01-new", commit=False)


def vanished(box: Any) -> None:
    box.capsule("2026-01-01-gone").unlink()


def diverged(box: Any) -> Any:
    remote = box.seat.parent / "remote.git"
    box.git(box.seat, "init", "-q", "--bare", str(remote))
    box.git(box.vault, "remote", "add", "origin", str(remote))
    box.git(box.vault, "push", "-q", "-u", "origin", "HEAD")
    box.git(box.vault, "commit", "-q", "--allow-empty", "-m", "there")
    box.git(box.vault, "push", "-q")
    box.git(box.vault, "reset", "-q", "--hard", "HEAD~1")
    box.git(box.vault, "commit", "-q", "--allow-empty", "-m", "here")
    return lambda: box.git(box.vault, "rebase", "-q", "origin/" + box.git(box.vault, "branch", "--show-current"))


def ahead(box: Any) -> Any:
    diverged(box)()
    return lambda: box.git(box.vault, "push", "-q")


FIX, COMMAND = "fix", "command"
FAULTS = (
    ("git-missing", git_gone, None),
    ("git-old", old_git, None),
    ("vault-missing", no_repository, COMMAND),
    ("vault-broken", head_to_nowhere, None),
    ("vault-broken", lost_object, None),
    ("vault-bare", bare, COMMAND),
    ("vault-unborn", unborn, FIX),
    ("vault-detached", detached, COMMAND),
    ("vault-mid-merge", state_file("MERGE_HEAD", "0" * 40), None),
    ("vault-mid-rebase", rebasing, None),
    ("vault-mid-pick", state_file("CHERRY_PICK_HEAD"), None),
    ("vault-mid-pick", state_file("REVERT_HEAD"), None),
    ("vault-mid-bisect", bisecting, COMMAND),
    ("other-owner", other_owner, None),
    ("unsafe-git-config", configured("core.sshCommand", "evil"), COMMAND),
    ("unsafe-git-config", configured("filter.x.clean", "evil"), COMMAND),
    ("unsafe-git-config", hostile_attributes, None),
    ("config-ignored", configured("core.fsmonitor", "evil"), None),
    ("index-lock-left", old_lock("index.lock"), FIX),
    ("index-locked", young_lock("index.lock"), None),
    ("ref-lock-left", old_lock("HEAD.lock"), FIX),
    ("ref-lock-left", branch_lock, FIX),
    ("ref-locked", young_lock("HEAD.lock"), None),
    ("unfinished-commit", killed_writer, FIX),
    ("identity-missing", nobody(""), COMMAND),
    ("identity-config-only", nobody("[user]\n\tuseConfigOnly = true\n"), COMMAND),
    ("signing-unusable", configured_for_all(commit__gpgSign="true", gpg__program="/nonexistent/gpg"), None),
    ("signing-off-for-saves", configured_for_all(commit__gpgSign="true", gpg__program="/bin/true"), None),
    ("hooks-path-off-for-saves", configured_for_all(core__hooksPath="/nonexistent"), None),
    ("capsules-ignored", ignored, None),
    ("driver-missing", no_driver, FIX),
    ("driver-gone", driver_gone, FIX),
    ("attributes-missing", no_attributes, FIX),
    ("not-excluded", not_excluded, FIX),
    ("root-tracked", tracked, COMMAND),
    ("edited-outside", edited, None),
    ("untracked-capsule", untracked, COMMAND),
    ("capsule-vanished", vanished, COMMAND),
    ("diverged", diverged, None),
    ("unsynced", ahead, None),
)


@pytest.mark.parametrize(
    ("token", "make", "how"),
    tuple(pytest.param(*row, id=f"{row[0]}-{number}") for number, row in enumerate(FAULTS)),
)
def test_a_fault_is_found_mended_and_gone(box: Any, token: str, make: Callable[[Any], Any], how: str | None) -> None:
    box.cured(token, make, how)
