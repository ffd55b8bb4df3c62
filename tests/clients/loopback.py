"""An API on the loopback interface for real clients: the Messages API (Claude Code) and the Responses API (Codex).

A test says beforehand what the model answers to a prompt: `api.answers("Add the parser", Tool("Write", {...}), "Done.")`. The answer to a request is
found in the request alone: the last scripted words the person typed, and how many tool results came after them. So it does not matter in which order
sessions ask, or whether a client asks twice. Everything that was asked is kept in `api.requests`.

It is the clients' proxy as well: whoever wants to talk to any other host ends here, is refused and stands in `api.strangers`. `api.tolerated` names
hosts that a client asks for whatever its settings say.
"""

from __future__ import annotations

import json
import re
import threading
import uuid
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

SUMMARY = "The person asked for things and they were done."
ADDED = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)
TOKENS = 1_000


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool call of the model; it is the whole of one answer."""

    name: str
    given: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Silence:
    """The model does not answer; `Loopback.hush` ends it."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asked for. *told*: every text in it that reaches the model, by role, in order."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    told: tuple[tuple[str, str], ...]

    @property
    def text(self) -> str:
        """All that the model is told, the client's own system prompt left out."""
        return "\n".join(text for role, text in self.told if role != "vendor")

    @property
    def session(self) -> str:
        """The session it belongs to, as the client says in a header."""
        return self.headers.get("x-claude-code-session-id") or self.headers.get("session-id", "")


Step = Tool | Silence | str


class Loopback:
    """The API; a context manager. `port` is there while it is open."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.strangers: list[str] = []
        self.tolerated: set[str] = set()
        self._script: dict[str, tuple[Step, ...]] = {}
        self._tokens: dict[str, int] = {}
        self.hush = threading.Event()
        self._compacted: dict[str, str] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.port = self._server.server_port

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.hush.set()
        self._server.shutdown()
        self._server.server_close()

    def answers(self, words: str, *steps: Step, tokens: int = TOKENS) -> None:
        """What the model does when the person typed *words*: its tool calls one by one, then a text. *tokens*: the size it reports."""
        self._script[words] = steps
        self._tokens[words] = tokens

    def asked(self, words: str) -> list[Request]:
        """The requests whose last scripted words are *words*, compactions and side requests left out."""
        return [request for request in self.requests if is_turn(request) and self.place(request)[0] == words]

    def place(self, request: Request) -> tuple[str, int]:
        """The last scripted words the person typed, and how many tool results followed them."""
        words, results = "", 0
        for role, text in request.told:
            if role == "result":
                results += 1
            elif role == "user":
                clean = ADDED.sub("", text)
                found = max((key for key in self._script if key in clean), key=clean.rfind, default="")
                if found:
                    words, results = found, 0
        return words, results

    def step(self, request: Request) -> tuple[Step, int]:
        """The answer, and the tokens that are reported with it."""
        if is_compaction(request):
            self._compacted[request.session] = self.place(request)[0]
            return (f"<summary>\n{SUMMARY}\n</summary>" if "/messages" in request.path else SUMMARY), TOKENS
        if not is_turn(request):
            return "Work on the project", TOKENS
        before = self._compacted.get(request.session, "")
        words, results = self.place(request)
        steps = self._script.get(words or before, ())
        if steps and (words or before) == before:  # the results that were counted went with the compaction
            return steps[-1], TOKENS
        answer = steps[results] if results < len(steps) else f"Nothing is scripted after {words!r}."
        return answer, self._tokens.get(words, TOKENS)


def is_compaction(request: Request) -> bool:
    """Whether the client asks for the summary that replaces the conversation."""
    last = next((text for role, text in reversed(request.told) if role == "user"), "")
    return "<summary>" in last or "CONTEXT CHECKPOINT COMPACTION" in last


def is_turn(request: Request) -> bool:
    """Whether this is a step of the conversation, not a title, a count or a summary."""
    path = request.path.partition("?")[0]
    return path.endswith(("/messages", "/responses")) and bool(request.body.get("tools")) and not is_compaction(request)


def _texts(content: Any) -> Iterator[tuple[str, str]]:
    """(kind, text) of the blocks of one message of either API; "result" for a tool's."""
    if isinstance(content, str):
        yield "text", content
        return
    for block in content or ():
        kind = block.get("type")
        if kind == "tool_result":
            yield "result", json.dumps(block.get("content"), ensure_ascii=False)
        elif kind in ("text", "input_text", "output_text"):
            yield "text", block.get("text", "")


