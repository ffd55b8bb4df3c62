from __future__ import annotations

import json
from typing import Any

import pytest

from vault_mem.harness import claude
from vault_mem.session import turns
from vault_mem.session.turns import Turn

STAMP = "2026-12-01T10:00:00.500Z"
COMMON = {"isSidechain": False, "cwd": "/p", "gitBranch": "main", "uuid": "u1", "timestamp": STAMP}


def read(**row: Any) -> list[tuple[str, ...]]:
    """Kind, tag, text and status of the turns of one row."""
    found = claude.read(json.dumps({**COMMON, **row}).encode())
    return [tuple(part for part in (turn.kind, turn.tag, turn.text, turn.status) if part) for turn in found]


def user(content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "user", "message": {"role": "user", "content": content}, **more}


def result(text: Any, *, failed: bool = False, **more: Any) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": "t1", "content": text, "is_error": failed}
    return user([block], **more)


def used(name: str, **given: Any) -> Turn:
    block = {"type": "tool_use", "id": "t1", "name": name, "input": given}
    row = {**COMMON, "type": "assistant", "message": {"id": "m1", "role": "assistant", "content": [block]}}
    (turn,) = claude.read(json.dumps(row).encode())
    return turn


TYPED = {"origin": {"kind": "human"}, "promptSource": "typed"}
REJECTED = "The user doesn't want to proceed with this tool use. The tool use was rejected"
PEER = '<teammate-message teammate_id="Ada">ready for review</teammate-message>'
NOTIFICATION = "<task-notification>\n<task-id>1</task-id>\n<summary>Agent done</summary>\n</task-notification>"


