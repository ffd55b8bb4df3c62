"""The seat that `init` makes: which directory it is, its declaration, its vault and the trust in it. Looks first, writes only afterwards."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vault_mem import files, gitconfig, jsonspans, roots, trust, worktree
from vault_mem.errors import GitRefusedError, MemoryRootError, UnsafeGitConfigError, UsageError, VaultMemError
from vault_mem.repo import create, program

if TYPE_CHECKING:
    from collections.abc import Mapping

DEDICATED = "dedicated"
# What may lie in a memory root before there is a repository: nothing of it holds a memory.
_OURS = frozenset((".gitattributes", ".gitignore", "runtime", ".git"))


class RefusedError(VaultMemError):
    """`init` will not do that; *token* says why, and nothing was changed."""

    def __init__(self, token: str, text: str) -> None:
        self.token = token
        super().__init__(text)


@dataclass(frozen=True, slots=True)
class Target:
    """Where a seat is made. *project*: the directory a client is started in, whose settings count. *notes*: what a person should know."""

    root: str
    project: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Site:
    """A seat to be made, looked at and found fit.

    *top* and *below* are the repository around the memory root and its path from there, "" without one. *marker* is the declaration's
    file with its former and new bytes; None as the former: it is new.
    """

    target: Target
    memory: str
    relative: str
    top: str
    below: str
    marker: str
    former: bytes | None
    declaration: bytes
    is_new: bool
    trusted: bool


def chosen(*, explicit: str, environ: Mapping[str, str], cwd: str) -> Target:
    """The directory to make a seat of: the one named, else the seat around *cwd*, else the top of its repository, else *cwd* itself.

    A linked worktree shares the seat of the main one. Raises UsageError, MemoryRootError.
    """
    named = explicit or environ.get("VAULT_MEM_ROOT") or environ.get("AIGENT_ROOT")
    if named:
        root = os.path.normpath(os.path.join(cwd, named))
        if not os.path.isdir(root):
            raise UsageError(f"{root} is no directory")
        how = "" if explicit else "the environment (VAULT_MEM_ROOT, AIGENT_ROOT) names this seat"
        return Target(root, root, (how,) if how else ())
    top = worktree.here(cwd).top
    home = environ.get("HOME", "")
    if top and home and os.path.realpath(top) == os.path.realpath(home) != os.path.realpath(cwd):
        # A home folder kept in git is no project, and its settings are the user's.
        top = ""
    around = _around(environ=environ, cwd=cwd)
    main = roots.main_worktree(top) if top else ""
    if around and top and os.path.realpath(around.memory.path) == os.path.realpath(top):
        return Target(around.root, around.root)
    if around and top and _is_within(around.root, top):
        return Target(around.root, around.root)
    if main:
        root = around.root if around and _is_within(around.root, main) else main
        return Target(root, top, (f"a linked worktree shares the memory of {root}; --root DIR would give it its own",))
    if top:
        return Target(top, top)
    shadowed = around and around.root != cwd and around.found != "state-home"
    note = f"the seat {around.root} above no longer serves this directory" if around and shadowed else ""
    return Target(cwd, cwd, (note,) if note else ())


def _around(*, environ: Mapping[str, str], cwd: str) -> roots.Seat | None:
    # The directory a person stands in counts here, whatever project a client around this shell was started for.
    own = {name: value for name, value in environ.items() if name != "CLAUDE_PROJECT_DIR"}
    return roots.find(
        environ=own,
        cwd=cwd,
        is_trusted=lambda memory: trust.trusted(memory, environ=environ) is not None,
        allow_missing=True,
    )


def _is_within(path: str, top: str) -> bool:
    path, top = os.path.realpath(path), os.path.realpath(top)
    return path == top or path.startswith(top.rstrip("/") + "/")


def looked_at(target: Target, *, memory_root: str, environ: Mapping[str, str]) -> Site:
    """The seat as it will be. Raises MemoryRootError, RefusedError, UnsafeGitConfigError or GitRefusedError; nothing is written."""
    base = roots.base_of(target.root, environ=environ)
    declared = roots.declared(base)
    wanted = roots.checked(memory_root, where="--memory-root") if memory_root else ""
    if wanted and declared is not None and wanted != declared:
        raise RefusedError(
            "memory-root-declared",
            f"{roots.marker_of(base)} declares the memory root {declared}; change it there, and move the vault, before `vault-mem init`",
        )
    relative = wanted or roots.resolve(base, environ=environ, allow_missing=True).relative
    roots.inspected(base, relative)
    memory = os.path.join(base, *relative.split("/"))
    top = worktree.here(base).top
    below = os.path.relpath(os.path.realpath(memory), os.path.realpath(top)) if top else ""
    is_new = not os.path.lexists(os.path.join(memory, ".git"))
    if top:
        _refuse_tracked(top, below, environ=environ)
    if is_new:
        _refuse_full(memory)
    else:
        unsafe = trust.unsafe_keys(memory)
        if unsafe:
            raise UnsafeGitConfigError(
                f"unsafe-git-config: {', '.join(unsafe)}; remove them from the configuration of {memory}"
            )
    marker = roots.marker_of(base)
    former, declaration = _declaration(marker, relative, is_declared=declared is not None)
    known = trust.trusted(memory, environ=environ) is not None
    return Site(target, memory, relative, top, below, marker, former, declaration, is_new, known)


def _refuse_tracked(top: str, below: str, *, environ: Mapping[str, str]) -> None:
    listed = program.run(
        ["--literal-pathspecs", "ls-files", "-z", "--cached", "--", below], worktree=top, environ=environ
    )
    if listed.code:
        raise program.refusal(listed)
    tracked = [name for name in os.fsdecode(listed.out).split("\0") if name]
    if tracked:
        raise RefusedError(
            "root-tracked",
            f"the repository {top} tracks {len(tracked)} files below {below}, {tracked[0]} among them; choose another --memory-root, or --adopt",
        )


def _refuse_full(memory: str) -> None:
    try:
        names = sorted(set(os.listdir(memory)) - _OURS)
    except FileNotFoundError:
        return
    except OSError as error:
        raise MemoryRootError(f"{memory}: cannot be inspected ({roots.code_of(error)})") from error
    if names:
        raise RefusedError(
            "root-not-empty",
            f"{memory} holds {names[0]} and is no repository; choose another --memory-root, or --adopt to take this tree over",
        )


def _declaration(marker: str, relative: str, *, is_declared: bool) -> tuple[bytes | None, bytes]:
    """The former bytes of the declaration and the new ones; all that others wrote there stays."""
    try:
        former = files.read(marker, limit=roots.MARKER_LIMIT)
    except FileNotFoundError:
        return None, (f'{{"schemaVersion": 1, "{roots.FIELD}": {jsonspans.dumped(relative)}}}\n').encode()
    except OSError as error:
        raise MemoryRootError(f"{marker}: cannot be read ({roots.code_of(error)})") from error
    if is_declared:
        return former, former
    text = former.decode("utf-8-sig")
    root = jsonspans.parse(text)
    names = [str(key.value) for key in root.keys]
    if roots.FIELD in names:
        # It stands there as null, which is no declaration.
        item = root.items[names.index(roots.FIELD)]
        text = text[: item.start] + jsonspans.dumped(relative) + text[item.end :]
    else:
        text = jsonspans.appended(text, root, relative, roots.FIELD)
    if "schemaVersion" not in names:
        text = jsonspans.appended(text, jsonspans.parse(text), 1, "schemaVersion")
    mark = former[: len(former) - len(former.decode("utf-8-sig").encode())]
    return former, mark + text.encode()


def made(site: Site, *, started_by: str, environ: Mapping[str, str], now: float) -> tuple[str, ...]:
    """Declares, makes the vault, keeps it out of the project's git and trusts it; sentences of what was done, () when all was there.

    *started_by* is the absolute path of our program, for the merge driver.
    """
    done = []
    if site.declaration != site.former:
        files.make_dirs(os.path.dirname(site.marker), 0o777)
        files.write_atomic(site.marker, site.declaration, mode=0o644)
        done.append(f"declared the memory root {site.relative} in {site.marker}")
    head = create.init_repository(site.memory, environ=environ, at=now)
    if site.is_new:
        done.append(f"made the vault {site.memory}")
    if site.top and create.exclude(site.top, site.below, environ=environ):
        done.append(f"kept /{site.below}/ out of the git of {site.top} (.git/info/exclude)")
    if set_driver(site.memory, site.target.root, started_by=started_by, environ=environ):
        done.append("set the merge driver of the vault")
    if not site.trusted:
        trust.grant(
            site.memory, identity(site.memory, head, environ=environ), seat=site.target.root, environ=environ, now=now
        )
        done.append("trusted this seat for this user")
    return tuple(done)


def identity(memory: str, head: str, *, environ: Mapping[str, str]) -> trust.Identity:
    """What the vault at *memory* is, with *head* as the newest commit known to be good."""
    listed = program.checked(["rev-list", "--max-parents=0", head], worktree=memory, environ=environ)
    return trust.Identity(DEDICATED, "", tuple(sorted(listed.decode().split())), head)


def set_driver(memory: str, seat: str, *, started_by: str, environ: Mapping[str, str]) -> bool:
    """Sets `merge.vault-mem.driver` in the vault's own configuration where it is missing or stale; whether it was set.

    A program inside the seat is never named there: whoever can write the project could then have it run.
    """
    value = driver(started_by)
    trees = (os.path.realpath(memory), os.path.realpath(seat))
    entry = gitconfig.Entry("merge.vault-mem.driver", value)
    if gitconfig.judged(entry, trees=trees) != "allowed":
        return False
    asked = program.run(["config", "--local", "--get", entry.key], worktree=memory, environ=environ)
    if asked.code == 0 and os.fsdecode(asked.out).removesuffix("\n") == value:
        return False
    try:
        program.checked(["config", "--local", entry.key, value], worktree=memory, environ=environ)
    except GitRefusedError:
        # The vault works without; `sync` and the doctor ask for it again.
        return False
    return True


def driver(started_by: str) -> str:
    """The merge driver as git's configuration wants it: a shell line in which `%` is doubled."""
    import shlex

    return " ".join((shlex.quote(started_by).replace("%", "%%"), *gitconfig.DRIVER_ARGUMENTS))
