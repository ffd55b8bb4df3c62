"""What the doctor saw, as values: everything the checks judge, and nothing that can still be looked at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vault_mem.tunables import Tunables

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vault_mem.capsule.extension import Declaration
    from vault_mem.capsule.selector import Candidate, Selection
    from vault_mem.report import Finding
    from vault_mem.settings import Settings
    from vault_mem.wakes import Wake


@dataclass(frozen=True, slots=True)
class Place:
    """The seat and its memory root. *token*, *error*: why there is none, in the resolver's words; *cwd* is where the doctor stands."""

    cwd: str
    root: str = ""
    memory: str = ""
    relative: str = ""
    source: str = ""
    found: str = ""
    token: str = ""
    error: str = ""
    memory_exists: bool = False
    off: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Trusting:
    """The trust record: `trusted`, `absent`, `unreadable` (*problem* says why) or `moved` (it names another memory root)."""

    state: str
    file: str = ""
    problem: str = ""
    mode: str = ""
    ref: str = ""
    anchor: str = ""
    roots: tuple[str, ...] = ()
    loose: bool = False


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock file of git: its *age* in seconds by our clock, whether it was *left* by a process that is gone, and whether it is *ours*."""

    path: str
    age: float
    left: bool
    ours: bool = False
    regular: bool = True


@dataclass(frozen=True, slots=True)
class Signing:
    """What the person's git would sign with: *key* names the setting (`commit.gpgSign`), *program* what it starts, *problem* why not."""

    wanted: bool = False
    program: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Git:
    """The repository of the vault. *refusal*: the token of what keeps it from taking a commit; *why*: why only git itself may write."""

    program: str = ""
    version: tuple[int, ...] = ()
    worktree: str = ""
    ref: str = ""
    gitdir: str = ""
    refusal: str = ""
    detail: str = ""
    why: str = ""
    head: str = ""
    unsafe: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    locks: tuple[Lock, ...] = ()
    owner: str = ""
    driver: str | None = None
    driver_gone: str = ""
    attributes: str | None = None
    hidden: tuple[str, ...] = ()
    excluded: bool = True
    enclosing: str = ""
    tracked_around: int = 0
    user_name: str = ""
    user_mail: str = ""
    config_only: bool = False
    signing: Signing = field(default_factory=Signing)
    hooks_path: str = ""
    mirror: tuple[str, ...] = ()
    edited: tuple[str, ...] = ()
    untracked: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    remote: str = ""
    ahead: int = 0
    behind: int = 0
    broken: tuple[str, ...] = ()
    foreign_history: str = ""
    late: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Logged:
    """One line of the hooks' log."""

    at: float
    door: str
    outcome: str
    detail: str


@dataclass(frozen=True, slots=True)
class State:
    """What the hooks keep, and where they keep it."""

    runtime: str = ""
    runtime_problem: str = ""
    read_only: tuple[str, ...] = ()
    free: int | None = None
    free_files: int | None = None
    lock_held: str = ""
    lock_problem: str = ""
    pending: tuple[str, ...] = ()
    intents: tuple[tuple[str, str, float], ...] = ()
    spool: int = 0
    bad_files: tuple[str, ...] = ()
    temporaries: tuple[str, ...] = ()
    unfinished: str = ""
    unsaved: tuple[str, ...] = ()
    log: tuple[Logged, ...] = ()
    seen_hooks: bool = False
    context: tuple[Finding, ...] = ()
    watcher: str = ""
    overdue: tuple[Wake, ...] = ()


@dataclass(frozen=True, slots=True)
class Command:
    """One hook command in a settings file; *ours*: its arguments when it starts our program. *program*, *resolved*: what it starts."""

    harness: str
    scope: str
    file: str
    where: str
    event: str
    matcher: str
    line: str
    timeout: float | None = None
    background: bool = False
    ours: str = ""
    program: str = ""
    resolved: str = ""
    mixed: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """How the exact command line of a hook of ours ended when it was started with hooks switched off; *problem* "" is well."""

    line: str
    problem: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A file a client reads hooks from. *problems*: why the client may pass it over, each with its JSON path."""

    harness: str
    scope: str
    path: str
    exists: bool
    problems: tuple[str, ...] = ()
    commands: tuple[Command, ...] = ()
    disabled: bool = False
    link: bool = False


@dataclass(frozen=True, slots=True)
class Client:
    """A client program on PATH; *version* "" with the *problem* when it does not tell."""

    name: str
    path: str = ""
    version: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill of ours as it lies in a client's folder: `same`, `edited`, `missing` or `link`."""

    name: str
    path: str
    state: str


@dataclass(frozen=True, slots=True)
class Wiring:
    """Hooks, clients, skills. *compaction*: where a client is told to compact, and at how many tokens."""

    files: tuple[SettingsFile, ...] = ()
    runs: tuple[Run, ...] = ()
    clients: tuple[Client, ...] = ()
    skills: tuple[Skill, ...] = ()
    home_problem: str = ""
    plugins: tuple[str, ...] = ()
    unreviewed: tuple[str, ...] = ()
    compaction: tuple[tuple[str, int], ...] = ()

    @property
    def commands(self) -> tuple[Command, ...]:
        """All commands of all files."""
        return tuple(command for file in self.files for command in file.commands)


@dataclass(frozen=True, slots=True)
class Memory:
    """The capsules: candidates, what the selector would choose, and problems found on a closer look (path, problem)."""

    candidates: tuple[Candidate, ...] = ()
    unavailable: str = ""
    selection: Selection | None = None
    problems: tuple[tuple[str, str], ...] = ()
    damaged: tuple[tuple[str, str], ...] = ()
    delivered: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that was looked at, at one moment (*now*, seconds since the epoch)."""

    now: float
    program: str
    place: Place
    trusting: Trusting
    settings: Settings
    git: Git = field(default_factory=Git)
    state: State = field(default_factory=State)
    wiring: Wiring = field(default_factory=Wiring)
    memory: Memory = field(default_factory=Memory)
    extension: Declaration | None = None
    environ: Mapping[str, str] = field(default_factory=dict)
    tunables: Tunables = field(default_factory=Tunables)
