from __future__ import annotations

import json

import pytest

from vault_mem.session import coordination


@pytest.mark.parametrize("phase", sorted(coordination.TERMINAL))
@pytest.mark.parametrize("form", ('{{"phase": "{}"}}', '{{"phase":\n"{}", "x"', '\ufeff{{"a": 1, "phase": " {} "}}'))
def test_a_terminal_phase_is_over_also_in_a_torn_file(phase: str, form: str) -> None:
    assert not coordination.is_live(form.format(phase))
    assert not coordination.is_live(form.format(phase.upper()))


@pytest.mark.parametrize(
    "text",
    (
        pytest.param("", id="empty"),
        pytest.param("{", id="torn"),
        pytest.param('{"phase": "do', id="torn-in-the-phase"),
        pytest.param("{}", id="no-phase"),
        pytest.param("[]", id="array"),
        pytest.param('{"phase": null}', id="null"),
        pytest.param('{"phase": "clearing"}', id="clearing"),
        pytest.param('{"phase": "not done"}', id="not-done"),
        pytest.param(json.dumps({"note": 'the "phase": "done" comes later', "phase": "ready"}), id="quoted-in-a-note"),
        pytest.param("[" * 100_000, id="deep"),
    ),
)
def test_everything_else_is_live(text: str) -> None:
    assert coordination.is_live(text)
