"""Looking at an adopted tree that has no repository: what is there is told, and why there is no more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.verbs.conftest import Session

if TYPE_CHECKING:
    from collections.abc import Callable

NOTE = "adopted-no-repo: this tree has no repository"


@pytest.fixture
def looked(project: Path, environ: dict[str, str], vault_mem: Callable[..., Any]) -> Callable[..., Any]:
    """A tree with one capsule that was handed on and one that goes on from it; runs a command there."""
    (project / "memory/capsules").mkdir(parents=True)
    (project / ".aigent").mkdir()
    (project / ".aigent/state.json").write_text('{"schemaVersion": 1, "memory_root": "memory"}\n', "utf-8")
    vault_mem("init", "--adopt", "--harness", "claude", "--scope", "project", cwd=project, check=True)
    first = Session(project, Path(environ["HOME"]), vault_mem, "11111111-0000-4000-8000-000000000000")
    first.turn("Split the parser.", "Split.")
    second = first.sibling("22222222-0000-4000-8000-000000000000")
    second.clock = first.clock + 60
    second.start("clear")
    second.turn("Go on with the parser.", "Going on.")
    return lambda *arguments: vault_mem(*arguments, cwd=project, stdin=b"")


def test_list_all_tells_what_is_in_the_tree_and_that_there_is_no_history(looked: Callable[..., Any]) -> None:
    done = looked("list", "--all")

    assert done.returncode == 0
    assert b"auto-11111111" in done.stdout
    assert b"auto-22222222" in done.stdout
    assert NOTE in done.stdout.decode("utf-8")
    assert NOTE not in looked("list").stdout.decode("utf-8")


@pytest.mark.parametrize("graph", ((), ("--graph",)))
def test_log_tells_saves_and_deliveries_without_commits(graph: tuple[str, ...], looked: Callable[..., Any]) -> None:
    text = looked("log", *graph, "-n", "20").stdout.decode("utf-8")
    document = json.loads(looked("log", *graph, "--json").stdout)

    assert NOTE in text
    assert "auto-11111111" in text
    assert sorted(each["event"] for each in document["entries"]) == ["autosave", "autosave", "consume"]
    assert {each["commit"] for each in document["entries"]} == {None}
    assert [each["consumer"] for each in document["entries"] if each["event"] == "consume"] == [
        "22222222-0000-4000-8000-000000000000"
    ]
    assert [(each["token"], each["severity"]) for each in document["findings"]] == [("adopted-no-repo", "info")]


def test_log_of_one_capsule_and_its_family(looked: Callable[..., Any]) -> None:
    first = next(each["id"] for each in json.loads(looked("list", "--json").stdout)["capsules"] if "1111" in each["id"])

    alone = json.loads(looked("log", first, "--json").stdout)["entries"]
    family = json.loads(looked("log", first, "--graph", "--json").stdout)["nodes"]

    assert {each["id"] for each in alone} == {first}
    assert len(family) == 2


@pytest.mark.parametrize(
    "command",
    (
        ("list", "--at", "HEAD"),
        ("list", "--all", "--at", "2026-01-01"),
        ("log", "--at", "HEAD"),
        ("show", "ID", "--history"),
        ("diff", "ID"),
        ("explain", "--at", "HEAD"),
        ("verify",),
    ),
    ids=" ".join,
)
def test_a_question_about_the_past_is_answered_with_the_reason(command: tuple[str, ...], looked: Any) -> None:
    known = json.loads(looked("list", "--json").stdout)["capsules"][0]["id"]

    done = looked(*(known if word == "ID" else word for word in command))

    assert done.returncode == 4
    assert b"adopted-no-repo: this adopted tree has no repository of its own" in done.stderr
    assert b"git-refused" not in done.stderr
