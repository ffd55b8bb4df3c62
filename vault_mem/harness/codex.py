"""Codex: one line of its rollout as turns."""

from __future__ import annotations

from vault_mem import jsontext, stamps
from vault_mem.harness import claude, rows
from vault_mem.session import patches, speaker, turns
from vault_mem.session.turns import Turn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PARSED = (b"session_meta", b"turn_context", b"response_item", b"event_msg", b"compacted")
EVENTS = (b"task_complete", b"turn_aborted", b"item_completed")
NOISE = (b'"reasoning"', b'"token_count"', b'"thread_settings_applied"', b'"task_started"', b'"agent_reasoning"')
NOISY_ITEMS = (b'"UserMessage"', b'"AgentMessage"', b'"Reasoning"')
SHELLS = frozenset(("exec_command", "shell", "local_shell", "shell_command", "container.exec", "unified_exec"))
CONTEXT = (
    "# AGENTS.md instructions",
    "<environment_context>",
    "<user_instructions>",
    "<permissions",
    "<skill>",
    "<turn_aborted>",
    "<collaboration_mode>",
    "<INSTRUCTIONS>",
    "<user_shell_command>",
)
REJECTED = (
    "exec command rejected by user",
    "patch rejected by user",
    "rejected by user",
    "user rejected",
    "user cancelled",
    "command rejected by user",
)
FAILURES = (
    "failed",
    "error",
    "unsupported",
    "apply_patch verification failed",
    "exec_command failed",
    "execution error",
    "invalid",
    "unknown",
)


def read(line: bytes) -> tuple[Turn, ...]:
    """The turns of one line; nothing for rows that are no work and for lines that are no JSON."""
    if not _is_wanted(line):
        return ()
    row = rows.parsed(line)
    payload = rows.table(row.get("payload")) if row else {}
    if row is None or not payload:
        return ()
    match row.get("type"):
        case "session_meta":
            branch = rows.text(rows.table(payload.get("git")).get("branch"))
            found = [Turn(turns.PLACE, cwd=_cwd(payload), branch=branch)]
        case "turn_context":
            found = [Turn(turns.PLACE, cwd=_cwd(payload))]
        case "response_item":
            found = _item(payload)
        case "event_msg":
            found = _event(payload)
        case "compacted":
            found = [Turn(turns.COMPACTED, text=rows.text(payload.get("message")))]
        case _:
            found = []
    at = stamps.epoch_of(row.get("timestamp"))
    return tuple(turn._replace(at=at) for turn in found)


def _is_wanted(line: bytes) -> bool:
    kind = rows.peek(line, (b"type",)).get(b"type")
    if kind is not None and kind not in PARSED:
        return False
    head = line[:400]
    if any(mark in head for mark in NOISE):
        # The mark may be a word in a message; only the payload's own type decides.
        start = head.find(b'"payload"')
        own = head[start : start + 48] if start >= 0 else b""
        if any(b'"type":' + mark in own or b'"type": ' + mark in own for mark in NOISE):
            return False
    return not (
        kind == b"event_msg" and b'"item_completed"' in head and any(mark in line[:600] for mark in NOISY_ITEMS)
    )


def _cwd(payload: dict[str, Any]) -> str:
    roots = payload.get("runtime_workspace_roots")
    first = roots[0] if isinstance(roots, list) and roots else ""
    return rows.text(payload.get("cwd")) or rows.text(first)


def _event(payload: dict[str, Any]) -> list[Turn]:
    match payload.get("type"):
        case "task_complete":
            said = rows.text(payload.get("last_agent_message"))
            return [Turn(turns.SAID, text=said), Turn(turns.ENDED)] if said else [Turn(turns.ENDED)]
        case "turn_aborted":
            return [Turn(turns.INTERRUPT)] if payload.get("reason") in (None, "interrupted") else [Turn(turns.ENDED)]
        case "item_completed":
            item = rows.table(payload.get("item"))
            ref, code = rows.text(item.get("id")), item.get("exit_code")
            if item.get("status") == "declined":
                return [Turn(turns.RESULT, ref=ref, status=turns.REFUSED)]
            if item.get("type") == "CommandExecution" and isinstance(code, int) and code < 0:
                # The client ended it as it left.
                return [Turn(turns.RESULT, ref=ref, tag=turns.LATE, status=turns.OPEN)]
            if item.get("type") == "CommandExecution" and isinstance(code, int):
                return [_ended(ref, code, rows.text(item.get("aggregated_output")), turns.LATE)]
    return []


