"""Who makes the commits: the person as git knows them, without asking git on an ordinary turn.

Git is asked once; its answer is kept with size, time and inode of every configuration file it came from, and of those that are absent.
"""

from __future__ import annotations

import os

from vault_mem import files, jsontext
from vault_mem.errors import GitRefusedError
from vault_mem.record import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from vault_mem.repo.shape import Repository

NAME, MAIL = "vault-mem", "vault-mem@localhost"
CACHE = "identity.json"
_LIMIT = 1 << 18
# What git strips from both ends of a name or address (`ident.c`, crud).
_CRUD = "".join(map(chr, range(33))) + ".,:;<>\"\\'"


class Identity(NamedTuple):
    """`Name <address>` of author and committer."""

    author: str
    committer: str


FALLBACK = Identity(f"{NAME} <{MAIL}>", f"{NAME} <{MAIL}>")


def person(repository: Repository, *, environ: Mapping[str, str], state: str) -> Identity:
    """The identity for a commit in this repository; `vault-mem <vault-mem@localhost>` for what is not configured. Nothing is configured by us."""
    path = os.path.join(state, CACHE)
    question = _question(repository, environ)
    kept = _kept(path, question)
    if kept is not None:
        return kept
    try:
        entries = _asked(repository, environ)
    except GitRefusedError:
        return FALLBACK
    answer = _chosen(entries)
    watched = {*_standard(repository, environ), *(file for file, _, _ in entries if file), *_included(entries, environ)}
    record = {
        "question": question,
        "author": answer.author,
        "committer": answer.committer,
        "files": [_seen(file) for file in sorted(watched)],
    }
    try:
        files.make_dirs(state)
        files.write_atomic(path, jsontext.dumps(record).encode("utf-8", "surrogateescape"), durable=False)
    except (OSError, UnicodeError):
        pass
    return answer


def cleaned(text: str) -> str:
    """A name or an address as git would write it: no `<`, `>`, line breaks or NUL inside, no punctuation at the ends."""
    return "".join(character for character in text.strip(_CRUD) if character not in "<>\n\0")


def _question(repository: Repository, environ: Mapping[str, str]) -> list[str]:
    """What decides which files git reads, apart from the files."""
    names = ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")
    # `includeIf "onbranch:..."` looks at the branch.
    return [repository.gitdir, repository.ref, *(environ.get(name, "") for name in names)]


def _kept(path: str, question: list[str]) -> Identity | None:
    try:
        record: Any = jsontext.loads(files.read(path, limit=_LIMIT).decode("utf-8", "surrogateescape"))
        if record["question"] != question or any(_seen(entry[0]) != entry for entry in record["files"]):
            return None
        author, committer = record["author"], record["committer"]
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return None
    return Identity(author, committer) if _is_whole(author) and _is_whole(committer) else None


def _is_whole(identity: object) -> bool:
    return (
        isinstance(identity, str)
        and identity.endswith(">")
        and identity.count("<") == 1
        and "\n" not in identity
        and "\0" not in identity
    )


def _seen(path: str) -> list[str | int]:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return [path, -1, 0, 0]
    return [path, found.st_size, found.st_mtime_ns, found.st_ino]


def _standard(repository: Repository, environ: Mapping[str, str]) -> list[str]:
    """Where git looks, whether there is a file or not."""
    home = environ.get("HOME", "")
    found = [f"{repository.common}/config", f"{repository.gitdir}/config.worktree"]
    if "GIT_CONFIG_GLOBAL" in environ:
        found.append(environ["GIT_CONFIG_GLOBAL"])
    else:
        xdg = environ.get("XDG_CONFIG_HOME", "") or f"{home}/.config"
        found += [f"{home}/.gitconfig", f"{xdg}/git/config"]
    found.append(environ.get("GIT_CONFIG_SYSTEM", "/etc/gitconfig"))
    return [path for path in found if path]


def _asked(repository: Repository, environ: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """File, key and value of every setting git sees, in the order in which later ones win."""
    from vault_mem.repo import program

    out = program.checked(["config", "--list", "--show-origin", "-z"], worktree=repository.worktree, environ=environ)
    fields = out.decode("utf-8", "surrogateescape").split("\0")
    found: list[tuple[str, str, str]] = []
    for origin, setting in zip(fields[::2], fields[1::2], strict=False):
        key, _, value = setting.partition("\n")
        kind, _, name = origin.partition(":")
        file = os.path.join(repository.worktree, name) if kind == "file" else ""
        found.append((file, key, value))
    return found


def _included(entries: list[tuple[str, str, str]], environ: Mapping[str, str]) -> list[str]:
    """Files named by includes, among them those that are not there yet."""
    found = []
    for file, key, value in entries:
        if key.startswith(("include.", "includeif.")) and key.endswith(".path") and value:
            value = environ.get("HOME", "") + value[1:] if value.startswith("~/") else value  # noqa: PLW2901 - the same path, resolved
            found.append(os.path.join(os.path.dirname(file), value))
    return found


def _chosen(entries: list[tuple[str, str, str]]) -> Identity:
    last = {key: value for _, key, value in entries}

    def one(role: str) -> str:
        name = cleaned(last.get(f"{role}.name") or last.get("user.name") or "")
        mail = cleaned(last.get(f"{role}.email") or last.get("user.email") or "")
        return f"{name or NAME} <{mail or MAIL}>"

    return Identity(one("author"), one("committer"))
