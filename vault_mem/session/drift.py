"""What moved in a repository between two looks: parsed from `git status --porcelain=v2 -z --branch`, compared without ever guessing.

A side that is not known yields a line that says so; a list that was cut yields only what is certain.
"""

from __future__ import annotations

from vault_mem.digest import sha256
from vault_mem.record import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

SHOWN = 5
OPERATIONS = (
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase"),
    ("MERGE_HEAD", "merge"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("BISECT_LOG", "bisect"),
)
"""What lies in git's directory while an operation is under way, and its name."""
NOT_A_REPOSITORY = "not-a-repository"


class Look(NamedTuple):
    """One look at a repository.

    unknown: why nothing is known (then all else is empty), or "". root: top of the work tree; common: its common git directory, which linked
    work trees share. branch: "" when detached; head: "" when unborn. ahead, behind: None without an upstream. operation: merge, rebase … under way.
    stash: None when unknown. dirty: (status letters, path), sorted by path; total and digest are of the complete list, dirty may be cut.
    untracked: whether untracked files were listed. held: path -> mark of the content of files that the session changed.
    """

    unknown: str = ""
    cwd: str = ""
    root: str = ""
    common: str = ""
    branch: str = ""
    head: str = ""
    upstream: str = ""
    ahead: int | None = None
    behind: int | None = None
    operation: str = ""
    stash: int | None = None
    dirty: tuple[tuple[str, str], ...] = ()
    total: int = 0
    digest: str = ""
    untracked: bool = True
    held: Mapping[str, str] = {}


def parsed(output: bytes, look: Look) -> Look:
    """*look* with what git said. Paths are taken as they are, byte for byte; those that are no UTF-8 get U+FFFD."""
    rows: dict[str, tuple[str, str]] = {}
    fields = output.split(b"\0")
    index = 0
    while index < len(fields):
        field = fields[index].decode("utf-8", "replace")
        index += 1
        kind, _, rest = field.partition(" ")
        if kind == "#":
            look = _headed(rest, look)
        elif kind == "1":
            parts = rest.split(" ", 7)
            if len(parts) == 8:
                rows[parts[7]] = (parts[0], parts[7])
        elif kind == "2":
            # The next field is the name it had before.
            parts = rest.split(" ", 8)
            origin = fields[index].decode("utf-8", "replace") if index < len(fields) else ""
            index += 1
            if len(parts) == 9:
                rows[parts[8]] = (parts[0], parts[8])
                if parts[7].startswith("R") and origin:
                    rows.setdefault(origin, ("D.", origin))
        elif kind == "u":
            parts = rest.split(" ", 9)
            if len(parts) == 10:
                rows[parts[9]] = (parts[0], parts[9])
        elif kind == "?" and rest:
            rows[rest] = ("??", rest)
    dirty = tuple(rows[path] for path in sorted(rows))
    return look._replace(dirty=dirty, total=len(dirty), digest=digest(dirty))


def _headed(text: str, look: Look) -> Look:
    name, _, value = text.partition(" ")
    match name:
        case "branch.oid":
            return look._replace(head="" if value == "(initial)" else value)
        case "branch.head":
            return look._replace(branch="" if value == "(detached)" else value)
        case "branch.upstream":
            return look._replace(upstream=value)
        case "branch.ab":
            ahead, _, behind = value.partition(" ")
            if ahead[1:].isdigit() and behind[1:].isdigit():
                return look._replace(ahead=int(ahead[1:]), behind=int(behind[1:]))
    return look


def digest(dirty: Sequence[tuple[str, str]]) -> str:
    """A digest of the complete list, so that two lists compare although one of them was cut."""
    return sha256("\0".join(f"{letters} {path}" for letters, path in dirty).encode("utf-8", "surrogatepass"))[:16]


def compare(then: Look, now: Look) -> tuple[str, ...]:
    """What moved between the two, one line each, nothing when both are known and the same. Paths stand raw: the caller makes them inert."""
    if then.unknown or now.unknown:
        return _unknown(then, now)
    lines = []
    if then.root != now.root:
        same = then.common and then.common == now.common
        kind = "another work tree of the same repository" if same else "another repository"
        lines.append(f"{kind}: was {then.root}, is {now.root}")
        if not same:
            return (*lines, "nothing else can be compared")
    lines.extend(_position(then, now))
    lines.extend(_work(then, now))
    lines.extend(_contents(then, now))
    return tuple(lines)


def _unknown(then: Look, now: Look) -> tuple[str, ...]:
    lines = []
    if then.unknown == now.unknown == NOT_A_REPOSITORY and then.cwd == now.cwd:
        return ("no git repository here, then or now: what moved is unknown",)
    if then.unknown:
        lines.append(f"the state of the repository at the checkpoint is unknown ({then.unknown})")
    if now.unknown:
        lines.append(f"the state of the repository now is unknown ({now.unknown})")
    return tuple(lines)


def _position(then: Look, now: Look) -> list[str]:
    lines = []
    if then.branch != now.branch:
        lines.append(f"branch: was {then.branch or '(detached)'}, is {now.branch or '(detached)'}")
    if then.head != now.head:
        lines.append(f"HEAD: was {then.head[:12] or '(no commit)'}, is {now.head[:12] or '(no commit)'}")
    if (then.upstream, then.ahead, then.behind) != (now.upstream, now.ahead, now.behind):
        lines.append(f"upstream: was {_upstream(then)}, is {_upstream(now)}")
    if then.operation != now.operation:
        lines.append(f"operation under way: was {then.operation or 'none'}, is {now.operation or 'none'}")
    if then.stash != now.stash:
        lines.append(f"stash entries: were {_number(then.stash)}, are {_number(now.stash)}")
    return lines


def _upstream(look: Look) -> str:
    if not look.upstream:
        return "none"
    return f"{look.upstream} (ahead {_number(look.ahead)}, behind {_number(look.behind)})"


def _number(value: int | None) -> str:
    return "unknown" if value is None else str(value)


def _work(then: Look, now: Look) -> list[str]:
    if then.untracked != now.untracked:
        return ["dirty paths: untracked files were listed only once, the lists cannot be compared"]
    if then.digest == now.digest:
        return []
    before, after = ({path: letters for letters, path in look.dirty} for look in (then, now))
    lines = []
    for name, first, second, whole in (
        ("newly dirty", after, before, len(then.dirty) == then.total),
        ("no longer dirty", before, after, len(now.dirty) == now.total),
    ):
        # Not on a list that was cut means nothing.
        paths = [path for path in first if path not in second] if whole else []
        if paths:
            lines.append(_listed(name, paths))
    changed = [path for path in after if path in before and before[path] != after[path]]
    if changed:
        lines.append(_listed("staged or unstaged since", changed))
    if then.total != len(then.dirty) or now.total != len(now.dirty):
        lines.append(f"dirty paths: were {then.total}, are {now.total}, not all of them were kept")
    return lines or [f"dirty paths: were {then.total}, are {now.total}, not the same ones"]


def _listed(name: str, paths: Sequence[str]) -> str:
    more = f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else ""
    return f"{name}: {', '.join(paths[:SHOWN])}{more}"


def _contents(then: Look, now: Look) -> list[str]:
    changed = [path for path, mark in then.held.items() if path in now.held and now.held[path] != mark]
    gone = [path for path in changed if now.held[path] == ""]
    edited = [path for path in changed if now.held[path] and then.held[path]]
    back = [path for path in changed if not then.held[path]]
    lines = []
    if edited:
        lines.append(_listed("content changed since, of files this session changed", edited))
    if gone:
        lines.append(_listed("gone, of files this session changed", gone))
    if back:
        lines.append(_listed("there again, of files this session changed", back))
    return lines


def position(look: Look) -> str:
    """Where a repository stands, in one line."""
    if look.unknown:
        return f"unknown ({look.unknown})"
    place = f"{look.branch or '(detached)'} at {look.head[:12] or '(no commit)'}"
    operation = f", {look.operation} under way" if look.operation else ""
    stash = f", {look.stash} stash entries" if look.stash else ""
    return f"{place}, {look.total} dirty paths{operation}{stash}"


def to_json(look: Look) -> dict[str, Any]:
    """A look as a JSON value."""
    return {**look._asdict(), "dirty": [list(row) for row in look.dirty], "held": dict(look.held)}


def from_json(value: object) -> Look:
    """The look that `to_json` wrote; one of which nothing is known for anything else."""
    if not isinstance(value, dict):
        return Look(unknown="unreadable")
    empty = Look()
    fields: dict[str, Any] = {}
    for name, default in empty._asdict().items():
        given = value.get(name, default)
        if name in ("ahead", "behind", "stash"):
            good = given is None or type(given) is int
        elif name == "dirty":
            rows = given if isinstance(given, list | tuple) else ()
            given = tuple((row[0], row[1]) for row in rows if _is_row(row))
            good = len(given) == len(rows)
        elif name == "held":
            good = isinstance(given, dict) and all(isinstance(mark, str) for mark in given.values())
        else:
            good = type(given) is type(default)
        if not good:
            return Look(unknown="unreadable")
        fields[name] = given
    return Look(**fields)


def _is_row(row: object) -> bool:
    return isinstance(row, list | tuple) and len(row) == 2 and all(isinstance(part, str) for part in row)