def _item(payload: dict[str, Any]) -> list[Turn]:
    match payload.get("type"):
        case "message":
            return _message(payload)
        case "function_call":
            return [_call(payload, _arguments(payload.get("arguments")))]
        case "custom_tool_call":
            return [_call(payload, {"input": rows.text(payload.get("input"))})]
        case "local_shell_call":
            return [_call({"name": "local_shell", **payload}, rows.table(payload.get("action")))]
        case "function_call_output" | "custom_tool_call_output" | "local_shell_call_output":
            return [_output(payload)]
    return []


def _message(payload: dict[str, Any]) -> list[Turn]:
    role = payload.get("role")
    if role == "assistant":
        text = rows.blocks_text(payload.get("content"), ("output_text", "text"))
        return [Turn(turns.SAID, text=text, ref=rows.text(payload.get("id")))]
    if role != "user":
        return []
    said = []
    passed_on = rows.table(payload.get("internal_chat_message_metadata_passthrough"))
    kinds = passed_on.get("content_item_kinds")
    for index, block in enumerate(rows.rows_of(payload.get("content"))):
        kind = kinds[index] if isinstance(kinds, list) and index < len(kinds) else None
        text = rows.text(block.get("text")).strip()
        if isinstance(kind, str) and kind not in ("unknown", "") and not kind.startswith("user."):
            continue
        if text and not text.startswith(CONTEXT):
            said.append(text)
    if not said:
        pictures = any(block.get("type") == "input_image" for block in rows.rows_of(payload.get("content")))
        return [Turn(turns.PROMPT, text="[image]", tag=speaker.ATTACHMENT)] if pictures else []
    turn = speaker.prompt("\n".join(said), at=None, human=True if isinstance(kinds, list) else None)
    return [turn._replace(ref=rows.text(passed_on.get("turn_id")))] if turn else []