def told(body: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(role, text) of everything in a request: user, assistant, system, developer, result, vendor."""
    for kind, text in _texts(body.get("system") or body.get("instructions") or ()):
        if kind == "text":
            yield "vendor", text
    for message in body.get("messages") or ():
        for kind, text in _texts(message.get("content")):
            yield ("result" if kind == "result" else message.get("role", "")), text
    for item in body.get("input") or ():
        if str(item.get("type", "")).endswith("_call_output"):
            yield "result", json.dumps(item.get("output"), ensure_ascii=False)
        elif "role" in item:
            for _, text in _texts(item.get("content")):
                yield item["role"], text


def _name(prefix: str) -> str:
    return prefix + uuid.uuid4().hex[:24]


def _messages(answer: Tool | str, tokens: int, model: Any) -> list[dict[str, Any]]:
    """The events of one answer of the Messages API."""
    usage = {"input_tokens": tokens, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 9}
    message = {"id": _name("msg_"), "type": "message", "role": "assistant", "model": model, "content": [], "stop_reason": None,
               "stop_sequence": None, "usage": {**usage, "output_tokens": 1}}  # fmt: skip
    if isinstance(answer, Tool):
        block = {"type": "tool_use", "id": _name("toolu_"), "name": answer.name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(answer.given)}
    else:
        block = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": answer}
    stop = {"stop_reason": "tool_use" if isinstance(answer, Tool) else "end_turn", "stop_sequence": None}
    return [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": stop, "usage": usage},
        {"type": "message_stop"},
    ]


def _responses(answer: Tool | str, tokens: int) -> list[dict[str, Any]]:
    """The events of one answer of the Responses API."""
    item: dict[str, Any]
    if isinstance(answer, Tool):
        item = {"type": "function_call", "id": _name("fc_"), "call_id": _name("call_"), "name": answer.name,
                "arguments": json.dumps(answer.given)}  # fmt: skip
    else:
        item = {"type": "message", "id": _name("msg_"), "role": "assistant",
                "content": [{"type": "output_text", "text": answer}]}  # fmt: skip
    usage = {"input_tokens": tokens, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 9,
             "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": tokens + 9}  # fmt: skip
    name = _name("resp_")
    return [
        {"type": "response.created", "response": {"id": name}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"id": name, "output": [item], "usage": usage}},
    ]


def _handler(api: Loopback) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the name that the base class gave it
            pass

        def answer(self, data: bytes, kind: str = "application/json", status: int = 200) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        def stranger(self) -> bool:
            """Whether the client took us for the way to another host; it is told that there is none."""
            if self.command != "CONNECT" and self.path.startswith("/"):
                return False
            if self.path.partition(":")[0] not in api.tolerated:
                api.strangers.append(f"{self.command} {self.path}")
            self.close_connection = True
            self.answer(b"", status=403)
            return True

        def do_CONNECT(self) -> None:
            self.stranger()

        def do_HEAD(self) -> None:
            if not self.stranger():
                self.answer(b"")

        def do_GET(self) -> None:
            if not self.stranger():
                self.answer(b'{"object": "list", "data": [], "models": []}')

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
            if self.stranger():
                return
            body = json.loads(raw or b"{}")
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Request(self.path, headers, body, tuple(told(body)))
            api.requests.append(request)
            try:
                self.answer(*_reply(api, request))
            except OSError:  # it did not wait for the answer
                self.close_connection = True

    return Handler


def _reply(api: Loopback, request: Request) -> tuple[bytes, str, int]:
    """Body, type and status of the answer to a request of a client."""
    path = request.path.partition("?")[0]
    if path.endswith("/count_tokens"):
        return b'{"input_tokens": 1000}', "application/json", 200
    step, tokens = api.step(request)
    if isinstance(step, Silence):
        api.hush.wait(60)
        step = "(too late)"
    if path.endswith("/messages"):
        events = _messages(step, tokens, request.body.get("model"))
        if not request.body.get("stream"):
            return json.dumps(_whole(events, step)).encode(), "application/json", 200
    elif path.endswith("/responses"):
        events = _responses(step, tokens)
    else:
        return b"{}", "application/json", 404
    lines = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    return lines.encode(), "text/event-stream", 200


def _whole(events: list[dict[str, Any]], step: Tool | str) -> dict[str, Any]:
    """The same answer in one piece."""
    block = events[1]["content_block"]
    whole = {**block, "input": step.given} if isinstance(step, Tool) else {**block, "text": step}
    return {**events[0]["message"], "content": [whole], **events[4]["delta"], "usage": events[4]["usage"]}