@pytest.mark.parametrize(
    ("row", "expected"),
    (
        pytest.param(user("fix it", **TYPED), [("prompt", "OPERATOR", "fix it")], id="typed"),
        pytest.param(
            user("fix it", **{**TYPED, "promptSource": "queued"}), [("prompt", "OPERATOR", "fix it")], id="queued"
        ),
        pytest.param(user("fix it", promptSource="sdk"), [("prompt", "OPERATOR", "fix it")], id="headless"),
        pytest.param(user("fix it"), [("prompt", "OPERATOR", "fix it")], id="older clients name no origin"),
        pytest.param(
            user([{"type": "image", "source": {}}, {"type": "text", "text": "like this"}], **TYPED),
            [("prompt", "OPERATOR", "like this")],
            id="words and a picture",
        ),
        pytest.param(
            user([{"type": "image", "source": {}}]), [("prompt", "ATTACHMENT", "[image]")], id="picture alone"
        ),
        pytest.param(user('@"/p/a b.md"'), [("prompt", "ATTACHMENT", '@"/p/a b.md"')], id="attached file alone"),
        pytest.param(
            user(
                "<command-message>greet</command-message>\n<command-name>/greet</command-name>\n<command-args>Ann</command-args>"
            ),
            [("prompt", "OPERATOR", "/greet Ann")],
            id="slash command with a prompt behind it",
        ),
        pytest.param(user("<command-name>/compact</command-name>", rowSource="local"), [], id="built-in command"),
        pytest.param(
            user("<command-message>resume</command-message><command-name>/vault-mem:resume</command-name>"),
            [],
            id="our own ceremony",
        ),
        pytest.param(user("<local-command-stdout>ok</local-command-stdout>"), [], id="output of a built-in command"),
        pytest.param(user("<bash-input>ls</bash-input>", rowSource="local"), [], id="bash mode"),
        pytest.param(user("<bash-stdout>a</bash-stdout><bash-stderr></bash-stderr>"), [], id="output of bash mode"),
        pytest.param(
            user("<system-reminder>be brief</system-reminder>fix it"), [("prompt", "OPERATOR", "fix it")], id="reminder"
        ),
        pytest.param(user("<system-reminder>only this"), [], id="a reminder that never ends"),
        pytest.param(
            user("what does <system-reminders> mean?"),
            [("prompt", "OPERATOR", "what does <system-reminders> mean?")],
            id="a word that only looks like a block",
        ),
        pytest.param(user(PEER), [("prompt", "PEER:ada", "ready for review")], id="peer"),
        pytest.param(
            user("done here", origin={"kind": "peer", "from": "Bo"}),
            [("prompt", "PEER:bo", "done here")],
            id="peer by origin",
        ),
        pytest.param(
            user("build is red", origin={"kind": "channel", "server": "CI"}),
            [("prompt", "RELAY:ci", "build is red")],
            id="channel by origin",
        ),
        pytest.param(
            user("[room from Kim: lobby] hold on"), [("prompt", "RELAY:kim", "hold on")], id="relayed from a room"
        ),
        pytest.param(
            user(NOTIFICATION, origin={"kind": "task-notification"}),
            [("prompt", "INJECT:harness", "Agent done")],
            id="notification",
        ),
        pytest.param(
            user("[supervisor-resume] go", origin={"kind": "scheduled"}),
            [("prompt", "INJECT:harness", "[supervisor-resume] go")],
            id="injected by origin",
        ),
        pytest.param(
            user("[supervisor-resume] go"),
            [("prompt", "INJECT:harness", "[supervisor-resume] go")],
            id="injected by its words",
        ),
        pytest.param(
            user("[supervisor-resume] means what?", **TYPED),
            [("prompt", "OPERATOR", "[supervisor-resume] means what?")],
            id="a person may quote an injection",
        ),
        pytest.param(user("[Request interrupted by user]"), [("interrupt",)], id="interrupt"),
        pytest.param(
            user([{"type": "text", "text": "[Request interrupted by user for tool use]"}]),
            [("interrupt",)],
            id="interrupted tool",
        ),
        pytest.param(user("caveat", isMeta=True), [], id="meta"),
        pytest.param(user("This session is continued from …", isCompactSummary=True), [], id="summary of a compaction"),
        pytest.param(user("hidden", isVisibleInTranscriptOnly=True), [], id="only for the eye"),
        pytest.param(user("look for callers", isSidechain=True), [], id="sub-agent"),
        pytest.param(user("fix it", forkedFrom={"sessionId": "s0"}), [], id="copied history of a fork"),
        pytest.param({"type": "system", "subtype": "compact_boundary"}, [("compacted",)], id="compaction boundary"),
        pytest.param({"type": "system", "subtype": "turn_duration"}, [("ended",)], id="end of a turn"),
        pytest.param({"type": "system", "subtype": "api_error"}, [], id="retried request"),
        pytest.param({"type": "queue-operation", "operation": "enqueue", "content": "fix it"}, [], id="queue"),
        pytest.param({"type": "last-prompt", "lastPrompt": "fix it"}, [], id="last prompt"),
        pytest.param({"type": "api-request-blob", "message": {"role": "user", "content": "fix it"}}, [], id="request"),
        pytest.param(
            {"type": "attachment", "attachment": {"type": "file", "filename": "/p/a.py", "content": {"type": "text"}}},
            [],
            id="a file attached again is no read",
        ),
        pytest.param(
            {"type": "attachment", "attachment": {"type": "hook_success", "stdout": "Objective: our own"}},
            [],
            id="what a hook printed",
        ),
        pytest.param(
            {
                "type": "attachment",
                "attachment": {"type": "queued_command", "prompt": "and the docs", "origin": {"kind": "human"}},
            },
            [("prompt", "OPERATOR", "and the docs", "midturn")],
            id="queued prompt that reached a running turn",
        ),
        pytest.param(
            {
                "type": "attachment",
                "attachment": {
                    "type": "queued_command",
                    "prompt": [{"type": "text", "text": "and this"}],
                    "commandMode": "prompt",
                },
            },
            [("prompt", "OPERATOR", "and this", "midturn")],
            id="queued prompt in blocks",
        ),
        pytest.param(
            {
                "type": "attachment",
                "attachment": {"type": "queued_command", "prompt": NOTIFICATION, "commandMode": "task-notification"},
            },
            [("prompt", "INJECT:harness", "Agent done", "midturn")],
            id="queued notification",
        ),
        pytest.param(
            {"type": "attachment", "attachment": {"type": "queued_command", "prompt": "x", "isMeta": True}},
            [],
            id="queued meta",
        ),
        pytest.param(result("done"), [("result", "done", "ok")], id="result"),
        pytest.param(result([{"type": "text", "text": "done"}]), [("result", "done", "ok")], id="result in blocks"),
        pytest.param(result("Exit code 2\nno", failed=True), [("result", "Exit code 2\nno", "failed")], id="failure"),
        pytest.param(
            result("<tool_use_error>File not found</tool_use_error>", failed=True),
            [("result", "unrun", "File not found", "failed")],
            id="refused by the client",
        ),
        pytest.param(
            result("Claude requested permissions to write to /x, but you haven't granted it yet.", failed=True),
            [
                (
                    "result",
                    "unrun",
                    "Claude requested permissions to write to /x, but you haven't granted it yet.",
                    "failed",
                )
            ],
            id="nobody was there to ask",
        ),
        pytest.param(
            result(f"{REJECTED}. To tell you how to proceed, the user said:\nno commits", failed=True),
            [("result", "no commits", "refused")],
            id="refused with a reason in the text",
        ),
        pytest.param(
            result(REJECTED, failed=True, userFeedback="no commits"),
            [("result", "no commits", "refused")],
            id="reason beside",
        ),
        pytest.param(result(REJECTED, failed=True), [("result", "refused")], id="refused without a reason"),
        pytest.param(
            result("x", failed=True, toolUseResult="User rejected tool use"),
            [("result", "refused")],
            id="refused, short form",
        ),
        pytest.param(
            result("[Request interrupted by user for tool use]", failed=True),
            [("result", "stopped")],
            id="stopped while it ran",
        ),
        pytest.param(
            result("half", toolUseResult={"stdout": "half", "interrupted": True}),
            [("result", "stopped")],
            id="interrupted command",
        ),
        pytest.param(
            result("Command running in background", toolUseResult={"backgroundTaskId": "b1"}),
            [("result", "b1", "running")],
            id="background command",
        ),
        pytest.param(
            result("<tool_use_error>Cancelled: parallel tool call Bash errored</tool_use_error>", failed=True),
            [("result", "unrun", "Cancelled: parallel tool call Bash errored", "open")],
            id="cancelled because another call failed",
        ),
    ),
)
def test_each_kind_of_row_is_what_it_is(row: dict[str, Any], expected: list[tuple[str, ...]]) -> None:
    assert read(**row) == expected


