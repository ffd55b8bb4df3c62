"""The seat that `init` makes: which directory it is, its declaration, its vault and the trust in it. Looks first, writes only afterwards."""

from __future__ import annotations

import os
import shlex
import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vault_mem import files, gitconfig, jsonspans, roots, trust, worktree
from vault_mem.errors import GitRefusedError, MemoryRootError, UnsafeGitConfigError, UsageError, VaultMemError
from vault_mem.repo import create, objects, program, shape

if TYPE_CHECKING:
    from collections.abc import Mapping

DEDICATED, EMBEDDED, ADOPTED = "dedicated", "embedded", "adopted"
CLONE_LIMIT = 600.0
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
    file with its former and new bytes; None as the former: it is new. *is_new*: there is no vault yet. *begin*: an adopted tree
    becomes a repository. *source*: the vault that is cloned into the memory root.
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
    mode: str = DEDICATED
    begin: bool = False
    notes: tuple[str, ...] = ()
    source: str = ""


def chosen(*, explicit: str, environ: Mapping[str, str], cwd: str, lenient: bool = False) -> Target:
    """The directory to make a seat of: the one named, else the seat around *cwd*, else the top of its repository, else *cwd* itself.

    A linked worktree shares the seat of the main one. Raises UsageError and, unless *lenient*, MemoryRootError.
    """
    named = explicit or environ.get("VAULT_MEM_ROOT") or environ.get("AIGENT_ROOT")
    if named:
        root = os.path.normpath(os.path.join(cwd, named))
        if not os.path.isdir(root):
            raise UsageError(f"{root} is no directory")
        how = "" if explicit else "the environment (VAULT_MEM_ROOT, AIGENT_ROOT) names this seat"
        return Target(root, root, (how,) if how else ())
    if not os.path.isdir(cwd):
        raise UsageError(
            f"the working directory {cwd} is not there any more; go to the project, or name it with --root"
        )
    top = worktree.here(cwd).top
    home = environ.get("HOME", "")
    if top and home and os.path.realpath(top) == os.path.realpath(home) != os.path.realpath(cwd):
        # A home folder kept in git is no project, and its settings are the user's.
        top = ""
    try:
        around = _around(environ=environ, cwd=cwd)
    except MemoryRootError:
        if not lenient:
            raise
        around = None
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


def looked_at(target: Target, *, memory_root: str, mode: str, adopt: bool, environ: Mapping[str, str]) -> Site:
    """The seat as it will be; *mode* "" is what it is already, else a vault of its own.

    With *adopt* a tree that lies there is taken over, and made a repository only where *mode* asks for that.

    Raises MemoryRootError, RefusedError, UnsafeGitConfigError or GitRefusedError; nothing is written.
    """
    base = roots.base_of(target.root, environ=environ)
    if os.fsencode(base).decode("utf-8", "replace") != base:
        raise RefusedError("bad-path", f"{base!r} is not UTF-8; what is kept about a seat could not name it")
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
    marker = roots.marker_of(base)
    if os.path.islink(os.path.dirname(marker)) and not _is_within(os.path.dirname(marker), base):
        raise RefusedError("declaration-outside", f"{os.path.dirname(marker)} leads out of {base}; nothing was changed")
    former, declaration = _declaration(marker, relative, is_declared=declared is not None)
    for path in (marker, os.path.join(memory, ".git"), trust.record_file(memory, environ=environ)):
        _refuse_unwritable(path)
    record = trust.trusted(memory, environ=environ)
    kind = _mode(mode, adopt=adopt, known=record.mode if record else "", memory=memory)
    if kind != ADOPTED or mode == DEDICATED:
        program.found(environ)
    site = Site(
        target, memory, relative, top, below, marker, former, declaration, is_new=True, trusted=record is not None
    )
    if kind == EMBEDDED:
        return _embedded(site, environ=environ)
    is_new = not os.path.lexists(os.path.join(memory, ".git"))
    if not is_new:
        unsafe = trust.unsafe_keys(memory)
        if unsafe:
            raise UnsafeGitConfigError(
                f"unsafe-git-config: {', '.join(unsafe)}; remove them from the configuration of {memory}"
            )
    if kind == ADOPTED:
        begin = is_new and mode == DEDICATED
        return replace(
            site, mode=ADOPTED, is_new=is_new, begin=begin, notes=() if begin or not is_new else (_NO_REPOSITORY,)
        )
    if top:
        _refuse_tracked(top, below, environ=environ)
    _refuse_full(memory, is_new=is_new)
    notes = () if is_new or record else _already_there(memory)
    return replace(site, is_new=is_new, notes=notes)


