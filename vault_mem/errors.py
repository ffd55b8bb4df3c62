"""The situations this program can name. Each class knows its message, its reason token and its exit code.

Exit codes: 0 done, 1 the answer is no or something failed, 3 degraded, 4 nothing there, 64 usage. Never 2: clients read 2 as "block".
"""

from __future__ import annotations


class VaultMemError(Exception):
    """Base of all; *token* can be grepped in logs, on stderr and in `--json`."""

    token = "error"
    exit_code = 1


class UsageError(VaultMemError):
    """The command line cannot be understood."""

    token = "usage"
    exit_code = 64


class BadPayloadError(VaultMemError):
    """A hook payload is empty, cut, not JSON, not an object, or lacks what the hook needs."""

    token = "bad-payload"


class MemoryRootError(VaultMemError):
    """The memory root is declared in a way that cannot be honoured; never answered with a default."""

    token = "bad-memory-root"

    def __init__(self, problem: str) -> None:
        super().__init__(f"MEMORY-ROOT: {problem}")


class NoSeatError(VaultMemError):
    """No seat was found from the start points."""

    token = "no-seat"


class UntrustedSeatError(VaultMemError):
    """The seat exists, but this user never ran `vault-mem init` or `vault-mem trust` for it."""

    token = "untrusted"


class UnsafeGitConfigError(VaultMemError):
    """The vault's own git configuration can run a program."""

    token = "unsafe-git-config"


class LockBusyError(VaultMemError):
    """Somebody else holds the vault lock longer than we may wait."""

    token = "lock-busy"


class LockUnusableError(VaultMemError):
    """The lock file is a link, no file at all, or cannot be made here."""

    token = "lock-unusable"

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")


class ExternallyChangedError(VaultMemError):
    """A file is not what the caller read; read again and start over."""

    token = "changed-meanwhile"


class GitRefusedError(VaultMemError):
    """Git, or we on its behalf, will not commit now; *reason* is a token such as `index-locked`."""

    def __init__(self, reason: str, detail: str = "") -> None:
        self.reason = reason
        self.token = f"git-refused:{reason}"
        super().__init__(f"{self.token}{': ' + detail if detail else ''}")


class HeaderError(VaultMemError):
    """A capsule's header cannot be used; *token* is one of the names in the capsule reference."""

    def __init__(self, token: str, detail: str = "") -> None:
        self.token = token
        self.detail = detail
        super().__init__(f"{token}{': ' + detail if detail else ''}")


class AnchorDamageError(VaultMemError):
    """A section anchor is missing, doubled, inside a sentence or inside a code fence; nothing is repaired by guessing."""

    token = "anchor-damage"
