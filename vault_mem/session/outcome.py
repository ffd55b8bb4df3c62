"""What a tool's output says: the lines that name a failure, whether tests passed, what was committed."""

from __future__ import annotations

from vault_mem.record import NamedTuple
from vault_mem.session import shell

HEAD, TAIL = 6000, 24000  # characters of an output that are looked at, from its two ends
MESSAGE = 150  # characters of a message in a bullet

BOILERPLATE = (
    "exit code ",
    "traceback (most recent call last)",
    "wall time:",
    "chunk id:",
    "original token count",
    "process exited",
    "output:",
)
FAILED_TEST = (
    "FAILED ",
    "FAIL ",
    "FAIL: ",
    "FAIL\t",
    "ERROR ",
    "ERROR: ",
    "--- FAIL",
    "not ok ",
    "✕ ",
    "✗ ",
    "\u00d7 ",
    "✖ ",
    "● ",
    "[FAIL]",
    "test result: FAILED",
)
ERROR_WORDS = (
    "error",
    "exception",
    "fatal",
    "panic",
    "no module named",
    "not found",
    "no such file",
    "cannot ",
    "can't ",
    "denied",
    "failed",
    "undefined",
    "unexpected",
    "invalid",
    "missing",
    "refused",
    "unable",
    "timed out",
)


def bounded(text: str) -> str:
    """The beginning and the end of a long output."""
    return text if len(text) <= HEAD + TAIL else text[:HEAD] + "\n" + text[-TAIL:]


def _plain(line: str) -> str:
    """*line* without terminal colours, its ends trimmed."""
    while "\x1b[" in line:
        start = line.index("\x1b[")
        end = start + 2
        while end < len(line) and not line[end].isalpha():
            end += 1
        line = line[:start] + line[end + 1 :]
    return line.strip()


def _lines(text: str) -> list[str]:
    return [line for line in map(_plain, bounded(text).split("\n")) if line]


def _is_rule(line: str) -> bool:
    """Whether a line is a ruler, a frame of a traceback or a pointer below one."""
    marks = sum(char in "=-_~^*#.│|+─━ " for char in line)
    return (
        marks == len(line)
        or line.startswith(('File "', "at ", "^", "~", "|"))
        or (marks > 20 and line[0] in "=-_" and line[-1] in "=-_")
    )


def _names_exception(line: str) -> bool:
    head = line.partition(":")[0].partition("(")[0]
    name = head.removeprefix("Uncaught ").rpartition(".")[2]
    return (
        bool(name)
        and name.isidentifier()
        and name.endswith(("Error", "Exception", "Warning", "Exit", "Interrupt", "Failure"))
    )


def _rank(line: str) -> int:
    """How much a line says about what failed: 0 most."""
    if line.startswith(FAILED_TEST) or line.endswith((" ... FAILED", " ... FAIL", " ... ERROR")):
        return 0
    if _names_exception(line):
        return 1
    lower = line.casefold()
    if (
        lower.startswith(("error", "fatal", "panic", "e   "))
        or ": error" in lower
        or "error:" in lower
        or "error[" in lower
    ):
        return 1
    if any(word in lower for word in ERROR_WORDS) or _judge(line)[0]:
        return 2
    return 3


def message(text: str) -> str:
    """The lines of a failed tool's output that say what failed, in at most MESSAGE characters."""
    lines = [line for line in _lines(text) if not line.casefold().startswith(BOILERPLATE) and not _is_rule(line)]
    if not lines:
        rest = _lines(text)
        return rest[0][:MESSAGE] if rest else "failed without a message"
    best = min(map(_rank, lines))
    if best == 3:
        return _joined([lines[0], lines[-1]] if len(lines) > 1 else lines)
    chosen = [line for line in lines if _rank(line) == best]
    # The last line of a traceback is the exception, the first of a list of failures is where to begin.
    if best == 1 and _names_exception(chosen[-1]):
        chosen = [chosen[-1]]
    return _joined(chosen)


