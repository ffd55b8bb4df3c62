"""A memory for coding-agent sessions that is a git repository of markdown files."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vault_mem.version import __version__

__all__ = ["__version__"]


def __getattr__(name: str) -> str:
    """The version is read only when somebody asks: no hook pays for it."""
    if name == "__version__":
        from vault_mem import version

        return version.__version__
    raise AttributeError(name)
