"""Looks at the repository of the vault: its shape, its locks, its configuration, and what differs from the last commit."""

from __future__ import annotations

import os
import shlex
import stat
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from vault_mem import files, gitconfig, jsontext, processes, trust
from vault_mem.doctor.scene import Git, Lock, Signing
from vault_mem.errors import GitRefusedError
from vault_mem.repo import create, light, objects, program, recovery, shape
from vault_mem.vault import store as seats
from vault_mem.vault import tree

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vault_mem.doctor.scene import Place, Trusting

LIMIT = 5.0
ABANDONED_AFTER = recovery.ABANDONED_AFTER
PROBE = "capsules/2000-01-01-probe.md"
SIGNERS = {
    "openpgp": ("gpg.openpgp.program", "gpg"),
    "ssh": ("gpg.ssh.program", "ssh-keygen"),
    "x509": ("gpg.x509.program", "gpgsm"),
}


def look(*, place: Place, trusting: Trusting, environ: Mapping[str, str], now: float) -> Git:
    """The repository as it is. Git is asked nothing before its configuration was read and found harmless."""
    git = _found(environ)
    embedded = trusting.mode == seats.EMBEDDED
    enclosing = create.around(os.path.dirname(place.memory))
    worktree = enclosing if embedded and enclosing else place.memory
    git = replace(git, worktree=worktree, ref=trusting.ref, enclosing=enclosing)
    unsafe, ignored = trust.program_keys(worktree, seat=place.root)
    if embedded:
        unsafe = tuple(
            key
            for key in unsafe
            if key.startswith(("unreadable:", "extensions.")) and key.lower() != "extensions.partialclone"
        )
        ignored = ()
    git = replace(git, unsafe=unsafe, ignored=ignored, attributes=_text(f"{worktree}/.gitattributes"))
    try:
        repository = shape.opened(worktree, environ=environ, ref=trusting.ref)
    except GitRefusedError as error:
        return replace(git, refusal=error.reason, detail=str(error))
    git = replace(git, gitdir=repository.gitdir, why=repository.why)
    try:
        git = replace(git, refusal=shape.refusal(repository), locks=_locks(repository, place, now=now))
    except (GitRefusedError, OSError) as error:
        git = replace(git, refusal="broken", detail=str(error))
    if git.unsafe or not git.program:
        return git
    return _asked(git, repository, place=place, trusting=trusting, environ=environ)


def _found(environ: Mapping[str, str]) -> Git:
    try:
        path = program.found(environ)
        answer = program.run(["version"], worktree="/", environ=environ, limit=LIMIT)
    except GitRefusedError:
        return Git()
    words = answer.out.decode("ascii", "replace").split()
    numbers = words[2].split(".") if len(words) > 2 else []
    return Git(program=path, version=tuple(int(part) for part in numbers[:3] if part.isdigit()))


def _text(path: str) -> str | None:
    try:
        return files.read_followed(path, limit=1 << 20).decode("utf-8", "replace")
    except OSError:
        return None


# --- locks ---------------------------------------------------------------------------------------------------------------------


def _locks(repository: shape.Repository, place: Place, *, now: float) -> tuple[Lock, ...]:
    names = [
        f"{repository.gitdir}/HEAD.lock",
        f"{repository.common}/packed-refs.lock",
        f"{repository.common}/config.lock",
    ]
    if not repository.private:
        names.insert(0, f"{repository.gitdir}/index.lock")
    if repository.ref:
        names.append(f"{repository.ref_path}.lock")
    runtime = f"{place.memory}/runtime"
    if repository.private:
        runtime = create.embedded_runtime(repository.worktree, repository.ref)
    ours = _own_inodes(runtime)
    present = []
    for name in dict.fromkeys(names):
        try:
            present.append((name, os.lstat(name)))
        except OSError:
            continue
    busy = bool(present) and recovery.git_is_at_work(repository)
    return tuple(
        Lock(
            name,
            now - status.st_mtime,
            stat.S_ISREG(status.st_mode) and not busy and now - status.st_mtime >= ABANDONED_AFTER,
            status.st_ino in ours,
            stat.S_ISREG(status.st_mode),
        )
        for name, status in present
    )