def _joined(lines: list[str]) -> str:
    """First and last of *lines*, and what fits between them."""
    unique = list(dict.fromkeys(lines))
    if len(unique) == 1:
        return unique[0][:MESSAGE]
    first, last = unique[0][: MESSAGE // 2], unique[-1][: MESSAGE // 2]
    room = MESSAGE - len(first) - len(last) - 4
    between = []
    for line in unique[1:-1]:
        if len(line) + 2 > room:
            break
        between.append(line)
        room -= len(line) + 2
    return "; ".join((first, *between, last))


class Verdict(NamedTuple):
    """What an output says about the tests in it. summary: the line that says so."""

    failed: bool
    passed: bool
    summary: str


def _count_before(words: list[str], index: int) -> int:
    digits = words[index - 1].strip("([{,;:") if index else ""
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 7 else -1


NODE_MARKS = ("#", "\u2139")  # what `node --test` puts before its counts
BAD_WORDS = ("failed", "failures", "failure", "failing", "errors", "error", "broken")
GOOD_WORDS = ("passed", "passing", "pass", "successes", "ok", "tests", "examples", "assertions", "succeeded")


def _judge(line: str) -> tuple[bool, bool]:
    """Whether a line of a test run says that something failed, and whether it says that something passed."""
    if line.startswith(("FAILED", "FAIL", "--- FAIL", "not ok ", "✕ ", "✗ ", "✖ ", "test result: FAILED")):
        return True, False
    words = line.replace("=", " ").split()
    if len(words) == 3 and words[0] in NODE_MARKS and words[2].isdigit():
        return words[1] == "fail" and words[2] != "0", words[1] == "pass" and words[2] != "0"
    failed = passed = False
    for index, word in enumerate(words):
        bare = word.strip(".,;:()[]{}!").casefold()
        # "1 failed" and "1 tests failed"
        count = _count_before(words, index - (index > 1 and words[index - 1] in ("test", "tests")))
        follows = words[index + 1].strip(".,;:()") if index + 1 < len(words) else ""
        if bare in BAD_WORDS:
            if word.endswith((":", "=")) and follows.isdigit():
                count = int(follows)
            failed = failed or count > 0
            passed = passed or count == 0
        elif bare in GOOD_WORDS and count > 0:
            passed = True
    if line in ("OK", "PASS") or line.startswith(
        ("OK (", "ok ", "ok\t", "PASS", "test result: ok", "All tests passed", "BUILD SUCCESS")
    ):
        passed = True
    return failed, passed and not failed


def verdict(text: str) -> Verdict:
    """What the output of a test command says; neither failed nor passed when nothing in it is recognised."""
    failed = passed = False
    summary = ""
    for line in _lines(text):
        bad, good = _judge(line)
        failed, passed = failed or bad, passed or good
        if bad or good:
            summary = line
    return Verdict(failed, passed and not failed, summary.strip("= ")[:80])


def last_line(text: str) -> str:
    """The last line of an output that is no ruler, short."""
    for line in reversed(_lines(text)):
        if not _is_rule(line):
            return line.strip("= ")[:80]
    return ""


class Commit(NamedTuple):
    """A commit that a command made: short hash (may be empty) and subject."""

    hash: str
    subject: str


def _is_hash(word: str) -> bool:
    return 7 <= len(word) <= 40 and all(char in "0123456789abcdef" for char in word)


def _announced(line: str) -> Commit | None:
    """The commit that git announces as `[branch hash] subject`."""
    head, closed, subject = line.partition("] ")
    words = head[1:].replace("(root-commit)", " ").split()
    if line.startswith("[") and closed and len(words) >= 2 and _is_hash(words[-1]):
        return Commit(words[-1], subject.strip())
    return None


def commits(output: str, subjects: tuple[str, ...]) -> tuple[Commit, ...]:
    """The commits that a successful command line with `git commit` made; *subjects* are those its words give."""
    lines = _lines(output)
    found = [commit for commit in map(_announced, lines) if commit]
    if found:
        return tuple(found)
    # `git commit -q` says nothing: the subject is in the command, the hash may follow in a log.
    named = []
    for subject in subjects:
        logged = next((line.split()[0] for line in lines if line.endswith(subject) and _is_hash(line.split()[0])), "")
        named.append(Commit(logged[:12], subject))
    return tuple(named)


def ran_tests(pipelines: tuple[shell.Pipeline, ...]) -> tuple[tuple[str, shell.Tests], ...]:
    """The test commands of a line: how each is written, and what it tests."""
    found = []
    for pipeline in pipelines:
        for words, text in zip(pipeline.commands, pipeline.texts, strict=True):
            tested = shell.tests(words)
            if tested is not None:
                found.append((_without_assignments(text, words), tested))
                break
    return tuple(found)


def is_filtered(pipelines: tuple[shell.Pipeline, ...]) -> bool:
    """Whether a test command's output goes through a pipe, so that the exit code is not its own."""
    return any(len(pipeline.commands) > 1 and shell.tests(pipeline.commands[0]) for pipeline in pipelines)


def _without_assignments(text: str, words: tuple[str, ...]) -> str:
    for word in words:
        name, equals, _ = word.partition("=")
        if not equals or not name.replace("_", "a").isalnum() or name[:1].isdigit():
            break
        text = text.partition(" ")[2].lstrip() if " " in text else text
    return text
