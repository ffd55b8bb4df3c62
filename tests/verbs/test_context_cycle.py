"""Whole compactions through the real program, for both clients, and one test for each way in which such a thing is known to go wrong."""

from __future__ import annotations

import json
import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from vault_mem import checkpoints, processes, receipts
from vault_mem.session import checkpoint, continuity

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.verbs.conftest import Session

    Vault = Callable[..., subprocess.CompletedProcess[bytes]]


class Compacting:
    """The hooks around a compaction of one session, as its client calls them."""

    def __init__(self, session: Session, vault_mem: Vault) -> None:
        self.session, self.vault_mem = session, vault_mem
        self.runtime = str(session.vault / "runtime")
        self.turn = "t1"

    def hook(self, event: str, name: str, **more: Any) -> str:
        """One hook; what it printed for the model, and nothing else may be printed."""
        payload = self.session.payload(name, prompt_id=self.turn, **more)
        arguments = ("resume",) if event == "resume" else ("hook", event)
        done = self.vault_mem(*arguments, stdin=payload, cwd=self.session.seat)
        assert done.returncode == 0
        self.said = done.stderr.decode()
        if not done.stdout:
            return ""
        document = json.loads(done.stdout)
        assert set(document) <= {"hookSpecificOutput", "systemMessage"}
        assert document["hookSpecificOutput"]["hookEventName"] == name
        self.warning = document.get("systemMessage", "")
        return str(document["hookSpecificOutput"]["additionalContext"])

    def pre(self, **more: Any) -> str:
        return self.hook("pre-compact", "PreCompact", **{"trigger": "auto", "custom_instructions": None, **more})

    def post(self) -> str:
        return self.hook("post-compact", "PostCompact", trigger="auto", compact_summary="a summary")

    def start(self) -> str:
        return self.hook("resume", "SessionStart", source="compact")

    def tool(self, **more: Any) -> str:
        return self.hook("post-tool-use", "PostToolUse", tool_name="Edit", tool_input={"file_path": "a.py"}, **more)

    def prompt(self, text: str = "go on") -> str:
        return self.hook("user-prompt-submit", "UserPromptSubmit", prompt=text)

    @property
    def state(self) -> continuity.State:
        state = checkpoints.load(self.runtime, self.session.id)
        assert state is not None
        return state

    @property
    def folder(self) -> str:
        return checkpoints.folder(self.runtime, self.session.id)

    def record(self, generation: int) -> dict[str, Any]:
        record = checkpoints.read_checkpoint(self.folder, generation)
        assert record is not None
        return record

    def kinds(self) -> list[str]:
        return [event.kind for event in checkpoints.events(self.runtime, self.session.id)]

    def delivered(self, text: str) -> None:
        """The client writes the hook's text into its transcript and goes on."""
        self.session.clock = time.time() + 1
        self.session.row(type="attachment", attachment={"type": "hook_additional_context", "content": [text]})
        self.session.answer("Going on.")


@pytest.fixture
def compacting(session: Session, vault_mem: Vault) -> Compacting:
    session.prompt("Split the parser and keep the tests green.")
    session.use("Edit", file_path=str(session.seat / "alpha.py"), old_string="1", new_string="2")
    (session.seat / "alpha.py").write_text("1\n")
    session.turn("Now the importer.", "The importer is next.")
    return Compacting(session, vault_mem)


def test_claude_checkpoints_before_and_briefs_right_after(compacting: Compacting) -> None:
    assert compacting.pre() == ""
    assert compacting.state.phase == continuity.CHECKPOINTED
    text = compacting.start()
    assert compacting.post() == ""

    assert compacting.state.phase == continuity.RECOVERED
    assert text.count("Split the parser and keep the tests green.") >= 1
    assert "files changed: alpha.py" in text
    assert "nothing captured" not in text.lower()
    assert "was captured" not in text
    assert "nothing moved since the checkpoint (main at " in text
    assert len(text.encode()) <= 4096
    assert compacting.kinds() == [
        "context-sampled", "compaction-started", "checkpoint-created", "compaction-completed", "briefing-injected",
        "compaction-completed",
    ]  # fmt: skip
    compacting.delivered(text)
    assert compacting.tool() == ""
    assert compacting.state.cycle is not None
    assert compacting.state.cycle.delivery == continuity.CONFIRMED
    assert not os.path.exists(checkpoints.marker(compacting.runtime, compacting.session.id))