def _arguments(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    try:
        return rows.table(jsontext.loads(rows.text(value)))
    except ValueError:
        return {}


def _call(payload: dict[str, Any], given: dict[str, Any]) -> Turn:
    name = rows.text(payload.get("name"))
    ref = rows.text(payload.get("call_id")) or rows.text(payload.get("id"))
    action, text, items = _meaning(name, given)
    cwd = next((rows.text(given.get(key)) for key in ("workdir", "working_directory") if rows.text(given.get(key))), "")
    return Turn(
        turns.USE, text=text, ref=ref, name=name.rpartition("__")[2] or name, action=action, items=items, cwd=cwd
    )


def _meaning(name: str, given: dict[str, Any]) -> tuple[str, str, tuple[tuple[str, ...], ...]]:
    """Action, target and items of a tool call."""
    if name == "apply_patch":
        patch = rows.text(given.get("input")) or rows.text(given.get("patch"))
        found = patches.paths(patch)
        return turns.MODIFY, found[0] if found else "", tuple((path,) for path in found)
    if name in SHELLS:
        command = _command(given)
        patched = patches.paths(command) if "apply_patch" in command[:400] or patches.BEGIN in command else ()
        return turns.SHELL, command, tuple((path,) for path in patched)
    match name:
        case "write_stdin":
            return turns.STDIN, str(given.get("session_id", "")), ()
        case "update_plan":
            return turns.TODOS, "", claude.todos(given.get("plan"), "step")
        case "request_user_input":
            questions = tuple((rows.text(item.get("question")),) for item in rows.rows_of(given.get("questions")))
            return turns.ASK, questions[0][0] if questions else "", questions
        case "view_image":
            path = rows.text(given.get("path"))
            return turns.READ, path, ((path,),) if path else ()
    return claude.called(name, given)


def _command(given: dict[str, Any]) -> str:
    """The command line, whether it came as a text or as words for a shell."""
    value = next((given[key] for key in ("cmd", "command") if key in given), "")
    if not isinstance(value, list):
        return rows.text(value)
    words = [rows.text(word) for word in value]
    if len(words) >= 3 and words[1].startswith("-") and words[1].endswith("c"):
        return words[2]
    if len(words) == 2 and words[0] == "apply_patch":
        return f"apply_patch <<'EOF'\n{words[1]}\nEOF"
    return " ".join(
        word if word and not any(char in word for char in " \t\n\"'$&|;<>()") else _quoted(word) for word in words
    )


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"


def _output(payload: dict[str, Any]) -> Turn:
    ref, output = rows.text(payload.get("call_id")), payload.get("output")
    if isinstance(output, dict):
        success = output.get("success")
        text = rows.blocks_text(output.get("content"), ("text", "input_text", "output_text"))
    else:
        success, text = None, rows.blocks_text(output, ("text", "input_text", "output_text"))
    code, running, text = _header(text)
    if code is None and text.startswith("Exit code: "):
        code, running, text = _header(text)
    lower = text[:200].strip().casefold()
    if running:
        return Turn(turns.RESULT, text=running, ref=ref, status=turns.RUNNING)
    if lower.startswith(REJECTED):
        return Turn(turns.RESULT, ref=ref, status=turns.REFUSED)
    if code is None and lower.startswith("aborted"):
        return Turn(turns.RESULT, ref=ref, status=turns.STOPPED)
    if code is not None:
        return _ended(ref, code, text, turns.EXIT)
    if success is False or (success is None and lower.startswith(FAILURES)):
        return Turn(turns.RESULT, text=text, ref=ref, status=turns.FAILED)
    return Turn(turns.RESULT, text=text, ref=ref, status=turns.OK, items=_answers(text))


def _ended(ref: str, code: int, text: str, tag: str) -> Turn:
    """The end of a command with its exit code."""
    if code:
        return Turn(turns.RESULT, text=f"Exit code {code}\n{text}", ref=ref, tag=tag, status=turns.FAILED)
    return Turn(turns.RESULT, text=text, ref=ref, tag=tag, status=turns.OK)


def _header(text: str) -> tuple[int | None, str, str]:
    """Exit code, the name of a command that goes on running, and the output, of what a shell tool returned."""
    if text.startswith('{"output"'):
        try:
            value = rows.table(jsontext.loads(text))
        except ValueError:
            value = {}
        code = rows.table(value.get("metadata")).get("exit_code")
        if isinstance(code, int):
            return code, "", rows.text(value.get("output"))
    head, found, body = text.partition("\nOutput:\n")
    if not found:
        head, found, body = text.partition("\nOutput:")
    if not found or len(head) > 400:
        first, _, rest = text.partition("\n")
        return None, "", rest if first.startswith("Wall time: ") else text
    code, running = None, ""
    for line in head.split("\n"):
        for mark in ("Process exited with code ", "Exit code: "):
            number = line[len(mark) :].strip()
            if line.startswith(mark) and number.lstrip("-").isdigit():
                code = int(number)
        if line.startswith("Process running with session ID "):
            running = line.rpartition(" ")[2].strip()
    return code, running, body


def _answers(text: str) -> tuple[tuple[str, ...], ...]:
    """The answers in the result of a question: `{"answers": {id: {"answers": [...]}}}`."""
    if not text.startswith('{"answers"'):
        return ()
    try:
        answers = rows.table(rows.table(jsontext.loads(text)).get("answers"))
    except ValueError:
        return ()
    found = []
    for name, value in answers.items():
        given = rows.table(value).get("answers", value)
        found.append((name, ", ".join(str(item) for item in given) if isinstance(given, list) else str(given)))
    return tuple(found)
