"""Faults of seat, memory root and trust: each is made for real, found, mended the way the doctor says, and gone.

`command` runs the command of the finding in a shell, `fix` is `--fix`; a function mends what only a person can.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from vault_mem import trust

if TYPE_CHECKING:
    from collections.abc import Callable

PROGRAM = str(Path(sys.executable).parent / "vault-mem")
OLD = 3600


def replaced(path: Path, make: Callable[[Path], Any]) -> Callable[[], None]:
    """Puts something else in the place of *path*; calling the answer puts the old back."""
    aside = path.with_name(path.name + ".kept")
    path.rename(aside)
    make(path)

    def back() -> None:
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
        aside.rename(path)

    return back


def broken_declaration(text: str) -> Callable[[Any], Any]:
    def make(box: Any) -> Any:
        box.marker.write_text(text)
        return box.redeclare

    return make


def declared(value: Any) -> Callable[[Any], Any]:
    return broken_declaration(json.dumps({"memory_root": value}))


def marker_is_a_folder(box: Any) -> Any:
    return replaced(box.marker, lambda path: path.mkdir())


def root_behind_a_link(box: Any) -> Any:
    return replaced(box.seat / "vault", lambda path: path.symlink_to(path.name + ".kept"))


def root_is_a_file(box: Any) -> Any:
    return replaced(box.vault, lambda path: path.write_text(""))


def root_behind_a_file(box: Any) -> Any:
    return replaced(box.seat / "vault", lambda path: path.write_text(""))


def root_is_gone(box: Any) -> None:
    shutil.rmtree(box.vault)


def no_seat(box: Any) -> Any:
    box.marker.unlink()
    return box.redeclare


def undeclared(box: Any) -> None:
    box.marker.write_text('{"schemaVersion": 1}')


def variable(name: str, value: str) -> Callable[[Any], Any]:
    def make(box: Any) -> Any:
        box.environ[name] = value
        return lambda: box.environ.pop(name)

    return make


def bad_extension(box: Any) -> Any:
    path = box.seat / ".aigent/lifecycle-extension.json"
    path.write_text("[]")
    return path.unlink


def distrusted(box: Any) -> None:
    trust.revoke(str(box.vault), environ=box.environ)


def trust_record(change: Callable[[Path], Any]) -> Callable[[Any], Any]:
    def make(box: Any) -> Any:
        return change(Path(trust.record_file(str(box.vault), environ=box.environ)))

    return make


def other_memory(path: Path) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), "memory_root": "/elsewhere"}))


def rewritten(box: Any) -> None:
    box.capsule("2026-01-01-before")
    box.shell("vault-mem trust")
    box.git(box.vault, "commit", "-q", "--amend", "-m", "something else", "--date=2026-01-01T00:00:00Z")


def replaced_by_another(box: Any) -> None:
    box.git(box.vault, "checkout", "-q", "--orphan", "other")
    box.git(box.vault, "commit", "-q", "-m", "another beginning")


FIX, COMMAND = "fix", "command"
FAULTS = (
    ("no-seat", no_seat, None),
    ("root-undeclared", undeclared, COMMAND),
    ("root-unreadable", marker_is_a_folder, None),
    ("root-not-json", broken_declaration("{"), None),
    ("root-not-json", broken_declaration('{"memory_root": "\\ud8'), None),
    ("root-not-object", broken_declaration("[]"), None),
    ("root-not-string", declared(7), None),
    ("root-empty", declared("  "), None),
    ("root-too-long", declared("x" * 241), None),
    ("root-control-character", declared("a\x1bb"), None),
    ("root-backslash", declared("a\\b"), None),
    ("root-absolute", declared("/tmp/x"), None),
    ("root-absolute", declared("C:/x"), None),
    ("root-dot-segment", declared("a/./b"), None),
    ("root-dot-segment", declared("a/"), None),
    ("root-parent-segment", declared("a/../b"), None),
    ("root-symlink", root_behind_a_link, None),
    ("root-not-directory", root_is_a_file, None),
    ("root-not-directory", root_behind_a_file, None),
    ("root-missing", root_is_gone, COMMAND),
    ("switched-off", variable("VAULT_MEM_OFF", "1"), None),
    ("switched-off", variable("LIFECYCLE_KILL_STOP_WRITER", "1"), None),
    ("extension-refused", bad_extension, None),
    ("untrusted", distrusted, COMMAND),
    ("trust-unreadable", trust_record(lambda path: path.write_text("{")), COMMAND),
    ("trust-moved", trust_record(other_memory), COMMAND),
    ("trust-open-to-others", trust_record(lambda path: path.chmod(0o666)), COMMAND),
    ("history-rewritten", rewritten, "vault-mem trust"),
    ("other-vault", replaced_by_another, "vault-mem trust"),
)


@pytest.mark.parametrize(
    ("token", "make", "how"),
    tuple(pytest.param(*row, id=f"{row[0]}-{number}") for number, row in enumerate(FAULTS)),
)
def test_a_fault_is_found_mended_and_gone(box: Any, token: str, make: Callable[[Any], Any], how: str | None) -> None:
    box.cured(token, make, how)
