"""One capsule that was chosen or asked for, with its whole text; and the error where there is none."""

from __future__ import annotations

from vault_mem.capsule import header
from vault_mem.errors import VaultMemError
from vault_mem.record import NamedTuple
from vault_mem.vault import tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from vault_mem.capsule.model import Value
    from vault_mem.capsule.selector import Candidate
    from vault_mem.vault.store import Store


class NoSuchCapsuleError(VaultMemError):
    """A capsule was asked for by an id that is not in the tree, or that cannot be handed out."""

    token = "no-such-capsule"


class Chosen(NamedTuple):
    """A candidate whose whole text was read and holds.

    parent: the header of its parent, of long texts perhaps only the beginning; None without one. gone: the commit it was read from when its file
    left the tree.
    """

    candidate: Candidate
    document: str
    fields: Mapping[str, Value]
    parent: Mapping[str, Value] | None = None
    gone: str = ""


def opened(store: Store, candidate: Candidate) -> Chosen:
    """The candidate with its whole text. Raises HeaderError by name."""
    document = tree.read_document(f"{store.memory}/{candidate.path}")
    return Chosen(candidate, document, {**(candidate.fields or {}), **header.read(document)})
