from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vault_mem import hooksfile, jsonspans
from vault_mem.hooksfile import SettingsError

PROGRAM = "'/opt/my tools/vault-mem'"
FOREIGN = {"type": "command", "command": "/opt/vault-mem-stats/report.sh", "timeout": 7}


def _group(*entries: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**more, "hooks": list(entries)}


def _ours(command: str) -> dict[str, Any]:
    return {"type": "command", "command": command}


def _rows(text: str) -> list[tuple[str, str, str]]:
    root = hooksfile.parsed(text, where="settings.json")
    return [(entry.event, entry.matcher, entry.command) for entry in hooksfile.own(root)]


NAMES = st.sampled_from(("model", "env", "zzz", "Ünï", "a b", "permissions"))
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.text(st.characters(codec="utf-8", exclude_characters="[]{}"), max_size=6)
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=6
)
COMMANDS = st.sampled_from(
    ("say done", "guard.sh 'x y'", "/opt/vault-mem-stats/report.sh", "echo vault-mem hook stop é")
)
ENTRIES = st.fixed_dictionaries(
    {"type": st.just("command"), "command": COMMANDS}, optional={"timeout": st.integers(1, 60), "x": SCALARS}
)
GROUPS = st.fixed_dictionaries(
    {"hooks": st.lists(ENTRIES, max_size=2)}, optional={"matcher": st.sampled_from(("", "Bash", "compact"))}
)
EVENTS = st.dictionaries(
    st.sampled_from(("SessionStart", "Stop", "PostToolUse", "PreToolUse", "Notification")),
    st.lists(GROUPS, max_size=2),
    max_size=3,
)


