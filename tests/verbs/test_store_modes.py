"""Where a vault can live: in a repository of its own, on a private reference of the project's, in a tree that was there before."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from vault_mem import trust
from vault_mem.repo import create
from vault_mem.vault import adopted as taken_over
from vault_mem.vault import store as seats

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.verbs.conftest import Session

    Git = Callable[..., str]
    Told = Callable[[subprocess.CompletedProcess[bytes]], str]

MEMORY = "vault/memory"
REF = "refs/vault-mem/vault-memory"
NOW = 1_796_083_200.0


def declared(project: Path) -> Path:
    (project / ".aigent").mkdir()
    (project / ".aigent/state.json").write_text(
        json.dumps({"schemaVersion": 1, "memory_root": MEMORY}), encoding="utf-8"
    )
    return project / MEMORY


def embedded(project: Path, environ: dict[str, str], git: Git) -> None:
    memory = declared(project)
    ref = create.embedded_ref(MEMORY)
    head = create.embed(str(project), MEMORY, ref=ref, environ=environ, at=NOW)
    root = git(project, "rev-list", "--max-parents=0", ref)
    trust.grant(
        str(memory),
        trust.Identity("embedded", ref, (root,), head),
        seat=str(project),
        environ=environ,
        now=NOW,
    )


def adopted(project: Path, environ: dict[str, str]) -> None:
    memory = declared(project)
    memory.mkdir(parents=True)
    trust.grant(str(memory), trust.Identity("adopted"), seat=str(project), environ=environ, now=NOW)


@pytest.fixture
def mode() -> str:
    return "embedded"


@pytest.fixture
def seat(project: Path, environ: dict[str, str], git: Git, mode: str) -> Path:
    if mode == "embedded":
        embedded(project, environ, git)
    else:
        adopted(project, environ)
    return project


def theirs(project: Path) -> dict[str, bytes | str]:
    """Everything that is the person's: work tree and repository, but for our reference, our folder and the objects."""
    found: dict[str, bytes | str] = {}
    for path in sorted(project.rglob("*")):
        name = str(path.relative_to(project))
        if name.startswith((f"{MEMORY}/", ".git/objects/", ".git/vault-mem", f".git/{REF}", f".git/logs/{REF}")):
            continue
        if name in (".git/refs/vault-mem", ".git/logs/refs/vault-mem", ".git/logs/refs"):
            continue
        found[name] = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else b"/"
        if not path.is_symlink() and path.is_file():
            found[f"{name} mode"] = oct(path.stat().st_mode)
    return found


def plain(_project: Path, _git: Git) -> None:
    """Nothing special."""


def dirty(project: Path, git: Git) -> None:
    (project / "both").write_text("one\ntwo\nthree\n", encoding="utf-8")
    git(project, "add", "both")
    git(project, "commit", "-qm", "both")
    (project / "both").write_text("ONE\ntwo\nthree\n", encoding="utf-8")
    git(project, "add", "both")
    (project / "both").write_text("ONE\ntwo\nTHREE\n", encoding="utf-8")
    (project / "intended").write_text("later\n", encoding="utf-8")
    git(project, "add", "--intent-to-add", "intended")
    (project / "untracked").write_text("u\n", encoding="utf-8")
    (project / "README.md").unlink()


def stashed(project: Path, git: Git) -> None:
    (project / "README.md").write_text("stashed\n", encoding="utf-8")
    git(project, "stash", "-q")


def detached(project: Path, git: Git) -> None:
    git(project, "checkout", "-q", "--detach")


def unborn(project: Path, git: Git) -> None:
    git(project, "checkout", "-q", "--orphan", "empty")


def conflicted(project: Path, git: Git) -> None:
    for branch in ("side", "main"):
        git(project, "checkout", "-q", "-B", branch, "main")
        (project / "README.md").write_text(f"{branch}\n", encoding="utf-8")
        git(project, "commit", "-qam", branch)
    subprocess.run(["git", "merge", "side"], cwd=project, capture_output=True, check=False)


def rebasing(project: Path, git: Git) -> None:
    for branch in ("side", "main"):
        git(project, "checkout", "-q", "-B", branch, "main")
        (project / "README.md").write_text(f"{branch}\n", encoding="utf-8")
        git(project, "commit", "-qam", branch)
    subprocess.run(["git", "rebase", "side"], cwd=project, capture_output=True, check=False)


def bisecting(project: Path, git: Git) -> None:
    git(project, "commit", "-q", "--allow-empty", "-m", "second")
    git(project, "bisect", "start", "HEAD", "HEAD^")


