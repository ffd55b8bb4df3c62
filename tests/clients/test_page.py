"""docs/reference/clients.md names each test of a real client, and the versions that are driven."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PAGE = (ROOT / "docs/reference/clients.md").read_text(encoding="utf-8")


def test_every_fact_names_a_test_that_is_there_and_every_test_is_named() -> None:
    there = {
        f"{path.name}::{node.name}"
        for path in HERE.glob("test_*.py")
        if path.name != Path(__file__).name
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }

    assert set(re.findall(r"`(test_\w+\.py::test_\w+)`", PAGE)) == there


def test_the_page_the_recordings_and_what_is_installed_are_of_the_same_versions() -> None:
    wanted = json.loads((HERE / "package.json").read_text(encoding="utf-8"))["dependencies"]
    recorded = {path.stem for path in (ROOT / "vault_mem/context/recorded").glob("*.json")}

    claude, codex = wanted["@anthropic-ai/claude-code"], wanted["@openai/codex"]
    assert recorded == {f"claude-{claude}", f"codex-{codex}"}
    assert f"| Claude Code {claude} |" in PAGE
    assert f"| Codex {codex} |" in PAGE
