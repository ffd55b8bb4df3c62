from __future__ import annotations

import json
from typing import Any

import pytest

from vault_mem.harness import codex, registry
from vault_mem.session import turns

STAMP = "2026-12-01T10:00:00.500Z"
PATCH = "*** Begin Patch\n*** Update File: a.py\n@@\n-x\n+y\n*** Add File: b.md\n+z\n*** Move to: c.py\n*** End Patch\n"


def read(kind: str, **payload: Any) -> list[tuple[str, ...]]:
    """Kind, tag, text and status of the turns of one row."""
    found = codex.read(json.dumps({"timestamp": STAMP, "type": kind, "payload": payload}).encode())
    return [tuple(part for part in (turn.kind, turn.tag, turn.text, turn.status) if part) for turn in found]


def item(kind: str, **payload: Any) -> dict[str, Any]:
    return {"kind": "response_item", "type": kind, **payload}


def event(kind: str, **payload: Any) -> dict[str, Any]:
    return {"kind": "event_msg", "type": kind, **payload}


def said(role: str, *texts: str, **more: Any) -> dict[str, Any]:
    block = "output_text" if role == "assistant" else "input_text"
    return item("message", role=role, content=[{"type": block, "text": text} for text in texts], **more)


def output(text: Any) -> dict[str, Any]:
    return item("function_call_output", call_id="c1", output=text)


def kinds(*names: str) -> dict[str, Any]:
    return {"internal_chat_message_metadata_passthrough": {"turn_id": "t1", "content_item_kinds": list(names)}}


RAN = "Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code {}\nOriginal token count: 3\nOutput:\n{}"
GOES_ON = "Chunk ID: 1\nWall time: 2 seconds\nProcess running with session ID 4711\nOutput:\n..."


@pytest.mark.parametrize(
    ("row", "expected"),
    (
        pytest.param(said("user", "fix it"), [("prompt", "OPERATOR", "fix it")], id="typed"),
        pytest.param(
            said("user", "fix it", **kinds("user.text")), [("prompt", "OPERATOR", "fix it")], id="typed, newer"
        ),
        pytest.param(said("user", "<environment_context>x</environment_context>"), [], id="environment"),
        pytest.param(said("user", "# AGENTS.md instructions for /p"), [], id="instructions"),
        pytest.param(said("user", "Memory: our own", **kinds("hooks.additional_context")), [], id="what a hook said"),
        pytest.param(
            said("user", "<environment_context>x</environment_context>", "fix it"),
            [("prompt", "OPERATOR", "fix it")],
            id="context beside words",
        ),
        pytest.param(
            item(
                "message", role="user", content=[{"type": "input_image"}, {"type": "input_text", "text": "like this"}]
            ),
            [("prompt", "OPERATOR", "like this")],
            id="words and a picture",
        ),
        pytest.param(
            item("message", role="user", content=[{"type": "input_image"}]),
            [("prompt", "ATTACHMENT", "[image]")],
            id="picture",
        ),
        pytest.param(said("developer", "rules"), [], id="developer"),
        pytest.param(said("assistant", "done"), [("said", "done")], id="answer"),
        pytest.param(
            event("task_complete", last_agent_message="done"), [("said", "done"), ("ended",)], id="end of a turn"
        ),
        pytest.param(event("task_complete"), [("ended",)], id="end without words"),
        pytest.param(event("turn_aborted", reason="interrupted"), [("interrupt",)], id="interrupted"),
        pytest.param(event("turn_aborted", reason="replaced"), [("ended",)], id="replaced"),
        pytest.param(event("token_count", info={}), [], id="usage"),
        pytest.param(event("agent_reasoning", text="hm"), [], id="reasoning"),
        pytest.param(item("reasoning", summary=[]), [], id="reasoning item"),
        pytest.param(
            {"kind": "compacted", "message": "the summary", "replacement_history": [{"role": "user"}]},
            [("compacted", "the summary")],
            id="compaction",
        ),
        pytest.param(output(RAN.format(0, "ok")), [("result", "exit", "ok", "ok")], id="exit code 0"),
        pytest.param(output(RAN.format(1, "no")), [("result", "exit", "Exit code 1\nno", "failed")], id="exit code 1"),
        pytest.param(
            output("Exit code: 2\nWall time: 0 seconds\nOutput:\nno"),
            [("result", "exit", "Exit code 2\nno", "failed")],
            id="older",
        ),
        pytest.param(
            output(json.dumps({"output": "no", "metadata": {"exit_code": 3}})),
            [("result", "exit", "Exit code 3\nno", "failed")],
            id="oldest",
        ),
        pytest.param(output(GOES_ON), [("result", "4711", "running")], id="goes on in the background"),
        pytest.param(output("aborted by user after 3.2s"), [("result", "stopped")], id="aborted"),
        pytest.param(output("exec command rejected by user"), [("result", "refused")], id="refused"),
        pytest.param(output("patch rejected by user"), [("result", "refused")], id="patch refused"),
        pytest.param(
            output("apply_patch verification failed: Failed to find expected lines in a.py"),
            [("result", "apply_patch verification failed: Failed to find expected lines in a.py", "failed")],
            id="patch that does not apply",
        ),
        pytest.param(
            output({"success": False, "content": "nope"}), [("result", "nope", "failed")], id="failure in an object"
        ),
        pytest.param(output("Plan updated"), [("result", "Plan updated", "ok")], id="plan"),
        pytest.param(
            event(
                "item_completed",
                item={"id": "c1", "type": "CommandExecution", "exit_code": 1, "aggregated_output": "no"},
            ),
            [("result", "late", "Exit code 1\nno", "failed")],
            id="end of a command in the background",
        ),
        pytest.param(
            event("item_completed", item={"id": "c1", "type": "CommandExecution", "exit_code": -1}),
            [("result", "late", "open")],
            id="ended by the client as it left",
        ),
        pytest.param(
            event("item_completed", item={"id": "c1", "type": "FileChange", "status": "declined"}),
            [("result", "refused")],
            id="declined",
        ),
        pytest.param(
            event("item_completed", item={"type": "AgentMessage", "text": "done"}), [], id="copy of an answer"
        ),
        pytest.param({"kind": "world_state", "x": 1}, [], id="state of the world"),
    ),
)
def test_each_kind_of_row_is_what_it_is(row: dict[str, Any], expected: list[tuple[str, ...]]) -> None:
    assert read(**row) == expected


