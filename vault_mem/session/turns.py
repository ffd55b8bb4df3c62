"""Turns: the rows of any client's transcript in one shape, so that distilling knows no client."""

from __future__ import annotations

from vault_mem.record import NamedTuple

# kinds
PROMPT = "prompt"  # somebody spoke to the agent: text, tag of the speaker
SAID = "said"  # the agent spoke: text, ref of the message
USE = "use"  # a tool call: ref, name, action, text (the target), items
RESULT = "result"  # its end: ref, status, text (output, message or the person's reason), items
INTERRUPT = "interrupt"  # the person stopped the turn
ENDED = "ended"  # the turn is over
COMPACTED = "compacted"  # the history before this point was replaced by a summary: text
PLACE = "place"  # nothing but where and when

# actions of a USE
SHELL = "shell"  # text: the command line
STDIN = "stdin"  # text: the session of the running command it talks to
MODIFY = "modify"  # items: paths
READ = "read"  # items: paths
TODOS = "todos"  # items: (text, status) of the whole list
TASK_NEW = "task-new"  # text: the subject
TASK_CHANGE = "task-change"  # items: (id, status, subject)
ASK = "ask"  # items: questions
PLAN = "plan"  # text: the plan
CLAIM = "claim"  # text: the row
RELEASE = "release"  # text: the row
OTHER = "other"

# status of a RESULT
OK = "ok"
FAILED = "failed"
REFUSED = "refused"  # by the person; text is the reason, empty when none was given
STOPPED = "stopped"  # interrupted while it ran
RUNNING = "running"  # goes on in the background; text: the session by which later calls name it
OPEN = "open"  # says nothing about success

# tag of a RESULT
EXIT = "exit"  # it carries the exit code of a command, also of one that another call talked to
UNRUN = "unrun"  # the client itself refused the call, nothing ran
LATE = "late"  # the end of a command that had gone on in the background

# status of a PROMPT
MIDTURN = "midturn"  # it reached the agent while it worked; the turn goes on

# status of a todo
PENDING = "pending"
DOING = "in_progress"
DONE = "completed"

OPERATOR = "OPERATOR"


class Turn(NamedTuple):
    """One thing that happened. at: epoch seconds of the record, None when it has no time."""

    kind: str
    at: float | None = None
    text: str = ""
    tag: str = ""
    ref: str = ""
    name: str = ""
    action: str = ""
    status: str = ""
    items: tuple[tuple[str, ...], ...] = ()
    cwd: str = ""
    branch: str = ""
    uuid: str = ""
