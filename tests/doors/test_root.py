from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    folder = tmp_path / "base"
    (folder / ".aigent").mkdir(parents=True)
    return folder


def _declare(base: Path, value: object) -> None:
    (base / ".aigent/state.json").write_text(json.dumps({"schemaVersion": 1, "memory_root": value}))


def _ask(vault_mem: Run, base: Path, *flags: str) -> list[str]:
    return vault_mem("root", "--root", str(base), *flags, check=True).stdout.decode().splitlines()


def test_a_declared_root_is_printed_as_declared(base: Path, vault_mem: Run) -> None:
    _declare(base, " notes/mem ")
    (base / "notes/mem").mkdir(parents=True)
    (base / "vault/memory").mkdir(parents=True)
    (base / "memory").mkdir()

    assert _ask(vault_mem, base) == [f"{base}/notes/mem"]
    assert _ask(vault_mem, base, "--relative") == ["notes/mem"]
    assert _ask(vault_mem, base, "--ledgers") == [f"{base}/notes/mem"]
    assert _ask(vault_mem, base, "--with-ledgers", "--with-ledgers") == [f"{base}/notes/mem"] * 2


@pytest.mark.parametrize(
    ("present", "memory", "ledgers"),
    (
        pytest.param((), "vault/memory", "vault/memory", id="nothing"),
        pytest.param(("memory",), "memory", "memory", id="memory"),
        pytest.param(("vault/memory",), "vault/memory", "vault/memory", id="vault"),
        pytest.param(("vault/memory", "memory"), "vault/memory", "memory", id="both"),
    ),
)
def test_without_a_declaration_the_first_default_that_exists_counts(
    present: tuple[str, ...], memory: str, ledgers: str, base: Path, vault_mem: Run
) -> None:
    for name in present:
        (base / name).mkdir(parents=True)

    assert _ask(vault_mem, base, "--with-ledgers") == [f"{base}/{memory}", f"{base}/{ledgers}"]
    assert _ask(vault_mem, base, "--with-ledgers", "--relative") == [memory, ledgers]


def test_the_document_says_where_the_answer_comes_from(base: Path, vault_mem: Run) -> None:
    _declare(base, "mem")

    document = json.loads("\n".join(_ask(vault_mem, base, "--json", "--allow-missing")))

    assert document == {
        "schema": 1,
        "command": "root",
        "ok": True,
        "base": str(base),
        "path": f"{base}/mem",
        "relative": "mem",
        "source": "configured",
        "ledgers": f"{base}/mem",
    }


@pytest.mark.parametrize(
    ("value", "said"),
    (
        pytest.param(7, "must be a string", id="number"),
        pytest.param("  ", "must not be empty", id="blank"),
        pytest.param("a" * 241, "must be at most 240 characters", id="long"),
        pytest.param("a\tb", "must not contain control characters", id="control"),
        pytest.param("a\\b", "must use forward slashes", id="backslash"),
        pytest.param("/a", "not absolute", id="absolute"),
        pytest.param("C:/a", "not absolute", id="drive"),
        pytest.param("a/", "must not contain an empty or . path segment", id="trailing slash"),
        pytest.param("a/../b", "must not contain a .. segment", id="up"),
        pytest.param("missing", "does not exist", id="missing"),
    ),
)
def test_a_declaration_that_cannot_be_honoured_is_one_line_and_exit_1(
    value: object, said: str, base: Path, vault_mem: Run
) -> None:
    _declare(base, value)
    (base / "vault/memory").mkdir(parents=True)

    done = vault_mem("root", "--root", str(base))

    assert (done.returncode, done.stdout) == (1, b"")
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith("MEMORY-ROOT: ")
    assert said in line


def test_the_default_asks_nobody(base: Path, vault_mem: Run) -> None:
    _declare(base, 7)

    assert vault_mem("root", "--default", cwd=base, check=True).stdout == b"vault/memory\n"


@pytest.mark.parametrize(
    "arguments",
    (
        pytest.param(("--nope",), id="unknown"),
        pytest.param(("word",), id="word"),
        pytest.param(("--root",), id="no value"),
        pytest.param(("--root", ""), id="empty value"),
        pytest.param(("--root", "a", "--root", "b"), id="twice"),
        pytest.param(("--default", "--relative"), id="default and more"),
        pytest.param(("--default", "--root", "a"), id="default and root"),
        pytest.param((), id="no seat here"),
    ),
)
def test_a_wrong_question_is_one_line_and_exit_1(arguments: tuple[str, ...], tmp_path: Path, vault_mem: Run) -> None:
    done = vault_mem("root", *arguments, cwd=tmp_path)

    assert (done.returncode, done.stdout) == (1, b"")
    assert len(done.stderr.splitlines()) == 1


def test_the_seat_around_is_asked_when_none_is_named(seat: Path, vault_mem: Run) -> None:
    (seat / "src").mkdir()

    assert vault_mem("root", cwd=seat / "src", check=True).stdout.decode() == f"{seat}/vault/memory\n"


def test_the_state_home_diverts_the_base(base: Path, tmp_path: Path, vault_mem: Run) -> None:
    _declare(base, "mem")
    (base / "mem").mkdir()

    done = vault_mem("root", "--root", str(tmp_path), more={"AIGENT_STATE_HOME_DIR": str(base)}, check=True)

    assert done.stdout.decode() == f"{base}/mem\n"
