"""The vault as it was: the candidates of an earlier commit, capsules that left the tree, and the commit a person means by `--at`."""

from __future__ import annotations

import os

from vault_mem import files, jsontext
from vault_mem.capsule import header, model
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


INDEX = "index/gone.json"


class NoSuchRevisionError(VaultMemError):
    """What stands behind `--at` is neither a revision of the vault nor a date."""

    token = "no-such-revision"


class BeforeHistoryError(VaultMemError):
    """The date behind `--at` lies before the first commit of the vault."""

    token = "before-history"
    exit_code = 4


class NoHistoryError(VaultMemError):
    """An adopted tree without a repository of its own was asked about its past."""

    token = "adopted-no-repo"
    exit_code = 4


class Past(NamedTuple):
    """One capsule file of an earlier commit: as the selector sees it, its path, the commit it was read from, its bytes."""

    candidate: Candidate
    path: str
    commit: str
    data: bytes


def opened(store: Store) -> AbstractContextManager[repository.Store]:
    """The history of a seat, for reading. Raises GitRefusedError, NoHistoryError."""
    _has_history(store)
    return repository.opened(store.worktree, environ=store.environ, rev=store.rev, limit=repository.PATIENCE)


def quick(store: Store) -> repository.Quick:
    """The same for a command that people wait for. Raises NoHistoryError."""
    _has_history(store)
    return repository.Quick(store.worktree, environ=store.environ, rev=store.rev)


def _has_history(store: Store) -> None:
    if not store.keeps_history:
        raise NoHistoryError(
            "this adopted tree has no repository of its own, so there is no history to look at; "
            "`vault-mem init --adopt --mode dedicated` makes one"
        )


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


def gone(reading: repository.Store, store: Store, *, rev: str = "", named: str = "") -> tuple[Past, ...]:
    """The capsules that left the tree up to *rev*, each as its last commit had it; with *named* those whose file name begins so, if any."""
    found = (
        history.gone(reading, rev=rev) if rev else {path: each for path, (each, _) in _gone_now(reading, store).items()}
    )
    rows = [each for each in found.values() if named and each.id.startswith(named)] or list(found.values())
    return tuple(_read(reading, [(each.last, each.path) for each in rows]))


def remember_gone(store: Store) -> None:
    """Bring what is kept about capsules that left the tree up to date, so that nobody waits for it later. Raises GitRefusedError."""
    with opened(store) as reading:
        _gone_now(reading, store)


def still_active(store: Store) -> int:
    """How many capsules left the tree while they were active. Raises GitRefusedError."""
    with opened(store) as reading:
        return sum(status == model.ACTIVE for _, status in _gone_now(reading, store).values())


def _gone_now(reading: repository.Store, store: Store) -> dict[str, tuple[history.Gone, str]]:
    """With the last status of each. As `history.gone`, which looks at every commit; what it found is kept with the commit it is good for, and only newer ones are looked at."""
    path = f"{store.runtime}/{INDEX}"
    head = reading.text("rev-parse", "--verify", "--end-of-options", reading.rev).strip()
    since, known = _kept(path)
    if since == head:
        return known
    if since and not history.is_ancestor(reading, since, head):
        since, known = "", {}
    present = history.tree(reading, head)
    newer = history.gone(reading, rev=head, since=since)
    places = {each.path: (each.last, each.path) for each in newer.values()}
    ends = {each.path: model.status_of(each.candidate.fields or {}) or "" for each in _read(reading, places.values())}
    fresh = {path: (each, ends.get(path, "")) for path, each in newer.items()}
    found = {path: each for path, each in {**known, **fresh}.items() if path not in present}
    rows = [[each.path, each.id, each.removed, each.last, status] for each, status in found.values()]
    try:
        files.make_dirs(os.path.dirname(path))
        text = jsontext.dumps({"head": head, "gone": rows}, escaped=True)
        files.write_atomic(path, text.encode(), mode=0o600, durable=False)
    except OSError:
        pass  # slower next time
    return found


def _kept(path: str) -> tuple[str, dict[str, tuple[history.Gone, str]]]:
    try:
        value = jsontext.loads(files.read(path).decode())
        return str(value["head"]), {
            str(row[0]): (history.Gone(*map(str, row[:4])), str(row[4])) for row in value["gone"]
        }
    except (OSError, ValueError, TypeError, KeyError, IndexError):
        return "", {}


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