def _own_inodes(runtime: str) -> frozenset[int]:
    """The lock files that a writer of ours made and did not live to remove."""
    try:
        record: Any = jsontext.loads(files.read(f"{runtime}/{light.RECORD}", limit=1 << 16).decode("utf-8", "replace"))
        if processes.alive(int(record["pid"]), str(record["start"])):
            return frozenset()
        return frozenset((int(record["index"]["inode"]), int(record["branch"]["inode"])))
    except (OSError, ValueError, KeyError, TypeError):
        return frozenset()


# --- what git answers ----------------------------------------------------------------------------------------------------------


class Asker:
    """Questions to git in one work tree, each with a limit; None when it did not answer in time."""

    def __init__(self, worktree: str, environ: Mapping[str, str]) -> None:
        self.worktree, self.environ = worktree, environ
        self.late: list[str] = []

    def __call__(self, *arguments: str, at: str = "") -> program.Finished | None:
        """How git answered in the work tree, or in *at*."""
        try:
            return program.run(
                ["--no-optional-locks", *arguments],
                worktree=at or self.worktree,
                environ=self.environ,
                # A partial clone must not go to the network for what is missing.
                extra={"GIT_NO_LAZY_FETCH": "1"},
                limit=LIMIT,
            )
        except GitRefusedError as error:
            self.late.append(f"git {arguments[0]}: {error.reason}")
            return None

    def lines(self, *arguments: str, at: str = "") -> list[str]:
        """The lines of an answer; none when git said no."""
        answer = self(*arguments, at=at)
        return [] if answer is None or answer.code else answer.out.decode("utf-8", "replace").splitlines()


def _asked(
    git: Git, repository: shape.Repository, *, place: Place, trusting: Trusting, environ: Mapping[str, str]
) -> Git:
    ask = Asker(git.worktree, environ)
    rev = trusting.ref or "HEAD"
    answer = ask("rev-parse", "-q", "--verify", f"{rev}^{{commit}}")
    if answer is None:
        return replace(git, broken=("git did not answer in time",))
    if answer.code:
        if program.refusal(answer).reason == "other-owner":
            return replace(git, refusal="other-owner", owner=_line(answer.err))
        if git.refusal in ("", "broken", "unborn") and repository.why != "bare":
            # A branch that names a commit git cannot find is no branch without commits.
            named = git.refusal != "unborn" or _names_a_commit(repository)
            git = replace(git, broken=(_line(answer.err) or f"{rev} is no commit",)) if named else git
        return _configured(git, ask)
    git = _configured(replace(git, head=answer.out.decode("ascii", "replace").strip()), ask)
    connected = ask("rev-list", "--objects", "--quiet", rev)
    if connected is not None and connected.code:
        return replace(git, broken=(_line(connected.err) or "objects are missing",))
    git = _compared(git, ask, rev, memory=place.memory)
    git = _history(git, ask, rev, trusting)
    return replace(_around(git, ask, place), late=tuple(ask.late))


def _names_a_commit(repository: shape.Repository) -> bool:
    try:
        return bool(shape.tip(repository)) or os.path.lexists(repository.ref_path)
    except (shape.SymbolicRefError, OSError):
        return False


def _line(data: bytes) -> str:
    text = data.decode("utf-8", "replace").strip().partition("\n")[0]
    return text.removeprefix("fatal: ").removeprefix("error: ")[:300]


def _configured(git: Git, ask: Asker) -> Git:
    listed = ask("config", "--list", "--show-origin", "-z")
    if listed is None or listed.code:
        return git
    fields = listed.out.decode("utf-8", "surrogateescape").split("\0")
    last: dict[str, str] = {}
    for origin, setting in zip(fields[::2], fields[1::2], strict=False):
        key, has_value, value = setting.partition("\n")
        if not origin.startswith("command line"):
            last[key] = value if has_value else "true"
    mirrors = [
        key[7:-7]
        for key, value in last.items()
        if key.startswith("remote.") and key.endswith(".mirror") and shape.truth(value)
    ]
    driver = last.get(f"merge.{gitconfig.OURS}.driver")
    try:
        words = shlex.split((driver or "").replace("%%", "%"))
    except ValueError:
        words = []
    hidden = [] if git.ref else ask.lines("check-ignore", "-v", "--no-index", "--", PROBE, ".gitattributes")
    return replace(
        git,
        driver=driver,
        driver_gone=words[0] if words and not which(words[0], environ=ask.environ) else "",
        user_name=last.get("user.name", ""),
        user_mail=last.get("user.email", ""),
        config_only=shape.truth(last.get("user.useconfigonly", "false")),
        signing=_signing(last, ask.environ),
        hooks_path=last.get("core.hookspath", ""),
        mirror=tuple(mirrors) if git.ref else (),
        hidden=tuple(hidden),
    )


