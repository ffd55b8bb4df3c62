"""One commit in every kind of repository a person can have: right content, only our file, index and work tree in agreement."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from vault_mem.errors import GitRefusedError
from vault_mem.repo import commit as engine
from vault_mem.repo import objects
from vault_mem.repo.commit import Change, Request

if TYPE_CHECKING:
    from collections.abc import Callable

    Git = Callable[..., str]

PATH = "capsules/2026-12/a.md"
AT = 1_796_083_200.7


def request(*changes: Change, subject: str = "capsule: autosave a", at: float = AT) -> Request:
    return Request(changes, subject, (("Capsule-Id", "a"), ("Capsule-Event", "autosave")), at)


@pytest.fixture
def save(environ: dict[str, str], tmp_path: Path) -> Callable[..., engine.Committed]:
    """Writes a file into a work tree and commits it, as the writer does."""

    def run(tree: Path, data: bytes, path: str = PATH, **more: str) -> engine.Committed:
        place = tree / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
        return engine.commit(
            str(tree), request(Change(path, data)), environ={**environ, **more}, state=str(tmp_path / "state")
        )

    return run


@pytest.fixture
def vault(tmp_path: Path, git: Git) -> Path:
    """A repository with one capsule and one other file."""
    return begun(tmp_path / "vault", git)


def begun(tree: Path, git: Git, *options: str) -> Path:
    tree.mkdir()
    git(tree, "init", "-q", *options)
    (tree / PATH).parent.mkdir(parents=True)
    (tree / PATH).write_bytes(b"v0\n")
    (tree / "README").write_text("r\n", encoding="utf-8")
    git(tree, "add", ".")
    git(tree, "commit", "-qm", "start")
    return tree


def plain(place: Path, git: Git) -> Path:
    return begun(place, git)


def packed_refs(place: Path, git: Git) -> Path:
    git(begun(place, git), "pack-refs", "--all")
    return place


def collected(place: Path, git: Git) -> Path:
    git(begun(place, git), "gc", "-q")
    return place


def linked_worktree(place: Path, git: Git) -> Path:
    git(begun(place, git), "worktree", "add", "-q", "-b", "other", f"{place}-linked")
    return place.with_name(f"{place.name}-linked")


def separate_gitdir(place: Path, git: Git) -> Path:
    return begun(place, git, "--separate-git-dir", f"{place}.repository")


def alternates(place: Path, git: Git) -> Path:
    git(begun(place, git).parent, "clone", "-q", "--shared", str(place), f"{place}-shared")
    return place.with_name(f"{place.name}-shared")


def sha256(place: Path, git: Git) -> Path:
    return begun(place, git, "--object-format=sha256")


def crlf_attributes(place: Path, git: Git) -> Path:
    (begun(place, git) / ".gitattributes").write_text("*.md text eol=crlf\n", encoding="utf-8")
    git(place, "add", ".gitattributes")
    git(place, "commit", "-qm", "attributes")
    return place


def unknown_to_the_index(place: Path, git: Git) -> Path:
    git(begun(place, git), "rm", "-q", "--cached", PATH)
    git(place, "commit", "-qm", "out")
    return place


def ignored(place: Path, git: Git) -> Path:
    git(begun(place, git), "rm", "-q", "--cached", PATH)
    (place / ".gitignore").write_text("capsules/\n", encoding="utf-8")
    git(place, "add", ".gitignore")
    git(place, "commit", "-qm", "ignore")
    return place


def failing_hooks(place: Path, git: Git) -> Path:
    begun(place, git)
    for name in ("pre-commit", "commit-msg", "post-commit", "reference-transaction", "post-index-change"):
        hook = place / ".git" / "hooks" / name
        hook.write_text(f"#!/bin/sh\necho {name} >>'{place}.started'\nexit 1\n", encoding="utf-8")
        hook.chmod(0o755)
    return place


def signing(place: Path, git: Git) -> Path:
    signer = place.with_name("signer")
    signer.write_text(f"#!/bin/sh\n: >'{place}.started'\nexec sleep 300\n", encoding="utf-8")
    signer.chmod(0o755)
    begun(place, git)
    for key, value in (("commit.gpgsign", "true"), ("gpg.program", str(signer)), ("core.fsmonitor", str(signer))):
        git(place, "config", key, value)
    return place


def split_index(place: Path, git: Git) -> Path:
    git(begun(place, git), "update-index", "--split-index")
    return place


def index_version_4(place: Path, git: Git) -> Path:
    git(begun(place, git), "update-index", "--index-version", "4")
    return place


def sparse_index(place: Path, git: Git) -> Path:
    begun(place, git)
    (place / "docs").mkdir()
    (place / "docs" / "d").write_text("d\n", encoding="utf-8")
    git(place, "add", "docs")
    git(place, "commit", "-qm", "docs")
    git(place, "sparse-checkout", "set", "--cone", "--sparse-index", "capsules/2026-12")
    return place


def aliased_branch(place: Path, git: Git) -> Path:
    git(begun(place, git), "symbolic-ref", "refs/heads/alias", "refs/heads/main")
    git(place, "symbolic-ref", "HEAD", "refs/heads/alias")
    return place


def nested_branch_packed(place: Path, git: Git) -> Path:
    git(begun(place, git), "checkout", "-qb", "deep/er/branch")
    git(place, "pack-refs", "--all", "--prune")
    return place


def shared(place: Path, git: Git) -> Path:
    return begun(place, git, "--shared=group")


def untracked_cache(place: Path, git: Git) -> Path:
    git(begun(place, git), "config", "core.untrackedCache", "true")
    git(place, "status")
    return place


def no_index(place: Path, git: Git) -> Path:
    (begun(place, git) / ".git" / "index").unlink()
    git(place, "read-tree", "HEAD")
    return place


def disarm(tree: Path, git: Git) -> None:
    """Lets the git of the test itself work where hooks fail and signers sleep."""
    for key, value in (("core.hooksPath", "/dev/null"), ("core.fsmonitor", "false"), ("commit.gpgsign", "false")):
        git(tree, "config", key, value)


LIGHT = (
    plain, packed_refs, collected, linked_worktree, separate_gitdir, alternates, crlf_attributes, unknown_to_the_index, ignored,
    failing_hooks, signing, nested_branch_packed, untracked_cache, no_index,
)  # fmt: skip
PROGRAM = (sha256, split_index, index_version_4, sparse_index, aliased_branch, shared)
SHAPES = [
    pytest.param(shape, backend, id=shape.__name__)
    for backend, shapes in (("light", LIGHT), ("program", PROGRAM))
    for shape in shapes
]


@pytest.mark.parametrize(("shape", "backend"), SHAPES)
def test_a_save_is_one_commit_of_one_file_and_leaves_the_repository_clean(
    shape: Callable[[Path, Git], Path], backend: str, tmp_path: Path, git: Git, save: Callable[..., engine.Committed]
) -> None:
    tree = shape(tmp_path / "vault", git)
    before, branch, refs = git(tree, "rev-parse", "HEAD"), git(tree, "symbolic-ref", "HEAD"), git(tree, "show-ref")

    first = save(tree, b"v1\n")
    second = save(tree, b"v1\nv2\n")
    started = list(tmp_path.glob("*.started"))
    disarm(tree, git)

    assert not started
    assert (first.parent, second.parent, second.backend) == (before, first.oid, backend)
    assert git(tree, "rev-parse", "HEAD") == second.oid
    assert git(tree, "cat-file", "-p", f"HEAD:{PATH}") == "v1\nv2"
    assert second.blobs == {PATH: git(tree, "rev-parse", f"HEAD:{PATH}")}
    assert git(tree, "show", "--format=", "--name-only", "HEAD") == PATH
    assert git(tree, "status", "--porcelain") == ""
    assert git(tree, "diff-index", "--cached", "HEAD") == ""
    assert git(tree, "fsck", "--strict", "--no-dangling") == ""
    assert git(tree, "symbolic-ref", "HEAD") == branch
    assert len(git(tree, "show-ref").splitlines()) == len(refs.splitlines())
    assert git(tree, "reflog", "-1", "--format=%gs") == "commit: capsule: autosave a"
    assert not [
        path for path in tree.rglob("*") if path.name.endswith((".lock", ".tmp")) or path.name.startswith("tmp_obj")
    ]


@pytest.mark.parametrize(("shape", "backend"), SHAPES)
def test_what_a_person_has_staged_or_changed_stays_as_it_is(
    shape: Callable[[Path, Git], Path], backend: str, tmp_path: Path, git: Git, save: Callable[..., engine.Committed]
) -> None:
    tree = shape(tmp_path / "vault", git)
    for name in ("numbers", "gone", "kept"):
        (tree / name).write_text("1\n2\n3\n", encoding="utf-8")
    disarm(tree, git)
    git(tree, "add", "numbers", "gone", "kept")
    git(tree, "commit", "-qm", "more")
    (tree / "numbers").write_text("staged\n2\n3\n", encoding="utf-8")
    (tree / "added").write_text("s\n", encoding="utf-8")
    git(tree, "add", "numbers", "added")
    (tree / "numbers").write_text("staged\n2\n3 unstaged\n", encoding="utf-8")
    (tree / "gone").unlink()
    (tree / "intended").write_text("i\n", encoding="utf-8")
    git(tree, "add", "-N", "intended")
    (tree / "untracked").write_text("u\n", encoding="utf-8")
    others = ("--", ".", f":!{PATH}", ":!capsules")
    before = (
        git(tree, "status", "--porcelain=v2", *others),
        git(tree, "diff", "--cached", *others),
        git(tree, "diff", *others),
    )

    save(tree, b"v1\n")
    done = save(tree, b"v2\n")

    assert done.backend == backend
    assert git(tree, "show", "--format=", "--name-only", "HEAD") == PATH
    assert (
        git(tree, "status", "--porcelain=v2", *others),
        git(tree, "diff", "--cached", *others),
        git(tree, "diff", *others),
    ) == before
    assert git(tree, "status", "--porcelain", "--", PATH) == ""


def test_the_light_way_starts_no_process_once_the_person_is_known(
    vault: Path, save: Callable[..., engine.Committed], tmp_path: Path
) -> None:
    save(vault, b"v1\n")
    nowhere = tmp_path / "empty"
    nowhere.mkdir()

    done = save(vault, b"v2\n", PATH=str(nowhere))

    assert done.backend == "light"


def test_message_dates_and_person_are_as_asked(vault: Path, git: Git, environ: dict[str, str], tmp_path: Path) -> None:
    asked = Request(
        (Change(PATH, b"v0\n\xff"),),
        "capsule: autosave\nCapsule-Id: forged",
        (("Capsule-Id", "a"), ("Capsule-Session", "one\ntwo\r\n\x1b[0m\0three"), ("Capsule-Parent", "")),
        AT,
    )
    (vault / PATH).write_bytes(b"v0\n\xff")

    engine.commit(str(vault), asked, environ=environ, state=str(tmp_path / "state"))

    assert git(vault, "log", "-1", "--format=%an <%ae> %ad|%cn <%ce> %cd", "--date=raw") == (
        "Test Person <person@example.test> 1796083200 +0000|Test Person <person@example.test> 1796083200 +0000"
    )
    assert git(vault, "log", "-1", "--format=%s") == "capsule: autosave Capsule-Id: forged"
    assert (
        git(vault, "log", "-1", "--format=%(trailers)").splitlines()
        == ["Capsule-Id: a", "Capsule-Session: one two [0m three", ""][:2]
    )
    assert git(vault, "status", "--porcelain") == ""


def test_bytes_that_head_holds_make_no_commit_but_mend_the_index(
    vault: Path, git: Git, save: Callable[..., engine.Committed]
) -> None:
    first = save(vault, b"v1\n")
    reflog = git(vault, "reflog")
    git(vault, "rm", "-q", "--cached", PATH)

    second = save(vault, b"v1\n")

    assert (second.oid, second.parent) == (first.oid, first.oid)
    assert git(vault, "reflog") == reflog
    assert git(vault, "status", "--porcelain") == ""
    assert save(vault, b"v1\n").backend == "none"


def test_an_empty_commit_is_made_where_it_is_asked_for(
    vault: Path, git: Git, environ: dict[str, str], tmp_path: Path
) -> None:
    asked = request(Change(PATH, b"v0\n"))._replace(allow_empty=True)

    done = engine.commit(str(vault), asked, environ=environ, state=str(tmp_path / "state"))

    assert done.oid != done.parent
    assert git(vault, "rev-parse", "HEAD^{tree}") == git(vault, "rev-parse", "HEAD^^{tree}")


@pytest.mark.parametrize("shape", (plain, split_index, sha256))
def test_files_leave_and_enter_in_one_commit(
    shape: Callable[[Path, Git], Path],
    tmp_path: Path,
    git: Git,
    environ: dict[str, str],
    save: Callable[..., engine.Committed],
) -> None:
    tree = shape(tmp_path / "vault", git)
    save(tree, b"one\n", "capsules/2025-01/one.md")
    save(tree, b"two\n", "capsules/2026-12/two.md")
    (tree / "capsules/2025-01/one.md").unlink()
    (tree / "capsules/2026-12.md").write_bytes(b"beside\n")

    done = engine.commit(
        str(tree),
        request(
            Change("capsules/2025-01/one.md", None),
            Change("capsules/2026-12.md", b"beside\n"),
            Change("never.md", None),
        ),
        environ=environ,
        state=str(tmp_path / "state"),
    )

    assert git(tree, "show", "--format=", "--name-status", done.oid).splitlines() == [
        "D\tcapsules/2025-01/one.md",
        "A\tcapsules/2026-12.md",
    ]
    assert git(tree, "status", "--porcelain") == ""
    assert git(tree, "fsck", "--strict", "--no-dangling") == ""


@pytest.mark.parametrize("shape", (plain, split_index))
def test_a_person_who_types_a_commit_message_keeps_it(
    shape: Callable[[Path, Git], Path], tmp_path: Path, git: Git, save: Callable[..., engine.Committed]
) -> None:
    tree = shape(tmp_path / "vault", git)
    (tree / ".git" / "COMMIT_EDITMSG").write_text("half a sent", encoding="utf-8")

    save(tree, b"v1\n")

    assert (tree / ".git" / "COMMIT_EDITMSG").read_text(encoding="utf-8") == "half a sent"


def test_a_file_changed_after_the_save_shows_as_changed(
    vault: Path, git: Git, environ: dict[str, str], tmp_path: Path
) -> None:
    (vault / PATH).write_bytes(b"vX\n")

    engine.commit(str(vault), request(Change(PATH, b"v1\n")), environ=environ, state=str(tmp_path / "state"))

    assert git(vault, "status", "--porcelain") == f" M {PATH}"
    assert git(vault, "cat-file", "-p", f"HEAD:{PATH}") == "v1"


def test_a_file_as_young_as_the_index_is_not_taken_for_unchanged(
    vault: Path, git: Git, save: Callable[..., engine.Committed]
) -> None:
    (vault / "racy").write_bytes(b"aaaa\n")
    git(vault, "add", "racy")
    stamp = (vault / ".git" / "index").stat().st_mtime_ns
    (vault / "racy").write_bytes(b"bbbb\n")
    os.utime(vault / "racy", ns=(stamp, stamp))
    git(vault, "update-index", "-q", "--really-refresh", "--", check="")  # the racy state as git itself leaves it

    save(vault, b"v1\n")

    assert "AM racy" in git(vault, "status", "--porcelain")


@pytest.mark.parametrize("mode", (0o600, 0o700))
def test_the_executable_bit_of_the_file_is_recorded(
    vault: Path, mode: int, git: Git, save: Callable[..., engine.Committed]
) -> None:
    (vault / PATH).chmod(mode)

    save(vault, b"v1\n")

    assert git(vault, "ls-tree", "HEAD", PATH).split()[0] == ("100755" if mode & 0o100 else "100644")
    assert git(vault, "status", "--porcelain") == ""


@pytest.mark.parametrize("path", ("", "/etc/x", "../x", "a//b", "a/./b", ".git/config", "a/.GIT/b", "a\0b"))
def test_a_path_that_leads_out_of_the_tree_is_refused(
    vault: Path, path: str, git: Git, environ: dict[str, str], tmp_path: Path
) -> None:
    before = git(vault, "rev-parse", "HEAD")

    with pytest.raises(GitRefusedError, match="bad-path"):
        engine.commit(str(vault), request(Change(path, b"x")), environ=environ, state=str(tmp_path / "state"))

    assert git(vault, "rev-parse", "HEAD") == before


@pytest.mark.parametrize("path", ("README/x.md", "capsules/2026-12", "capsules"))
def test_a_file_does_not_take_the_place_of_a_folder_nor_a_folder_that_of_a_file(
    vault: Path, path: str, git: Git, environ: dict[str, str], tmp_path: Path
) -> None:
    before = git(vault, "rev-parse", "HEAD"), git(vault, "ls-files", "-s")

    with pytest.raises(GitRefusedError, match="path-conflict"):
        engine.commit(str(vault), request(Change(path, b"x")), environ=environ, state=str(tmp_path / "state"))

    assert (git(vault, "rev-parse", "HEAD"), git(vault, "ls-files", "-s")) == before


@pytest.mark.parametrize(
    "name", ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR")
)
@pytest.mark.parametrize("shape", (plain, split_index))
def test_an_inherited_git_environment_leads_nowhere(
    shape: Callable[[Path, Git], Path],
    name: str,
    tmp_path: Path,
    project: Path,
    git: Git,
    save: Callable[..., engine.Committed],
) -> None:
    tree = shape(tmp_path / "vault", git)
    inside = {"GIT_INDEX_FILE": ".git/index", "GIT_OBJECT_DIRECTORY": ".git/objects", "GIT_WORK_TREE": ""}
    before = _bytes(project)

    save(tree, b"v1\n", **{name: str(project / inside.get(name, ".git"))})

    assert _bytes(project) == before
    assert git(tree, "cat-file", "-p", f"HEAD:{PATH}") == "v1"
    assert git(tree, "fsck", "--strict", "--no-dangling") == ""


def _bytes(tree: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in tree.rglob("*") if path.is_file()}


def test_a_commit_without_configuration_carries_our_name_and_configures_nothing(
    vault: Path, git: Git, environ: dict[str, str], save: Callable[..., engine.Committed]
) -> None:
    Path(environ["GIT_CONFIG_GLOBAL"]).write_text("[user]\n\tuseConfigOnly = true\n", encoding="utf-8")
    before = (vault / ".git" / "config").read_bytes(), Path(environ["GIT_CONFIG_GLOBAL"]).read_bytes()

    save(vault, b"v1\n")

    assert (
        git(vault, "log", "-1", "--format=%an <%ae> / %cn <%ce>")
        == "vault-mem <vault-mem@localhost> / vault-mem <vault-mem@localhost>"
    )
    assert ((vault / ".git" / "config").read_bytes(), Path(environ["GIT_CONFIG_GLOBAL"]).read_bytes()) == before


def test_git_agrees_with_our_index_byte_for_byte_after_a_refresh(
    vault: Path, git: Git, save: Callable[..., engine.Committed]
) -> None:
    save(vault, b"v1\n", "z/last.md")
    save(vault, b"v1\n", "A/first.md")
    ours = git(vault, "ls-files", "-s", "--debug")

    git(vault, "read-tree", "HEAD")
    git(vault, "update-index", "-q", "--refresh")

    assert git(vault, "ls-files", "-s", "--debug") == ours


def test_a_thousand_files_and_odd_names_keep_their_order(
    vault: Path, git: Git, save: Callable[..., engine.Committed]
) -> None:
    for number in range(0, 1000, 7):
        (vault / f"f{number}").write_text(f"{number}", encoding="utf-8")
    git(vault, "add", ".")
    git(vault, "commit", "-qm", "many")
    for name in ("f", "f1.md", "f10/x", "f100-", "f999", 'ü/ß \n".md', "a" * 200 + "/" + "b" * 200):
        save(vault, name.encode(), name)

    assert git(vault, "status", "--porcelain") == ""
    assert git(vault, "fsck", "--strict", "--no-dangling") == ""
    assert git(vault, "write-tree") == git(vault, "rev-parse", "HEAD^{tree}")


def test_names_of_blobs_are_those_of_git(vault: Path, git: Git) -> None:
    oid = git(vault, "hash-object", "--stdin", stdin="text")

    assert objects.blob_oid(b"text") == oid
