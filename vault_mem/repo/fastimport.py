"""A commit on a private reference made by git itself, for repositories whose files are git's own business: sha256, reftable, shared ones.

One `git fast-import`: it writes the objects, refuses to move a reference that is not an ancestor of the new commit, and looks at neither
HEAD nor index nor work tree.
"""

from __future__ import annotations

from vault_mem.errors import GitRefusedError
from vault_mem.repo import light, objects, program, shape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from vault_mem.repo.identity import Identity
    from vault_mem.repo.shape import Committed, Repository, Request


def commit(
    repository: Repository, request: Request, *, who: Identity, environ: Mapping[str, str], first: bool = False
) -> Committed:
    """Commits the bytes of *request*; GitRefusedError with git's reason when it will not, and for a reference that is new unless *first*."""
    parent = objects.head_of(repository, environ=environ) or ""
    if not parent and not first:
        raise GitRefusedError("unborn", repository.ref)
    before = _before(repository, request, parent, environ)
    kind = {"like": parent or "0" * (64 if _is_sha256(repository) else 40)}
    blobs = {
        change.path: objects.blob_oid(change.data, **kind) for change in request.changes if change.data is not None
    }
    if not request.allow_empty and parent and before == blobs:
        return shape.Committed(parent, parent, "none", blobs)
    arguments = ["-c", "core.logAllRefUpdates=always", "fast-import", "--quiet", "--date-format=raw", "--done"]
    answer = program.run(
        arguments,
        worktree=repository.worktree,
        environ=environ,
        data=_stream(repository, request, who, parent),
    )
    if answer.code:
        raise program.refusal(answer)
    now = objects.head_of(repository, environ=environ) or ""
    if now == parent:
        raise GitRefusedError("ref-locked", repository.ref)
    return shape.Committed(now, parent, "fast-import", blobs)


def _is_sha256(repository: Repository) -> bool:
    return repository.config.get("extensions.objectformat", "sha1").lower() == "sha256"


def _before(repository: Repository, request: Request, parent: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The blobs that the paths of *request* have in *parent*."""
    found: dict[str, str] = {}
    if parent:
        with objects.Objects(repository, environ=environ) as store:
            tree = store.commit(parent).tree
            for change in request.changes:
                light.checked_path(change.path)
                entry = store.entry(tree, change.path)
                if entry is not None:
                    found[change.path] = entry[1]
    return found


def _stream(repository: Repository, request: Request, who: Identity, parent: str) -> bytes:
    at = max(int(request.at), 0)
    message = light.encoded(light.message(request))
    parts = [
        light.encoded(
            f"commit {repository.ref}\nauthor {who.author} {at} +0000\ncommitter {who.committer} {at} +0000\n"
        ),
        b"data %d\n" % len(message),
        message,
        f"from {parent}\n".encode() if parent else b"",
    ]
    for change in request.changes:
        path = _quoted(light.checked_path(change.path))
        if change.data is None:
            parts.append(b"D " + path + b"\n")
        else:
            parts += (b"M 100644 inline " + path + b"\n", b"data %d\n" % len(change.data), change.data, b"\n")
    return b"".join((*parts, b"done\n"))


def _quoted(path: bytes) -> bytes:
    """A path as a C string, in which every byte can stand."""
    return (
        b'"'
        + b"".join(bytes((byte,)) if 32 <= byte < 127 and byte not in b'"\\' else b"\\%03o" % byte for byte in path)
        + b'"'
    )