def test_the_commit_of_the_capsule_and_the_checkpoint_name_each_other(
    compacting: Compacting, git: Callable[..., str]
) -> None:
    compacting.pre()

    record = compacting.record(1)
    body = git(compacting.session.vault, "log", "-1", "--format=%H%n%B")
    assert record["capsule"]["commit"] == body.splitlines()[0]
    assert f"Capsule-Checkpoint: {record['id']}" in body
    assert f"Capsule-Id: {record['capsule']['id']}" in body
    assert git(compacting.session.vault, "status", "--porcelain") == ""


def test_files_of_continuity_are_their_owners_alone(compacting: Compacting) -> None:
    compacting.pre()
    compacting.start()

    for place, folders, names in os.walk(checkpoints.base(compacting.runtime)):
        for name in folders:
            assert os.stat(os.path.join(place, name)).st_mode & 0o777 == 0o700
        for name in names:
            assert os.stat(os.path.join(place, name)).st_mode & 0o777 == 0o600


def test_the_session_gets_its_own_state_back_although_its_capsule_was_consumed(compacting: Compacting) -> None:
    compacting.session.sibling().start("clear")
    assert "status: resumed" in compacting.session.capsule().read_text()
    compacting.pre()

    text = compacting.start()

    assert "Split the parser" in text


def test_a_repeated_announcement_of_one_turn_makes_one_checkpoint(compacting: Compacting) -> None:
    compacting.pre()
    compacting.pre()

    assert compacting.state.generation == 1
    assert compacting.kinds().count("checkpoint-created") == 1


def test_a_briefing_is_told_once_although_the_hook_is_registered_twice(compacting: Compacting) -> None:
    compacting.pre()

    assert compacting.start()
    assert compacting.start() == ""


def test_a_completion_without_a_start_is_told_at_the_next_tool(compacting: Compacting) -> None:
    compacting.pre()
    compacting.post()

    text = compacting.tool()

    assert text.startswith("[VAULT MEMORY] The context of this session was compacted")
    assert compacting.tool() == ""
    assert compacting.prompt() == ""


def test_parallel_tool_hooks_tell_it_once(compacting: Compacting) -> None:
    compacting.pre()
    compacting.post()
    payload = compacting.session.payload("PostToolUse", prompt_id="t1", tool_name="Edit", tool_input={})

    with ThreadPoolExecutor(4) as pool:
        done = list(
            pool.map(
                lambda _: compacting.vault_mem("hook", "post-tool-use", stdin=payload, cwd=compacting.session.seat),
                range(4),
            )
        )

    assert sum(bool(each.stdout) for each in done) == 1


def test_a_compaction_seen_only_in_the_transcript_is_told_too(compacting: Compacting) -> None:
    compacting.pre()
    compacting.session.clock = time.time() + 1
    compacting.session.row(type="system", subtype="compact_boundary", compactMetadata={"trigger": "auto"})

    assert "[VAULT MEMORY]" in compacting.tool()


def test_a_start_whose_text_the_client_dropped_is_told_once_more_elsewhere(compacting: Compacting) -> None:
    compacting.pre()
    assert compacting.start()
    compacting.session.clock = time.time() + 1
    compacting.session.answer("I go on and know nothing of it.")

    again = compacting.tool()

    assert "You may have been told this already" in again
    assert compacting.tool() == ""


