from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vault_mem import transcript
from vault_mem.transcript import START, Delta, Position

if TYPE_CHECKING:
    from pathlib import Path


def lines(path: Path, position: Position = START) -> tuple[list[bytes], Position, bool]:
    """The lines of a delta, where the next one starts, and whether it began from the start again."""
    delta = Delta(str(path), position)
    restarted = delta.restarted
    return list(delta), delta.position, restarted


def test_a_delta_is_the_complete_lines_since_the_last_one(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"one\ntwo\n")
    first, position, _ = lines(path)
    with path.open("ab") as file:
        file.write(b"three\nfou")
    second, position, _ = lines(path, position)
    with path.open("ab") as file:
        file.write(b"r\n")

    third, position, restarted = lines(path, position)

    assert (first, second, third, restarted) == ([b"one", b"two"], [b"three"], [b"four"], False)
    assert lines(path, position)[0] == []


@pytest.mark.parametrize("content", (b"", b"half", b"\n", b"\n\n", b"a\n\nb\n", b"a\r\nb\r\n", b"\0\0\n\xff\xfe\n"))
def test_bytes_are_handed_on_as_they_are(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(content)

    assert lines(path)[0] == content.split(b"\n")[:-1]


@pytest.mark.parametrize(
    "after",
    (
        pytest.param(b"new\n", id="shorter"),
        pytest.param(b"other bytes of the same length or more\nnew\n", id="same inode, other bytes"),
        pytest.param(b"", id="emptied"),
    ),
)
def test_a_file_that_is_no_longer_the_one_that_was_read_is_read_from_its_start(tmp_path: Path, after: bytes) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"first line of the file\nsecond\n")
    _, position, _ = lines(path)
    path.write_bytes(after)

    found, _, restarted = lines(path, position)

    assert (found, restarted) == (after.split(b"\n")[:-1], True)


def test_another_file_under_the_same_name_is_read_from_its_start(tmp_path: Path) -> None:
    path, other = tmp_path / "t.jsonl", tmp_path / "u.jsonl"
    path.write_bytes(b"one\ntwo\n")
    _, position, _ = lines(path)
    other.write_bytes(b"one\ntwo\nthree\n")
    other.replace(path)

    assert lines(path, position)[0::2] == ([b"one", b"two", b"three"], True)


def test_a_link_to_the_transcript_is_followed(tmp_path: Path) -> None:
    path, link = tmp_path / "t.jsonl", tmp_path / "link.jsonl"
    path.write_bytes(b"one\n")
    link.symlink_to(path)

    assert lines(link)[0] == [b"one"]


@pytest.mark.parametrize("kind", ("nothing", "directory", "pipe", "dangling link", "a file in the way"))
def test_what_is_no_regular_file_is_no_transcript_and_blocks_nobody(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "t.jsonl"
    match kind:
        case "directory":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "dangling link":
            path.symlink_to(tmp_path / "gone")
        case "a file in the way":
            path.write_bytes(b"x")
            path = path / "t.jsonl"

    with pytest.raises(FileNotFoundError):
        lines(path)


def test_a_delta_that_nobody_reads_lets_go_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"one\n")
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0

    for _ in range(20):
        Delta(str(path)).close()
        Delta(str(path))
    whole = Delta(str(path))
    list(whole)
    whole.close()

    if before:
        assert len(os.listdir("/proc/self/fd")) <= before + 1


@given(
    pieces=st.lists(st.binary(max_size=12), max_size=8),
    block=st.integers(1, 5),
)
def test_the_size_of_a_block_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], block: int
) -> None:
    path = tmp_path_factory.mktemp("t") / "t.jsonl"
    content = b"\n".join(pieces)
    path.write_bytes(content)
    before = transcript.BLOCK
    try:
        transcript.BLOCK = block  # type: ignore[misc] # a smaller block stands for a larger file
        found, position, _ = lines(path)
    finally:
        transcript.BLOCK = before  # type: ignore[misc] # put back

    assert found == content.split(b"\n")[:-1]
    assert position.offset == content.rfind(b"\n") + 1


def test_a_line_that_is_longer_than_anything_sensible_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcript, "LONGEST", 1 << 19)
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"one\n" + b"x" * (2 << 20) + b"\ntwo\n")

    found, position, _ = lines(path)

    assert found == [b"one", b"two"]
    assert position.offset == path.stat().st_size


def test_only_what_is_new_of_a_large_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    row = b'{"type":"api-request-blob","x":"' + b"y" * 4000 + b'"}\n'
    with path.open("wb") as file:
        for _ in range(2500):
            file.write(row * 10)
    _, position, _ = lines(path)
    with path.open("ab") as file:
        file.write(b"new\n")
    reads: list[int] = []
    real = os.read

    def counted(handle: int, count: int) -> bytes:
        data = real(handle, count)
        reads.append(len(data))
        return data

    transcript_os = transcript.os
    try:
        transcript_os.read = counted  # type: ignore[assignment] # counts what is asked of the kernel
        found, _, _ = lines(path, position)
    finally:
        transcript_os.read = real  # type: ignore[assignment] # put back

    assert found == [b"new"]
    assert sum(reads) < 1024
    assert path.stat().st_size > 90 << 20


MEASURED = """
import resource, sys
from vault_mem.transcript import Delta
from vault_mem.harness import claude
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
count = sum(len(claude.read(line)) for line in Delta(sys.argv[1]))
print(count, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.parametrize(
    ("rows", "size", "limit"),
    (
        pytest.param(4000, 25_000, 40, id="100 MB in lines of 25 kB"),
        pytest.param(1, 20 << 20, 130, id="one line of 20 MB"),
    ),
)
def test_memory_does_not_grow_with_the_transcript(tmp_path: Path, rows: int, size: int, limit: int) -> None:
    path = tmp_path / "t.jsonl"
    row = b'{"type":"user","message":{"content":[{"type":"image","d":"%s"},{"type":"text","text":"hi"}]}}\n'
    with path.open("wb") as file:
        for _ in range(rows):
            file.write(row % (b"A" * size))

    done = subprocess.run(
        [sys.executable, "-c", MEASURED, str(path)], capture_output=True, check=True, text=True, cwd=os.getcwd()
    )

    count, grown = map(int, done.stdout.split())
    assert count == rows
    assert grown < (limit if sys.platform != "darwin" else limit << 10)
