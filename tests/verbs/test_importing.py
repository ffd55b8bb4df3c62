"""Import and export through the program: nothing is written over, nothing is invented, the same input twice adds nothing."""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

LEGACY = """---
id: 2026-08-03-auto-abcd1234
parent_capsule_id: null
status: active
objective: "In-flight work (auto-captured; see latest session log)"
waiting_on: null
resume_trigger: compact
expires: null
trigger: stop-delta
next_valid_action: "No concrete next action was captured in this Stop delta."
success_criteria: []
tags: [capsule, autosave]
created_at: 2026-08-03T10:00:00.123Z
resolved_at: null
framing: reference-only
---

> [!info] [REFERENCE ONLY] a snapshot

## Done (don't redo)
<!-- swe:done -->
- 10:00 [OPERATOR] split the parser
"""
DIALECT = """---
id: 2026-07-01-curated
status: consumed
objective: Fix: the parser's ends
waiting_on: 'it''s with ops'
next_valid_action: "Run \\"all\\" tests"  # soon
created_at: 2026-07-01
lane: [a, b]
---
## Done
- the reader
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A tree of another program."""
    folder = tmp_path / "old" / "capsules"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def take(seat: Path, vault_mem: Any, source: Path) -> Callable[..., dict[str, Any]]:
    """Imports the tree and gives the document."""

    def run(*arguments: str) -> dict[str, Any]:
        done = vault_mem("import", str(source.parent), "--json", *arguments, cwd=seat)
        assert b"Traceback" not in done.stderr
        document = dict(json.loads(done.stdout))
        assert done.returncode == (0 if document["ok"] else 1)
        return document

    return run


def _texts(seat: Path) -> dict[str, str]:
    return {path.stem: path.read_text("utf-8") for path in (seat / "vault/memory/capsules").rglob("*.md")}


def _head(git: Any, seat: Path) -> str:
    return str(git(seat / "vault/memory", "rev-parse", "HEAD"))


def test_a_legacy_autosave_keeps_its_values_and_says_what_is_unknown(
    seat: Path, source: Path, take: Any, git: Any
) -> None:
    (source / "2026-08-03-auto-abcd1234.md").write_text(LEGACY, "utf-8")

    document = take()

    (text,) = _texts(seat).values()
    assert document["files"][0]["outcome"] == "imported"
    assert 'id: "2026-08-03-auto-abcd1234"' in text
    assert "status: active\n" in text
    assert 'waiting_on: "Unknown: nothing captured' in text
    assert "trigger: stop-delta\n" in text
    assert "- 10:00 [OPERATOR] split the parser" in text
    assert text.count("[REFERENCE ONLY]") == 1
    assert text.count("<!-- swe:") == 7
    assert "imported from capsules/2026-08-03" in git(seat / "vault/memory", "log", "-1", "--format=%B")


def test_a_header_that_is_no_yaml_is_read_as_its_program_reads_it(seat: Path, source: Path, take: Any) -> None:
    (source / "2026-07-01-curated.md").write_text(DIALECT, "utf-8")

    document = take()

    (text,) = _texts(seat).values()
    assert [each["token"] for each in document["findings"]] == ["foreign-header"]
    assert 'objective: "Fix: the parser\'s ends"' in text
    assert 'waiting_on: "it\'s with ops"' in text
    assert 'next_valid_action: "Run \\"all\\" tests"' in text
    assert "status: resumed\n" in text
    assert "lane: [a, b]\n" in text


def test_the_same_input_twice_adds_nothing_even_after_the_capsule_went_on(
    seat: Path, source: Path, take: Any, vault_mem: Any, git: Any
) -> None:
    (source / "2026-08-03-auto-abcd1234.md").write_text(LEGACY, "utf-8")
    take()
    vault_mem("capsule", "resolve", "2026-08-03", cwd=seat, check=True)
    before = _head(git, seat)

    again = take()

    assert [each["outcome"] for each in again["files"]] == ["known"]
    assert _head(git, seat) == before


