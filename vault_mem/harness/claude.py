"""Claude Code: one line of its transcript as turns."""

from __future__ import annotations

from vault_mem import stamps
from vault_mem.harness import rows
from vault_mem.session import speaker, turns
from vault_mem.session.turns import Turn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PEEKED = (b"type", b"isSidechain")
PARSED = (b"user", b"assistant", b"system")
QUEUED = b"queued_command"
INTERRUPTED = "[Request interrupted by user"
REFUSALS = (
    "The user doesn't want to proceed with this tool use",
    "The user doesn't want to take this action right now",
)
REASONS = ("the user said:\n", "The user provided the following reason for the rejection: ")
NOTIFICATION = "<task-notification>"
CLIENT_ERROR = "<tool_use_error>"
NOT_PERMITTED = ("Permission to use ", "Claude requested permissions ")
NOT_ITS_OWN = ("Sibling tool call errored", "Cancelled: parallel tool call")
MODIFIERS = frozenset(("Edit", "MultiEdit", "Write", "NotebookEdit", "Update", "Create"))
READERS = frozenset(("Read", "NotebookRead"))
SHELLS = frozenset(("Bash", "PowerShell"))
TARGETS = (
    "file_path",
    "notebook_path",
    "path",
    "command",
    "url",
    "query",
    "pattern",
    "description",
    "subject",
    "skill",
    "prompt",
)
CLAIMS = ("board_claim",)
RELEASES = (
    "board_release",
    "board_complete",
    "board_done",
    "board_finish",
    "board_close",
    "board_unclaim",
    "board_drop",
)
STATUSES = {
    "in_progress": turns.DOING,
    "completed": turns.DONE,
    "pending": turns.PENDING,
    "deleted": "deleted",
    "cancelled": "deleted",
}


def read(line: bytes) -> tuple[Turn, ...]:
    """The turns of one line; nothing for rows that are no work and for lines that are no JSON."""
    if not _is_wanted(line):
        return ()
    row = rows.parsed(line)
    if row is None or row.get("isSidechain") is True or row.get("forkedFrom"):
        return ()
    kind = row.get("type")
    if kind == "user":
        found = _user(row)
    elif kind == "assistant":
        found = _assistant(row)
    elif kind == "system":
        found = _system(row)
    elif kind == "attachment":
        found = _queued(row)
    else:
        return ()
    return _placed(row, found)


def origin(line: bytes) -> tuple[str, float | None]:
    """The other session that a row names as the one it was first written for, and the time of the row; "" for none.

    A fork copies rows of its parent; a session after `/clear` names the first one of its process in rows of its own. Only what is
    known of the other session tells the two apart.
    """
    if b'"session_id":' not in line or not _is_wanted(line):
        return "", None
    row = rows.parsed(line) or {}
    other = rows.text(row.get("session_id"))
    return ("" if other == row.get("sessionId") else other), stamps.epoch_of(row.get("timestamp"))


def _is_wanted(line: bytes) -> bool:
    """Whether a line can hold work; most bytes of a transcript are rows that cannot, they are not parsed."""
    head = rows.peek(line, PEEKED)
    kind = head.get(b"type")
    if head.get(b"isSidechain") == b"true":
        return False
    if kind is not None:
        return kind in PARSED or (kind == b"attachment" and QUEUED in line[:4096])
    nested = head.get(b"")
    if nested == b"attachment":
        return QUEUED in line[:4096]
    if nested == b"message":
        return True
    return any(
        mark + word in line for word in (b'"user"', b'"assistant"', b'"system"') for mark in (b'"type":', b'"type": ')
    )


def _placed(row: dict[str, Any], found: list[Turn]) -> tuple[Turn, ...]:
    """*found* with what the row says of time and place."""
    at, uuid = stamps.epoch_of(row.get("timestamp")), rows.text(row.get("uuid"))
    cwd, branch = rows.text(row.get("cwd")), rows.text(row.get("gitBranch"))
    return tuple(
        turn._replace(at=at, cwd=cwd, branch=branch, uuid=f"{uuid}:{index}" if uuid and index else uuid)
        for index, turn in enumerate(found)
    )


def _system(row: dict[str, Any]) -> list[Turn]:
    match row.get("subtype"):
        case "compact_boundary":
            return [Turn(turns.COMPACTED)]
        case "stop_hook_summary" | "turn_duration":
            return [Turn(turns.ENDED)]
    return []