def test_an_unseen_briefing_is_unconfirmed(compacting: Compacting) -> None:
    compacting.pre()
    compacting.start()

    compacting.session.stop("done")

    assert compacting.state.cycle is not None
    assert compacting.state.cycle.delivery == continuity.UNCONFIRMED


def test_a_prompt_after_an_announcement_that_never_compacted_tells_nothing(compacting: Compacting) -> None:
    compacting.pre()
    compacting.turn = "t2"

    assert compacting.prompt() == ""
    assert compacting.state.cycle is not None
    assert compacting.state.cycle.closed == continuity.ABANDONED


def test_sub_agents_have_a_record_of_their_own(compacting: Compacting) -> None:
    compacting.tool(agent_id="agent-1", agent_type="reviewer")
    compacting.pre(agent_id="agent-1", agent_type="reviewer")
    assert checkpoints.load(compacting.runtime, compacting.session.id) is None

    compacting.pre()

    assert compacting.record(1)["work"]["delegated"] == [
        "reviewer agent-1: 1 files: a.py; its own context was compacted 1x"
    ]


def test_secrets_are_redacted_and_counted(compacting: Compacting, vault_mem: Vault) -> None:
    note = "the key is AKIA" + "IOSFODNN7EXAMPQE"

    vault_mem(
        "context",
        "checkpoint",
        "--session",
        compacting.session.id,
        "--note",
        note,
        cwd=compacting.session.seat,
        check=True,
    )

    record = compacting.record(1)
    assert "AKIA" not in json.dumps(record)
    assert record["redacted"] >= 1


# Codex


class Codex(Compacting):
    """The same with the payloads and the order of Codex."""

    def hook(self, event: str, name: str, **more: Any) -> str:
        more.pop("custom_instructions", None)
        more.pop("compact_summary", None)
        rollout = str(self.session.transcript)
        payload: dict[str, Any] = {
            "session_id": self.session.id, "transcript_path": rollout, "cwd": str(self.session.seat),
            "hook_event_name": name, "model": "gpt-5.5", **more,
        }  # fmt: skip
        if name != "SessionStart":
            payload["turn_id"] = self.turn
        arguments = ("resume",) if event == "resume" else ("hook", event)
        done = self.vault_mem(
            *arguments, "--harness", "codex", stdin=json.dumps(payload).encode(), cwd=self.session.seat
        )
        assert done.returncode == 0
        self.said = done.stderr.decode()
        if not done.stdout:
            return ""
        document = json.loads(done.stdout)
        assert set(document) <= {"hookSpecificOutput", "systemMessage"}
        assert set(document["hookSpecificOutput"]) == {"hookEventName", "additionalContext"}
        return str(document["hookSpecificOutput"]["additionalContext"])


@pytest.fixture
def codex(seat: Path, vault_mem: Vault, tmp_path: Path) -> Codex:
    from tests.verbs.conftest import Session as Stand

    session = Stand(seat, tmp_path, vault_mem)
    session.transcript = tmp_path / f"rollout-{session.id}.jsonl"
    session.transcript.write_text("")
    stand = Codex(session, vault_mem)
    stand.hook("user-prompt-submit", "UserPromptSubmit", prompt="Add a --json flag to tally.")
    stand.hook("stop", "Stop", stop_hook_active=False, last_assistant_message="The flag is added.")
    return stand


def test_codex_checkpoints_completes_and_briefs_with_the_next_start(codex: Codex) -> None:
    assert codex.pre() == ""
    assert codex.post() == ""
    assert codex.state.phase == continuity.CHECKPOINTED
    codex.turn = "t2"

    text = codex.start()

    assert "Add a --json flag to tally." in text
    assert codex.prompt() == ""
    assert codex.state.phase == continuity.RECOVERED
    with codex.session.transcript.open("a") as file:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() + 1))
        passed_on = {
            "type": "message", "role": "developer", "content": [{"type": "input_text", "text": text}],
            "internal_chat_message_metadata_passthrough": {"content_item_kinds": ["hooks.additional_context"]},
        }  # fmt: skip
        file.write(json.dumps({"timestamp": stamp, "type": "response_item", "payload": passed_on}) + "\n")
    codex.tool()
    assert codex.state.cycle is not None
    assert codex.state.cycle.delivery == continuity.CONFIRMED