def test_a_name_that_is_taken_is_never_written_over(seat: Path, source: Path, take: Any) -> None:
    (source / "2026-08-03-auto-abcd1234.md").write_text(LEGACY, "utf-8")
    take()
    (source / "2026-08-03-auto-abcd1234.md").write_text(LEGACY.replace("split", "join"), "utf-8")

    document = take()

    texts = _texts(seat)
    assert sorted(texts) == ["2026-08-03-auto-abcd1234", "2026-08-03-auto-abcd1234-2"]
    assert "split the parser" in texts["2026-08-03-auto-abcd1234"]
    assert 'id: "2026-08-03-auto-abcd1234-2"' in texts["2026-08-03-auto-abcd1234-2"]
    assert [each["token"] for each in document["findings"] if each["token"] == "id-taken"]


def test_two_files_with_one_id_are_two_capsules(seat: Path, source: Path, take: Any) -> None:
    (source / "a.md").write_text(LEGACY, "utf-8")
    (source / "b.md").write_text(LEGACY.replace("split", "join"), "utf-8")
    (source / "copy-of-a.md").write_text(LEGACY, "utf-8")

    document = take()

    assert [each["outcome"] for each in document["files"]] == ["imported", "imported", "known"]
    assert len(_texts(seat)) == 2


def test_a_dry_run_says_what_would_come_and_writes_nothing(seat: Path, source: Path, take: Any, git: Any) -> None:
    (source / "a.md").write_text(LEGACY, "utf-8")
    (source / "b.md").write_text(LEGACY.replace("split", "join"), "utf-8")
    before = _head(git, seat)

    planned = take("--dry-run")
    assert _head(git, seat) == before
    assert _texts(seat) == {}

    assert [each["id"] for each in planned["files"]] == [each["id"] for each in take()["files"]]


@pytest.mark.parametrize(
    ("make", "token"),
    (
        pytest.param(lambda path: path.symlink_to("/etc/hostname"), "symlink", id="a link"),
        pytest.param(os.mkfifo, "not-regular", id="a pipe"),
        pytest.param(lambda path: path.write_bytes(b"---\nid: \xff\n---\n"), "not-utf8", id="not utf-8"),
        pytest.param(lambda path: path.write_bytes(b"z" * (5 << 20)), "too-large", id="five megabytes"),
        pytest.param(Path.touch, "empty", id="empty"),
        pytest.param(lambda path: path.write_text("---\nid: a\n"), "no-frontmatter", id="a header that is not closed"),
        pytest.param(
            lambda path: path.write_text("---\nid: a\n---\n<<<<<<< a\n=======\n>>>>>>> b\n"),
            "conflict-markers",
            id="a conflict",
        ),
    ),
)
def test_what_cannot_be_taken_over_is_listed_with_its_reason_and_stops_nothing(
    seat: Path, source: Path, take: Any, make: Callable[[Path], Any], token: str
) -> None:
    make(source / "bad.md")
    (source / "good.md").write_text(LEGACY, "utf-8")

    document = take()

    assert not document["ok"]
    assert [(each["token"], each["where"]) for each in document["findings"] if each["severity"] == "fail"] == [
        (token, "capsules/bad.md")
    ]
    assert len(_texts(seat)) == 1


def test_windows_files_come_in_as_lines(seat: Path, source: Path, take: Any) -> None:
    (source / "a.md").write_bytes(b"\xef\xbb\xbf" + LEGACY.replace("\n", "\r\n").encode())

    take()

    (path,) = (seat / "vault/memory/capsules").rglob("*.md")
    assert b"\r" not in path.read_bytes()


def test_damaged_anchors_come_in_as_they_are(seat: Path, source: Path, take: Any) -> None:
    (source / "a.md").write_text(LEGACY + "<!-- swe:done -->\n", "utf-8")

    document = take()

    (text,) = _texts(seat).values()
    assert "anchor-damage" in [each["token"] for each in document["findings"]]
    assert text.count("<!-- swe:") == 2


def test_plain_markdown_is_kept_and_handed_to_nobody(seat: Path, source: Path, take: Any, vault_mem: Any) -> None:
    (source / "2026-05-01-notes.md").write_text("# How we deploy\n\nNever on a Friday.\n", "utf-8")

    take()

    (text,) = _texts(seat).values()
    assert 'objective: "How we deploy"' in text
    assert "status: resolved\n" in text
    assert 'created_at: "2026-05-01T00:00:00.000Z"' in text
    assert "Never on a Friday." in text
    assert vault_mem("resume", "--source", "clear", cwd=seat).returncode == 4


