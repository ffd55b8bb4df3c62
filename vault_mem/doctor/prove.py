"""`--prove`: a save, a resume and an undo for real, in the vault's own repository and under the person's own git configuration.

Everything lands on a scratch reference of our own, which is removed again; branch, HEAD, index, work tree and configuration are compared before
and after. What remains are unreferenced objects, which git's own upkeep removes. The situations that stop a person's own commits are looked for
and explained beside the proof that they do not stop a save.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import tempfile
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vault_mem import files, stamps, version
from vault_mem.capsule import codec, header, lineage, model, selector
from vault_mem.doctor.catalogue import found
from vault_mem.doctor.lookgit import ABANDONED_AFTER
from vault_mem.errors import GitRefusedError, VaultMemError
from vault_mem.repo import commit as engine
from vault_mem.repo import program, shape

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vault_mem.doctor.scene import Scene
    from vault_mem.report import Finding

SPACE = "refs/vault-mem-proof"
SIGN_LIMIT = 5.0
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
TEXT = "Doctor's proof: a capsule that was written, handed over and taken back"


@dataclass(frozen=True, slots=True)
class Proof:
    """What landed: seconds of each step, the commits, the back end; *problem* names the step that failed and why."""

    seconds: Mapping[str, float]
    saved: str = ""
    consumed: str = ""
    backend: str = ""
    identity: str = ""
    failed: str = ""
    problem: str = ""
    touched: tuple[str, ...] = ()


def prove(scene: Scene, *, environ: Mapping[str, str], now: float) -> tuple[Finding, ...]:
    """Findings of the proof: that it worked and how long it took, or which step failed; and what would have stopped a commit of the person."""
    place, git = scene.place, scene.git
    reason = ""
    if place.token:
        reason = place.error
    elif git.unsafe:
        reason = f"unsafe-git-config: {', '.join(git.unsafe)}"
    elif scene.trusting.state != "trusted":
        reason = "untrusted: nothing is written in a seat that this user does not trust"
    elif not git.gitdir:
        reason = git.detail or "there is no repository"
    if reason:
        return (
            found(
                "proof-save",
                place.memory or place.root or place.cwd,
                reason,
                "vault-mem doctor   # mend what it names first",
            ),
        )
    proof = landed(scene, environ=environ, now=now)
    return (*_told(scene, proof), *despite(scene, proof, environ=environ))


def landed(scene: Scene, *, environ: Mapping[str, str], now: float) -> Proof:
    """Does it. The scratch reference is gone afterwards, whatever happened."""
    git = scene.git
    ref = f"{SPACE}/{os.getpid()}-{time.perf_counter_ns()}"
    before = _fingerprint(git.worktree, git.gitdir, environ)
    seconds: dict[str, float] = {}
    step, saved, consumed, backend, who, problem = "save", "", "", "", "", ""
    with tempfile.TemporaryDirectory(prefix="vault-mem-proof-") as state:
        try:
            start = git.head or _first(git.worktree, environ)
            program.checked(["update-ref", "--create-reflog", ref, start, ""], worktree=git.worktree, environ=environ)
            capsule = f"{stamps.day(now)}-proof-{os.getpid()}"
            document = _document(capsule, now)
            clock = time.perf_counter()
            made = _commit(
                git.worktree, ref, capsule, document, lineage.AUTOSAVE, state=state, environ=environ, now=now
            )
            seconds["save"] = time.perf_counter() - clock
            saved, backend = made.oid, made.backend
            step, clock = "resume", time.perf_counter()
            chosen = _chosen(git.worktree, ref, capsule, environ, now)
            resumed = header.edit(chosen, "status", model.RESUMED)
            consumed = _commit(
                git.worktree, ref, capsule, resumed, lineage.CONSUME, state=state, environ=environ, now=now
            ).oid
            who = _recorded(git.worktree, ref, capsule, environ)
            seconds["resume"] = time.perf_counter() - clock
            step = ""
        except (VaultMemError, OSError, ValueError) as error:
            problem = str(error)
        clock = time.perf_counter()
        gone = _undone(git.worktree, git.gitdir, ref, environ)
        seconds["undo"] = time.perf_counter() - clock
    if gone and not step:
        step, problem = "undo", gone
    after = _fingerprint(git.worktree, git.gitdir, environ)
    touched = tuple(name for name, value in before.items() if after.get(name) != value)
    return Proof(seconds, saved, consumed, backend, who, step, problem, touched)


def _first(worktree: str, environ: Mapping[str, str]) -> str:
    """A commit of nothing to start from where the branch has none; with an identity of its own, as nothing else is known to be there."""
    name = {
        f"GIT_{role}_{part}": value
        for role in ("AUTHOR", "COMMITTER")
        for part, value in (("NAME", "vault-mem"), ("EMAIL", "vault-mem@localhost"))
    }
    program.checked(["hash-object", "-w", "-t", "tree", "--stdin"], worktree=worktree, environ=environ)
    answer = program.run(["commit-tree", EMPTY_TREE, "-m", "proof"], worktree=worktree, environ=environ, extra=name)
    if answer.code:
        raise program.refusal(answer)
    return answer.out.decode("ascii", "replace").strip()


def _document(capsule: str, now: float) -> str:
    fields: dict[str, model.Value] = {
        "id": capsule,
        "status": model.ACTIVE,
        "objective": TEXT,
        "waiting_on": "nothing",
        "next_valid_action": "none: this reference is removed again",
        "created_at": stamps.utc(now),
    }
    return codec.render(codec.Capsule({**fields, **dict(model.FRAMING)}, codec.blank_body()))


def _commit(
    worktree: str,
    ref: str,
    capsule: str,
    document: str,
    event: str,
    *,
    state: str,
    environ: Mapping[str, str],
    now: float,
) -> engine.Committed:
    """One commit the way every save makes it."""
    is_consume = event == lineage.CONSUME
    row = lineage.Event(
        id=capsule,
        event=event,
        status=model.RESUMED if is_consume else model.ACTIVE,
        session="proof",
        consumer="proof-reader" if is_consume else "",
        at=now,
    )
    request = engine.Request(
        (engine.Change(f"capsules/{capsule}.md", document.encode()),),
        lineage.subject(row),
        lineage.trailers(row, version=version.__version__),
        now,
    )
    return engine.commit(worktree, request, environ=environ, state=state, ref=ref)


def _chosen(worktree: str, ref: str, capsule: str, environ: Mapping[str, str], now: float) -> str:
    """The text as git has it, after the selector chose it from its header."""
    shown = program.checked(["cat-file", "blob", f"{ref}:capsules/{capsule}.md"], worktree=worktree, environ=environ)
    document = shown.decode("utf-8")
    candidate = selector.Candidate(capsule, f"capsules/{capsule}.md", header.read(document))
    selection = selector.select([candidate], now=now, facts=selector.Facts({}, started=now))
    if selection.chosen is None or selector.text_of(header.read(document), "objective") != TEXT:
        raise ValueError("the selector did not choose the capsule that was saved")
    return document


def _recorded(worktree: str, ref: str, capsule: str, environ: Mapping[str, str]) -> str:
    """The committer that plain `git log` shows for the delivery, found by its trailers alone."""
    wanted = "--format=%cn <%ce>%x1f%(trailers:key=Capsule-Id,valueonly,separator=%x2c)%x1f%(trailers:key=Capsule-Consumer,valueonly,separator=%x2c)"
    out = program.checked(["log", "-1", wanted, ref], worktree=worktree, environ=environ).decode("utf-8", "replace")
    who, _, rest = out.strip().partition("\x1f")
    if rest != f"{capsule}\x1fproof-reader":
        raise ValueError("git log does not show the delivery")
    return who


def _undone(worktree: str, gitdir: str, ref: str, environ: Mapping[str, str]) -> str:
    """Removes the scratch reference with its reflog; why not, "" when it is gone."""
    try:
        answer = program.run(["update-ref", "-d", ref], worktree=worktree, environ=environ)
        left = program.run(["rev-parse", "-q", "--verify", ref], worktree=worktree, environ=environ)
        common = shape.places(worktree)[1]
    except GitRefusedError as error:
        return str(error)
    for base in (f"{common}/logs/{SPACE}", f"{common}/{SPACE}"):
        try:
            os.rmdir(base)
        except OSError:
            # Another proof is running, or there was no such folder.
            continue
    del gitdir
    return "" if left.code else answer.err.decode("utf-8", "replace").strip() or f"{ref} is still there"


def _fingerprint(worktree: str, gitdir: str, environ: Mapping[str, str]) -> dict[str, str]:
    """What the proof must not change, by name."""
    seen = {}
    for name in ("HEAD", "index", "config", "packed-refs"):
        try:
            seen[name] = hashlib.sha256(files.read_followed(f"{gitdir}/{name}")).hexdigest()
        except OSError:
            seen[name] = ""
    for name, arguments in (
        ("references", ["for-each-ref"]),
        ("work tree", ["--no-optional-locks", "status", "--porcelain", "-z"]),
    ):
        answer = program.run(arguments, worktree=worktree, environ=environ)
        lines = [line for line in answer.out.splitlines() if SPACE.encode() not in line]
        seen[name] = hashlib.sha256(b"\n".join(lines)).hexdigest()
    return seen


# --- what is said --------------------------------------------------------------------------------------------------------------


def _told(scene: Scene, proof: Proof) -> Iterator[Finding]:
    where = scene.git.worktree
    if proof.failed:
        yield found(
            f"proof-{proof.failed}", where, proof.problem, "vault-mem doctor   # mend what it names, then prove again"
        )
    if proof.touched:
        yield found(
            "proof-touched",
            where,
            f"changed: {', '.join(proof.touched)} (by us or by somebody at the same moment)",
            "vault-mem doctor --prove   # again, with nothing else at work",
        )
    if not proof.failed:
        times = ", ".join(f"{name} {seconds * 1000:.0f} ms" for name, seconds in proof.seconds.items())
        yield found("proved", where, f"{times}; back end {proof.backend}, by {proof.identity}")


def despite(scene: Scene, proof: Proof, *, environ: Mapping[str, str]) -> Iterator[Finding]:
    """What would stop a commit of the person, and what it means for a save."""
    git, where = scene.git, scene.git.worktree
    landed_so = "the save landed all the same" if not proof.failed else "the save did not land"
    if git.signing.wanted:
        problem = git.signing.problem or _signature(git.worktree, git.head, environ)
        if problem:
            yield found(
                "proved-despite",
                where,
                f"unusable signing ({problem}): your own commits fail; {landed_so}, unsigned",
                "git config --global --get-regexp '^gpg|signingkey|gpgsign'   # mend the program or the key",
            )
    for hook in _hooks(git.hooks_path, git.gitdir):
        yield found(
            "proved-despite", where, f"git hook {hook}: your own commits run it; {landed_so} without running it", ""
        )
    if git.config_only and not (git.user_name and git.user_mail):
        yield found(
            "proved-despite",
            where,
            f"no identity with user.useConfigOnly: your own commits fail; {landed_so} by {proof.identity}",
            'git config --global user.name "Your Name" && git config --global user.email you@example.org',
        )
    for lock in git.locks:
        if not lock.path.endswith("/index.lock"):
            continue
        left = lock.left or lock.ours
        then = (
            "the next save removes it by itself"
            if left
            else f"saves in the vault wait for it until it is {ABANDONED_AFTER / 60:.0f} minutes old and no git is at work"
        )
        yield found(
            "proved-despite",
            lock.path,
            f"index.lock, {lock.age / 60:.0f} minutes old: your own commits fail; {landed_so} on its own reference, {then}",
            "vault-mem doctor --fix" if left else f"ls -l {shlex.quote(lock.path)}",
        )
    if git.refusal == "detached-head":
        yield found(
            "proved-despite",
            where,
            f"detached HEAD: {landed_so} on its own reference; saves in the vault are written and wait for a branch, nothing is lost",
            f"git -C {shlex.quote(where)} switch -c recovered",
        )
    if git.ahead and git.behind:
        yield found(
            "proved-despite",
            where,
            f"diverged from {git.remote}, {git.ahead} here and {git.behind} there: pushing fails; {landed_so}, saves never wait for a remote",
            "vault-mem sync",
        )


def _signature(worktree: str, head: str, environ: Mapping[str, str]) -> str:
    """Why git cannot sign here, "" when it can: one real try, without a terminal, bounded, on an object nobody refers to."""
    if not head:
        return ""
    own = {
        name: value
        for name, value in program.scrubbed(environ, worktree=worktree).items()
        if name not in ("GPG_TTY", "DISPLAY", "WAYLAND_DISPLAY")
    }
    start = [program.found(environ), "-C", worktree, "commit-tree", "-S", f"{head}^{{tree}}", "-m", "proof of signing"]
    try:
        answer = program.Child(start, own).finish(b"", limit=SIGN_LIMIT)
    except GitRefusedError as error:
        return f"no signature within {SIGN_LIMIT:g} seconds" if error.reason == "timeout" else error.reason
    if not answer.code:
        return ""
    lines = answer.err.decode("utf-8", "replace").strip().splitlines()
    return lines[0][:200] if lines else f"exit code {answer.code}"


def _hooks(hooks_path: str, gitdir: str) -> Iterator[str]:
    """Git hooks that a commit of the person would run."""
    folder = os.path.expanduser(hooks_path) if hooks_path else f"{gitdir}/hooks"
    for name in ("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "reference-transaction"):
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            yield path