@pytest.mark.parametrize(
    ("name", "given", "action", "items"),
    (
        pytest.param("Edit", {"file_path": "/p/a.py"}, turns.MODIFY, (("/p/a.py",),), id="Edit"),
        pytest.param("MultiEdit", {"file_path": "/p/a.py", "edits": []}, turns.MODIFY, (("/p/a.py",),), id="MultiEdit"),
        pytest.param("Write", {"file_path": "/p/a.py"}, turns.MODIFY, (("/p/a.py",),), id="Write"),
        pytest.param(
            "NotebookEdit", {"notebook_path": "/p/n.ipynb"}, turns.MODIFY, (("/p/n.ipynb",),), id="NotebookEdit"
        ),
        pytest.param("Read", {"file_path": "/p/a.py"}, turns.READ, (("/p/a.py",),), id="Read"),
        pytest.param(
            "NotebookRead", {"notebook_path": "/p/n.ipynb"}, turns.READ, (("/p/n.ipynb",),), id="NotebookRead"
        ),
        pytest.param("Bash", {"command": "ls"}, turns.SHELL, (), id="Bash"),
        pytest.param("Grep", {"pattern": "x", "path": "/p"}, turns.OTHER, (), id="a search reads no file"),
        pytest.param(
            "TodoWrite",
            {
                "todos": [
                    {"content": "a", "status": "completed"},
                    {"content": " "},
                    "junk",
                    {"content": "b", "status": "odd"},
                ]
            },
            turns.TODOS,
            (("a", "completed"), ("b", "pending")),
            id="TodoWrite",
        ),
        pytest.param("TaskCreate", {"subject": "a", "description": "d"}, turns.TASK_NEW, (), id="TaskCreate"),
        pytest.param(
            "TaskUpdate",
            {"taskId": "3", "status": "in_progress"},
            turns.TASK_CHANGE,
            (("3", "in_progress", ""),),
            id="TaskUpdate names only an id",
        ),
        pytest.param(
            "TaskUpdate", {"taskId": 3, "status": "deleted"}, turns.TASK_CHANGE, (("3", "deleted", ""),), id="deleted"
        ),
        pytest.param(
            "AskUserQuestion",
            {"questions": [{"question": "Which?"}, {"question": "When?"}]},
            turns.ASK,
            (("Which?",), ("When?",)),
            id="AskUserQuestion",
        ),
        pytest.param("ExitPlanMode", {"plan": "# Plan\n\n1. a"}, turns.PLAN, (), id="ExitPlanMode"),
        pytest.param("mcp__board__board_claim", {"task_id": "R-7"}, turns.CLAIM, (), id="claim"),
        pytest.param("mcp__board__board_release", {"task_id": "R-7"}, turns.RELEASE, (), id="release"),
    ),
)
def test_each_tool_means_what_it_does(name: str, given: dict[str, Any], action: str, items: tuple[Any, ...]) -> None:
    turn = used(name, **given)

    assert (turn.action, turn.items) == (action, items)


