"""Is the vault a repository that takes commits, and does it agree with the tree? Pure."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from vault_mem import gitconfig
from vault_mem.doctor.catalogue import found

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vault_mem.doctor.scene import Git, Scene
    from vault_mem.report import Finding

OLDEST = (2, 30)
SHOWN = 5
_REFUSALS = {
    "not-a-repository": ("vault-missing", "vault-mem init --root {root}"),
    "unborn": ("vault-unborn", "vault-mem doctor --fix"),
    "detached-head": ("vault-detached", "git -C {at} switch -c recovered   # or: git -C {at} switch main"),
    "merge-in-progress": (
        "vault-mid-merge",
        "git -C {at} status   # then: git -C {at} commit, or: git -C {at} merge --abort",
    ),
    "rebase-in-progress": ("vault-mid-rebase", "git -C {at} rebase --continue   # or: git -C {at} rebase --abort"),
    "cherry-pick-in-progress": (
        "vault-mid-pick",
        "git -C {at} cherry-pick --continue   # or: git -C {at} cherry-pick --abort",
    ),
    "revert-in-progress": ("vault-mid-pick", "git -C {at} revert --continue   # or: git -C {at} revert --abort"),
    "bisect-in-progress": ("vault-mid-bisect", "git -C {at} bisect reset"),
    "other-owner": ("other-owner", "git config --global --add safe.directory {at}   # if you trust whoever owns it"),
    "broken": ("vault-broken", "git -C {at} fsck --full"),
    "read-only": ("read-only", "ls -ld {at}/.git"),
}


def check(scene: Scene) -> Iterator[Finding]:
    """Findings about the repository."""
    if scene.place.token:
        return
    git = scene.git
    yield from _program(git)
    yield from _shape(scene)
    yield from _locks(git)
    yield from _configuration(scene)
    for text in git.late:
        yield found("check-failed", git.worktree, text, f"git -C {_at(git)} count-objects -vH   # then: vault-mem gc")
    if git.head:
        yield from _contents(scene)


def _at(git: Git) -> str:
    return shlex.quote(git.worktree)


def _program(git: Git) -> Iterator[Finding]:
    if not git.program:
        yield found(
            "git-missing", "PATH", "no git program in any folder of PATH", "install git, or add its folder to PATH"
        )
    elif git.version and git.version < OLDEST:
        text = ".".join(map(str, git.version))
        yield found("git-old", git.program, f"version {text}", "install git 2.30 or newer")


def _shape(scene: Scene) -> Iterator[Finding]:
    git = scene.git
    if git.unsafe:
        yield found("unsafe-git-config", git.worktree, ", ".join(git.unsafe), _unset(git))
    if git.ignored:
        yield found("config-ignored", git.worktree, ", ".join(git.ignored))
    if git.refusal == "not-a-repository" and scene.trusting.mode == "adopted" and "core.worktree" not in git.detail:
        yield found(
            "vault-adopted-no-repo",
            git.worktree,
            "adopted without a repository",
            f"vault-mem init --adopt --root {shlex.quote(scene.place.root)}",
        )
    elif git.refusal:
        token, fix = _REFUSALS.get(git.refusal, ("vault-broken", "git -C {at} status"))
        yield found(
            token,
            git.worktree,
            git.owner or git.detail or git.refusal,
            fix.format(at=_at(git), root=shlex.quote(scene.place.root)),
        )
    if git.why == "owner" and git.refusal != "other-owner" and not git.head:
        yield found(
            "other-owner",
            git.worktree,
            "the folder belongs to another user",
            _REFUSALS["other-owner"][1].format(at=_at(git)),
        )
    if git.why == "bare":
        yield found("vault-bare", git.worktree, "core.bare is true", f"git -C {_at(git)} config core.bare false")
    for text in git.broken:
        yield found(
            "vault-broken",
            git.worktree,
            text,
            f"git -C {_at(git)} fsck --full   # then restore the missing objects from a clone",
        )
    if git.foreign_history:
        yield found(
            git.foreign_history,
            git.worktree,
            f"HEAD is {git.head[:12]}, we vouched for {scene.trusting.anchor[:12]}",
            f"git -C {_at(git)} log --oneline   # look, then: vault-mem trust --root {shlex.quote(scene.place.root)}",
        )


def _unset(git: Git) -> str:
    key = git.unsafe[0]
    if key.startswith("attributes:"):
        return f"edit {shlex.quote(git.worktree + '/.gitattributes')}   # remove {key.removeprefix('attributes:')}"
    if key.startswith("unreadable:"):
        return f"ls -l {_at(git)}/.git/config   # and mend it"
    return "; ".join(
        f"git config --file {_at(git)}/.git/config --unset-all {shlex.quote(each)}"
        for each in git.unsafe
        if ":" not in each
    )


def _locks(git: Git) -> Iterator[Finding]:
    for lock in git.locks:
        of_index = lock.path.endswith("/index.lock")
        left = lock.left or lock.ours
        token = (
            ("index-lock-left" if left else "index-locked") if of_index else ("ref-lock-left" if left else "ref-locked")
        )
        age = f"{lock.age / 60:.0f} minutes old"
        text = f"{age}, its writer is gone" if left else f"{age}; another git may be at work"
        fix = (
            "vault-mem doctor --fix"
            if left
            else f"ls -l {shlex.quote(lock.path)}   # wait for that git; after ten minutes: vault-mem doctor --fix"
        )
        yield found(token, lock.path, text if lock.regular else f"{text}; it is no regular file", fix)


def _configuration(scene: Scene) -> Iterator[Finding]:
    git = scene.git
    if git.refusal in ("not-a-repository", "other-owner") or git.unsafe or not git.gitdir:
        return
    yield from _identity(git)
    if not git.ref and scene.trusting.mode != "adopted":
        yield from _merging(git)
    if git.hidden:
        yield found(
            "capsules-ignored",
            git.worktree,
            "; ".join(git.hidden[:SHOWN]),
            f"git -C {_at(git)} check-ignore -v capsules/x.md   # names the rule to remove",
        )
    if git.tracked_around:
        below = shlex.quote(scene.place.relative)
        yield found(
            "root-tracked",
            git.enclosing,
            f"{git.tracked_around} files below {scene.place.relative}",
            f"git -C {shlex.quote(git.enclosing)} rm -r --cached {below}",
        )
    elif not git.excluded:
        yield found("not-excluded", git.enclosing, f"{scene.place.relative} is not ignored", "vault-mem doctor --fix")
    for name in git.mirror:
        yield found(
            "mirrored",
            git.worktree,
            f"remote.{name}.mirror is true",
            f"git -C {_at(git)} config --unset remote.{shlex.quote(name)}.mirror",
        )


def _identity(git: Git) -> Iterator[Finding]:
    fix = 'git config --global user.name "Your Name" && git config --global user.email you@example.org'
    if not git.user_name or not git.user_mail:
        lacking = " and ".join(
            name for name, value in (("user.name", git.user_name), ("user.email", git.user_mail)) if not value
        )
        yield found(
            "identity-config-only" if git.config_only else "identity-missing", git.worktree, f"{lacking} not set", fix
        )
    if git.signing.wanted and git.signing.problem:
        yield found(
            "signing-unusable",
            git.worktree,
            git.signing.problem,
            "git config --global --get-regexp '^gpg|signingkey|gpgsign'   # mend the program, or unset commit.gpgSign",
        )
    elif git.signing.wanted:
        yield found("signing-off-for-saves", git.worktree, f"commit.gpgSign is true ({git.signing.program})")
    if git.hooks_path:
        yield found("hooks-path-off-for-saves", git.worktree, f"core.hooksPath is {git.hooks_path}")


def _merging(git: Git) -> Iterator[Finding]:
    if git.attributes is None or f"merge={gitconfig.OURS}" not in git.attributes:
        yield found(
            "attributes-missing",
            f"{git.worktree}/.gitattributes",
            "no line gives capsules to the merge driver",
            "vault-mem doctor --fix",
        )
    if git.driver is None:
        yield found(
            "driver-missing",
            git.worktree,
            f"merge.{gitconfig.OURS}.driver is not set: capsules have no merge driver in this clone",
            "vault-mem doctor --fix",
        )
    elif git.driver_gone:
        yield found(
            "driver-gone",
            git.worktree,
            f"merge.{gitconfig.OURS}.driver starts {git.driver_gone}, which is not there",
            "vault-mem doctor --fix",
        )


def _contents(scene: Scene) -> Iterator[Finding]:
    git, owed = scene.git, set(scene.state.pending)
    edited = [path for path in git.edited if path not in owed]
    untracked = [path for path in git.untracked if path not in owed]
    if edited:
        yield found("edited-outside", git.worktree, _list(edited), _diff(git, edited[0]))
    if untracked:
        yield found("untracked-capsule", git.worktree, _list(untracked), _add(git, untracked))
    if git.missing:
        yield found("capsule-vanished", git.worktree, _list(git.missing), _restore(git))
    if git.remote and git.ahead and git.behind:
        yield found(
            "diverged",
            git.worktree,
            f"{git.ahead} commits here, {git.behind} at {git.remote} as last fetched",
            "vault-mem sync",
        )
    elif git.remote and (git.ahead or git.behind):
        yield found(
            "unsynced",
            git.worktree,
            f"{git.ahead} commits here, {git.behind} at {git.remote} as last fetched",
            "vault-mem sync",
        )


def _list(paths: list[str] | tuple[str, ...]) -> str:
    more = f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else ""
    return ", ".join(paths[:SHOWN]) + more


def _diff(git: Git, path: str) -> str:
    if git.ref:
        return f"git -C {_at(git)} show {git.ref}:{shlex.quote(path)}   # what was committed"
    return f"git -C {_at(git)} diff -- {shlex.quote(path)}   # then: git -C {_at(git)} commit -m edited -- {shlex.quote(path)}, or: git -C {_at(git)} checkout -- {shlex.quote(path)}"


def _add(git: Git, paths: list[str]) -> str:
    if git.ref:
        return "vault-mem doctor --fix"
    names = " ".join(shlex.quote(path) for path in paths[:SHOWN])
    return f"git -C {_at(git)} add -f -- {names} && git -C {_at(git)} commit -m found -- {names}"


def _restore(git: Git) -> str:
    path = shlex.quote(git.missing[0])
    if git.ref:
        return f"git -C {_at(git)} show {git.ref}:{path}   # its text"
    return f"git -C {_at(git)} checkout HEAD -- {path}"
