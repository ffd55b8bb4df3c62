from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vault_mem.session import outcome, shell


def commands(line: str) -> list[tuple[str, ...]]:
    return [words for pipeline in shell.parse(line) for words in pipeline.commands]


@pytest.mark.parametrize(
    ("line", "expected"),
    (
        pytest.param("ls -l a", [("ls", "-l", "a")], id="words"),
        pytest.param("a && b || c; d | e & f", [("a",), ("b",), ("c",), ("d",), ("e",), ("f",)], id="operators"),
        pytest.param("echo 'a && b' \"c | d\" e\\ f", [("echo", "a && b", "c | d", "e f")], id="quotes"),
        pytest.param('echo "$(git log; ls)" $(a | b)', [("echo", "$(git log; ls)", "$(a | b)")], id="substitutions"),
        pytest.param("a > out 2>&1 < in", [("a",)], id="redirections"),
        pytest.param("cat <<'EOF' > x\nrm -rf /\nEOF\nls", [("cat",), ("ls",)], id="here-document"),
        pytest.param("cat <<< word", [("cat",)], id="here-string"),
        pytest.param("a # b && c\nd", [("a",), ("d",)], id="comment"),
        pytest.param("a \\\n  b", [("a", "b")], id="continued line"),
        pytest.param("(cd x && y)", [("cd", "x"), ("y",)], id="subshell"),
        pytest.param("echo 'never closed", [("echo", "never closed")], id="open quote"),
        pytest.param("", [], id="nothing"),
    ),
)
def test_a_line_is_read_as_a_shell_would(line: str, expected: list[tuple[str, ...]]) -> None:
    assert commands(line) == expected


@given(st.text(alphabet="ab \t\n'\"\\$()<>|&;#12-", max_size=60))
def test_any_line_is_read_to_its_end(line: str) -> None:
    shell.parse(line)
    shell.brief(line)
    for words in commands(line):
        shell.tests(words)
        shell.writes(words)
        shell.reads(words)
        shell.is_commit(words)


@pytest.mark.parametrize(
    ("line", "files"),
    (
        pytest.param("sed -i s/a/b/ x.py", ("x.py",), id="sed"),
        pytest.param("sed -i -e s/a/b/ -e s/c/d/ x.py y.py", None, id="sed with several scripts"),
        pytest.param("perl -pi -e s/a/b/ x.py", ("x.py",), id="perl"),
        pytest.param("cp a.py b.py", ("b.py",), id="cp"),
        pytest.param("mv a.py b.py", ("a.py", "b.py"), id="mv"),
        pytest.param("git mv a.py b.py", ("a.py", "b.py"), id="git mv"),
        pytest.param("rm -rf build", ("build",), id="rm"),
        pytest.param("touch a.py", ("a.py",), id="touch"),
        pytest.param("tee a.txt", ("a.txt",), id="tee"),
        pytest.param("sudo rm a.py", ("a.py",), id="behind another program"),
        pytest.param("rm *.pyc", (), id="a pattern names no file"),
        pytest.param("sed -n 1,5p x.py", (), id="sed that prints"),
        pytest.param("ls x.py", (), id="only looks"),
    ),
)
def test_what_a_command_may_change(line: str, files: tuple[str, ...] | None) -> None:
    found = shell.writes(commands(line)[0])

    assert found == files if files is not None else {"x.py", "y.py"} <= set(found)


@pytest.mark.parametrize(
    ("line", "files"),
    (
        ("cat a.py b.py", ("a.py", "b.py")),
        ("head -20 a.py", ("a.py",)),
        ("tail -n 5 a.py", ("a.py",)),
        ("sed -n 1,40p a.py", ("a.py",)),
        ("nl -ba a.py", ("a.py",)),
        ("cat", ()),
        ("cat -", ()),
        ("cat $FILE", ()),
    ),
)
def test_what_a_command_prints(line: str, files: tuple[str, ...]) -> None:
    assert shell.reads(commands(line)[0]) == files


TESTING = (
    "pytest", "python -m pytest -q", "python3.12 -m pytest", "uv run pytest", "poetry run pytest -k x", "tox -e py312", "python -m unittest",
    "coverage run -m pytest", "python -m coverage run -m pytest", "python -m poetry run pytest", "python manage.py test app", "npm test", "npm run test:unit", "npm t", "yarn test", "pnpm test", "yarn jest",
    "bun test", "npx jest a.test.js", "npx vitest run", "node --test", "go test ./...", "cargo test", "cargo nextest run", "mix test",
    "dotnet test", "mvn -q test", "./gradlew test", "gradle :app:test", "make test", "make check", "just test", "bundle exec rspec", "rake test",
    "rails test", "phpunit", "vendor/bin/phpunit", "swift test", "flutter test", "deno test", "zig build test", "ctest", "bats tests",
    "./run_tests.sh", "bash scripts/test.sh", "scripts/test", "CI=1 timeout 60 pytest -x", "FOO=bar npm test",
)  # fmt: skip
NOT_TESTING = (
    "pip install pytest", "npm install", "cargo build", "cargo check", "go build ./...", "make", "git commit -m test", "echo test", "cat test.py",
    "ls tests", "vim tests/test_a.py", "grep -r test .", "python app.py", "node app.js", "docker run test", "npm run build", "test -f x", "which pytest",
)  # fmt: skip