@pytest.mark.parametrize(
    ("name", "given", "action", "items"),
    (
        pytest.param("exec_command", {"cmd": "ls"}, turns.SHELL, (), id="exec_command"),
        pytest.param("shell", {"command": ["bash", "-lc", "ls"]}, turns.SHELL, (), id="shell with words"),
        pytest.param(
            "shell",
            {"command": ["apply_patch", PATCH]},
            turns.SHELL,
            (("a.py",), ("b.md",), ("c.py",)),
            id="patch as words",
        ),
        pytest.param(
            "exec_command",
            {"cmd": f"apply_patch <<'EOF'\n{PATCH}EOF"},
            turns.SHELL,
            (("a.py",), ("b.md",), ("c.py",)),
            id="patch in a here-document",
        ),
        pytest.param("write_stdin", {"session_id": 4711, "chars": ""}, turns.STDIN, (), id="write_stdin"),
        pytest.param(
            "update_plan",
            {"plan": [{"step": "a", "status": "completed"}, {"step": "b", "status": "pending"}]},
            turns.TODOS,
            (("a", "completed"), ("b", "pending")),
            id="update_plan",
        ),
        pytest.param(
            "request_user_input",
            {"questions": [{"id": "q", "question": "Which?"}]},
            turns.ASK,
            (("Which?",),),
            id="question",
        ),
        pytest.param("view_image", {"path": "/p/x.png"}, turns.READ, (("/p/x.png",),), id="view_image"),
        pytest.param("board__board_claim", {"task_id": "R-7"}, turns.CLAIM, (), id="claim"),
    ),
)
def test_each_tool_means_what_it_does(name: str, given: dict[str, Any], action: str, items: tuple[Any, ...]) -> None:
    payload = {"type": "function_call", "call_id": "c1", "name": name, "arguments": json.dumps(given)}

    (turn,) = codex.read(json.dumps({"type": "response_item", "payload": payload}).encode())

    assert (turn.action, turn.items, turn.ref) == (action, items, "c1")


def test_a_patch_call_names_every_file_it_touches() -> None:
    payload = {"type": "custom_tool_call", "call_id": "c1", "name": "apply_patch", "input": PATCH}

    (turn,) = codex.read(json.dumps({"type": "response_item", "payload": payload}).encode())

    assert (turn.action, turn.items) == (turns.MODIFY, (("a.py",), ("b.md",), ("c.py",)))


def test_words_of_a_command_are_joined_so_that_they_can_be_read_again() -> None:
    payload = {"type": "local_shell_call", "call_id": "c1", "action": {"command": ["git", "commit", "-m", "it's in"]}}

    (turn,) = codex.read(json.dumps({"type": "response_item", "payload": payload}).encode())

    assert turn.text == "git commit -m 'it'\\''s in'"


def test_the_place_is_known_from_the_first_rows() -> None:
    row = {"type": "session_meta", "payload": {"id": "s", "cwd": "/p", "git": {"branch": "main"}}}

    (turn,) = codex.read(json.dumps(row).encode())

    assert (turn.kind, turn.cwd, turn.branch) == (turns.PLACE, "/p", "main")


def test_a_word_in_a_message_does_not_hide_it() -> None:
    assert read(**said("user", 'the row says "reasoning" and "token_count"')) == [
        ("prompt", "OPERATOR", 'the row says "reasoning" and "token_count"')
    ]


@pytest.mark.parametrize(
    "line",
    (
        b"",
        b"\0",
        b"[]",
        b"{",
        b'{"type":"response_item"}',
        b'{"type":"response_item","payload":[]}',
        b'{"type":"response_item","payload":{"type":7}}',
        b'{"type":"event_msg","payload":{"type":"item_completed","item":"x"}}',
        b'{"type":"compacted","payload":{}}',
    ),
)
def test_a_row_of_any_wrong_shape_is_passed_over(line: bytes) -> None:
    assert codex.read(line) == ()


def test_arguments_that_are_no_json_leave_the_call_without_a_target() -> None:
    payload = {"type": "function_call", "call_id": "c1", "name": "exec_command", "arguments": "{"}

    (turn,) = codex.read(json.dumps({"type": "response_item", "payload": payload}).encode())

    assert (turn.action, turn.text) == (turns.SHELL, "")


@pytest.mark.parametrize(
    ("payload", "name"),
    (
        pytest.param({"transcript_path": "/x/rollout-2026-a.jsonl"}, "codex", id="by the file"),
        pytest.param({"turn_id": "t"}, "codex", id="by its fields"),
        pytest.param({"transcript_path": "C:\\x\\rollout-1.jsonl"}, "codex", id="by the file, other slashes"),
        pytest.param({"transcript_path": "/x/abc.jsonl"}, "claude", id="otherwise"),
        pytest.param({"transcript_path": 7}, "claude", id="wrong type"),
    ),
)
def test_the_client_is_recognised_by_its_payload(payload: dict[str, Any], name: str) -> None:
    assert registry.parse(json.dumps(payload).encode()).harness == name
