"""What the hooks around a compaction cost and print, and recorded sessions of the real clients run through them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import with_package
from vault_mem import checkpoints
from vault_mem.session import continuity

if TYPE_CHECKING:
    from collections.abc import Callable

    Vault = Callable[..., subprocess.CompletedProcess[bytes]]

START = "import sys; from vault_mem.entry import main; sys.exit(main())"
HEAVY = {
    "re",
    "json",
    "typing",
    "dataclasses",
    "pathlib",
    "enum",
    "contextlib",
    "functools",
    "collections",
    "subprocess",
    "logging",
    "tempfile",
    "hashlib",
    "datetime",
    "argparse",
    "git",
    "frontmatter",
    "ruamel",
    "filelock",
    "yaml",
    "sqlite3",
}
SESSION = "5e551011"


def imported(environ: dict[str, str], seat: Path, *arguments: str, **payload: Any) -> tuple[set[str], bytes]:
    given = {"session_id": SESSION, "cwd": str(seat), "transcript_path": "", "prompt_id": "t1", **payload}
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", START, *arguments],
        input=json.dumps(given).encode(),
        cwd=seat,
        env=with_package(environ),
        capture_output=True,
        check=True,
    )
    said = done.stderr.decode("utf-8", "replace")
    return {
        line.rpartition("|")[2].strip() for line in said.splitlines() if line.startswith("import time:")
    }, done.stdout


def test_the_hooks_of_a_compaction_import_nothing_heavy(seat: Path, environ: dict[str, str]) -> None:
    steps = (
        (("hook", "stop"), {"last_assistant_message": "Done."}),
        (("hook", "pre-compact"), {"trigger": "auto"}),
        (("hook", "post-compact"), {"trigger": "auto"}),
        (("hook", "post-tool-use"), {"tool_name": "Edit", "tool_input": {}}),
        (("resume",), {"source": "compact"}),
    )
    for arguments, payload in steps:
        names, _ = imported(environ, seat, *arguments, **payload)

        assert not names & HEAVY, arguments


def test_a_hook_with_nothing_to_do_loads_nothing_of_this(seat: Path, environ: dict[str, str]) -> None:
    for arguments in (("hook", "post-tool-use"), ("hook", "user-prompt-submit"), ("hook", "stop")):
        names, stdout = imported(environ, seat, *arguments, prompt="go on", last_assistant_message="Done.")

        assert not {name for name in names if name.startswith(("vault_mem.context", "vault_mem.checkpoints"))}
        assert stdout == b""


def test_stop_and_session_end_print_nothing_while_a_briefing_is_owed(seat: Path, environ: dict[str, str]) -> None:
    imported(environ, seat, "hook", "pre-compact", trigger="auto")
    imported(environ, seat, "hook", "post-compact", trigger="auto")

    for event in ("stop", "session-end", "pre-compact", "post-compact"):
        assert imported(environ, seat, "hook", event, last_assistant_message="Done.", reason="other")[1] == b""


def test_a_client_without_turn_ids_goes_through_a_whole_cycle(seat: Path, vault_mem: Vault) -> None:
    def hook(*arguments: str, **payload: Any) -> bytes:
        given = {"session_id": SESSION, "cwd": str(seat), "transcript_path": "", **payload}
        return vault_mem(*arguments, stdin=json.dumps(given).encode(), cwd=seat, check=True).stdout

    hook("hook", "pre-compact", trigger="manual", custom_instructions="")
    hook("hook", "pre-compact", trigger="manual", custom_instructions="")

    assert b"[VAULT MEMORY]" in hook("resume", source="compact")
    assert hook("hook", "post-compact", trigger="manual") == b""
    state = checkpoints.load(str(seat / "vault/memory/runtime"), SESSION)
    assert state is not None
    assert (state.phase, state.generation) == (continuity.RECOVERED, 1)


def test_a_recorded_codex_session_gets_its_state_back_after_its_compaction(seat: Path, vault_mem: Vault) -> None:
    recorded = Path(__file__).parents[1] / "data" / "sessions" / "codex-cli-flag"
    if not recorded.is_dir():
        pytest.skip("the recording of Codex is not in tests/data")

    vault_mem("replay", str(recorded), cwd=seat, check=True, timeout=300)

    runtime = str(seat / "vault/memory/runtime")
    (state,) = checkpoints.states(runtime)
    kinds = [event.kind for event in checkpoints.events(runtime, state.session)]
    assert [kind for kind in kinds if kind != continuity.SAMPLED][:4] == [
        continuity.STARTED, continuity.CREATED, continuity.COMPLETED, continuity.COMPLETED,
    ]  # fmt: skip
    assert kinds.count(continuity.INJECTED) == 1
    assert state.degradations == 0
    record = checkpoints.newest(checkpoints.folder(runtime, state.session))
    assert record is not None
    assert record["work"]["request"] == "and the docs" or "--json" in record["work"]["objective"]
    told = vault_mem("injected", state.session, cwd=seat).stdout.decode()
    assert "The context of this session was compacted" in told
