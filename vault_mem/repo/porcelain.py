"""A commit made by git itself, for repositories whose files are git's own business: sha256, reftable, split index, aliased branches."""

from __future__ import annotations

import os

from vault_mem import files
from vault_mem.errors import GitRefusedError
from vault_mem.repo import light, objects, program, shape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from vault_mem.repo.identity import Identity
    from vault_mem.repo.shape import Committed, Repository, Request

_UNCHANGED = ("nothing to commit", "nothing added to commit", "no changes added to commit")
_UNKNOWN = "did not match any file(s) known to git"
_MESSAGE_LIMIT = 1 << 20


def commit(repository: Repository, request: Request, *, who: Identity, environ: Mapping[str, str]) -> Committed:
    """Commits the files as they lie in the work tree; GitRefusedError with git's reason when it will not."""
    paths = [light.checked_path(change.path) for change in request.changes]
    parent = _parent(repository, environ)
    blobs = {
        change.path: objects.blob_oid(change.data, like=parent) for change in request.changes if change.data is not None
    }
    typed = _message_being_typed(repository)
    added: list[bytes] = []
    try:
        answer = _asked(repository, request, paths, who=who, environ=environ)
        if _UNKNOWN in _said(answer):
            # Git commits by name only what its index knows.
            known = _known(repository, paths, environ)
            added = [
                path
                for path, change in zip(paths, request.changes, strict=True)
                if path not in known and change.data is not None
            ]
            _update_index(repository, "--add", added, environ)
            paths = [path for path in paths if path in known or path in added]
            answer = (
                _asked(repository, request, paths, who=who, environ=environ) if paths else program.Finished(0, b"", b"")
            )
    finally:
        _put_back(repository, typed)
    if answer.code and not (answer.code == 1 and any(sign in _said(answer) for sign in _UNCHANGED)):
        if added:
            _update_index(repository, "--force-remove", added, environ)
        raise program.refusal(answer)
    now = objects.head_of(repository, environ=environ) or parent
    return shape.Committed(now, parent, "program" if now != parent else "none", blobs)


def _parent(repository: Repository, environ: Mapping[str, str]) -> str:
    if repository.why in ("reftable", "linked-head"):
        answer = program.run(["symbolic-ref", "-q", "HEAD"], worktree=repository.worktree, environ=environ)
        if answer.code:
            raise GitRefusedError("detached-head") if answer.code == 1 else program.refusal(answer)
    parent = objects.head_of(repository, environ=environ)
    if parent is None:
        raise GitRefusedError("unborn", repository.gitdir)
    return parent


def _asked(
    repository: Repository, request: Request, paths: list[bytes], *, who: Identity, environ: Mapping[str, str]
) -> program.Finished:
    arguments: list[str | bytes] = ["--literal-pathspecs", "-c", "i18n.commitEncoding=UTF-8", "commit", "--only"]
    arguments += ["--no-verify", "--no-gpg-sign", "--no-status", "--allow-empty-message", "--cleanup=verbatim"]
    arguments += ["--allow-empty"] if request.allow_empty else []
    arguments += ["-m", light.encoded(light.message(request).rstrip("\n"))]
    arguments += ["--pathspec-from-file=-", "--pathspec-file-nul"]
    return program.run(
        arguments,
        worktree=repository.worktree,
        environ=environ,
        data=b"\0".join(paths),
        extra=_names_and_dates(request, who),
    )


def _names_and_dates(request: Request, who: Identity) -> dict[str, str]:
    found: dict[str, str] = {}
    for role, text in (("AUTHOR", who.author), ("COMMITTER", who.committer)):
        name, _, mail = text.rpartition(" <")
        found |= {
            f"GIT_{role}_NAME": name,
            f"GIT_{role}_EMAIL": mail[:-1],
            f"GIT_{role}_DATE": f"@{max(int(request.at), 0)} +0000",
        }
    return found


def _said(answer: program.Finished) -> str:
    return (answer.out + answer.err).decode("utf-8", "replace") if answer.code else ""


def _known(repository: Repository, paths: list[bytes], environ: Mapping[str, str]) -> set[bytes]:
    arguments: list[str | bytes] = ["--literal-pathspecs", "ls-files", "-z", "--", *paths]
    return set(program.checked(arguments, worktree=repository.worktree, environ=environ).split(b"\0"))


def _update_index(repository: Repository, option: str, paths: list[bytes], environ: Mapping[str, str]) -> None:
    data = b"\0".join(paths)
    program.checked(["update-index", option, "-z", "--stdin"], worktree=repository.worktree, environ=environ, data=data)


def _message_being_typed(repository: Repository) -> bytes | None:
    """What an editor opened by a person's own `git commit` works on; ours would overwrite it."""
    try:
        return files.read(f"{repository.gitdir}/COMMIT_EDITMSG", limit=_MESSAGE_LIMIT)
    except OSError:
        return None


def _put_back(repository: Repository, typed: bytes | None) -> None:
    path = f"{repository.gitdir}/COMMIT_EDITMSG"
    try:
        if typed is None:
            os.unlink(path)
        elif files.read(path, limit=_MESSAGE_LIMIT) != typed:
            # In place: an editor may hold the file open.
            handle = os.open(path, os.O_WRONLY | os.O_TRUNC | files.NOT_FOLLOWED)
            try:
                files.write_handle(handle, typed)
            finally:
                os.close(handle)
    except OSError:
        pass