def test_codex_is_told_in_the_middle_of_the_turn_and_not_again_by_its_late_start(codex: Codex) -> None:
    codex.pre()
    codex.post()

    assert "[VAULT MEMORY]" in codex.tool()
    codex.turn = "t2"
    assert codex.start() == ""
    assert codex.prompt() == ""


def test_codex_measures_come_from_its_rollout(codex: Codex) -> None:
    info = {"last_token_usage": {"input_tokens": 60_000}, "model_context_window": 258_400}
    row = {
        "timestamp": "2026-11-30T10:00:00.000Z",
        "type": "event_msg",
        "payload": {"type": "token_count", "info": info},
    }
    codex.session.transcript.write_text(json.dumps(row) + "\n")

    codex.pre()

    assert codex.record(1)["context"]["tokens"] == 60_000
    assert codex.record(1)["context"]["window"] == 258_400


# What is known to go wrong elsewhere


def test_an_unstaged_path_keeps_its_first_letter_and_staging_another_is_no_false_drift(
    compacting: Compacting, git: Callable[..., str]
) -> None:
    (compacting.session.seat / "README.md").write_text("changed\n")
    compacting.pre()

    assert [path for _, path in compacting.record(1)["repo"]["dirty"]][:1] == [".aigent/state.json"] or "README.md" in [
        path for _, path in compacting.record(1)["repo"]["dirty"]
    ]
    git(compacting.session.seat, "add", "README.md")
    text = compacting.start()
    assert "staged or unstaged since: README.md" in text
    assert "newly dirty" not in text


def test_a_manual_checkpoint_is_never_served_as_the_one_before_a_compaction(
    compacting: Compacting, vault_mem: Vault
) -> None:
    vault_mem(
        "context",
        "checkpoint",
        "--session",
        compacting.session.id,
        "--note",
        "old note",
        cwd=compacting.session.seat,
        check=True,
    )
    compacting.session.turn("A later request, quite another one.", "Done.")
    compacting.pre()

    text = compacting.start()

    assert compacting.state.generation == 2
    assert "old note" not in text
    assert "A later request, quite another one." in text


def test_two_compactions_before_a_briefing_are_two_generations_and_the_newer_is_told(codex: Codex) -> None:
    codex.pre()
    codex.post()
    codex.turn = "t2"
    codex.pre()
    codex.post()

    text = codex.tool()

    assert codex.state.generation == 2
    assert "Checkpoint 2," in text
    assert [
        event.data["outcome"]
        for event in checkpoints.events(codex.runtime, codex.session.id)
        if event.kind == "cycle-closed"
    ] == ["superseded"]


def test_a_compaction_without_announcement_takes_its_snapshot_afterwards_and_says_so(compacting: Compacting) -> None:
    compacting.pre()
    compacting.start()
    compacting.turn = "t9"

    text = compacting.start()

    assert "DEGRADED (no-pre-signal)" in text
    assert "made AFTER the compaction" in text
    assert "Checkpoint 2," in text
    assert compacting.state.phase == continuity.DEGRADED
    assert "degraded" in compacting.warning


def test_a_manual_checkpoint_between_completion_and_prompt_leaves_the_briefing_owed(
    codex: Codex, vault_mem: Vault
) -> None:
    codex.pre()
    codex.post()
    vault_mem("context", "checkpoint", "--session", codex.session.id, cwd=codex.session.seat, check=True)

    assert "Checkpoint 1," in codex.prompt()


