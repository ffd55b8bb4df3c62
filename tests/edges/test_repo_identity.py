"""The person is who git says, asked once and again only when a configuration file changes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from vault_mem.repo import identity, shape

if TYPE_CHECKING:
    from collections.abc import Callable

    Git = Callable[..., str]


@pytest.fixture
def vault(tmp_path: Path, git: Git) -> Path:
    git(tmp_path, "init", "-q", "vault")
    return tmp_path / "vault"


@pytest.fixture
def person(vault: Path, environ: dict[str, str], tmp_path: Path) -> Callable[..., str]:
    """Who commits now; with `asks=False` git cannot be found, so that only what is kept can answer."""

    def run(*, asks: bool = True, **more: str) -> str:
        known = {**environ, **more} | ({} if asks else {"PATH": str(tmp_path / "nowhere")})
        repository = shape.opened(str(vault), environ=known)
        found = identity.person(repository, environ=known, state=str(tmp_path / "state"))
        assert found.author == found.committer
        return found.author

    return run


def test_the_answer_is_kept(person: Callable[..., str]) -> None:
    assert person() == "Test Person <person@example.test>"
    assert person(asks=False) == "Test Person <person@example.test>"


@pytest.mark.parametrize("place", ("global", "repository", "xdg", "included", "included later"))
def test_a_change_in_any_file_git_reads_is_seen_at_once(
    place: str, person: Callable[..., str], vault: Path, environ: dict[str, str], git: Git, tmp_path: Path
) -> None:
    files = {
        "global": Path(environ["GIT_CONFIG_GLOBAL"]), "repository": vault / ".git" / "config", "included": tmp_path / "included",
        "xdg": Path(environ["XDG_CONFIG_HOME"]) / "git" / "config", "included later": tmp_path / "home" / "later",
    }  # fmt: skip
    more = {}
    if place == "xdg":
        del environ["GIT_CONFIG_GLOBAL"]
        Path(environ["HOME"], ".gitconfig").unlink()
    if place.startswith("included"):
        with files["global"].open("a", encoding="utf-8") as file:
            file.write(f'[includeIf "gitdir:{vault}/"]\n\tpath = {"~/later" if "later" in place else files[place]}\n')
        more["HOME"] = str(tmp_path / "home")
        (tmp_path / "home").mkdir()
    if place == "included":
        files[place].write_text("[user]\n\tname = Before\n", encoding="utf-8")
    before = person(**more)
    assert person(asks=False, **more) == before

    files[place].parent.mkdir(parents=True, exist_ok=True)
    git(vault, "config", "--file", str(files[place]), "user.name", "After")
    git(vault, "config", "--file", str(files[place]), "user.email", "after@example.test")

    assert person(**more) == "After <after@example.test>"
    assert person(asks=False, **more) == "After <after@example.test>"


def test_what_is_not_configured_is_ours_and_nothing_is_guessed(
    person: Callable[..., str], environ: dict[str, str]
) -> None:
    config = Path(environ["GIT_CONFIG_GLOBAL"])
    config.write_text("", encoding="utf-8")
    assert person(EMAIL="guess@example.test") == "vault-mem <vault-mem@localhost>"

    config.write_text("[user]\n\tname = Only Name\n", encoding="utf-8")
    assert person() == "Only Name <vault-mem@localhost>"


def test_author_and_committer_may_have_names_of_their_own(
    vault: Path, environ: dict[str, str], git: Git, tmp_path: Path
) -> None:
    git(vault, "config", "author.name", "Author")
    git(vault, "config", "committer.email", "committer@example.test")
    repository = shape.opened(str(vault), environ=environ)

    found = identity.person(repository, environ=environ, state=str(tmp_path / "state"))

    assert found == identity.Identity("Author <person@example.test>", "Test Person <committer@example.test>")


def test_variables_of_git_do_not_name_the_person(person: Callable[..., str]) -> None:
    assert person(
        GIT_AUTHOR_NAME="Forged", GIT_COMMITTER_NAME="Forged", GIT_CONFIG_PARAMETERS="'user.name=Forged'"
    ).startswith("Test Person")


@pytest.mark.parametrize(
    "text", ("A <b> C", " spaced .,", 'quo"ted"', "line\nbreak", "a'b\\", "ünï", "<>", "\x01ctrl\x02")
)
def test_names_are_cleaned_as_git_cleans_them(text: str, vault: Path, git: Git) -> None:
    (vault / "f").write_text("x", encoding="utf-8")
    git(vault, "add", "f")
    cleaned = identity.cleaned(text)
    if not cleaned:
        return

    git(vault, "-c", f"user.name={text}", "commit", "-qm", "x")

    assert git(vault, "log", "-1", "--format=%an") == cleaned


@pytest.mark.parametrize(
    "text", ("", "{", "[]", '{"question": 1}', '{"author": "x", "committer": "y", "question": [], "files": []}')
)
def test_a_damaged_answer_is_asked_again(text: str, person: Callable[..., str], tmp_path: Path) -> None:
    person()
    (tmp_path / "state" / identity.CACHE).write_text(text, encoding="utf-8")

    assert person() == "Test Person <person@example.test>"


def test_a_state_folder_that_cannot_be_written_changes_nothing(vault: Path, environ: dict[str, str]) -> None:
    repository = shape.opened(str(vault), environ=environ)

    assert identity.person(repository, environ=environ, state=os.devnull) == identity.Identity(
        *["Test Person <person@example.test>"] * 2
    )