@pytest.mark.parametrize("line", TESTING)
def test_a_command_that_runs_tests_is_known(line: str) -> None:
    assert outcome.ran_tests(shell.parse(line))


@pytest.mark.parametrize("line", NOT_TESTING)
def test_another_command_runs_no_tests(line: str) -> None:
    assert not outcome.ran_tests(shell.parse(line))


@pytest.mark.parametrize(
    ("text", "failed", "passed"),
    (
        ("4 passed in 0.1s", False, True),
        ("1 failed, 3 passed in 0.1s", True, False),
        ("2 errors in 0.1s", True, False),
        ("3 passed, 1 xfailed", False, True),
        ("no tests ran in 0.01s", False, False),
        ("OK", False, True),
        ("Ran 3 tests in 0.1s\n\nOK", False, True),
        ("FAILED (failures=1)", True, False),
        ("Tests:       4 passed, 4 total", False, True),
        ("Tests:       1 failed, 3 passed, 4 total", True, False),
        ("# pass 4\n# fail 0", False, True),
        ("# pass 3\n# fail 1", True, False),
        ("\u2139 pass 4\n\u2139 fail 0", False, True),
        ("\u2139 pass 3\n\u2139 fail 1", True, False),
        ("ok  \tpkg\t0.1s", False, True),
        ("--- FAIL: TestX", True, False),
        ("test result: ok. 4 passed; 0 failed; 0 ignored", False, True),
        ("test result: FAILED. 3 passed; 1 failed; 0 ignored", True, False),
        ("Tests run: 4, Failures: 0, Errors: 0, Skipped: 0", False, True),
        ("Tests run: 4, Failures: 1, Errors: 0, Skipped: 0", True, False),
        ("4 examples, 0 failures", False, True),
        ("4 examples, 1 failure", True, False),
        ("Passed!  - Failed:     0, Passed:     4", False, True),
        ("Failed!  - Failed:     1, Passed:     3", True, False),
        ("4 passing (10ms)\n1 failing", True, False),
        ("\x1b[32m4 passed\x1b[0m", False, True),
        ("100% tests passed, 0 tests failed out of 4", False, True),
        ("75% tests passed, 1 tests failed out of 4", True, False),
        ("Tests: 4, Assertions: 4, Failures: 1.", True, False),
        ("OK (4 tests, 4 assertions)", False, True),
        ("4 tests completed, 1 failed", True, False),
        ("4 runs, 4 assertions, 1 failures, 0 errors, 0 skips", True, False),
        ("Executed 4 tests, with 1 failure (0 unexpected) in 0.1 seconds", True, False),
        ("ok | 4 passed | 0 failed (10ms)", False, True),
        ("FAILED | 3 passed | 1 failed (10ms)", True, False),
        ("3 successes / 1 failure / 0 errors / 0 pending", True, False),
        ("", False, False),
        ("nothing to say", False, False),
    ),
)
def test_what_a_run_of_tests_says(text: str, *, failed: bool, passed: bool) -> None:
    found = outcome.verdict(text)

    assert (found.failed, found.passed) == (failed, passed)


@pytest.mark.parametrize(
    ("text", "expected"),
    (
        ("Traceback (most recent call last):\n  File \"a.py\", line 1\n    x()\nKeyError: 'name'", "KeyError: 'name'"),
        ("Exit code 127\nbash: foo: command not found", "bash: foo: command not found"),
        ("Exit code 3", "Exit code 3"),
        ("", "failed without a message"),
        ("error[E0308]: mismatched types\n --> src/a.rs:1:1\n  |", "error[E0308]: mismatched types"),
        ("fatal: not a git repository", "fatal: not a git repository"),
        (
            "===== FAILURES =====\nFAILED t.py::test_a - assert 1\nFAILED t.py::test_b - assert 2",
            "FAILED t.py::test_a - assert 1; FAILED t.py::test_b - assert 2",
        ),
    ),
)
def test_the_line_that_says_what_failed_is_found(text: str, expected: str) -> None:
    assert outcome.message(text) == expected


def test_a_message_is_bounded_whatever_the_output() -> None:
    assert len(outcome.message("error: " + "x" * 10_000_000)) <= outcome.MESSAGE
    assert len(outcome.message("\n".join(f"error {number}" for number in range(100_000)))) <= outcome.MESSAGE
