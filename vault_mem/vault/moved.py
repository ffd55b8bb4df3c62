"""What moved in the project since a capsule was written: branch, commit, commits since, the files the capsule names. Every line is inert.

Without a child process while branch and commit are what they were; otherwise one run of git. What cannot be known is said to be unknown.
"""

from __future__ import annotations

import os

from vault_mem import files as reading
from vault_mem import jsontext, worktree
from vault_mem.capsule import selector
from vault_mem.capsule import text as texts
from vault_mem.capsule.inert import inert
from vault_mem.errors import GitRefusedError
from vault_mem.record import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vault_mem.capsule.model import Bullet, Value
    from vault_mem.worktree import Here

PATIENCE = 0.5
"""Seconds that git may take: a person waits."""
MOST = 200
SHOWN, AUTHORS = 4, 3
TOLERANCE = 2.0
"""Seconds by which a file may be younger than the capsule that names it and count as unchanged."""
BITS = 40
NOBODY = "vault-mem@localhost"  # whoever configured no identity commits under this one, and only here
CHANGED, READ = ("modified ", "modified? ", "MODIFIED "), ("read ",)
_HEX = frozenset("0123456789abcdef")
_LOG = (
    "log", "--left-right", "--no-show-signature", "--no-renames", "--no-relative", "--no-ext-diff", "--no-textconv",
    "--no-mailmap", f"--max-count={MOST + 1}", "--format=%x01%m%x00%an%x00%ae", "--name-only", "-z",
)  # fmt: skip


class Commits(NamedTuple):
    """Commits that came and went between two commits. authors: mail address -> name and how many of those that came; more: not all were read."""

    came: int
    went: int
    authors: Mapping[str, tuple[str, int]]
    paths: frozenset[str]
    more: bool


NO_COMMITS = Commits(0, 0, {}, frozenset(), more=False)


def since(
    fields: Mapping[str, Value],
    bullets: Sequence[Bullet],
    *,
    project: str,
    environ: Mapping[str, str],
    runtime: str,
) -> tuple[str, ...]:
    """Lines about the project at *project* since the capsule with these *fields*; *bullets* name its files. runtime: of the seat."""
    here = worktree.here(project)
    if not here.top:
        return (f"  DRIFT of the project: unknown, no git repository at {inert(project, limit=120)}",)
    theirs, ours = selector.text_of(fields, "project"), os.path.basename(here.top)
    if theirs and theirs != ours:
        return (
            f"  DRIFT of the project: unknown, the capsule is about {inert(theirs, limit=60)} and this is {inert(ours, limit=60)}",
        )
    lines = [f"  DRIFT of the project since then: {_branch(fields, here)}"]
    then = selector.text_of(fields, "head")
    commits: Commits | None = NO_COMMITS
    if then == here.head:
        lines[0] += f"; HEAD {here.head[:12] or '(no commit)'} as then" if then else "; no commit then or now"
    else:
        commits, said = _commits(then, here, environ, runtime)
        lines.append(f"    {said}")
    lines.extend(_files(fields, bullets, project, here.top, commits))
    return tuple(lines)


def _branch(fields: Mapping[str, Value], here: Here) -> str:
    then, now = selector.text_of(fields, "branch"), here.branch
    if not then:
        return f"branch {inert(now or '(detached)', limit=60)}, the capsule names none"
    if then == now:
        return f"branch {inert(now, limit=60)} as then"
    return f"branch was {inert(then, limit=60)}, is {inert(now or '(detached)', limit=60)}"


def _commits(then: str, here: Here, environ: Mapping[str, str], runtime: str) -> tuple[Commits | None, str]:
    """What came and went, None when it is unknown, and the line that says so."""
    if not then:
        return (
            None,
            f"HEAD is {here.head[:12] or '(no commit)'}; the capsule names no commit, so what came since is unknown",
        )
    moved = f"HEAD was {inert(then, limit=12)}, is {inert(here.head[:12] or '(no commit)', limit=12)}"
    if not {len(then), len(here.head)} <= {40, 64} or not _HEX.issuperset(then + here.head):
        return None, f"{moved}; what came since is unknown"
    from vault_mem.repo import program

    # Nothing is fetched for this: in a partial clone the answer is unknown.
    still = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none", "GIT_OPTIONAL_LOCKS": "0"}
    try:
        answer = program.run(
            [*_LOG, f"{then}...{here.head}"], worktree=here.top, environ=environ, extra=still, limit=PATIENCE
        )
    except GitRefusedError as error:
        return None, f"{moved}; what came since is unknown ({error.reason})"
    if answer.code:
        reason = program.refusal(answer).reason
        why = "it is not in this repository" if reason.startswith("git-failed") else inert(reason, limit=40)
        return None, f"{moved}; what came since is unknown ({why})"
    commits = parsed(answer.out)
    return commits, f"{moved}: {_told(commits, own_mail(runtime))}"


