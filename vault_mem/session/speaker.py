"""Who speaks in a text that a client recorded as the user's: the person, another agent, or the harness itself."""

from __future__ import annotations

from vault_mem.capsule import gate
from vault_mem.session.turns import OPERATOR, PROMPT, Turn

HARNESS = "INJECT:harness"
ATTACHMENT = "ATTACHMENT"
BOUND = 8000  # characters of one prompt that are looked at

# Blocks that clients put into a message of the person: dropped with everything inside.
BLOCKS = (
    "system-reminder",
    "local-command-",
    "user-prompt-submit-hook",
    "ide_opened_file",
    "ide_selection",
    "ide_diagnostics",
    "new-diagnostics",
    "command-contents",
    "bash-stdout",
    "bash-stderr",
    "bash-input",
    "environment_context",
    "user_instructions",
    "permissions instructions",
    "turn_aborted",
    "hook_context",
    "persisted-output",
)
# Blocks that are a whole message of somebody who is not the person.
NOTICES = ("task-notification", "subagent_notification", "tick", "wake")
PEER_TAGS = ("teammate-message", "cross-session-message", "agent-message")
RELAY_TAGS = ("channel", "relay-message")
PEER_TEXT = "another claude session sent a message"
RELAYED_STARTS = ("[", "<", PEER_TEXT[0], PEER_TEXT[0].upper())
OWN = ("resume", "context-capsule", "capsule", "vault-mem")  # our own ceremony is no request


def _block_at(text: str, start: int) -> str | None:
    """The name of the client's block that opens at *start*."""
    for name in BLOCKS:
        if text.startswith(name, start + 1):
            end = start + 1 + len(name)
            if name.endswith("-"):
                while end < len(text) and (text[end].isalnum() or text[end] in "-_"):
                    end += 1
            if text[end : end + 1] in (">", " "):
                return text[start + 1 : end]
    return None


def without_blocks(text: str) -> str:
    """*text* without what the client put in: each block from its opening tag to its end, or to the end of the text."""
    if "<" not in text:
        return text.strip()
    lower = text.casefold() if text.isascii() else text
    kept, start = [], 0
    at = lower.find("<")
    while at >= 0:
        name = _block_at(lower, at)
        if name is None:
            at = lower.find("<", at + 1)
            continue
        kept.append(text[start:at])
        closer = f"</{name.split(' ', 1)[0]}" if " " in name else f"</{name}>"
        end = lower.find(closer, at)
        if end < 0:
            start = len(text)
            break
        start = lower.find(">", end) + 1 or len(text)
        at = lower.find("<", start)
    kept.append(text[start:])
    return "".join(kept).strip()


def tag_of(text: str, name: str) -> str:
    """What stands between `<name>` and `</name>`, empty when it is not there."""
    _, opened, rest = text.partition(f"<{name}>")
    inner, closed, _ = rest.partition(f"</{name}>")
    return inner.strip() if opened and closed else ""


def _attribute(text: str, names: tuple[str, ...]) -> str:
    head = text[: text.find(">")] if ">" in text else text
    for name in names:
        _, found, rest = head.partition(f'{name}="')
        if found:
            return rest.partition('"')[0].strip().lower()
    return ""


def _is_path(token: str) -> bool:
    if len(token) > 2 and token[1] == ":" and token[2] in "/\\" and token[0].isalpha():
        pass
    elif not token.startswith(("/", "./", "../", ".\\", "..\\", "\\\\")):
        return False
    suffix = token.rpartition(".")[2]
    return 1 <= len(suffix) <= 6 and suffix.isascii() and suffix.isalnum() and suffix != token


def _without_leading_paths(text: str) -> str:
    """*text* without the file references that it begins with (`@path`, `@"path"`)."""
    while text.startswith("@"):
        quote = text[1:2]
        if quote in ('"', "'"):
            token, closed, rest = text[2:].partition(quote)
            if not closed:
                return text
        else:
            parts = text[1:].split(None, 1)
            token, rest = (parts[0], parts[1] if len(parts) > 1 else "") if parts else ("", "")
        if not _is_path(token):
            return text
        text = rest.lstrip()
    return text


def _relayed(text: str) -> tuple[str, str] | None:
    """Tag and text of a message that somebody else than the person sent."""
    if text[:1] not in RELAYED_STARTS:
        return None
    lower = text[:200].casefold()
    if lower.startswith("[room from "):
        head, closed, rest = text[len("[room from ") :].partition("]")
        if closed:
            name = head.split()[0] if head.split() else "room"
            return f"RELAY:{name.strip('@:,').lower()}", rest.strip()
    if lower.startswith("[inbox") and not lower[6:7].isalnum():
        return "RELAY:inbox", text
    if lower.startswith(PEER_TEXT):
        name = _attribute(text, ("from", "teammate_id", "session", "name"))
        return f"PEER:{name or 'agent'}", text.partition(":")[2].strip() or text
    for kind, tags in (("PEER", PEER_TAGS), ("RELAY", RELAY_TAGS)):
        for tag in tags:
            if lower.startswith((f"<{tag}>", f"<{tag} ")):
                name = _attribute(text, ("teammate_id", "from", "source", "name", "id"))
                inner = text[text.find(">") + 1 :].rpartition(f"</{tag}>")[0] or text[text.find(">") + 1 :]
                return f"{kind}:{name or 'agent'}", inner.strip()
    for tag in NOTICES:
        if lower.startswith((f"<{tag}>", f"<{tag} ")):
            return HARNESS, tag_of(text, "summary") or text
    return None


def _command(text: str) -> str | None:
    """What the person typed when the client recorded a slash command as tags; empty for one that the client answers itself."""
    if not text.startswith(("<command-message>", "<command-name>")):
        return None
    name, arguments = tag_of(text, "command-name"), tag_of(text, "command-args")
    # A command with a prompt behind it has its message first; older clients say that it is running.
    expands = text.startswith("<command-message>") or "running" in tag_of(text, "command-message")
    return f"{name} {arguments}".strip() if expands else ""


def _is_own_command(text: str) -> bool:
    name = text[1:].split(None, 1)[0] if len(text) > 1 else ""
    return name.split(":")[0] in OWN or name.rpartition(":")[2] in OWN


def prompt(text: str, *, at: float | None, human: bool | None = None, sender: str = "") -> Turn | None:
    """The turn of a text that was sent as the user; None when nothing of it is anybody's words.

    human: what the client says about its origin, None when it does not say. sender: its name for an origin that is no person.
    """
    text = text[:BOUND].strip()
    command = _command(text)
    if command is not None:
        return Turn(PROMPT, at, command, tag=OPERATOR) if command and not _is_own_command(command) else None
    relayed = _relayed(text)
    if relayed is not None:
        return Turn(PROMPT, at, relayed[1], tag=relayed[0])
    text = without_blocks(text)
    if not text:
        return None
    relayed = _relayed(text)
    if relayed is not None:
        return Turn(PROMPT, at, relayed[1], tag=relayed[0])
    if human is False:
        return Turn(PROMPT, at, text, tag=sender or HARNESS)
    if human is None and gate.injection_echo(text):
        return Turn(PROMPT, at, text, tag=HARNESS)
    if text.startswith("/") and _is_own_command(text):
        return None
    words = _without_leading_paths(text)
    if not words or (_is_path(words) and len(words.split()) == 1):
        return Turn(PROMPT, at, text, tag=ATTACHMENT)
    return Turn(PROMPT, at, words, tag=OPERATOR)
