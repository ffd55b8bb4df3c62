"""The commit engine: one call makes one commit of exactly the files named, whatever kind of repository it is.

HEAD, index and work tree agree about those files afterwards; everything else in the index, staged or not, stays as it is. Every refusal
leaves HEAD, branches, index and the state files of a merge or rebase untouched. Dates are written in UTC.
"""

from __future__ import annotations

import os
import time

from vault_mem import files, processes
from vault_mem.errors import GitRefusedError
from vault_mem.repo import identity, light, shape
from vault_mem.repo.shape import Change, Committed, Request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_ATTEMPTS = 8

__all__ = ["Change", "Committed", "Request", "commit", "recover"]


def commit(
    worktree: str, request: Request, *, environ: Mapping[str, str], state: str, durable: bool = True, ref: str = ""
) -> Committed:
    """Commits *request* on the branch HEAD names; GitRefusedError with the reason when that cannot be now.

    The caller holds the vault lock and has written the files. *state* is the vault's `runtime/`. With *ref* the commit goes on that private
    reference of the repository, its paths start at the top of that reference's own tree, and HEAD, index and work tree are not looked at.
    """
    notes = recover(worktree, state=state, ref=ref)
    deadline = time.monotonic() + light.PATIENCE
    known: list[identity.Identity] = []

    def who() -> identity.Identity:
        if not known:
            known.append(identity.person(repository, environ=environ, state=state))
        return known[0]

    for _ in range(_ATTEMPTS):
        repository = _ready(worktree, environ, ref)
        notes += _index_is_free(repository) + _refs_are_free(repository)
        if repository.why:
            break
        try:
            made = light.commit(
                repository, request, who=who, environ=environ, state=state, durable=durable, deadline=deadline
            )
        except light.NotLightError:
            break
        if made is not None:
            return made._replace(notes=notes) if notes else made
    else:
        raise GitRefusedError("ref-locked", "the branch moves faster than we write")
    if repository.private:
        from vault_mem.repo import fastimport

        return fastimport.commit(repository, request, who=who(), environ=environ)._replace(notes=notes)
    from vault_mem.repo import porcelain

    return porcelain.commit(repository, request, who=who(), environ=environ)._replace(notes=notes)


def _ready(worktree: str, environ: Mapping[str, str], ref: str) -> shape.Repository:
    """The repository, in a state to take a commit."""
    repository = shape.opened(worktree, environ=environ, ref=ref)
    reason = shape.refusal(repository)
    if reason:
        raise GitRefusedError(reason, repository.gitdir)
    _sweep(repository)
    return repository


def recover(worktree: str, *, state: str, ref: str = "") -> tuple[str, ...]:
    """Finishes or undoes what a killed writer left half done, and says in tokens what it did; the caller holds the vault lock."""
    try:
        os.stat(os.path.join(state, light.RECORD))
    except OSError:
        return ()
    from vault_mem.repo import recovery

    return recovery.recover(worktree, state=state, ref=ref)


def _index_is_free(repository: shape.Repository) -> tuple[str, ...]:
    """Waits a little for another git to let go of the index; an abandoned lock is removed, which the result says."""
    if repository.private or "index.lock" not in repository.names:
        return ()
    lock = f"{repository.gitdir}/index.lock"
    deadline, wait = time.monotonic() + light.PATIENCE, 0.01
    while os.path.lexists(lock):
        if time.monotonic() + wait > deadline:
            from vault_mem.repo import recovery

            if not recovery.abandoned(repository, lock):
                raise GitRefusedError("index-locked", lock)
            return ("stale-index-lock-removed",)
        time.sleep(wait)
        wait = min(wait * 2, 0.1)
    return ()


def _refs_are_free(repository: shape.Repository) -> tuple[str, ...]:
    """Removes abandoned locks of HEAD and of the branch; for one that may be in use every back end waits by itself."""
    locks = [f"{repository.gitdir}/HEAD.lock"] if "HEAD.lock" in repository.names and not repository.private else []
    locks.append(f"{repository.ref_path}.lock")
    notes: tuple[str, ...] = ()
    for lock in locks:
        if os.path.lexists(lock):
            from vault_mem.repo import recovery

            if recovery.abandoned(repository, lock):
                notes = ("stale-ref-lock-removed",)
    return notes


def _sweep(repository: shape.Repository) -> None:
    """Removes what a writer killed before it wrote its record has left."""
    for name in repository.names:
        if name.startswith(light.MARK) and name.endswith(".tmp"):
            pid = name[len(light.MARK) :].partition("-")[0].partition(".")[0]
            if not pid.isdigit() or processes.start_time(int(pid)) is None:
                files.remove(f"{repository.gitdir}/{name}")