def test_checkpoints_of_harnery_come_in_and_only_the_newest_is_active(seat: Path, source: Path, take: Any) -> None:
    folder = source.parent / ".harnery" / "context" / "043a718774c572bd8a25adbe" / "capsules"
    folder.mkdir(parents=True)
    for number in (1, 2):
        value = {
            "schema_version": 1,
            "capsule_id": f"u{number}",
            "generation": number,
            "created_at": f"2026-08-01T0{number}:00:00.000Z",
            "reason": "pre_compact",
            "session": {"session_id": "s/1", "instance_id": "i", "harness": "claude"},
            "work": {"task": "Port the parser", "continuation_note": "go on with b.py", "files_held": ["a.py"]},
            "repo": {"cwd": "/home/user/project", "branch": "main", "dirty_paths": ["c.py"]},
        }
        (folder / f"{number:06}.json").write_text(json.dumps(value), "utf-8")
    (folder / "000003.json").write_text("[]", "utf-8")

    document = take()

    texts = sorted(_texts(seat).values())
    assert [each["token"] for each in document["findings"]] == ["not-a-checkpoint"]
    assert ["status: superseded\n" in text for text in texts] == [True, False]
    assert 'next_valid_action: "go on with b.py"' in texts[1]
    assert "branch: main\n" in texts[1]
    assert "[HELD] a.py" in texts[1]


def test_secrets_of_the_old_tree_stay_there(seat: Path, source: Path, take: Any, git: Any) -> None:
    key = "AKIA" + "IOSFODNN7EXAMPLZ"
    (source / "a.md").write_text(LEGACY.replace("split the parser", f"use {key}"), "utf-8")

    take()

    assert key not in git(seat / "vault/memory", "log", "-p")


def test_a_directory_without_anything_is_said_to_be_so(seat: Path, vault_mem: Any, tmp_path: Path) -> None:
    done = vault_mem("import", str(tmp_path / "nowhere"), cwd=seat)

    assert done.returncode == 1
    assert b"nothing-to-import" in done.stderr


def test_an_export_holds_every_capsule_and_can_be_read_back(
    seat: Path, source: Path, take: Any, vault_mem: Any
) -> None:
    (source / "a.md").write_text(LEGACY.replace("split", "\u202esplit\x1b[2J"), "utf-8")
    take()

    done = vault_mem("export", cwd=seat, check=True)

    assert done.stdout.isascii()
    assert b"\x1b" not in done.stdout
    (row,) = (json.loads(line) for line in done.stdout.splitlines())
    assert row["fields"]["id"] == "2026-08-03-auto-abcd1234"
    assert "\u202esplit\x1b[2J" in row["body"]


def test_a_tar_of_the_tree_is_the_same_bytes_twice_and_leaves_links_out(
    seat: Path, source: Path, take: Any, vault_mem: Any
) -> None:
    (source / "a.md").write_text(LEGACY, "utf-8")
    take()
    (path,) = (seat / "vault/memory/capsules").rglob("*.md")
    (path.parent / "link.md").symlink_to("/etc/hostname")

    first, second = (vault_mem("export", "--format", "tar", cwd=seat) for _ in range(2))

    assert first.returncode == 1
    assert b"symlink" in first.stderr
    assert first.stdout == second.stdout
    with tarfile.open(fileobj=io.BytesIO(first.stdout)) as archive:
        (entry,) = archive.getmembers()
        content = archive.extractfile(entry)
        assert content is not None
        assert content.read() == path.read_bytes()


def test_an_export_never_writes_over_a_file(seat: Path, vault_mem: Any, tmp_path: Path) -> None:
    (tmp_path / "out.jsonl").write_text("mine", "utf-8")

    done = vault_mem("export", "--output", str(tmp_path / "out.jsonl"), cwd=seat)

    assert done.returncode == 64
    assert (tmp_path / "out.jsonl").read_text("utf-8") == "mine"
