from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    Run = Callable[..., subprocess.CompletedProcess[bytes]]

ACK = {"schema": "LifecycleExtension/v1", "capsule_ack": "tell the board: written {capsule_id}"}


@pytest.fixture
def declare(tmp_path: Path) -> Callable[[object], Path]:
    def write(value: object) -> Path:
        (tmp_path / ".aigent").mkdir(exist_ok=True)
        path = tmp_path / ".aigent" / "lifecycle-extension.json"
        path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
        return path

    return write


def test_the_declared_line_is_printed_with_the_id(
    vault_mem: Run, tmp_path: Path, declare: Callable[[object], Path]
) -> None:
    declare(ACK)

    done = vault_mem("extension", "render", "capsule_ack", "--capsule-id", "c-1", "--root", str(tmp_path))

    assert (done.returncode, done.stdout, done.stderr) == (0, b"tell the board: written c-1\n", b"")


def test_nothing_declared_prints_nothing(vault_mem: Run, tmp_path: Path) -> None:
    done = vault_mem("extension", "render", "capsule_ack", "--capsule-id", "c-1", "--root", str(tmp_path))

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize(
    ("arguments", "said"),
    (
        pytest.param((), "unknown command", id="nothing"),
        pytest.param(("show", "capsule_ack"), "unknown command", id="other-command"),
        pytest.param(("render",), "unknown field", id="no-field"),
        pytest.param(("render", "resume_preload"), "unknown field", id="array-field"),
        pytest.param(("render", "capsule_ack", "more"), "unknown argument", id="a-word-too-many"),
        pytest.param(("render", "capsule_ack", "--json"), "unknown argument", id="unknown-flag"),
        pytest.param(("render", "capsule_ack", "--capsule-id"), "needs a value", id="no-value"),
        pytest.param(("render", "capsule_ack", "--capsule-id", "--root"), "needs a value", id="flag-as-value"),
        pytest.param(
            ("render", "capsule_ack", "--capsule-id", "a", "--capsule-id", "b"), "given twice", id="flag-twice"
        ),
        pytest.param(("render", "capsule_ack", "--root", "nowhere"), "is not a directory", id="no-directory"),
        pytest.param(("render", "capsule_ack"), "no capsule was loaded", id="held"),
    ),
)
def test_every_refusal_is_one_line_on_stderr_and_exit_0(
    vault_mem: Run, tmp_path: Path, declare: Callable[[object], Path], arguments: tuple[str, ...], said: str
) -> None:
    declare(ACK)

    done = vault_mem("extension", *arguments, cwd=tmp_path)

    assert (done.returncode, done.stdout) == (0, b"")
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith("LIFECYCLE-EXTENSION: ")
    assert said in line


def test_a_declaration_that_cannot_be_read_says_so(
    vault_mem: Run, tmp_path: Path, declare: Callable[[object], Path]
) -> None:
    path = declare("not json\nat all")
    broken = vault_mem("extension", "render", "capsule_ack", "--capsule-id", "c", cwd=tmp_path)
    path.unlink()
    os.mkfifo(path)
    pipe = vault_mem("extension", "render", "capsule_ack", "--capsule-id", "c", cwd=tmp_path)

    assert b"is not valid JSON" in broken.stderr
    assert b"cannot be read" in pipe.stderr
    assert (broken.returncode, pipe.returncode) == (0, 0)


def test_the_example_in_the_docs_is_accepted(vault_mem: Run, tmp_path: Path, declare: Callable[[object], Path]) -> None:
    example = Path(__file__).parents[2] / "docs/how-to/lifecycle-extension.example.json"
    declare(example.read_text(encoding="utf-8"))

    done = vault_mem("extension", "render", "resume_ack", "--capsule-id", "c-1", cwd=tmp_path)

    assert done.stdout.endswith(b"resumed c-1\n")
    assert done.stderr == b""