@pytest.mark.parametrize(
    ("status", "summary", "expected"),
    (
        pytest.param("completed", "x completed (exit code 0)", ("ok", "x completed (exit code 0)"), id="good"),
        pytest.param(
            "failed", "x failed with exit code 2", ("failed", "Exit code 2\nx failed with exit code 2"), id="failed"
        ),
        pytest.param("killed", "x was stopped", ("open", "x was stopped"), id="stopped"),
    ),
)
def test_a_notification_ends_the_command_it_names(status: str, summary: str, expected: tuple[str, str]) -> None:
    text = (
        f"<task-notification>\n<tool-use-id>t1</tool-use-id>\n<status>{status}</status>\n"
        f"<summary>{summary}</summary>\n</task-notification>"
    )
    attachment = {"type": "queued_command", "prompt": text, "commandMode": "task-notification"}
    between = {**COMMON, **user(text, origin={"kind": "task-notification"})}
    within = {**COMMON, "type": "attachment", "attachment": attachment}

    found = [claude.read(json.dumps(row).encode()) for row in (between, within)]

    assert [(end.tag, end.ref, (end.status, end.text)) for end, _ in found] == [("late", "t1", expected)] * 2
    assert [(told.kind, told.text) for _, told in found] == [("prompt", summary)] * 2


def test_a_row_names_the_session_it_was_first_written_for() -> None:
    row = {**COMMON, **user("x", sessionId="s2", session_id="s1")}
    own = {**COMMON, **user("x", sessionId="s2", session_id="s2")}

    assert claude.origin(json.dumps(row).encode()) == ("s1", 1796119200.5)
    assert claude.origin(json.dumps(own).encode())[0] == ""
    assert claude.origin(b"{}") == ("", None)


def test_the_answer_to_a_question_and_the_id_of_a_task_come_with_the_result() -> None:
    answered = result(
        "Your questions have been answered", toolUseResult={"answers": {"Which?": "a", "Both?": ["a", "b"]}}
    )
    made = result("Task #4 created successfully: a", toolUseResult={"task": {"id": "4"}})
    older = result("Task #5 created successfully: a")

    found = [claude.read(json.dumps({**COMMON, **row}).encode())[0].items for row in (answered, made, older)]

    assert found == [(("Which?", "a"), ("Both?", "a, b")), (("4",),), (("5",),)]