def _queued(row: dict[str, Any]) -> list[Turn]:
    """A prompt that was typed while the agent worked and reached it in the middle of the turn."""
    attachment = rows.table(row.get("attachment"))
    if attachment.get("type") != "queued_command" or attachment.get("isMeta") is True:
        return []
    human, sender = _origin(attachment if attachment.get("origin") else row)
    mode = attachment.get("commandMode")
    if mode not in (None, "prompt", "slash_command") and not human:
        human = False
    text = rows.blocks_text(attachment.get("prompt"))
    turn = speaker.prompt(text, at=None, human=human, sender=sender)
    return [*_background(text), turn._replace(status=turns.MIDTURN)] if turn else []


def _background(text: str) -> list[Turn]:
    """The ends of commands in the background that a notification tells; its output is in a file of the client."""
    found = []
    for part in text.split(NOTIFICATION)[1:9] if text.lstrip().startswith(NOTIFICATION) else ():
        ref, status, summary = (speaker.tag_of(part, name) for name in ("tool-use-id", "status", "summary"))
        outcome = {"completed": turns.OK, "failed": turns.FAILED}.get(status, turns.OPEN)
        if ref:
            said = f"Exit code {summary.rpartition(' ')[2]}\n{summary}" if outcome == turns.FAILED else summary
            found.append(Turn(turns.RESULT, text=said, ref=ref, tag=turns.LATE, status=outcome))
    return found


def _origin(row: dict[str, Any]) -> tuple[bool | None, str]:
    """Whether the client says that a person sent this, and the tag of whoever did otherwise."""
    origin = rows.table(row.get("origin"))
    kind = rows.text(origin.get("kind"))
    if not kind:
        return (True, "") if row.get("promptSource") in ("typed", "queued") else (None, "")
    if kind == "human":
        return True, ""
    name = next(
        (rows.text(origin.get(key)) for key in ("from", "server", "name", "source") if rows.text(origin.get(key))), ""
    )
    if kind in ("peer", "teammate", "agent", "coordinator"):
        return False, f"PEER:{name.lower() or 'agent'}"
    if kind in ("channel", "relay", "bridge"):
        return False, f"RELAY:{name.lower() or kind}"
    return False, speaker.HARNESS


def _user(row: dict[str, Any]) -> list[Turn]:
    if any(
        row.get(name) is True for name in ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly", "isSynthetic")
    ):
        return []
    content = rows.table(row.get("message")).get("content")
    results = [block for block in rows.rows_of(content) if block.get("type") == "tool_result"]
    found = [_result(row, block) for block in results]
    text = rows.blocks_text(content).strip()
    if text.startswith(INTERRUPTED):
        return [*found, Turn(turns.INTERRUPT)]
    if not text or results:
        # A picture alone is a message without words.
        if not results and any(block.get("type") in ("image", "document") for block in rows.rows_of(content)):
            found.append(Turn(turns.PROMPT, text="[image]", tag=speaker.ATTACHMENT))
        return found
    human, sender = _origin(row)
    turn = speaker.prompt(text, at=None, human=human, sender=sender)
    found += _background(text) if human is not True else []
    return [*found, turn] if turn else found


def _assistant(row: dict[str, Any]) -> list[Turn]:
    message = rows.table(row.get("message"))
    if row.get("isApiErrorMessage") is True or message.get("model") == "<synthetic>":
        return []
    ref = rows.text(message.get("id"))
    found = []
    for block in rows.rows_of(message.get("content")):
        match block.get("type"):
            case "text":
                found.append(Turn(turns.SAID, text=rows.text(block.get("text")), ref=ref))
            case "tool_use":
                found.append(_use(block))
    return found


def _use(block: dict[str, Any]) -> Turn:
    name, given = rows.text(block.get("name")), rows.table(block.get("input"))
    action, text, items = called(name, given)
    return Turn(
        turns.USE,
        text=text,
        ref=rows.text(block.get("id")),
        name=name.rpartition("__")[2] or name,
        action=action,
        items=items,
    )