_NO_REPOSITORY = "the adopted tree has no repository of its own: it is written and nothing is committed (`--adopt --mode dedicated` makes one)"


def _refuse_unwritable(path: str) -> None:
    """Says before anything is made that this place could not be."""
    folder = os.path.dirname(path)
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise RefusedError(
            "not-writable", f"{folder} cannot be written by you, and {path} belongs there; nothing was changed"
        )


def _mode(asked: str, *, adopt: bool, known: str, memory: str) -> str:
    if adopt and asked == EMBEDDED:
        raise UsageError("--adopt takes a tree over as it is; it cannot be embedded as well")
    kind = ADOPTED if adopt else asked or known or DEDICATED
    if known and kind != known and not (known == ADOPTED and asked == DEDICATED):
        raise RefusedError(
            "mode-differs", f"{memory} is trusted as {known} and not as {kind}; `vault-mem trust --revoke` forgets that"
        )
    return ADOPTED if known == ADOPTED else kind


def _embedded(site: Site, *, environ: Mapping[str, str]) -> Site:
    """A vault on a private reference of the repository around it."""
    if not site.top:
        raise RefusedError(
            "no-repository", f"{site.target.root} is in no git repository that a memory could be embedded in"
        )
    if os.path.lexists(os.path.join(site.memory, ".git")):
        raise RefusedError(
            "mode-differs", f"{site.memory} is a repository of its own; it cannot be embedded in {site.top}"
        )
    _refuse_tracked(site.top, site.below, environ=environ)
    ref = create.embedded_ref(site.relative)
    asked = program.run(["rev-parse", "--verify", "--quiet", ref], worktree=site.top, environ=environ)
    if asked.code and not site.trusted:
        _refuse_full(site.memory, is_new=True)
    mirrored = program.run(
        ["config", "--get-regexp", r"^remote\..*\.mirror$", "true"], worktree=site.top, environ=environ
    )
    notes = (
        ()
        if mirrored.code
        else ("a remote of this repository is a mirror: `git push` to it also pushes the memory's reference",)
    )
    return replace(site, mode=EMBEDDED, is_new=bool(asked.code), notes=notes)


def _already_there(memory: str) -> tuple[str, ...]:
    count = sum(name.endswith(".md") for _, _, names in os.walk(os.path.join(memory, "capsules")) for name in names)
    return (
        (f"{memory} holds {count} capsules that were not written by you here; look at them, they are trusted now",)
        if count
        else ()
    )


def joining(site: Site, url: str, *, cwd: str) -> Site:
    """The seat with the vault at *url* as its own; a path is taken from *cwd*. Raises RefusedError, UnsafeGitConfigError."""
    if not site.is_new or site.mode != DEDICATED:
        raise RefusedError("root-not-empty", f"{site.memory} is a vault already; `vault-mem sync` joins two of them")
    # A host or a scheme ends in a colon before the first slash; everything else is a path.
    if ":" not in url.partition("/")[0]:
        url = os.path.normpath(os.path.join(cwd, url))
    if gitconfig.judged(gitconfig.Entry("remote.origin.url", url)) != "allowed":
        raise UnsafeGitConfigError(f"unsafe-git-config: {url!r} would make git start another program")
    return replace(site, source=url)


def _clone(site: Site, *, environ: Mapping[str, str]) -> None:
    """Clones the vault, or leaves the memory root as empty as it was. Raises GitRefusedError, RefusedError, UnsafeGitConfigError."""
    files.make_dirs(site.memory)
    try:
        _cloned(site, environ=environ)
    except BaseException:
        for name in os.listdir(site.memory):
            path = os.path.join(site.memory, name)
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path, ignore_errors=True)
            else:
                os.unlink(path)
        raise