def test_text_of_the_agent_carries_the_id_of_its_message() -> None:
    content = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "done"}]
    row = {**COMMON, "type": "assistant", "message": {"id": "m1", "content": content}}

    (turn,) = claude.read(json.dumps(row).encode())

    assert turn == Turn(turns.SAID, at=1796119200.5, text="done", ref="m1", cwd="/p", branch="main", uuid="u1")


@pytest.mark.parametrize(
    "extra",
    (
        pytest.param({"isApiErrorMessage": True}, id="marked"),
        pytest.param(
            {"message": {"model": "<synthetic>", "content": [{"type": "text", "text": "API Error: 500"}]}},
            id="synthetic",
        ),
    ),
)
def test_an_error_of_the_service_is_nothing_the_agent_said(extra: dict[str, Any]) -> None:
    message = {"content": [{"type": "text", "text": "API Error: 500"}]}

    assert claude.read(json.dumps({**COMMON, "type": "assistant", "message": message, **extra}).encode()) == ()


@pytest.mark.parametrize(
    "line",
    (
        b"",
        b"\0\0\0",
        b"null",
        b"[]",
        b'"user"',
        b"{",
        b'{"type":"user"',
        b'{"type":"user","message":null}',
        b'{"type":"user","message":{"content":7}}',
        b'{"type":"user","message":{"content":[null,7,"x",{"type":"text"}]}}',
        b'{"type":"assistant","message":{"content":[{"type":"tool_use"}]},"timestamp":5}'[:-1],
        b'{"type":"user","message":{"content":[{"type":"tool_result"}]},"uuid":7,"timestamp":[]}'[:-1],
        b'{"type":{"a":1},"message":{}}',
        b"[" * 5000,
    ),
)
def test_a_row_of_any_wrong_shape_is_passed_over(line: bytes) -> None:
    assert claude.read(line) == ()


def test_wrong_types_inside_a_row_do_not_break_it() -> None:
    content = [{"type": "tool_use", "id": 7, "name": None, "input": "x"}, {"type": "text", "text": {"a": 1}}]
    row = {**COMMON, "type": "assistant", "timestamp": 12, "uuid": None, "message": {"id": 5, "content": content}}

    found = claude.read(json.dumps(row).encode())

    assert [(turn.kind, turn.text, turn.at, turn.uuid) for turn in found] == [
        ("use", "", None, ""),
        ("said", "", None, ""),
    ]


def test_a_row_is_read_whatever_the_order_of_its_keys() -> None:
    row = {"message": {"role": "user", "content": 'say "type":"assistant"'}, "type": "user", "timestamp": STAMP}
    padded = json.dumps(row, indent=None, separators=(", ", ": "))

    (turn,) = claude.read(padded.encode())

    assert turn.text == 'say "type":"assistant"'


def test_a_picture_of_many_megabytes_costs_little_and_leaves_the_words() -> None:
    picture = {"type": "image", "source": {"data": "A" * (3 << 20)}}
    row = {**COMMON, **user([picture, {"type": "text", "text": 'look "here" \\ now'}])}

    (turn,) = claude.read(json.dumps(row).encode())

    assert turn.text == 'look "here" \\ now'


def test_bytes_that_are_no_utf8_and_nul_bytes_leave_the_rest_readable() -> None:
    line = json.dumps({**COMMON, **user("fix XX now")}).encode().replace(b"XX", b"\xff") + b"\0\0"

    (turn,) = claude.read(line)

    assert turn.text == "fix \ufffd now"


def test_a_lone_surrogate_is_kept_until_it_is_written() -> None:
    line = b'{"type":"user","message":{"content":"half \\ud83d smile"}}'

    assert len(claude.read(line)) == 1