def _signing(config: Mapping[str, str], environ: Mapping[str, str]) -> Signing:
    """What would sign; the program is looked for and not started, because it may ask for a passphrase nobody expects."""
    if not shape.truth(config.get("commit.gpgsign", "false")):
        return Signing()
    key, default = SIGNERS.get(config.get("gpg.format", "openpgp"), SIGNERS["openpgp"])
    named = config.get(key, "") or (config.get("gpg.program", "") if key == "gpg.openpgp.program" else "") or default
    path = which(os.path.expanduser(named), environ=environ)
    return Signing(True, named, "" if path else f"{named} is not there or not executable")


def which(name: str, *, environ: Mapping[str, str]) -> str:
    """The absolute path of a program as a shell would find it; "" when there is none."""
    folders = [""] if "/" in name else environ.get("PATH", os.defpath).split(os.pathsep)
    for folder in folders:
        path = os.path.join(folder, name) if folder else name
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return ""


def _compared(git: Git, ask: Asker, rev: str, *, memory: str) -> Git:
    """Capsules on disk against the blobs of the newest commit, byte for byte, then with line ends folded."""
    answer = ask("ls-tree", "-r", "-z", "--full-tree", rev, "--", "capsules")
    if answer is None or answer.code:
        return git
    committed = {}
    for row in os.fsdecode(answer.out).split("\0"):
        words, _, path = row.partition("\t")
        if path.lower().endswith(".md"):
            committed[path] = words.split(" ")[2]
    edited, untracked, seen = [], [], set()
    for candidate in tree.entries(memory)[0]:
        seen.add(candidate.path)
        if candidate.path not in committed:
            untracked.append(candidate.path)
            continue
        try:
            data = files.read(f"{memory}/{candidate.path}", limit=tree.DOCUMENT_LIMIT)
        except OSError:
            continue
        blob = committed[candidate.path]
        if (
            objects.blob_oid(data) != blob
            and objects.blob_oid(data.replace(b"\r\n", b"\n")) != blob
            and len(blob) == 40
        ):
            edited.append(candidate.path)
    gone = [path for path in committed if path not in seen and not os.path.lexists(f"{memory}/{path}")]
    return replace(git, edited=tuple(edited), untracked=tuple(untracked), missing=tuple(gone))


def _history(git: Git, ask: Asker, rev: str, trusting: Trusting) -> Git:
    """Whether this is the history that was trusted, and how it stands to its remote as last fetched; the network is not touched."""
    if trusting.state == "trusted" and trusting.anchor:
        is_below = ask("merge-base", "--is-ancestor", trusting.anchor, rev)
        if is_below is not None and is_below.code:
            git = replace(git, foreign_history="history-rewritten")
        roots = ask.lines("rev-list", "--max-parents=0", rev)
        if trusting.roots and roots and not set(roots) & set(trusting.roots):
            git = replace(git, foreign_history="other-vault")
    if git.ref:
        return git
    upstream = ask.lines("rev-parse", "-q", "--abbrev-ref", "@{upstream}")
    if upstream:
        counts = ask.lines("rev-list", "--left-right", "--count", f"{upstream[0]}...HEAD")
        behind, _, ahead = counts[0].partition("\t") if counts else ("0", "", "0")
        git = replace(git, remote=upstream[0], ahead=int(ahead or 0), behind=int(behind or 0))
    return git


def _around(git: Git, ask: Asker, place: Place) -> Git:
    """Whether the project's own git would pick the memory up."""
    if not git.enclosing:
        return git
    below = os.path.relpath(os.path.realpath(place.memory), os.path.realpath(git.enclosing))
    ignored = ask("check-ignore", "-q", "--", f"{below}/", at=git.enclosing)
    listed = ask("--literal-pathspecs", "ls-files", "-z", "--", below, at=git.enclosing)
    tracked = listed.out.count(b"\0") if listed is not None and not listed.code else 0
    return replace(git, excluded=ignored is None or ignored.code != 1, tracked_around=tracked)
