"""Files are written whole or not at all, and nothing that is no file is read or followed."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vault_mem import files
from vault_mem.errors import ExternallyChangedError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("data", (b"", b"x", b"x" * 1_000_001), ids=("empty", "one", "large"))
@pytest.mark.parametrize("durable", (True, False))
def test_what_is_written_is_read(tmp_path: Path, data: bytes, durable: bool) -> None:
    path = str(tmp_path / "a.md")

    files.write_atomic(path, data, durable=durable)

    assert files.read(path) == data
    assert os.listdir(tmp_path) == ["a.md"]


def test_files_are_private_unless_asked_otherwise(tmp_path: Path) -> None:
    files.write_atomic(str(tmp_path / "a"), b"")
    files.write_atomic(str(tmp_path / "b"), b"", mode=0o644)

    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o644


def test_a_file_that_is_not_regular_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")

    for name in ("link", "pipe", ".", "absent"):
        with pytest.raises(OSError):  # noqa: PT011 - the kind of OSError differs by system
            files.read(str(tmp_path / name))


def test_a_file_above_the_limit_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")

    assert files.read(str(tmp_path / "a"), limit=5) == b"12345"
    with pytest.raises(OSError, match="more than 4 bytes"):
        files.read(str(tmp_path / "a"), limit=4)


def test_writing_replaces_a_link_and_leaves_its_target_alone(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"theirs")
    (tmp_path / "a").symlink_to("target")

    files.write_atomic(str(tmp_path / "a"), b"ours")

    assert not (tmp_path / "a").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"theirs"


def test_a_write_that_fails_leaves_neither_a_half_file_nor_a_temporary_one(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()

    with pytest.raises(OSError):  # noqa: PT011 - EISDIR or EEXIST, by system
        files.write_atomic(str(tmp_path / "folder"), b"x")

    assert os.listdir(tmp_path) == ["folder"]


def test_temporary_names_are_hidden_and_never_capsules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    rename = os.rename
    monkeypatch.setattr(os, "rename", lambda old, new: (seen.append(os.path.basename(old)), rename(old, new)))

    files.write_atomic(str(tmp_path / "a.md"), b"x")

    assert [(name[0], name.endswith(".tmp"), files.is_temporary(name)) for name in seen] == [(".", True, True)]
    assert not files.is_temporary("a.md")


@pytest.mark.parametrize(
    ("present", "expected"),
    ((b"other", b"mine"), (None, b"mine"), (b"there", None)),
    ids=("changed", "removed", "appeared"),
)
def test_a_file_that_is_not_as_read_is_not_replaced(
    tmp_path: Path, present: bytes | None, expected: bytes | None
) -> None:
    path = tmp_path / "a"
    if present is not None:
        path.write_bytes(present)

    with pytest.raises(ExternallyChangedError):
        files.replace(str(path), b"new", expected=expected)

    assert (path.read_bytes() if path.exists() else None) == present
    assert len(os.listdir(tmp_path)) == (present is not None)


def test_a_file_as_read_is_replaced_and_an_absent_one_made(tmp_path: Path) -> None:
    path = str(tmp_path / "a")

    files.replace(path, b"1", expected=None)
    files.replace(path, b"2", expected=b"1")

    assert files.read(path) == b"2"


def test_a_file_is_created_once(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    files.create(str(tmp_path / "a"), b"1")

    for name in ("a", "link"):
        with pytest.raises(FileExistsError):
            files.create(str(tmp_path / name), b"2")
    assert files.read(str(tmp_path / "a")) == b"1"


def test_appending_makes_the_file_and_never_follows_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("log")

    files.append(str(tmp_path / "log"), b"1\n")
    files.append(str(tmp_path / "log"), b"2\n")

    with pytest.raises(OSError):  # noqa: PT011 - ELOOP or EMLINK, by system
        files.append(str(tmp_path / "link"), b"3\n")
    assert (tmp_path / "log").read_bytes() == b"1\n2\n"


def test_folders_are_made_with_those_above_them(tmp_path: Path) -> None:
    files.make_dirs(str(tmp_path / "a" / "b" / "c"))
    files.make_dirs(str(tmp_path / "a" / "b" / "c"))

    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FileExistsError):
        files.make_dirs(str(tmp_path / "file"))


def test_removing_says_whether_there_was_anything(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")

    assert [files.remove(str(tmp_path / "a")), files.remove(str(tmp_path / "a"))] == [True, False]


@given(st.lists(st.binary(max_size=30), max_size=5), st.integers(0, 60))
def test_an_open_file_is_read_to_its_end_whatever_size_was_expected(parts: list[bytes], expected: int) -> None:
    data = b"".join(parts)
    reader, writer = os.pipe()
    try:
        os.write(writer, data)
        os.close(writer)
        got = files.read_handle(reader, expected)
    finally:
        os.close(reader)

    assert got == data or (len(got) == expected and data.startswith(got))