def parsed(output: bytes) -> Commits:
    """Git's answer to `log --left-right --name-only -z` in the format asked for here."""
    came = went = 0
    authors: dict[str, tuple[str, int]] = {}
    paths: set[str] = set()
    fields = output.decode("utf-8", "surrogateescape").split("\0")
    place = 0
    while place < len(fields):
        field = fields[place]
        if field.startswith("\x01") and place + 2 < len(fields):
            if came + went == MOST:
                return Commits(came, went, authors, frozenset(paths), more=True)
            if field.endswith("<"):
                went += 1
            else:
                came += 1
                name, mail = fields[place + 1], fields[place + 2]
                authors[mail] = (name, authors.get(mail, ("", 0))[1] + 1)
            place += 3
            continue
        if field.strip("\n"):
            paths.add(field.lstrip("\n"))
        place += 1
    return Commits(came, went, authors, frozenset(paths), more=False)


def _told(commits: Commits, own: str) -> str:
    more = "at least " if commits.more else ""
    said = f"{more}{commits.came} commit{'s' if commits.came != 1 else ''} since"
    named = [(name, count) for mail, (name, count) in commits.authors.items() if mail.lower() != own.lower()]
    others = sum(count for _, count in named)
    if own and commits.came and not others:
        said += ", all of them your own"
    elif others:
        named.sort(key=lambda row: -row[1])
        who = ", ".join(f"{inert(name, limit=30)} ({count})" for name, count in named[:AUTHORS])
        rest = f", {len(named) - AUTHORS} more" if len(named) > AUTHORS else ""
        said += f", {f'{others} by others' if own else 'by'}: {who}{rest}"
    if commits.went:
        said += f"; {more}{commits.went} of then {'are' if commits.went != 1 else 'is'} not part of it any more"
    return said


def _files(
    fields: Mapping[str, Value], bullets: Sequence[Bullet], project: str, top: str, commits: Commits | None
) -> Iterable[str]:
    """What became of the files the capsule names, and whether its next action names one of them."""
    named = _named(bullets)
    written = selector.created_of(fields)
    if not named:
        return
    committed, touched, gone, unseen = [], [], [], 0
    inner = os.path.relpath(os.path.realpath(project), os.path.realpath(top))
    for path in named:
        found = _state(project, path)
        if found is None:
            unseen += 1
        elif commits is not None and os.path.normpath(f"{inner}/{path}") in commits.paths:
            committed.append(path)
        elif found < 0:
            gone.append(path)
        elif written is not None and found > written + TOLERANCE:
            touched.append(path)
    groups = (("in commits", committed), ("in the work tree", touched), ("not there now", gone))
    moved = [f"{title}: {_listed(paths)}" for title, paths in groups if paths]
    if moved:
        yield f"    files of the capsule that changed since, {'; '.join(moved)}"
    else:
        sure = commits is not None and not commits.more
        known = "" if sure else " by their times (what commits did is not wholly known)"
        yield f"    none of the {len(named) - unseen} files of the capsule changed since{known}"
    stale = _stale(selector.text_of(fields, "next_valid_action"), [*committed, *touched, *gone])
    if stale:
        yield f"    *** STALE ACTION *** the next action names what changed since: {_listed(stale)}; re-derive it first"


def _named(bullets: Sequence[Bullet]) -> list[str]:
    """Paths below the project that the capsule names, those it changed first; a cut or foreign path is passed over."""
    found = dict.fromkeys(_path(bullet, CHANGED) for bullet in bullets)
    found.update(dict.fromkeys(_path(bullet, READ) for bullet in bullets))
    return [path for path in found if path][:BITS]


def _path(bullet: Bullet, prefixes: tuple[str, ...]) -> str:
    for prefix in prefixes:
        if bullet.text.startswith(prefix):
            path = bullet.text[len(prefix) :]
            outside = path.startswith(("/", "~")) or ".." in path.split("/") or texts.omission(path) >= 0
            return "" if outside else path
    return ""


def _state(project: str, path: str) -> float | None:
    """When a file last changed, -1 when it is not there, None when that cannot be known."""
    try:
        return os.lstat(f"{project}/{path}").st_mtime
    except (FileNotFoundError, NotADirectoryError):
        return -1.0
    except (OSError, ValueError):
        return None


def _stale(action: str, moved: list[str]) -> list[str]:
    words = {word.strip("`'\"()[]{},;:!?").rstrip(".") for word in action.split()}
    return [path for path in moved if path in words or (path.rpartition("/")[2] in words and "." in path)]


def _listed(paths: list[str]) -> str:
    more = f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else ""
    return ", ".join(inert(path, limit=80) for path in paths[:SHOWN]) + more


def own_mail(runtime: str) -> str:
    """The mail address that commits of this seat bear, as last asked of git; empty when it never was."""
    try:
        author = jsontext.loads(reading.read(f"{runtime}/identity.json", limit=1 << 18).decode("utf-8"))["author"]
        mail = str(author).rpartition("<")[2].rstrip(">")
    except (OSError, ValueError, TypeError, KeyError):
        return ""
    return "" if mail == NOBODY else mail
