"""The vault as it was: the candidates of an earlier commit, capsules that left the tree, and the commit a person means by `--at`."""

from __future__ import annotations

from vault_mem.capsule import header
from vault_mem.capsule.selector import Candidate
from vault_mem.errors import HeaderError, VaultMemError
from vault_mem.record import NamedTuple
from vault_mem.repo import history
from vault_mem.repo import store as repository

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager

    from vault_mem.vault.store import Store


class NoSuchRevisionError(VaultMemError):
    """What stands behind `--at` is neither a revision of the vault nor a date."""

    token = "no-such-revision"


class BeforeHistoryError(VaultMemError):
    """The date behind `--at` lies before the first commit of the vault."""

    token = "before-history"
    exit_code = 4


class Past(NamedTuple):
    """One capsule file of an earlier commit: as the selector sees it, its path, the commit it was read from, its bytes."""

    candidate: Candidate
    path: str
    commit: str
    data: bytes


def opened(store: Store) -> AbstractContextManager[repository.Store]:
    """The history of a seat, for reading. Raises GitRefusedError."""
    return repository.opened(store.worktree, environ=store.environ, rev=store.rev)


def quick(store: Store) -> repository.Quick:
    """The same for a command that people wait for."""
    return repository.Quick(store.worktree, environ=store.environ, rev=store.rev)


def at(reading: repository.Reading, text: str) -> str:
    """The commit behind `--at`. Raises NoSuchRevisionError, BeforeHistoryError."""
    found = history.resolve(reading, text)
    if found:
        return found
    if history.is_date(text):
        raise BeforeHistoryError(f"the history of this vault begins after {text!r}")
    raise NoSuchRevisionError(
        f"{text!r} is no revision of this vault and no date such as 2026-12-01, 2026-12-01T10:00:00Z or '3 hours ago'"
    )


def tree(reading: repository.Store, commit: str) -> tuple[Past, ...]:
    """Every capsule that *commit* has, in the order of their paths."""
    names = sorted(history.tree(reading, commit))
    return tuple(_read(reading, [(commit, name) for name in names]))


def gone(reading: repository.Store, *, rev: str = "") -> tuple[Past, ...]:
    """The capsules that left the tree up to *rev*, each as its last commit had it."""
    found = history.gone(reading, rev=rev)
    return tuple(_read(reading, [(each.last, each.path) for each in found.values()]))


def _read(reading: repository.Store, places: Iterable[tuple[str, str]]) -> Iterable[Past]:
    asked = {f"{commit}:{path}": (commit, path) for commit, path in places if "\n" not in path}
    for name, data in reading.blobs(asked) if asked else ():
        commit, path = asked[name]
        if data is not None:
            yield Past(candidate(path, data), path, commit, data)


def candidate(path: str, data: bytes) -> Candidate:
    """A file of history as the selector sees it."""
    name = history.id_of(path)
    try:
        return Candidate(name, path, header.read(data.decode("utf-8")))
    except UnicodeDecodeError as error:
        return Candidate(name, path, None, "not-utf8", f"byte {error.start}")
    except HeaderError as error:
        return Candidate(name, path, None, error.token, error.detail)
