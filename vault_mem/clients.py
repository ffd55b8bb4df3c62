"""Where the clients keep their settings: the folders that CLAUDE_CONFIG_DIR and CODEX_HOME name, and the files of each scope."""

from __future__ import annotations

import os
from dataclasses import dataclass

from vault_mem.errors import VaultMemError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

HARNESSES = ("claude", "codex")
SCOPES = ("project", "user", "local")


class ClientHomeError(VaultMemError):
    """The variable that names a client's folder has a value that the client and we would read differently."""

    token = "bad-client-home"


@dataclass(frozen=True, slots=True)
class Place:
    """A settings file that a client reads hooks from."""

    harness: str
    scope: str
    path: str


def claude_home(environ: Mapping[str, str]) -> str:
    """Claude Code's folder: CLAUDE_CONFIG_DIR, else `~/.claude`; it need not exist. Raises ClientHomeError."""
    return _home("CLAUDE_CONFIG_DIR", ".claude", environ)


def codex_home(environ: Mapping[str, str]) -> str:
    """Codex's folder: CODEX_HOME, else `~/.codex`; it need not exist. Raises ClientHomeError."""
    return _home("CODEX_HOME", ".codex", environ)


def _home(variable: str, name: str, environ: Mapping[str, str]) -> str:
    value = environ.get(variable, "")
    if value.strip():
        if not os.path.isabs(value):
            # The client would take `~` literally and a relative path from wherever it starts.
            raise ClientHomeError(f"{variable} must be an absolute path, it is {value!r}: set it to one, or unset it")
        return os.path.normpath(value)
    home = environ.get("HOME", "")
    if not os.path.isabs(home):
        import pwd

        home = pwd.getpwuid(os.getuid()).pw_dir
    return os.path.join(home, name)


def place(harness: str, scope: str, *, project: str, environ: Mapping[str, str]) -> Place:
    """The file in which hooks of *scope* are wired for *harness*. Raises ClientHomeError."""
    if harness == "codex":
        # Codex has no scope between project and user: what only this person should have lies in the project's file as well.
        folder = codex_home(environ) if scope == "user" else os.path.join(project, ".codex")
        return Place(harness, "user" if scope == "user" else "project", os.path.join(folder, "hooks.json"))
    if scope == "user":
        return Place(harness, scope, os.path.join(claude_home(environ), "settings.json"))
    name = "settings.local.json" if scope == "local" else "settings.json"
    return Place(harness, scope, os.path.join(project, ".claude", name))


def places(*, project: str, environ: Mapping[str, str]) -> tuple[Place, ...]:
    """Every file a client started in *project* reads hooks from, whether it exists or not. Raises ClientHomeError."""
    found = [
        place(harness, scope, project=project, environ=environ)
        for harness in HARNESSES
        for scope in SCOPES
        if (harness, scope) != ("codex", "local")
    ]
    # A project in the home folder has one file for two scopes.
    return tuple({each.path: each for each in reversed(found)}.values())[::-1]


def skills_dir(scope: str, *, project: str, environ: Mapping[str, str], harness: str = "claude") -> str:
    """The folder from which *harness* reads skills in *scope*. Raises ClientHomeError."""
    if scope == "user":
        return os.path.join(codex_home(environ) if harness == "codex" else claude_home(environ), "skills")
    return os.path.join(project, f".{harness}", "skills")