def locked(project: Path, _git: Git) -> None:
    for name in ("index.lock", "HEAD.lock"):
        (project / ".git" / name).write_bytes(b"")


def hooked(project: Path, git: Git) -> None:
    for name in ("pre-commit", "post-commit", "reference-transaction", "prepare-commit-msg", "post-index-change"):
        hook = project / ".git/hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch '{project}/hook-ran'\nexit 1\n", encoding="utf-8")
        hook.chmod(0o755)
    git(project, "config", "commit.gpgSign", "true")
    git(project, "config", "core.fsmonitor", str(project / ".git/hooks/pre-commit"))
    git(project, "config", "gc.auto", "1")


def split(project: Path, git: Git) -> None:
    git(project, "update-index", "--split-index")


def filtered(project: Path, git: Git) -> None:
    git(project, "config", "filter.shout.clean", "tr a-z A-Z")
    git(project, "config", "credential.helper", "store")
    (project / ".gitattributes").write_text("* filter=shout\n*.md text eol=crlf\n", encoding="utf-8")


STATES = (
    plain, dirty, stashed, detached, unborn, conflicted, rebasing, bisecting, locked, hooked, split, filtered,
)  # fmt: skip


@pytest.mark.parametrize("state", [pytest.param(state, id=state.__name__) for state in STATES])
def test_an_embedded_save_touches_nothing_of_the_person(
    state: Callable[[Path, Git], None], session: Session, project: Path, git: Git, outcome: Told
) -> None:
    state(project, git)
    before = theirs(project)

    done = [outcome(session.turn(f"Request number {number} of the day.", f"Answer {number}.")) for number in range(3)]

    assert theirs(project) == before
    assert done == ["saved"] * 3
    capsule = session.capsule()
    name = capsule.relative_to(session.vault).as_posix()
    assert git(project, "show", f"{REF}:{name}") + "\n" == capsule.read_text("utf-8")
    assert git(project, "ls-tree", "-r", "--name-only", "--full-tree", REF) == name
    assert len(git(project, "reflog", "show", REF).splitlines()) == 4
    assert git(project, "fsck", "--strict", "--no-dangling") == ""


def test_an_embedded_capsule_is_handed_over_once(session: Session, project: Path, git: Git) -> None:
    session.turn("Split the parser and keep the tests green.", "Split.")
    before = theirs(project)

    told = session.sibling().start()
    again = session.sibling().start()

    assert "Split the parser and keep the tests green." in told
    assert "Split the parser and keep the tests green." not in again or "already" in again
    assert theirs(project) == before
    assert git(project, "log", "-1", "--format=%(trailers:key=Capsule-Event,valueonly)", REF).strip() == "consume"


def test_a_tree_that_was_cleaned_away_comes_back_from_the_reference(
    session: Session, project: Path, git: Git, outcome: Told
) -> None:
    session.turn("Split the parser and keep the tests green.", "Split.")
    text = session.capsule().read_bytes()
    git(project, "clean", "-ffdxq")
    assert not session.vault.exists()
    declared_again = project / ".aigent/state.json"
    declared_again.parent.mkdir(exist_ok=True)
    declared_again.write_text(json.dumps({"schemaVersion": 1, "memory_root": MEMORY}), encoding="utf-8")

    told = session.sibling().start("startup")

    assert "Split the parser" in told
    assert session.capsule().read_bytes() == text
    log = project / ".git/vault-mem/vault-memory/log.jsonl"
    assert '"outcome": "tree-restored"' in log.read_text("utf-8").replace('":"', '": "')
    assert outcome(session.turn("And now the printer as well, please.", "Done.")) == "saved"


@pytest.mark.parametrize("shape", (("--object-format=sha256",), ("--shared=group",)), ids=("sha256", "shared"))
def test_a_repository_only_git_writes_gets_its_saves_by_git(
    shape: tuple[str, ...], environ: dict[str, str], git: Git, session: Session, outcome: Told
) -> None:
    project = session.seat
    shutil.rmtree(project)
    project.mkdir()
    git(project, "init", "-q", *shape)
    (project / "README.md").write_text("r\n", encoding="utf-8")
    git(project, "add", ".")
    git(project, "commit", "-qm", "start")
    embedded(project, environ, git)
    (project / "staged").write_text("s\n", encoding="utf-8")
    git(project, "add", "staged")
    before = theirs(project)

    done = [outcome(session.turn(f"Request number {number} of the day.", f"Answer {number}.")) for number in range(2)]

    assert (done, theirs(project)) == (["saved", "saved"], before)
    assert git(
        project, "show", f"{REF}:{session.capsule().relative_to(session.vault)}"
    ) + "\n" == session.capsule().read_text("utf-8")
    assert len(git(project, "reflog", "show", REF).splitlines()) == 3
    assert outcome(session.stop("Answer 1.")) == "no-change"
    assert git(project, "fsck", "--strict", "--no-dangling") == ""