def test_a_checkpoint_by_hand_before_any_hook_leaves_the_client_open(seat: Path, vault_mem: Vault) -> None:
    vault_mem("context", "checkpoint", "--session", "early", cwd=seat, check=True)
    payload = {"session_id": "early", "cwd": str(seat), "turn_id": "t1", "trigger": "auto", "transcript_path": ""}

    vault_mem("hook", "pre-compact", stdin=json.dumps(payload).encode(), cwd=seat, check=True)

    state = checkpoints.load(str(seat / "vault/memory/runtime"), "early")
    assert state is not None
    assert (state.harness, state.generation) == ("codex", 2)


def test_text_of_many_bytes_is_shed_and_the_checkpoint_is_there(compacting: Compacting) -> None:
    compacting.session.turn("文" * 3000, "字" * 3000)
    for number in range(60):
        compacting.session.use(
            "Edit", file_path=f"{compacting.session.seat}/{number}{'路' * 80}.py", old_string="1", new_string="2"
        )
    compacting.session.stop("字" * 3000)

    compacting.pre()

    record = compacting.record(1)
    assert os.path.getsize(checkpoints.path_of(compacting.folder, 1)) <= checkpoint.LIMIT
    assert record["work"]["request"].startswith("文文")
    assert len(compacting.start().encode()) <= 4096


def test_eight_checkpoints_at_once_are_eight_generations(compacting: Compacting, vault_mem: Vault) -> None:
    def make(_: int) -> subprocess.CompletedProcess[bytes]:
        return vault_mem(
            "context", "checkpoint", "--session", compacting.session.id, "--json", cwd=compacting.session.seat
        )

    with ThreadPoolExecutor(8) as pool:
        made = [json.loads(done.stdout)["generation"] for done in pool.map(make, range(8))]

    assert sorted(made) == list(range(1, 9))
    assert checkpoints.generations(compacting.folder) == tuple(range(1, 9))
    assert compacting.state.generation == 8


def test_a_damaged_state_neither_starts_over_nor_overwrites(compacting: Compacting) -> None:
    compacting.pre()
    first = compacting.record(1)
    for name in ("state.json", "events.jsonl"):
        with open(f"{compacting.folder}/{name}", "wb") as file:
            file.write(b"\x00 damaged")
    compacting.turn = "t2"

    compacting.pre()

    assert compacting.record(1) == first
    assert compacting.state.generation == 2


def test_a_long_dirty_list_and_a_vanished_directory_are_never_called_unchanged(compacting: Compacting) -> None:
    for number in range(80):
        (compacting.session.seat / f"n{number:02}.txt").write_text("x")
    compacting.pre()
    compacting.session.seat.joinpath("n99.txt").write_text("x")

    text = compacting.start()

    assert compacting.record(1)["repo"]["total"] > len(compacting.record(1)["repo"]["dirty"]) == 60
    assert "no longer dirty" not in text
    assert "not all of them were kept" in text


def test_renames_quoted_names_untracked_folders_and_edits_of_dirty_files_are_told_apart(
    compacting: Compacting, git: Callable[..., str]
) -> None:
    seat = compacting.session.seat
    git(seat, "mv", "README.md", "ünder score.md")
    (seat / "new").mkdir()
    (seat / "new" / "one.txt").write_text("1")
    compacting.pre()
    paths = [path for _, path in compacting.record(1)["repo"]["dirty"]]
    (seat / "alpha.py").write_text("somebody else was here\n")

    text = compacting.start()

    assert {"README.md", "ünder score.md", "new/one.txt"} <= set(paths)
    assert "content changed since, of files this session changed: alpha.py" in text


@pytest.mark.parametrize(
    "stdin", (b"", b"{", b"{}", b'{"session_id": 5}'), ids=("empty", "cut", "nameless", "wrong type")
)
def test_a_bad_payload_makes_no_checkpoint_for_anybody(compacting: Compacting, vault_mem: Vault, stdin: bytes) -> None:
    done = vault_mem("hook", "pre-compact", stdin=stdin, cwd=compacting.session.seat)

    assert done.returncode == 0
    assert b"bad-payload" in done.stderr
    assert checkpoints.directories(compacting.runtime) == ()