def _cloned(site: Site, *, environ: Mapping[str, str]) -> None:
    cloned = program.run(
        ["clone", "-q", "--template=", "--no-tags", "--origin", "origin", "--", site.source, "."],
        worktree=site.memory,
        environ=environ,
        limit=CLONE_LIMIT,
    )
    if cloned.code:
        raise RefusedError("clone-failed", f"{site.source}: {program.refusal(cloned)}")
    unsafe = trust.unsafe_keys(site.memory)
    if unsafe:
        raise UnsafeGitConfigError(f"unsafe-git-config: {', '.join(unsafe)} in {site.source}")
    names = set(os.listdir(site.memory))
    if names - _OURS and not _is_vault(site.memory, names):
        raise RefusedError("no-vault", f"{site.source} is a repository, but no vault")


def _refuse_tracked(top: str, below: str, *, environ: Mapping[str, str]) -> None:
    tracked = create.tracked(top, below, environ=environ)
    if tracked:
        raise RefusedError(
            "root-tracked",
            f"the repository {top} tracks {len(tracked)} files below {below}, {tracked[0]} among them; choose another --memory-root, or --adopt",
        )


def _refuse_full(memory: str, *, is_new: bool) -> None:
    try:
        names = set(os.listdir(memory))
    except FileNotFoundError:
        return
    except OSError as error:
        raise MemoryRootError(f"{memory}: cannot be inspected ({roots.code_of(error)})") from error
    rest = sorted(names - _OURS)
    if rest and not (not is_new and _is_vault(memory, names)):
        what = "no repository" if is_new else "a repository, but no vault"
        raise RefusedError(
            "root-not-empty",
            f"{memory} holds {rest[0]} and is {what}; choose another --memory-root, or --adopt to take this tree over",
        )


def _is_vault(memory: str, names: set[str]) -> bool:
    if "capsules" in names:
        return True
    try:
        return b"merge=vault-mem" in files.read(os.path.join(memory, ".gitattributes"), limit=roots.MARKER_LIMIT)
    except OSError:
        return False


def _declaration(marker: str, relative: str, *, is_declared: bool) -> tuple[bytes | None, bytes]:
    """The former bytes of the declaration and the new ones; all that others wrote there stays."""
    try:
        # A link is written through by nobody here; one that declares is only read.
        former = (files.read_followed if is_declared else files.read)(marker, limit=roots.MARKER_LIMIT)
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
    done: list[str] = []
    if site.source:
        _clone(site, environ=environ)
        done.append(f"cloned {site.source}")
    if site.declaration != site.former:
        files.make_dirs(os.path.dirname(site.marker), 0o777)
        files.write_atomic(site.marker, site.declaration, mode=0o644)
        done.append(f"declared the memory root {site.relative} in {site.marker}")
    anchored = _VAULTS[site.mode](site, environ, now, done)
    if (
        site.mode != EMBEDDED
        and anchored.anchor
        and set_driver(site.memory, site.target.root, started_by=started_by, environ=environ)
    ):
        done.append("set the merge driver of the vault")
    # A vault that was deleted and made anew starts with an anchor of its own.
    if not site.trusted or site.begin or (site.is_new and site.mode != ADOPTED):
        record = trust.grant(site.memory, anchored, seat=site.target.root, environ=environ, now=now)
        # Judged here, once its configuration is as it stays, so that the first hook need not do it.
        trust.unsafe_keys(site.top if site.mode == EMBEDDED else site.memory, record=record)
        done.append("trusted this seat for this user")
    return tuple(done)


def _make_dedicated(site: Site, environ: Mapping[str, str], now: float, done: list[str]) -> trust.Identity:
    head = create.init_repository(site.memory, environ=environ, at=now)
    if site.is_new:
        done.append(f"made the vault {site.memory}")
    if site.top and create.exclude(site.top, site.below, environ=environ):
        done.append(f"kept /{site.below}/ out of the git of {site.top} (.git/info/exclude)")
    return identity(DEDICATED, site.memory, head, environ=environ)


def _make_embedded(site: Site, environ: Mapping[str, str], now: float, done: list[str]) -> trust.Identity:
    ref = create.embedded_ref(site.relative)
    head = create.embed(site.top, site.below, ref=ref, environ=environ, at=now)
    if site.is_new:
        done.append(f"made the vault on {ref} of {site.top}; /{site.below}/ stays out of its index")
    return identity(EMBEDDED, site.top, head, ref=ref, environ=environ)