def called(name: str, given: dict[str, Any]) -> tuple[str, str, tuple[tuple[str, ...], ...]]:
    """Action, target and items of a tool call."""
    target = next((rows.text(given.get(key)) for key in TARGETS if rows.text(given.get(key))), "")
    if name in SHELLS:
        return turns.SHELL, rows.text(given.get("command")), ()
    if name in MODIFIERS or name in READERS:
        path = next(
            (rows.text(given.get(key)) for key in ("file_path", "notebook_path", "path") if rows.text(given.get(key))),
            "",
        )
        return turns.MODIFY if name in MODIFIERS else turns.READ, path, ((path,),) if path else ()
    match name:
        case "TodoWrite":
            return turns.TODOS, "", todos(given.get("todos"), "content")
        case "TaskCreate":
            return turns.TASK_NEW, rows.text(given.get("subject")) or target, ()
        case "TaskUpdate":
            status = rows.text(given.get("status"))
            ident = given.get("taskId", given.get("task_id", ""))
            change = (str(ident), STATUSES.get(status, ""), rows.text(given.get("subject")))
            return turns.TASK_CHANGE, str(ident), (change,)
        case "AskUserQuestion":
            questions = tuple((rows.text(item.get("question")),) for item in rows.rows_of(given.get("questions")))
            return turns.ASK, questions[0][0] if questions else target, questions
        case "ExitPlanMode" | "exit_plan_mode":
            plan = rows.text(given.get("plan"))
            return turns.PLAN, next((line.strip("# ") for line in plan.splitlines() if line.strip("# ")), ""), ()
    if name.endswith(CLAIMS):
        return turns.CLAIM, rows.text(given.get("task_id")) or target, ()
    if name.endswith(RELEASES):
        return turns.RELEASE, rows.text(given.get("task_id")) or target, ()
    return turns.OTHER, target, ()


def todos(value: Any, key: str) -> tuple[tuple[str, ...], ...]:
    """Text and status of the entries of a todo list."""
    return tuple(
        (rows.text(item.get(key)), STATUSES.get(rows.text(item.get("status")), turns.PENDING))
        for item in rows.rows_of(value)
        if rows.text(item.get(key)).strip()
    )


def _result(row: dict[str, Any], block: dict[str, Any]) -> Turn:
    ref = rows.text(block.get("tool_use_id"))
    text = rows.blocks_text(block.get("content"))
    outcome = row.get("toolUseResult")
    details = rows.table(outcome)
    if block.get("is_error") is True:
        return _failed(row, ref, text)
    if details.get("interrupted") is True or text.startswith(INTERRUPTED):
        return Turn(turns.RESULT, ref=ref, status=turns.STOPPED)
    running = rows.text(details.get("backgroundTaskId"))
    if running:
        return Turn(turns.RESULT, text=running, ref=ref, status=turns.RUNNING)
    return Turn(turns.RESULT, text=text, ref=ref, status=turns.OK, items=_yield(details, text))


def _failed(row: dict[str, Any], ref: str, text: str) -> Turn:
    decision = rows.table(row.get("permissionDecision")).get("source")
    if decision == "user_reject" or text.startswith(REFUSALS) or row.get("toolUseResult") == "User rejected tool use":
        reason = rows.text(row.get("userFeedback"))
        for mark in REASONS:
            reason = reason or text.partition(mark)[2]
        # A call that ran already and gets no reason was stopped, not refused; only newer clients tell the two apart.
        ran = "toolDenialKind" in row and not row.get("toolDenialBeforeRun") and not reason.strip()
        return Turn(turns.RESULT, text=reason.strip(), ref=ref, status=turns.STOPPED if ran else turns.REFUSED)
    if text.startswith(INTERRUPTED) or rows.table(row.get("toolUseResult")).get("interrupted") is True:
        return Turn(turns.RESULT, ref=ref, status=turns.STOPPED)
    unrun = text.startswith(CLIENT_ERROR) or text.startswith(NOT_PERMITTED)
    text = text.replace(CLIENT_ERROR, "").replace("</tool_use_error>", "").strip()
    status = turns.OPEN if text.startswith(NOT_ITS_OWN) else turns.FAILED
    return Turn(turns.RESULT, text=text, ref=ref, status=status, tag=turns.UNRUN if unrun else "")


def _yield(details: dict[str, Any], text: str) -> tuple[tuple[str, ...], ...]:
    """What a result names for later: the answers to questions, the id of a new task."""
    answers = details.get("answers")
    if isinstance(answers, dict):
        return tuple((str(question), _answer(answer)) for question, answer in answers.items())
    ident = rows.table(details.get("task")).get("id")
    if isinstance(ident, (str, int)):
        return ((str(ident),),)
    if text.startswith("Task #"):
        return ((text[len("Task #") :].split(" ", 1)[0].rstrip(":"),),)
    return ()


def _answer(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(str(item) for item in value)
    return rows.text(value) or rows.text(rows.table(value).get("answer"))