@pytest.mark.parametrize("trigger", ("manual", "auto"))
def test_what_set_the_compaction_off_is_kept_as_told(compacting: Compacting, trigger: str) -> None:
    compacting.pre(trigger=trigger)

    assert compacting.record(1)["trigger"] == trigger
    assert compacting.state.cycle is not None
    assert compacting.state.cycle.trigger == trigger


def test_a_refused_save_does_not_silence_checkpoint_and_briefing(compacting: Compacting) -> None:
    (compacting.session.vault / ".git" / "index.lock").write_text("")
    compacting.session.prompt("One more thing.")
    compacting.pre()

    assert "index-locked" in compacting.said or compacting.record(1)["capsule"]["problem"]
    assert "[VAULT MEMORY]" in compacting.start()


def test_a_lost_checkpoint_is_replaced_by_an_older_one_by_name(compacting: Compacting) -> None:
    compacting.pre()
    compacting.start()
    compacting.turn = "t2"
    compacting.session.turn("Another step.", "Made.")
    compacting.pre()
    os.truncate(checkpoints.path_of(compacting.folder, 2), 10)

    text = compacting.start()

    assert "Checkpoint 1," in text
    assert "It is NOT the newest" in text
    assert compacting.state.phase == continuity.DEGRADED


def test_a_text_that_did_not_get_out_is_still_owed(compacting: Compacting, program: Callable[..., list[str]]) -> None:
    compacting.pre()
    read, write = os.pipe()
    os.close(read)
    payload = compacting.session.payload("SessionStart", source="compact", prompt_id="t1")

    done = subprocess.run(
        program("resume"), input=payload, stdout=write, stderr=subprocess.PIPE, cwd=compacting.session.seat, check=False
    )

    os.close(write)
    assert done.returncode == 0
    assert compacting.state.cycle is not None
    assert not compacting.state.cycle.injected
    assert "[VAULT MEMORY]" in compacting.tool()


def test_where_nothing_can_be_kept_model_and_person_are_told(compacting: Compacting) -> None:
    os.makedirs(os.path.dirname(compacting.folder))
    with open(compacting.folder, "w"):
        pass
    compacting.pre()
    assert "error:" in compacting.said

    text = compacting.start()

    assert text.startswith("DEGRADED: the context of this session was compacted")
    assert "Split the parser" in text
    assert "degraded" in compacting.warning


def test_a_live_session_that_changed_the_same_file_is_named(compacting: Compacting) -> None:
    other = compacting.session.sibling("other-session")
    other.prompt("Rework alpha as well.")
    other.use("Edit", file_path=str(other.seat / "alpha.py"), old_string="1", new_string="2")
    other.stop("Reworked.")
    receipts.store_session(
        compacting.runtime,
        receipts.SessionRecord("other-session", os.getpid(), processes.start_time(os.getpid()) or "", time.time()),
    )
    compacting.pre()

    text = compacting.start()

    assert "Live session other-session changed the same files: alpha.py" in text


def test_a_process_that_died_between_file_and_log_costs_no_generation(compacting: Compacting) -> None:
    compacting.pre()
    orphan = {**compacting.record(1), "generation": 2, "id": "orphan"}
    checkpoints.add_checkpoint(compacting.folder, orphan, durable=False)
    compacting.turn = "t2"

    compacting.pre()

    assert compacting.state.generation == 3
    assert compacting.record(2)["id"] == "orphan"


def test_upkeep_lets_long_untouched_sessions_go(compacting: Compacting, vault_mem: Vault) -> None:
    compacting.pre()
    compacting.start()
    state = compacting.session.vault / "runtime" / "context" / os.path.basename(compacting.folder) / "state.json"
    held = json.loads(state.read_text())
    held["state"]["updated"] = time.time() - 31 * 86400
    state.write_text(json.dumps(held))

    vault_mem("gc", cwd=compacting.session.seat, check=True)

    assert checkpoints.directories(compacting.runtime) == ()