def _make_adopted(site: Site, environ: Mapping[str, str], now: float, done: list[str]) -> trust.Identity:
    files.make_dirs(site.memory, 0o755)
    if site.is_new and not site.begin:
        if site.top and create.exclude(site.top, f"{site.below}/runtime", environ=environ):
            done.append(f"kept /{site.below}/runtime/ out of the git of {site.top} (.git/info/exclude)")
        if not site.trusted:
            done.append(f"adopted the tree {site.memory} as it is, without a repository")
        return trust.Identity(ADOPTED)
    head = create.init_repository(site.memory, environ=environ, at=now, ship=False)
    if site.begin or not site.trusted:
        done.append(f"adopted the tree {site.memory} as a repository of its own")
    return identity(ADOPTED, site.memory, head, environ=environ)


_VAULTS = {DEDICATED: _make_dedicated, EMBEDDED: _make_embedded, ADOPTED: _make_adopted}


def identity(mode: str, place: str, head: str, *, environ: Mapping[str, str], ref: str = "") -> trust.Identity:
    """What the vault is whose repository has its work tree at *place*, with *head* as the newest commit known to be good."""
    listed = program.checked(["rev-list", "--max-parents=0", head], worktree=place, environ=environ)
    return trust.Identity(mode, ref, tuple(sorted(listed.decode().split())), head)


def recognised(found: roots.Seat, *, environ: Mapping[str, str]) -> trust.Identity:
    """What the vault of a seat that exists already is, as `vault-mem trust` records it. Raises GitRefusedError, RefusedError."""
    memory = found.memory.path
    record = trust.trusted(memory, environ=environ)
    if os.path.lexists(os.path.join(memory, ".git")):
        head = objects.head_of(shape.opened(memory, environ=environ), environ=environ)
        if head is None:
            raise GitRefusedError("unborn", f"{memory}: the vault has no commit; run `vault-mem init`")
        mode = record.mode if record and record.mode != EMBEDDED else DEDICATED
        return identity(mode, memory, head, environ=environ)
    top = worktree.here(os.path.dirname(memory)).top
    if top:
        ref = create.embedded_ref(found.memory.relative)
        asked = program.run(["rev-parse", "--verify", "--quiet", ref], worktree=top, environ=environ)
        if asked.code == 0:
            return identity(EMBEDDED, top, asked.out.decode().strip(), ref=ref, environ=environ)
    if record and record.mode == ADOPTED:
        return trust.Identity(ADOPTED)
    raise RefusedError(
        "no-vault", f"{memory} is no vault; `vault-mem init` makes one, or takes the tree over with --adopt"
    )


def set_driver(memory: str, seat: str, *, started_by: str, environ: Mapping[str, str]) -> bool:
    """Sets `merge.vault-mem.driver` in the vault's own configuration where it is missing or stale; whether it was set.

    A program inside the seat is never named there: whoever can write the project could then have it run.
    """
    if not may_drive(memory, seat, started_by=started_by):
        return False
    entry = gitconfig.Entry("merge.vault-mem.driver", driver(started_by))
    asked = program.run(["config", "--local", "--get", entry.key], worktree=memory, environ=environ)
    if asked.code == 0 and os.fsdecode(asked.out).removesuffix("\n") == entry.value:
        return False
    try:
        program.checked(["config", "--local", entry.key, driver(started_by)], worktree=memory, environ=environ)
    except GitRefusedError:
        # The vault works without; `sync` and the doctor ask for it again.
        return False
    return True


def may_drive(memory: str, seat: str, *, started_by: str) -> bool:
    """Whether our program may stand in the vault's configuration as its merge driver."""
    trees = (os.path.realpath(memory), os.path.realpath(seat))
    entry = gitconfig.Entry("merge.vault-mem.driver", driver(started_by))
    return bool(started_by) and gitconfig.judged(entry, trees=trees) == "allowed"


def driver(started_by: str) -> str:
    """The merge driver as git's configuration wants it: a shell line in which `%` is doubled."""
    return " ".join((shlex.quote(started_by).replace("%", "%%"), *gitconfig.DRIVER_ARGUMENTS))
