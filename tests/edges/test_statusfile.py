from __future__ import annotations

import json

import pytest

from vault_mem import statusfile

PROGRAM = "'/a b/vault-mem'"


@pytest.mark.parametrize(
    "line",
    ("~/s.sh", "bash -c 'echo \"it'\"'\"'s $HOME\"'", "a | b -- c", "x\n y"),
    ids=("plain", "quotes", "pipe", "lines"),
)
def test_a_status_line_is_wrapped_once_and_given_back(line: str) -> None:
    text = json.dumps({"a": 1, "statusLine": {"type": "command", "command": line, "padding": 0}, "b": 2}, indent=1)

    once = statusfile.wrapped(text, program="/old/vault-mem")
    moved = statusfile.wrapped(once, program=PROGRAM)

    assert json.loads(moved)["statusLine"]["command"].startswith(f"{PROGRAM} statusline -- sh -c ")
    assert statusfile.wrapped(moved, program=PROGRAM) == moved
    assert statusfile.is_ours(moved)
    assert statusfile.unwrapped(moved) == text


def test_where_there_was_none_ours_comes_and_goes() -> None:
    text = '{\n  "a": 1\n}\n'

    alone = statusfile.wrapped(text, program=f"{PROGRAM}")

    assert json.loads(alone)["statusLine"] == {"type": "command", "command": f"{PROGRAM} statusline"}
    assert statusfile.unwrapped(alone) == text


@pytest.mark.parametrize("value", ("x", {"type": "static"}, {"command": 3}, {"command": " "}))
def test_what_is_no_command_is_refused_and_left_alone(value: object) -> None:
    text = json.dumps({"statusLine": value})

    with pytest.raises(statusfile.StatusLineError):
        statusfile.wrapped(text, program=PROGRAM)
    assert statusfile.unwrapped(text) == text
    assert not statusfile.is_ours(text)


@pytest.mark.parametrize("line", ("/opt/vault-mem-stats/x statusline", "echo vault-mem statusline", "statusline"))
def test_a_similar_command_is_not_ours(line: str) -> None:
    assert not statusfile.is_ours(json.dumps({"statusLine": {"command": line}}))
