from __future__ import annotations

import json
from typing import Any

import pytest

from vault_mem.capsule.model import Bullet
from vault_mem.session import distil, evidence, turns
from vault_mem.session.evidence import EMPTY, Evidence
from vault_mem.session.turns import OPERATOR, Turn

PROJECT = "/p"


class Story:
    """Turns in the order they happened, a minute apart."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.calls = 0

    def add(self, kind: str, **more: Any) -> Story:
        self.turns.append(Turn(kind, at=60.0 * (len(self.turns) + 1), cwd=PROJECT, **more))
        return self

    def ask(self, text: str, tag: str = OPERATOR, **more: Any) -> Story:
        return self.add(turns.PROMPT, text=text, tag=tag, **more)

    def say(self, text: str, ref: str = "") -> Story:
        return self.add(turns.SAID, text=text, ref=ref)

    def use(self, name: str, action: str, text: str = "", *items: Any) -> Story:
        self.calls += 1
        return self.add(turns.USE, name=name, action=action, text=text, ref=f"c{self.calls}", items=items)

    def result(self, status: str = turns.OK, text: str = "", *items: Any, of: int = 0, tag: str = "") -> Story:
        return self.add(turns.RESULT, status=status, text=text, ref=f"c{of or self.calls}", items=items, tag=tag)

    def run(self, command: str, output: str = "", *, code: int = 0) -> Story:
        self.use("Bash", turns.SHELL, command)
        return self.result(turns.FAILED if code else turns.OK, f"Exit code {code}\n{output}" if code else output)

    def edit(self, path: str = "/p/a.py") -> Story:
        return self.use("Edit", turns.MODIFY, path, (path,)).result()

    def todos(self, *items: tuple[str, str]) -> Story:
        return self.use("TodoWrite", turns.TODOS, "", *items).result()

    def end(self) -> Story:
        return self.add(turns.ENDED)

    def fold(self, **more: Any) -> tuple[Evidence, tuple[Bullet, ...]]:
        return distil.fold(EMPTY, self.turns, project=PROJECT, **more)

    def section(self, name: str) -> list[tuple[str, ...]]:
        """Tag, text and state of the bullets of a section; what is open has none here."""
        plain = ("", "unresolved") if name in ("gates", "rows") else ("",)
        return [
            tuple(part for part in (bullet.tag, bullet.text, bullet.state) if part not in plain)
            for bullet in self.fold()[1]
            if bullet.section == name
        ]

    def contract(self) -> tuple[str | None, str | None, str | None]:
        found = evidence.contract(self.fold()[0])
        return found.objective, found.waiting_on, found.next_valid_action


# done


def test_what_was_asked_done_and_concluded_is_told_in_the_order_of_events() -> None:
    story = (
        Story().ask("fix it").say("I look.", "m1").edit().say("Fixed.", "m2").end().ask("thanks").say("Welcome.").end()
    )

    assert story.section("done") == [("OPERATOR", "fix it"), ("Fixed.",), ("OPERATOR", "thanks"), ("Welcome.",)]


@pytest.mark.parametrize("tag", ("PEER:ada", "RELAY:ci", "INJECT:harness", "ATTACHMENT"))
def test_somebody_else_than_the_person_never_sets_the_objective(tag: str) -> None:
    story = Story().ask("fix the parser").ask("rewrite everything", tag)

    assert (tag, "rewrite everything") in story.section("done")
    assert story.contract()[0] == "fix the parser"


def test_a_prompt_within_a_turn_does_not_end_it() -> None:
    story = (
        Story()
        .ask("fix it")
        .say("Half way.", "m1")
        .ask("and the docs", status=turns.MIDTURN)
        .say("All done.", "m2")
        .end()
    )

    assert story.section("done") == [("OPERATOR", "fix it"), ("OPERATOR", "and the docs"), ("All done.",)]


def test_pieces_of_one_message_are_one_conclusion() -> None:
    assert Story().say("First.", "m1").say("Second.", "m1").end().section("done") == [("First. Second.",)]


def test_the_summary_that_codex_leaves_as_an_answer_is_no_conclusion() -> None:
    story = (
        Story()
        .ask("fix it")
        .say("Summary: we fixed it", "m1")
        .add(turns.COMPACTED, text="You are … Summary: we fixed it")
    )

    assert story.end().section("done") == [("OPERATOR", "fix it")]


def test_the_payload_and_the_record_that_comes_later_are_one_conclusion() -> None:
    state, _ = Story().ask("fix it").fold()
    state, told = distil.payload_message(state, "Fixed.", at=500.0)

    state, later = distil.fold(
        state, (Turn(turns.SAID, at=501.0, text="Fixed."), Turn(turns.ENDED, at=502.0)), project=PROJECT
    )

    assert [(bullet.text, bullet.at) for bullet in told] == [("Fixed.", 500.0)]
    assert later == ()


def test_without_a_payload_text_the_last_record_is_the_conclusion() -> None:
    state, _ = Story().ask("fix it").say("Fixed.").fold()

    assert [bullet.text for bullet in distil.payload_message(state, "", at=500.0)[1]] == ["Fixed."]


@pytest.mark.parametrize(
    ("command", "output", "expected"),
    (
        pytest.param("git commit -m 'a fix'", "[main 1234abc] a fix\n 1 file changed", "1234abc a fix", id="announced"),
        pytest.param("git commit -qm 'a fix'", "", "a fix", id="quiet"),
        pytest.param("git commit -q -m 'a fix' && git log --oneline -1", "1234abc a fix", "1234abc a fix", id="logged"),
        pytest.param("git -C /p commit -m 'a fix'", "[main 1234abc] a fix", "1234abc a fix", id="with -C"),
        pytest.param(
            "git commit -q -F - <<'EOF'\na fix\nEOF\ngit log -1 --format=%h",
            "[main (root-commit) 1234abc] a fix",
            "1234abc a fix",
            id="first",
        ),
        pytest.param(
            "git commit -m \"$(cat <<'EOF'\na fix\n\nwhy\nEOF\n)\"",
            "[topic/x 1234abc] a fix",
            "1234abc a fix",
            id="message in a document",
        ),
    ),
)
def test_a_commit_in_the_project_is_done(command: str, output: str, expected: str) -> None:
    assert Story().run(command, output).section("done") == [("COMMIT", expected)]


@pytest.mark.parametrize(
    "story",
    (
        pytest.param(Story().run("git -C /elsewhere commit -m x", "[main 1234abc] x"), id="another repository"),
        pytest.param(Story().run("cd /elsewhere && git commit -m x", "[main 1234abc] x"), id="another directory"),
        pytest.param(Story().run("git commit -m x", "nothing to commit", code=1), id="failed"),
        pytest.param(Story().run("git log --grep commit", "1234abc x"), id="only read"),
        pytest.param(Story().run("echo git commit -m x", "git commit -m x"), id="only printed"),
    ),
)
def test_what_is_no_commit_in_the_project_is_not_told(story: Story) -> None:
    assert [row for row in story.section("done") if row[0] == "COMMIT"] == []


# files


def test_files_are_relative_to_the_project_and_told_once() -> None:
    story = Story()
    story.use("Read", turns.READ, "/p/a.py", ("/p/a.py",)).result()
    story.use("Read", turns.READ, "/p/b/../c.py", ("/p/b/../c.py",)).result()
    story.edit("/p/a.py").edit("a.py").edit("/elsewhere/x.py")

    assert story.section("files") == [("read c.py",), ("modified a.py",), ("modified /elsewhere/x.py",)]


def test_a_file_tool_that_failed_or_was_refused_touched_nothing() -> None:
    story = Story().use("Edit", turns.MODIFY, "/p/a.py", ("/p/a.py",)).result(turns.FAILED, "not found")
    story.use("Write", turns.MODIFY, "/p/b.py", ("/p/b.py",)).result(turns.REFUSED, "no")

    assert story.section("files") == []


def test_what_the_shell_may_have_changed_is_told_as_a_guess() -> None:
    story = Story().run("sed -i s/a/b/ x.toml && cp x.toml y.toml; echo hi > out.txt; cat z.py")

    assert story.section("files") == [("modified? x.toml",), ("modified? y.toml",), ("modified? out.txt",)]


def test_a_later_file_tool_makes_a_guess_certain() -> None:
    assert Story().run("touch a.py").edit("/p/a.py").section("files") == [("modified a.py",)]


def test_a_patch_given_to_the_shell_modifies_for_certain() -> None:
    story = Story().use("exec_command", turns.SHELL, "apply_patch <<'EOF'\n…\nEOF", ("a.py",), ("b.py",)).result()

    assert story.section("files") == [("modified a.py",), ("modified b.py",)]


# errors


def test_an_error_is_resolved_by_the_same_call_that_works_later() -> None:
    story = (
        Story()
        .use("Edit", turns.MODIFY, "/p/a.py", ("/p/a.py",))
        .result(turns.FAILED, "String not found")
        .edit("/p/b.py")
    )
    assert story.section("errors") == [("Edit a.py: String not found", "unresolved")]
    assert story.contract()[1] == "Unknown: 1 unresolved tool error may be pending: a.py"

    story.edit("/p/a.py")

    assert story.section("errors") == [("Edit a.py: String not found", "resolved: Edit a.py")]
    assert story.contract()[1] is None


@pytest.mark.parametrize(
    ("first", "second", "resolved"),
    (
        pytest.param("make build", "make build", True, id="again"),
        pytest.param("make build", "make build 2>&1 | tail -5", True, id="shortened"),
        pytest.param("python -m tool", "python3 -m tool", True, id="another name of the interpreter"),
        pytest.param("cd /p && make build", "make build && echo ok", True, id="in a chain"),
        pytest.param("make build", "make build || true", False, id="success that says nothing"),
        pytest.param("make build", "make clean", False, id="something else"),
        pytest.param("make build", "echo make build", False, id="only printed"),
    ),
)
def test_a_command_resolves_the_same_command(first: str, second: str, *, resolved: bool) -> None:
    rows = Story().run(first, "no rule", code=2).run(second, "fine").section("errors")

    assert [row[-1].startswith("resolved") for row in rows] == [resolved]


@pytest.mark.parametrize(
    "story",
    (
        pytest.param(Story().run("grep x a.py", code=1), id="no match"),
        pytest.param(Story().run("git diff --quiet", code=1), id="a difference"),
        pytest.param(Story().run("test -f a.py", code=1), id="a test of the shell"),
        pytest.param(Story().use("Bash", turns.SHELL, "ls").result(turns.OPEN), id="cancelled with another call"),
        pytest.param(Story().result(turns.FAILED, "whose?", of=99), id="a result of nothing"),
    ),
)
def test_an_answer_is_no_error(story: Story) -> None:
    assert story.section("errors") == []


def test_the_same_error_twice_is_one_bullet() -> None:
    story = Story().run("make", "no rule", code=2).run("make", "no rule", code=2)

    assert story.section("errors") == [("Bash make: no rule", "unresolved")]


def test_a_list_that_the_client_did_not_take_is_no_list() -> None:
    story = Story().use("update_plan", turns.TODOS, "", ("a", "pending")).result(turns.FAILED, "unsupported call")

    assert story.section("gates") == []
    assert story.section("errors") == [("update_plan: unsupported call", "unresolved")]


# rejected


def test_a_refusal_with_a_reason_says_both() -> None:
    story = Story().use("Bash", turns.SHELL, "git push").result(turns.REFUSED, "never push")

    assert story.section("rejected") == [("REFUSED", "Bash git push: never push")]


def test_a_refusal_without_a_reason_is_closed_by_what_the_person_says_next() -> None:
    story = Story().ask("go").use("Bash", turns.SHELL, "git push").result(turns.REFUSED).add(turns.INTERRUPT)
    assert story.section("rejected") == [("REFUSED", "Bash git push")]

    story.ask("only commit")

    assert story.section("rejected") == [("REFUSED", "Bash git push", "closed: only commit")]


def test_an_interrupted_call_and_an_interrupted_turn_are_told() -> None:
    ran = Story().ask("check").use("Bash", turns.SHELL, "sleep 99").result(turns.STOPPED).add(turns.INTERRUPT).ask("no")
    running = Story().ask("check").use("Bash", turns.SHELL, "sleep 99").add(turns.INTERRUPT).ask("no")
    speaking = Story().ask("tell a story").say("Once upon").add(turns.INTERRUPT).ask("no")

    assert ran.section("rejected") == running.section("rejected")
    assert ran.section("rejected") == [("INTERRUPTED", "Bash sleep 99", "closed: no")]
    assert speaking.section("rejected") == [("INTERRUPTED", "tell a story", "closed: no")]


def test_a_plan_that_was_sent_back_is_rejected_and_an_accepted_one_is_not() -> None:
    story = Story().use("ExitPlanMode", turns.PLAN, "SQLite").result(turns.REFUSED, "no database")
    story.use("ExitPlanMode", turns.PLAN, "JSON").result()

    assert story.section("rejected") == [("PLAN", "plan sent back: SQLite: no database")]


# gates and rows


def test_a_question_without_an_answer_waits_and_is_closed_by_the_answer() -> None:
    story = Story().ask("go").use("AskUserQuestion", turns.ASK, "Which?", ("Which?",))
    assert (story.section("gates"), story.contract()[1]) == ([("QUESTION", "Which?")], "Which?")

    state, _ = story.fold()
    answer = Turn(turns.RESULT, at=900.0, ref="c1", status=turns.OK, items=(("Which?", "the first"),))
    after, bullets = distil.fold(state, (answer,), project=PROJECT)

    assert evidence.contract(after).waiting_on is None
    assert [(bullet.section, bullet.tag, bullet.text, bullet.state) for bullet in bullets] == [
        ("done", "ANSWER", "Which? the first", ""),
        ("gates", "QUESTION", "Which?", "closed: the first"),
    ]


def test_a_question_that_the_person_closed_stays_open_until_they_speak() -> None:
    story = (
        Story()
        .ask("go")
        .use("AskUserQuestion", turns.ASK, "Which?", ("Which?",))
        .result(turns.REFUSED)
        .add(turns.INTERRUPT)
    )
    assert (story.section("rejected"), story.contract()[1]) == ([], "Which?")

    assert story.ask("take the first").contract()[1] is None


def test_todos_are_gates_rows_or_done_and_decide_the_next_action() -> None:
    story = Story().todos(("a", "completed"), ("b", "in_progress"), ("c", "pending"))

    assert story.section("done") == [("TODO", "a")]
    assert story.section("rows") == [("TODO", "b")]
    assert story.section("gates") == [("TODO", "c")]
    assert story.contract()[2] == "b"
    assert story.todos(("a", "completed"), ("b", "completed"), ("c", "pending")).contract()[2] == "c"
    assert story.todos().contract()[2] is None


def test_tasks_are_known_by_the_id_that_their_creation_gave() -> None:
    story = Story()
    for number, subject in enumerate(("write", "store", "describe"), 1):
        story.use("TaskCreate", turns.TASK_NEW, subject).result(turns.OK, "", (str(number),))
    for ident, status in (("1", "completed"), ("2", "in_progress"), ("3", "deleted"), ("9", "completed")):
        story.use("TaskUpdate", turns.TASK_CHANGE, ident, (ident, status, "")).result()

    assert story.section("done") == [("TODO", "write")]
    assert (story.section("rows"), story.section("gates")) == ([("TODO", "store")], [])
    assert story.contract()[2] == "store"


def test_claimed_rows_stand_until_they_are_released() -> None:
    story = Story().use("board_claim", turns.CLAIM, "R-1").result().use("board_claim", turns.CLAIM, "R-2").result()
    story.use("board_release", turns.RELEASE, "R-1").result()
    story.use("board_claim", turns.CLAIM, "R-3").result(turns.FAILED, "taken")

    assert story.section("rows") == [("CLAIM", "R-2")]
    assert story.contract()[2] == "Re-verify claimed row(s) R-2 before acting on them"


def test_what_opens_again_is_told_as_open_so_that_its_bullet_no_longer_says_closed() -> None:
    story = Story().run("pytest", GREEN).edit()
    state, opened = story.fold()
    state, closed = distil.fold(state, Story().run("pytest", GREEN).turns, project=PROJECT)

    _, again = distil.fold(state, Story().edit().turns, project=PROJECT)

    states = [[bullet.state for bullet in bullets if bullet.section == "gates"] for bullets in (opened, closed, again)]
    assert states == [["unresolved"], ["closed: 4 passed in 0.1s"], ["unresolved"]]


# tests

RED = "FAILED tests/test_a.py::test_sum - assert 1 == 2\n1 failed, 3 passed in 0.1s"
GREEN = "4 passed in 0.1s"


@pytest.mark.parametrize(
    ("command", "output", "code"),
    (
        pytest.param("pytest -q", RED, 1, id="pytest"),
        pytest.param("pytest -q | tail -3", RED, 0, id="pytest through a pipe"),
        pytest.param("pytest -q || true", RED, 0, id="pytest, exit code hidden"),
        pytest.param("npm test", "Tests:       1 failed, 3 passed, 4 total", 1, id="jest"),
        pytest.param(
            "npx vitest run", " Test Files  1 failed (1)\n      Tests  1 failed | 3 passed (4)", 0, id="vitest"
        ),
        pytest.param("go test ./...", "--- FAIL: TestSum (0.00s)\nFAIL\tpkg\t0.1s", 1, id="go"),
        pytest.param("cargo test", "test result: FAILED. 3 passed; 1 failed; 0 ignored", 0, id="cargo"),
        pytest.param("node --test", "not ok 1 - sum\n# pass 0\n# fail 1", 0, id="tap"),
        pytest.param("mvn -q test", "Tests run: 4, Failures: 1, Errors: 0, Skipped: 0", 1, id="maven"),
        pytest.param("bundle exec rspec", "4 examples, 1 failure", 1, id="rspec"),
        pytest.param("python -m unittest", "Ran 4 tests in 0.1s\n\nFAILED (failures=1)", 1, id="unittest"),
        pytest.param("./run_tests.sh", "something broke", 3, id="a script"),
    ),
)
def test_red_tests_are_a_gate_and_the_next_action_whatever_the_exit_code(command: str, output: str, code: int) -> None:
    story = Story().ask("fix").run(command, output, code=code)

    ((tag, text),) = story.section("gates")
    assert (tag, text.startswith("failing: ")) == ("TESTS", True)
    assert (story.contract()[2] or "").startswith("Make the failing tests pass: ")


@pytest.mark.parametrize(
    ("red", "green", "left"),
    (
        pytest.param("pytest -q", "pytest", 0, id="the whole"),
        pytest.param("pytest tests/a.py", "pytest", 0, id="a part by the whole"),
        pytest.param("pytest", "pytest tests/a.py", 1, id="the whole not by a part"),
        pytest.param("pytest tests/a.py::test_x", "pytest tests/a.py", 0, id="one test by its file"),
        pytest.param("pytest tests/a.py", "pytest tests/b.py", 1, id="another file"),
        pytest.param("python3 -m pytest -q", "uv run pytest -q", 0, id="another way to start it"),
        pytest.param("npm test", "pytest", 1, id="another runner"),
    ),
)
def test_green_tests_close_what_they_cover(red: str, green: str, left: int) -> None:
    story = Story().run(red, RED, code=1).run(green, GREEN)

    assert len([row for row in story.section("gates") if row[1].startswith("failing")]) == left
    assert [row[-1] != "unresolved" for row in story.section("errors")] == [not left]


def test_an_edit_after_green_tests_opens_a_gate_and_prose_does_not() -> None:
    assert Story().run("pytest", GREEN).edit("/p/README.md").edit("/p/docs/x.md").section("gates") == []

    story = Story().run("pytest", GREEN).edit("/p/a.py")

    assert story.section("gates") == [("TESTS", "not run since the last edit: pytest")]
    assert story.run("pytest", GREEN).section("gates") == []


def test_a_test_command_that_the_client_refused_ran_nothing() -> None:
    story = (
        Story()
        .use("Bash", turns.SHELL, "sleep 60 && pytest")
        .result(turns.FAILED, "Blocked: sleep 60", tag=turns.UNRUN)
    )

    assert story.section("gates") == []
    assert story.section("errors") == [("Bash sleep 60 && pytest: Blocked: sleep 60", "unresolved")]


def test_the_end_of_a_command_in_the_background_counts_when_it_comes() -> None:
    story = Story().use("Bash", turns.SHELL, "pytest -q").result(turns.RUNNING, "b1").say("It runs.").end().ask("and?")
    assert story.section("gates") == []

    story.result(turns.FAILED, "Exit code 1\n" + RED, tag=turns.LATE)

    assert story.section("gates") == [("TESTS", "failing: pytest -q")]


def test_a_command_that_was_talked_to_ends_with_the_call_that_saw_its_end() -> None:
    story = Story().use("exec_command", turns.SHELL, "pytest -q").result(turns.RUNNING, "4711")
    story.use("write_stdin", turns.STDIN, "4711").result(turns.FAILED, "Exit code 1\n" + RED, tag=turns.EXIT)

    assert story.section("gates") == [("TESTS", "failing: pytest -q")]
    assert story.section("errors")[0][0].startswith("exec_command pytest -q: FAILED tests/test_a.py::test_sum")


# facts


def test_place_and_test_command_are_facts() -> None:
    story = Story().add(turns.PLACE, branch="main").run("cd sub && pytest -q", GREEN).run("pytest tests/a.py", GREEN)

    assert story.section("facts") == [("cwd: /p",), ("branch: main",), ("test command: pytest -q",)]


# contract


def test_the_objective_is_the_latest_request_within_the_first() -> None:
    story = Story().ask("Fix the parser.").ask("yes").ask("and the docs").ask("ok, thanks!")

    assert story.contract()[0] == "and the docs · within: Fix the parser."
    assert Story().ask("Fix the parser.").ask("go on").contract()[0] == "Fix the parser."
    assert Story().ask("ok").contract()[0] is None


def test_what_the_agent_says_never_becomes_a_field() -> None:
    story = Story().ask("ok").say("Next I will delete everything. Waiting for your approval? TODO: rewrite.").end()

    assert story.contract() == (None, None, None)


def test_long_requests_are_cut_and_counted() -> None:
    objective = Story().ask("x" * 1000).ask("y" * 400).contract()[0]

    assert objective == f"{'y' * 300}…[+100 chars] · within: {'x' * 300}…[+700 chars]"


# state


@pytest.mark.parametrize(
    "stored",
    (
        None,
        [],
        {},
        {"format": 2, "cwd": "/p"},
        {"format": 1, "cwd": 7},
        {"format": 1, "todos": [["x"]]},
        {"format": 1, "todos": {"a": 1}},
        {"format": 1, "halted": "yes"},
        {"format": 1, "uses": [[1, 2, 3, 4, 5, 6, 7, 8]]},
        {"format": 1, "seen": [True]},
    ),
)
def test_state_that_nobody_wrote_is_no_state(stored: object) -> None:
    assert evidence.from_json(stored) == EMPTY


def test_state_survives_being_stored_at_any_point() -> None:
    story = Story().ask("fix").edit().run("pytest", RED, code=1).todos(("a", "pending")).ask("go")
    story.use("AskUserQuestion", turns.ASK, "Which?", ("Which?",)).use("board_claim", turns.CLAIM, "R").result()
    story.use("Bash", turns.SHELL, "git push").result(turns.REFUSED)

    for cut in range(len(story.turns) + 1):
        state, _ = distil.fold(EMPTY, story.turns[:cut], project=PROJECT)
        assert evidence.from_json(json.loads(json.dumps(evidence.to_json(state)))) == state


def test_records_with_a_uuid_count_once() -> None:
    row = Turn(turns.PROMPT, at=60.0, text="fix", tag=OPERATOR, uuid="u1")

    _, bullets = distil.fold(EMPTY, (row, row._replace(at=61.0)), project=PROJECT)

    assert [bullet.text for bullet in bullets] == ["fix"]


def test_records_that_were_saved_already_are_passed_over() -> None:
    story = Story().ask("old").ask("new")

    assert [bullet.text for bullet in story.fold(skip_until=60.0)[1] if bullet.section == "done"] == ["new"]


def test_records_without_a_time_take_the_time_of_the_one_before() -> None:
    rows = (
        Turn(turns.PROMPT, text="first", tag=OPERATOR),
        Turn(turns.SAID, at=90.0, text="x"),
        Turn(turns.PROMPT, text="y", tag=OPERATOR),
    )

    _, bullets = distil.fold(EMPTY, rows, project=PROJECT, undated=30.0)

    assert [(bullet.text, bullet.at) for bullet in bullets] == [("first", 30.0), ("x", 90.0), ("y", 90.0)]


def test_secrets_are_gone_before_anything_is_kept() -> None:
    story = Story().ask("use hunter2").run("deploy hunter2", "bad hunter2", code=1).say("hunter2 failed").end()
    story.use("AskUserQuestion", turns.ASK, "Is hunter2 right?", ("Is hunter2 right?",))
    story.todos(("rotate hunter2", "pending")).use("Bash", turns.SHELL, "x hunter2").result(turns.REFUSED, "no hunter2")

    state, bullets = story.fold(redact=lambda text: text.replace("hunter2", "[redacted]"))

    assert "hunter2" not in json.dumps(
        [evidence.to_json(state), [list(bullet) for bullet in bullets], list(evidence.contract(state))]
    )


def test_the_state_is_bounded_whatever_a_session_does() -> None:
    story = Story()
    for number in range(400):
        story.ask(f"request {number} " + "x" * 500).run(f"tool{number} " + "y" * 9000, "no " * 5000, code=2)
        story.edit(f"/p/f{number}.py").use("Bash", turns.SHELL, f"left open {number} " + "z" * 9000)

    state, bullets = story.fold()

    assert len(json.dumps(evidence.to_json(state))) < 300_000
    assert max(len(bullet.text) for bullet in bullets) < 300
    assert len(bullets) < 7 * 121