@st.composite
def settings_texts(draw: st.DrawFn) -> str | None:
    """Settings as people and tools write them: any order of keys, indentation, line ends, blanks inside what is empty, or no file."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from((None, "", "\n", " \t\r\n", "{}", "{ }", "{\n}\n", "\n{}\n")))
    members = draw(st.dictionaries(NAMES, VALUES, max_size=3))
    if draw(st.booleans()):
        keys = draw(st.permutations([*members, "hooks"]))
        hooks = draw(EVENTS)
        members = {key: hooks if key == "hooks" else members[key] for key in keys}
    indent = draw(st.sampled_from((None, 1, 2, 4, "\t")))
    colon = draw(st.sampled_from((": ", ":", " : ")))
    comma = draw(st.sampled_from((",", ", "))) if indent is None else ","
    text = json.dumps(members, indent=indent, separators=(comma, colon), ensure_ascii=draw(st.booleans()))
    space = draw(st.sampled_from(("", " ", "\n", "\n    ")))
    text = text.replace("[]", f"[{space}]").replace("{}", f"{{{space}}}")
    text = draw(st.sampled_from(("", "\n"))) + text + draw(st.sampled_from(("", "\n", "\n\n")))
    return text.replace("\n", draw(st.sampled_from(("\n", "\r\n"))))


@given(settings_texts())
def test_removing_what_was_installed_gives_back_every_byte(text: str | None) -> None:
    change = hooksfile.install(text, program=PROGRAM)

    assert hooksfile.remove(change.text, change.undo)[0] == text


@given(settings_texts())
def test_installing_again_changes_nothing(text: str | None) -> None:
    once = hooksfile.install(text, program=PROGRAM)
    again = hooksfile.install(once.text, program=PROGRAM)

    assert again.text == once.text
    assert not again.done


@given(settings_texts())
def test_everything_foreign_keeps_its_value_and_its_order(text: str | None) -> None:
    before = json.loads(text) if text and text.strip() else {}
    after = json.loads(hooksfile.install(text, program=PROGRAM).text)

    assert [key for key in after if key in before] == list(before)
    assert {key: after[key] for key in before if key != "hooks"} == {k: v for k, v in before.items() if k != "hooks"}
    for event, groups in before.get("hooks", {}).items():
        assert after["hooks"][event][: len(groups)] == groups


@given(settings_texts())
def test_every_wanted_hook_is_there_once_and_well_formed(text: str | None) -> None:
    found = _rows(hooksfile.install(text, program=PROGRAM).text)

    assert sorted(found) == sorted(
        (hook.event, hook.matcher or "", f"{PROGRAM} {hook.arguments}") for hook in hooksfile.HOOKS
    )


@given(settings_texts())
def test_a_moved_program_is_mended_in_place_and_still_comes_off_without_a_trace(text: str | None) -> None:
    first = hooksfile.install(text, program="/gone/venv/bin/vault-mem")
    second = hooksfile.install(first.text, program=PROGRAM)

    assert second.text == first.text.replace("/gone/venv/bin/vault-mem", PROGRAM)
    assert len(second.done) == len(hooksfile.HOOKS)
    assert hooksfile.remove(second.text, first.undo.over(second.undo))[0] == text


@given(settings_texts(), st.sampled_from(("model", "added")))
def test_what_a_person_adds_meanwhile_stays(text: str | None, name: str) -> None:
    change = hooksfile.install(text, program=PROGRAM)
    edited = json.loads(change.text)
    edited[name] = {"mine": 1}
    edited["hooks"]["Stop"].append(_group(FOREIGN))

    left, _ = hooksfile.remove(json.dumps(edited, indent=2), change.undo)

    assert left is not None
    after = json.loads(left)
    assert after[name] == {"mine": 1}
    assert after["hooks"]["Stop"][-1] == _group(FOREIGN)
    assert not _rows(left)


@pytest.mark.parametrize(
    ("text", "place"),
    (
        pytest.param('{"hooks": {}, }', "line 1, column 15", id="trailing comma"),
        pytest.param('{\n  // mine\n  "a": 1\n}', "a comment", id="comment"),
        pytest.param('{"hooks": {', "ends too early", id="cut"),
        pytest.param("[]", "an array", id="array"),
        pytest.param("null", "null", id="null"),
        pytest.param('"x"', "a string", id="string"),
        pytest.param("12", "a number", id="number"),
        pytest.param('{"a": 1} x', "something follows", id="text behind"),
        pytest.param('{"a": 01}', "',' was expected", id="bad number"),
        pytest.param('{"hooks": {}, "hooks": {}}', "the key hooks stands twice", id="key twice"),
        pytest.param('{"hooks": {"Stop": [], "Stop": []}}', "hooks.Stop stands twice", id="event twice"),
        pytest.param('{"hooks": []}', "hooks must be an object", id="hooks is an array"),
        pytest.param('{"hooks": null}', "hooks must be an object, not null", id="hooks is null"),
        pytest.param('{"hooks": {"Stop": "x"}}', "hooks.Stop must be an array", id="event is a string"),
        pytest.param('{"hooks": {"Stop": {}}}', "hooks.Stop must be an array", id="event is an object"),
        pytest.param('{"hooks": {"Stop": ["x"]}}', "hooks.Stop[0] must be an object", id="group is a string"),
        pytest.param('{"hooks": {"Stop": [{}]}}', "hooks.Stop[0] has no hooks array", id="group without hooks"),
        pytest.param(
            '{"hooks": {"SessionStart": [{"type": "command", "command": "x"}]}}',
            "hooks.SessionStart[0] has no hooks array",
            id="flat entry",
        ),
        pytest.param('{"hooks": {"Stop": [{"hooks": {}}]}}', "hooks.Stop[0].hooks must be", id="inner hooks object"),
        pytest.param(
            '{"hooks": {"Stop": [{"matcher": 1, "hooks": []}]}}', "hooks.Stop[0].matcher must be", id="matcher number"
        ),
        pytest.param(
            '{"hooks": {"Stop": [{"hooks": [{"type": "command"}]}]}}',
            "hooks.Stop[0].hooks[0].command must be",
            id="no command",
        ),
        pytest.param('{"hooks": {"Stop": [{"hooks": [{"command": "x"}]}]}}', "hooks[0].type must be", id="no type"),
        pytest.param('{"hooks": {"Stop": [{"hooks": ["x"]}]}}', "hooks[0] must be an object", id="entry is a string"),
        pytest.param("[" * 5000, "levels", id="too deep"),
    ),
)
def test_what_cannot_be_understood_is_refused_with_its_place(text: str, place: str) -> None:
    with pytest.raises(SettingsError) as refused:
        hooksfile.install(text, program=PROGRAM, where="settings.json")

    assert place in str(refused.value)
    assert str(refused.value).startswith("settings.json: ")


def test_hooks_that_are_no_commands_are_none_of_our_business() -> None:
    text = json.dumps(
        {"hooks": {"Stop": [_group({"type": "prompt", "prompt": "Done?"}, {"type": "http", "url": "u"})]}}
    )

    assert (
        json.loads(hooksfile.install(text, program=PROGRAM).text)["hooks"]["Stop"][0]
        == json.loads(text)["hooks"]["Stop"][0]
    )


@pytest.mark.parametrize(
    ("command", "expected"),
    (
        pytest.param("/p/vault-mem hook stop", ("/p/vault-mem", "hook stop", False), id="plain"),
        pytest.param("'/a b/vault-mem' hook stop", ("'/a b/vault-mem'", "hook stop", False), id="blanks"),
        pytest.param("'/a'\"'\"'b$/vault-mem' resume", ("'/a'\"'\"'b$/vault-mem'", "resume", False), id="quote"),
        pytest.param("'/a\nb/vault-mem' resume", ("'/a\nb/vault-mem'", "resume", False), id="line break"),
        pytest.param(
            '"${CLAUDE_PLUGIN_ROOT}/bin/vault-mem" resume',
            ('"${CLAUDE_PLUGIN_ROOT}/bin/vault-mem"', "resume", False),
            id="plugin",
        ),
        pytest.param("vault-mem hook stop --explain", ("vault-mem", "hook stop", False), id="option behind"),
        pytest.param("vault-mem --root '/x y' hook stop", ("vault-mem", "hook stop", False), id="root before"),
        pytest.param("/v/python -m vault_mem hook stop", ("/v/python -m vault_mem", "hook stop", False), id="module"),
        pytest.param("/p/vault-mem hook stop || true", ("/p/vault-mem", "hook stop", False), id="made harmless"),
        pytest.param("/p/vault-mem hook stop 2>/dev/null || :", ("/p/vault-mem", "hook stop", False), id="made silent"),
        pytest.param("A=1 /p/vault-mem hook stop", ("/p/vault-mem", "hook stop", True), id="variable before"),
        pytest.param("echo x; /p/vault-mem hook stop", ("/p/vault-mem", "hook stop", True), id="second command"),
        pytest.param("/p/vault-mem hook stop && say done", ("/p/vault-mem", "hook stop", True), id="more behind"),
        pytest.param("/opt/vault-mem-stats/report.sh", None, id="similar name"),
        pytest.param("/opt/vault-mem/report.sh hook stop", None, id="similar folder"),
        pytest.param("echo vault-mem hook stop", None, id="only mentioned"),
        pytest.param("/p/vault-mem doctor", None, id="another command of ours"),
        pytest.param("/p/vault-mem resumed", None, id="longer word"),
        pytest.param("'/p/vault-mem hook stop", None, id="open quote"),
        pytest.param("", None, id="empty"),
    ),
)
def test_a_command_of_ours_is_recognised_by_program_and_verb(
    command: str, expected: tuple[str, str, bool] | None
) -> None:
    assert hooksfile.recognised(command) == expected


def test_a_foreign_hook_in_our_group_survives_mending_and_removal() -> None:
    text = json.dumps({"hooks": {"Stop": [_group(_ours("/old/vault-mem hook stop"), FOREIGN)]}}, indent=2)

    change = hooksfile.install(text, program=PROGRAM)
    left, _ = hooksfile.remove(change.text)

    assert json.loads(change.text)["hooks"]["Stop"] == [_group(_ours(f"{PROGRAM} hook stop"), FOREIGN)]
    assert left is not None
    assert json.loads(left) == {"hooks": {"Stop": [_group(FOREIGN)]}}


@pytest.mark.parametrize(
    ("hooks", "what"),
    (
        pytest.param(
            {"Stop": [_group(_ours("/a/vault-mem hook stop")), _group(_ours("/b/vault-mem hook stop"))]},
            "doubled",
            id="twice",
        ),
        pytest.param(
            {"SessionStart": [_group(_ours("/a/vault-mem resume"), matcher="startup")]}, "out of place", id="narrow"
        ),
        pytest.param({"Stop": [_group(_ours("/a/vault-mem resume"))]}, "out of place", id="wrong verb"),
        pytest.param({"Notification": [_group(_ours("/a/vault-mem hook stop"))]}, "out of place", id="wrong event"),
    ),
)
def test_entries_of_ours_that_are_doubled_or_out_of_place_are_put_right(hooks: dict[str, Any], what: str) -> None:
    change = hooksfile.install(json.dumps({"hooks": hooks}), program=PROGRAM)

    assert any(what in line for line in change.done)
    assert sorted(event for event, _, _ in _rows(change.text)) == sorted(hook.event for hook in hooksfile.HOOKS)


def test_what_a_person_set_on_our_entry_stays() -> None:
    mine = {
        "type": "command",
        "command": "/old/vault-mem hook stop --explain",
        "timeout": 60,
        "statusMessage": "saving",
    }

    change = hooksfile.install(json.dumps({"hooks": {"Stop": [_group(mine)]}}), program=PROGRAM)

    (kept,) = json.loads(change.text)["hooks"]["Stop"][0]["hooks"]
    assert kept == {**mine, "command": f"{PROGRAM} hook stop --explain"}


def test_our_hook_inside_a_longer_command_line_is_neither_doubled_nor_removed() -> None:
    text = json.dumps({"hooks": {"Stop": [_group(_ours("/p/vault-mem hook stop && say done"))]}})

    change = hooksfile.install(text, program=PROGRAM)
    left, removed = hooksfile.remove(change.text, change.undo)

    assert [event for event, _, _ in _rows(change.text)].count("Stop") == 1
    assert change.notes
    assert removed.notes
    assert left == text


@pytest.mark.parametrize("mark", (b"", b"\xef\xbb\xbf"), ids=("plain", "byte order mark"))
def test_a_byte_order_mark_is_told_from_the_text(mark: bytes) -> None:
    assert hooksfile.decoded(mark + b"{}", where="x") == (mark, "{}")


def test_bytes_that_are_not_utf8_are_refused() -> None:
    with pytest.raises(SettingsError, match="not UTF-8"):
        hooksfile.decoded(b"\xff\xfe{\x00}\x00", where="settings.json")


@given(VALUES)
def test_a_value_is_read_as_python_reads_it(value: Any) -> None:
    text = json.dumps(value)
    node = jsonspans.parse(text)

    def plain(node: jsonspans.Node) -> Any:
        if node.kind == "object":
            return {str(key.value): plain(item) for key, item in zip(node.keys, node.items, strict=True)}
        return [plain(item) for item in node.items] if node.kind == "array" else node.value

    assert plain(node) == value
    assert text[node.start : node.end] == text


@given(st.text(alphabet='{}[]",: \n01e.-tfnul\\ax\u00e9', max_size=12))
def test_a_text_is_json_for_us_exactly_when_it_is_for_python(text: str) -> None:
    try:
        json.loads(text, parse_constant=lambda _: (_ for _ in ()).throw(ValueError()))
        valid = True
    except ValueError:
        valid = False

    try:
        jsonspans.parse(text)
        ours = True
    except jsonspans.JsonSpanError:
        ours = False

    assert ours == valid


def test_an_entry_that_is_started_without_a_shell_keeps_its_form() -> None:
    mine = {"type": "command", "command": "/old dir/vault-mem", "args": ["hook", "stop"]}

    change = hooksfile.install(json.dumps({"hooks": {"Stop": [_group(mine)]}}), program=PROGRAM)

    (kept,) = json.loads(change.text)["hooks"]["Stop"][0]["hooks"]
    assert kept == {**mine, "command": "/opt/my tools/vault-mem"}
    assert hooksfile.install(change.text, program=PROGRAM).text == change.text
