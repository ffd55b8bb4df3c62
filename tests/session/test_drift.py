from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vault_mem.session import drift
from vault_mem.session.drift import Look

HERE = Look(cwd="/p", root="/p", common="/p/.git")


def looked(*rows: str, **more: object) -> Look:
    return drift.parsed(b"".join(row.encode() + b"\0" for row in rows), HERE)._replace(**more)


def test_the_first_path_keeps_its_first_letter_and_spaces_stay() -> None:
    look = looked(
        "# branch.oid 1111111111111111111111111111111111111111",
        "# branch.head main",
        "# branch.upstream origin/main",
        "# branch.ab +2 -3",
        "1 .M N... 100644 100644 100644 aaa bbb alpha.txt",
        "1 M. N... 100644 100644 100644 aaa bbb two words.txt",
        "? ünder/new file.py",
    )

    assert look.dirty == ((".M", "alpha.txt"), ("M.", "two words.txt"), ("??", "ünder/new file.py"))
    assert (look.branch, look.upstream, look.ahead, look.behind) == ("main", "origin/main", 2, 3)


def test_a_rename_is_two_paths_and_no_arrow() -> None:
    look = looked("2 R. N... 100644 100644 100644 aaa bbb R100 new -> name.txt", "old.txt", "? z")

    assert [path for _, path in look.dirty] == ["new -> name.txt", "old.txt", "z"]


def test_lists_that_were_cut_never_say_what_is_not_certain() -> None:
    whole = looked(*(f"? f{n:02}" for n in range(40)))
    cut = whole._replace(dirty=whole.dirty[:15])
    more = looked(*(f"? f{n:02}" for n in range(41)))

    assert drift.compare(cut, whole) == ()
    assert drift.compare(cut, more) == ("dirty paths: were 40, are 41, not all of them were kept",)


@pytest.mark.parametrize(
    ("then", "now", "said"),
    (
        pytest.param(Look(unknown="timeout"), HERE, "at the checkpoint is unknown (timeout)", id="then"),
        pytest.param(HERE, Look(unknown="not-a-repository"), "now is unknown (not-a-repository)", id="now"),
        pytest.param(Look(unknown="not-a-repository"), Look(unknown="not-a-repository"), "unknown", id="both"),
    ),
)
def test_unknown_is_reported_as_unknown_and_never_as_unchanged(then: Look, now: Look, said: str) -> None:
    lines = drift.compare(then, now)

    assert lines
    assert said in " ".join(lines)


@pytest.mark.parametrize(
    ("change", "said"),
    (
        pytest.param({"branch": "next"}, "branch: was (detached), is next", id="branch"),
        pytest.param({"head": "2" * 40}, "HEAD: was (no commit), is 222222222222", id="head"),
        pytest.param({"upstream": "o/m", "ahead": 1, "behind": 0}, "upstream: was none, is o/m (ahead 1, behind 0)", id="up"),
        pytest.param({"operation": "rebase"}, "operation under way: was none, is rebase", id="operation"),
        pytest.param({"stash": 2}, "stash entries: were unknown, are 2", id="stash"),
        pytest.param({"root": "/w"}, "another work tree of the same repository: was /p, is /w", id="work tree"),
        pytest.param({"held": {"a.py": "2"}}, "content changed since, of files this session changed: a.py", id="content"),
        pytest.param({"held": {"a.py": ""}}, "gone, of files this session changed: a.py", id="gone"),
    ),
)  # fmt: skip
def test_what_moved_is_named(change: dict[str, object], said: str) -> None:
    assert said in drift.compare(HERE._replace(held={"a.py": "1"}), HERE._replace(**{"held": {"a.py": "1"}, **change}))


def test_another_repository_ends_the_comparison() -> None:
    lines = drift.compare(HERE, HERE._replace(root="/q", common="/q/.git", branch="x"))

    assert lines == ("another repository: was /p, is /q", "nothing else can be compared")


def test_long_lists_say_how_many_more() -> None:
    lines = drift.compare(looked(), looked(*(f"? f{n}" for n in range(8))))

    assert lines == ("newly dirty: f0, f1, f2, f3, f4 and 3 more",)


@given(
    rows=st.lists(st.text(alphabet=st.characters(blacklist_characters="\0", blacklist_categories=("Cs",)), min_size=1))
)
def test_a_look_is_like_itself_and_survives_being_written(rows: list[str]) -> None:
    look = looked(*(f"? {row}" for row in rows))

    assert drift.compare(look, look) == ()
    assert drift.from_json(drift.to_json(look)) == look
