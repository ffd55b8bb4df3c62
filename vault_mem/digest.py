"""SHA-256 from the C module alone: `hashlib` costs 2 ms of CPU a hook."""

from __future__ import annotations

try:
    from _sha256 import sha256 as _sha256  # type: ignore[import-not-found, unused-ignore] # its name up to Python 3.11
except ImportError:
    try:
        from _sha2 import sha256 as _sha256  # type: ignore[import-not-found, unused-ignore, no-redef] # since Python 3.12
    except ImportError:
        from hashlib import sha256 as _sha256  # another implementation of Python


def sha256(data: bytes) -> str:
    """64 hex digits."""
    return str(_sha256(data).hexdigest())