def test_a_person_who_commits_in_a_loop_loses_nothing_and_is_refused_nothing(
    session: Session, project: Path, git: Git, environ: dict[str, str]
) -> None:
    (project / "staged").write_text("s\n", encoding="utf-8")
    git(project, "add", "staged")
    loop = """
i=0
while [ ! -e stop ]; do
  i=$((i+1)); echo $i > theirs; git add --intent-to-add theirs 2>/dev/null
  git commit -q --only -m "person $i" -- theirs || echo "refused $i" >> refused
  git pack-refs --all || echo "pack $i" >> refused
done
echo $i > count
"""
    with subprocess.Popen(["sh", "-c", loop], cwd=project, env=environ, stderr=subprocess.PIPE) as person:
        for number in range(12):
            session.turn(f"Request number {number} of the day.", f"Answer {number}.")
        (project / "stop").touch()
        assert person.wait(timeout=60) == 0

    count = int((project / "count").read_text())
    assert not (project / "refused").exists()
    assert git(project, "log", "--format=%s").splitlines() == [*(f"person {n}" for n in range(count, 0, -1)), "start"]
    assert git(project, "diff", "--cached", "--name-only") == "staged"
    assert len(git(project, "log", "--format=%H", REF).splitlines()) == 13
    assert git(project, "fsck", "--strict", "--no-dangling") == ""


def test_a_linked_worktree_saves_to_the_vault_of_the_main_one(
    session: Session, project: Path, tmp_path: Path, git: Git, outcome: Told
) -> None:
    git(project, "add", "-f", ".aigent/state.json")
    git(project, "commit", "-qm", "declared")
    linked = tmp_path / "linked"
    git(project, "worktree", "add", "-q", str(linked))
    session.seat = linked

    assert outcome(session.turn("Work in the other tree.", "Worked.")) == "saved"

    assert len(session.capsules()) == 1
    assert git(project, "ls-tree", "-r", "--name-only", "--full-tree", REF)
    assert not (linked / MEMORY).exists()


def test_the_slug_of_a_memory_root_is_a_reference_and_unique() -> None:
    names = ("vault/memory", "vault-memory", "memory", "Mémoire", "a b", "x.lock", "-", "vault/Memory", "é")
    refs = [create.embedded_ref(name) for name in names]

    assert refs[0] == REF
    assert len(set(refs)) == len(refs)
    for ref in refs:
        subprocess.run(["git", "check-ref-format", ref], check=True)


@pytest.mark.parametrize("mode", ("adopted",))
def test_an_adopted_tree_without_a_repository_is_written_and_hands_over_once(
    session: Session, project: Path, git: Git, outcome: Told
) -> None:
    done = [outcome(session.turn(f"Request number {number} of the day.", f"Answer {number}.")) for number in range(2)]
    text = session.capsule().read_text("utf-8")

    first, again = session.sibling(), session.sibling()
    told = [first.start(), again.start(), first.start()]

    assert done == ["saved", "saved"]
    assert "Request number 1 of the day." in text
    assert not (session.vault / ".git").exists()
    assert not (session.vault / "runtime/pending.json").exists()
    assert ["may already have been delivered" in each for each in told] == [False, True, False]
    assert all("Request number 0 of the day." in each for each in told)
    assert "status: resumed" in session.capsule().read_text("utf-8")
    record = json.loads((session.vault / f"runtime/deliveries/{first.id}.json").read_text("utf-8"))
    assert (record["done"], record["session"], record["capsule"]) == (True, first.id, session.capsule().stem)
    assert git(project, "log", "--format=%s") == "start"


@pytest.mark.parametrize("mode", ("adopted",))
def test_a_consumed_capsule_stays_consumed_when_its_file_is_put_back(session: Session) -> None:
    session.turn("Split the parser and keep the tests green.", "Split.")
    text = session.capsule().read_bytes()
    first = session.sibling()
    first.start()
    first.turn("And now the printer as well, please.", "Done.")
    session.capsule().write_bytes(text)

    assert "Split the parser" not in session.sibling().start().split("CAPSULES NOT SELECTED")[0]


@pytest.mark.parametrize("mode", ("adopted",))
@pytest.mark.parametrize("repository", (False, True), ids=("without a repository", "with its own"))
def test_the_hint_in_the_body_state_follows(
    session: Session, project: Path, git: Git, repository: bool, outcome: Told
) -> None:
    if repository:
        git(session.vault, "init", "-q")
        git(session.vault, "commit", "-q", "--allow-empty", "-m", "theirs")
    body = project / "BODY_STATE.json"
    body.write_text(
        json.dumps({"other": [1, "é"], "state": {"mood": "calm", "last_capsule": {"kept": 1}}}, indent=2) + "\n",
        encoding="utf-8",
    )

    assert outcome(session.turn("Split the parser and keep the tests green.", "Split.")) == "saved"

    found = json.loads(body.read_text("utf-8"))
    hint = found["state"].pop("last_capsule")
    assert found == {"other": [1, "é"], "state": {"mood": "calm"}}
    assert (hint["id"], hint["kept"]) == (session.capsule().stem, 1)
    assert (project / hint["path"]) == session.capsule()
    assert hint["status"] == "active"
    session.sibling().start()
    assert json.loads(body.read_text("utf-8"))["state"]["last_capsule"]["status"] == "resumed"
    if repository:
        assert git(session.vault, "log", "--format=%s", "-1").startswith("capsule: consume")


def test_what_an_operator_keeps_for_themselves_is_named(tmp_path: Path) -> None:
    assert taken_over.operator_owned(str(tmp_path)) == frozenset()
    (tmp_path / ".aigent").mkdir()
    place = tmp_path / ".aigent/operator-owned.json"
    for text, expected in (
        ('["a/b.md", 3]', {"a/b.md"}),
        ('{"files": ["/x", "y/"]}', {"x", "y"}),
        ("{", set()),
        ("null", set()),
    ):
        place.write_text(text, encoding="utf-8")
        assert taken_over.operator_owned(str(tmp_path)) == expected


@pytest.mark.parametrize("mode", ("adopted",))
def test_a_capsule_that_is_opened_again_counts_as_never_handed_out(
    session: Session, vault_mem: Callable[..., subprocess.CompletedProcess[bytes]]
) -> None:
    session.turn("Split the parser and keep the tests green.", "Split.")
    first = session.sibling()
    first.start()
    first.turn("And now the printer as well, please.", "Done.")
    name = session.capsule().stem

    vault_mem("capsule", "resolve", first.capsule().stem, "--why", "done", cwd=session.seat, check=True)
    vault_mem("capsule", "reopen", name, cwd=session.seat, check=True)
    told = session.sibling().start()

    assert "Split the parser" in told.split("CAPSULES NOT SELECTED")[0]
    assert "may already have been delivered" not in told


@pytest.mark.parametrize(
    ("text", "variable", "durable"),
    (
        (None, None, True),
        ("durable = false\n", None, False),
        ("durable = false\n", "1", True),
        ('[seat."SEAT"]\ndurable = false\n', None, False),
        ('[seat."another"]\ndurable = false\n', None, True),
        ("durable = ", None, True),
        (None, "0", False),
        (None, "off", False),
        (None, "perhaps", True),
    ),
)
def test_whether_saves_are_synced_is_a_setting_of_the_person(
    text: str | None, variable: str | None, durable: bool, seat: Path, environ: dict[str, str]
) -> None:
    if text is not None:
        config = Path(environ["XDG_CONFIG_HOME"]) / "vault-mem/config.toml"
        config.parent.mkdir(parents=True)
        config.write_text(text.replace("SEAT", trust.seat_id(str(seat / MEMORY))), encoding="utf-8")
    given = environ if variable is None else {**environ, "VAULT_MEM_DURABLE": variable}

    assert seats.opened(explicit=str(seat), environ=given, cwd=str(seat)).durable is durable


def test_a_foreign_boot_receipt_is_named_by_the_path_where_it_lies(session: Session) -> None:
    session.turn("Split the parser.", "Split.")
    receipt = session.seat / ".git/vault-mem/vault-memory/boot-receipt.json"
    receipt.parent.mkdir(parents=True, exist_ok=True)
    receipt.write_text('{"session_id": "another", "written_at": "2026-01-01T00:00:00Z"}', "utf-8")

    done = session.run("resume", "--peek", cwd=session.seat, more={"CLAUDE_CODE_SESSION_ID": "mine"}, check=True)

    text = done.stdout.decode("utf-8")
    assert "receipt cross-check: MISMATCH" in text
    assert ".git/vault-mem/vault-memory/boot-receipt.json" in text
    assert "vault/memory/runtime/" not in text
