"""Reading a shell command line: what it runs, which files it reads or may change, whether it runs tests or commits."""

from __future__ import annotations

from vault_mem.record import NamedTuple

BOUND = 6000  # characters of a command line that are looked at
OPERATORS = ("&&", "||", ";;", "|&", ";", "|", "&", "\n")
BLANK = " \t"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


class Pipeline(NamedTuple):
    """Commands joined by pipes. after: the operator that follows. writes: targets of redirections."""

    commands: tuple[tuple[str, ...], ...]
    texts: tuple[str, ...]
    writes: tuple[str, ...]
    after: str


class _Reader:
    """One pass over the characters; quotes, escapes, substitutions, redirections and here-documents are understood."""

    def __init__(self, line: str) -> None:
        self.line = line[:BOUND]
        self.at = 0
        self.pipelines: list[Pipeline] = []
        self.commands: list[tuple[str, ...]] = []
        self.texts: list[str] = []
        self.writes: list[str] = []
        self.words: list[str] = []
        self.sources: list[str] = []
        self.documents: list[str] = []  # delimiters of here-documents that begin after this line

    def read(self) -> tuple[Pipeline, ...]:
        line = self.line
        while self.at < len(line):
            char = line[self.at]
            if char in BLANK or (char == "\\" and line[self.at + 1 : self.at + 2] == "\n"):
                self.at += 1 if char in BLANK else 2
            elif char == "#" and (self.at == 0 or line[self.at - 1] in " \t\n;"):
                end = line.find("\n", self.at)
                self.at = len(line) if end < 0 else end
            elif char in "<>" or (char in "12&" and line[self.at + 1 : self.at + 2] == ">"):
                self._redirection()
            elif char in "()":
                self.at += 1
            else:
                operator = next((item for item in OPERATORS if line.startswith(item, self.at)), "")
                if operator:
                    self._operator(operator)
                else:
                    start = self.at
                    self.words.append(self._word())
                    self.sources.append(line[start : self.at])
        self._close_pipeline("")
        return tuple(self.pipelines)

    def _operator(self, operator: str) -> None:
        self.at += len(operator)
        if operator in ("|", "|&"):
            self._close_command()
            return
        if operator == "\n":
            self._skip_documents()
        self._close_pipeline(operator)

    def _close_command(self) -> None:
        if self.words:
            self.commands.append(tuple(self.words))
            self.texts.append(" ".join(self.sources))
        self.words, self.sources = [], []

    def _close_pipeline(self, operator: str) -> None:
        self._close_command()
        if self.commands:
            self.pipelines.append(Pipeline(tuple(self.commands), tuple(self.texts), tuple(self.writes), operator))
        elif self.pipelines and operator not in ("\n", ";"):
            self.pipelines[-1] = self.pipelines[-1]._replace(after=operator)
        self.commands, self.texts, self.writes = [], [], []

    def _redirection(self) -> None:
        line = self.line
        while self.at < len(line) and line[self.at] in "12&":
            self.at += 1
        start = self.at
        while self.at < len(line) and line[self.at] in "<>&|-":
            self.at += 1
        operator = line[start : self.at]
        while self.at < len(line) and line[self.at] in BLANK:
            self.at += 1
        target = self._word()
        if operator.startswith("<<") and not operator.startswith("<<<"):
            self.documents.append(target)
        elif operator.startswith(">") and not operator.endswith("&"):
            self.writes.append(target)

    def _skip_documents(self) -> None:
        for delimiter in self.documents:
            while self.at < len(self.line):
                end = self.line.find("\n", self.at)
                end = len(self.line) if end < 0 else end
                text = self.line[self.at : end].strip()
                self.at = end + 1
                if text == delimiter:
                    break
        self.documents = []

    def _word(self) -> str:
        line, kept = self.line, []
        while self.at < len(line):
            char = line[self.at]
            if char in " \t\n;|&<>()":
                break
            if char == "\\":
                kept.append(line[self.at + 1 : self.at + 2])
                self.at += 2
            elif char == "'":
                end = line.find("'", self.at + 1)
                end = len(line) if end < 0 else end
                kept.append(line[self.at + 1 : end])
                self.at = end + 1
            elif char == '"':
                kept.append(self._quoted())
            elif line.startswith("$(", self.at):
                start = self.at
                self._substitution()
                kept.append(line[start : self.at])
            else:
                kept.append(char)
                self.at += 1
        return "".join(kept)

    def _quoted(self) -> str:
        line, kept = self.line, []
        self.at += 1
        while self.at < len(line) and line[self.at] != '"':
            if line[self.at] == "\\" and line[self.at + 1 : self.at + 2] in ('"', "\\", "$", "`"):
                kept.append(line[self.at + 1])
                self.at += 2
            elif line.startswith("$(", self.at):
                start = self.at
                self._substitution()
                kept.append(line[start : self.at])
            else:
                kept.append(line[self.at])
                self.at += 1
        self.at += 1
        return "".join(kept)

    def _substitution(self) -> None:
        """Over `$( … )`, whatever stands inside."""
        depth = 0
        while self.at < len(self.line):
            char = self.line[self.at]
            depth += (char == "(") - (char == ")")
            self.at += 1
            if char == ")" and depth == 0:
                return


def parse(line: str) -> tuple[Pipeline, ...]:
    """The pipelines of a command line, in order; a line that is cut or wrong gives what can be read of it."""
    return _Reader(line).read()


def brief(line: str) -> str:
    """A command line on one line: as it is, or without its here-documents when it has several lines."""
    line = line.strip()
    if "\n" not in line:
        return line
    pipelines = parse(line)
    parts = []
    for pipeline in pipelines:
        parts.append(" | ".join(pipeline.texts) + "".join(f" > {target}" for target in pipeline.writes))
        parts.append({"\n": "; ", ";": "; ", "": ""}.get(pipeline.after, f" {pipeline.after} "))
    return " ".join("".join(parts).split()).removesuffix(";") or " ".join(line.split())


def proven(pipelines: tuple[Pipeline, ...]) -> tuple[Pipeline, ...]:
    """Those whose success follows from exit code 0 of the whole line: the last one and what `&&` joins to it."""
    found: list[Pipeline] = []
    for pipeline in reversed(pipelines):
        if found and pipeline.after != "&&":
            break
        found.append(pipeline)
    # `a || true` succeeds whatever a did.
    if len(pipelines) > 1 and pipelines[-len(found) - 1 : -len(found)] and pipelines[-len(found) - 1].after == "||":
        found.pop()
    return tuple(reversed(found))


# Commands in front of the one that is meant, with how many words they take besides their flags.
WRAPPERS = {
    "time": 0,
    "nice": 0,
    "nohup": 0,
    "sudo": 0,
    "command": 0,
    "exec": 0,
    "env": 0,
    "xvfb-run": 0,
    "timeout": 1,
    "npx": 0,
}
WRAPPERS |= {"bunx": 0, "stdbuf": 0, "caffeinate": 0, "pnpx": 0}
RUNNERS = {
    "uv",
    "poetry",
    "pipenv",
    "hatch",
    "rye",
    "pdm",
    "conda",
    "mise",
    "nox-run",
    "direnv",
    "dotenv",
    "doppler",
    "op",
    "coverage",
}


def _base(word: str) -> str:
    return word.replace("\\", "/").rpartition("/")[2]


def _is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.replace("_", "a").isalnum() and not name[:1].isdigit()


def unwrapped(words: tuple[str, ...]) -> tuple[str, ...]:
    """*words* without assignments and without the programs that only start another one."""
    while words:
        base = _base(words[0])
        if _is_assignment(words[0]):
            words = words[1:]
        elif base in WRAPPERS and len(words) > 1:
            skip = WRAPPERS[base]
            words = words[1:]
            while words and (words[0].startswith("-") or _is_assignment(words[0])):
                words = words[1:]
            words = words[skip:]
        elif (base in RUNNERS or base in ("bundle", "pnpm", "yarn")) and len(words) > 2 and words[1] in ("run", "exec"):
            if base in ("pnpm", "yarn") and words[1] == "run":
                break
            words = words[2:]
            while words and words[0].startswith("-"):
                words = words[1:]
        else:
            break
    return words


TESTERS = _words(
    """
    pytest py.test jest vitest mocha ava rspec phpunit tox nox ctest bats prove nose2 nosetests gotestsum tap tape jasmine karma playwright
    pest behat trial stestr green ward cucumber minitest busted shellspec zunit testthat ginkgo hspec
    """
)
PACKAGERS = frozenset(("npm", "pnpm", "yarn", "bun"))
BUILDERS = _words(
    """
    go cargo mix swift dotnet flutter dart deno zig sbt lein stack cabal bazel bazelisk gradle gradlew mvn mvnw make gmake just task rake
    rails ninja meson composer ant invoke inv dune crystal nimble rebar3 buck buck2 pants nx turbo lerna moon artisan
    """
)
TEST_WORDS = frozenset(("test", "tests", "check", "verify", "nextest", "unittest", "citest"))
PYTHONS = ("python", "python2", "python3", "py", "pypy", "pypy3")
SHELLS = ("bash", "sh", "zsh", "dash", "node", "ruby", "perl", "php", "deno", "bun", "tsx", "ts-node")


class Tests(NamedTuple):
    """A command that runs tests. runner: what runs them. picked: the arguments that pick some of them."""

    runner: str
    picked: tuple[str, ...]


def _picks(words: tuple[str, ...], *, drop: int = 0) -> tuple[str, ...]:
    picked, picks = [], False
    for word in words:
        if picks:
            picked.append("=" + word)
            picks = False
        elif word in ("-k", "-m", "-t", "-run", "--grep", "-g", "--filter", "--testNamePattern", "-run="):
            picks = True
        elif not word.startswith("-") and not word.isdigit():
            picked.append(word)
    return tuple(picked[drop:])


def _is_test_script(word: str) -> bool:
    name = _base(word).casefold()
    stem, dot, suffix = name.rpartition(".")
    stem = stem if dot else suffix
    pieces = stem.replace("-", "_").replace(".", "_").split("_")
    return ("/" in word or bool(dot)) and ("test" in pieces or "tests" in pieces or stem in ("runtests", "testall"))


def tests(words: tuple[str, ...]) -> Tests | None:
    """What a simple command tests; None when it runs no tests."""
    words = unwrapped(words)
    if not words:
        return None
    base = _base(words[0])
    base = base.removesuffix(".exe").removesuffix(".cmd")
    if any(base == name or (base.startswith(name + ".") and base[len(name) + 1 :].isdigit()) for name in PYTHONS):
        return _python_tests(words)
    if base in TESTERS:
        if base == "playwright" and "test" not in words:
            return None
        return Tests(base, _picks(words[1:]))
    arguments = tuple(word for word in words[1:] if not word.startswith("-"))
    if base in PACKAGERS and arguments:
        name = arguments[1] if arguments[0] in ("run", "run-script") and len(arguments) > 1 else arguments[0]
        if name == "t" or name.partition(":")[0] in ("test", "tests") or name.startswith("test-"):
            return Tests(f"{base} {name}", arguments[arguments.index(name) + 1 :])
        return tests(arguments) if base in ("yarn", "pnpm", "bun") and arguments[0] in TESTERS else None
    if base in BUILDERS:
        for index, word in enumerate(arguments):
            if (
                word in TEST_WORDS
                or word.rpartition(":")[2] in TEST_WORDS
                or word.startswith(("test:", "test-", "test_"))
            ):
                if word == "check" and base in ("cargo", "deno", "bun", "mix"):
                    return None  # a compiler run
                return Tests(f"{base} {word}", arguments[index + 1 :])
        return None
    if base in SHELLS:
        if base == "node" and "--test" in words:
            return Tests("node --test", arguments)
        return Tests(_base(arguments[0]), arguments[1:]) if arguments and _is_test_script(arguments[0]) else None
    return Tests(base, arguments) if _is_test_script(words[0]) else None


def _python_tests(words: tuple[str, ...]) -> Tests | None:
    for index, word in enumerate(words[1:], 1):
        if word == "-m" and index + 1 < len(words):
            module = words[index + 1]
            if module in TESTERS or module == "unittest":
                return Tests(module, _picks(words[index + 2 :]))
            return tests(words[index + 1 :]) if module in ("coverage", "pipenv", "poetry", "uv") else None
        if word == "-c":
            return None
        if not word.startswith("-"):
            if _base(word) in ("manage.py", "setup.py"):
                return (
                    Tests(_base(word), _picks(words[index + 2 :])) if "test" in words[index + 1 : index + 2] else None
                )
            return Tests(_base(word), words[index + 1 :]) if _is_test_script(word) else None
    return None


def covers(passed: Tests, failed: Tests) -> bool:
    """Whether success of *passed* says that what *failed* names succeeds as well."""
    if passed.runner != failed.runner:
        return False
    if not passed.picked:
        return True
    return bool(failed.picked) and all(
        any(name == wide or name.startswith((wide.rstrip("/") + "/", wide + "::")) for wide in passed.picked)
        for name in failed.picked
    )


READERS = frozenset(("cat", "head", "tail", "less", "more", "bat", "batcat", "nl", "view", "zcat"))
HARMLESS = frozenset(("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "-", ""))


def _names_file(word: str) -> bool:
    return (
        word not in HARMLESS
        and not word.startswith(("-", "$", "&"))
        and not word.replace(",", "").isdigit()
        and not any(char in word for char in "*?[]{}$`\n")
    )


def _arguments(words: tuple[str, ...]) -> list[str]:
    return [word for word in words[1:] if not word.startswith("-")]


def reads(words: tuple[str, ...]) -> tuple[str, ...]:
    """The files that a simple command prints."""
    words = unwrapped(words)
    base = _base(words[0]) if words else ""
    if base in READERS:
        return tuple(word for word in _arguments(words) if _names_file(word))
    if base == "sed" and not any(word.startswith("-i") or word == "--in-place" for word in words):
        return tuple(word for word in _arguments(words)[1:] if _names_file(word))
    return ()


def writes(words: tuple[str, ...]) -> tuple[str, ...]:
    """The files that a simple command changes, moves or removes, as far as its words tell."""
    words = unwrapped(words)
    base = _base(words[0]) if words else ""
    arguments = _arguments(words)
    if base == "git" and arguments and arguments[0] in ("mv", "rm"):
        base, arguments = arguments[0], arguments[1:]
    if base in ("sed", "perl") and any(word.startswith("-i") or word in ("--in-place", "-pi") for word in words):
        scripts = any(word in ("-e", "-pe", "-pie") for word in words)
        arguments = arguments if scripts and base == "sed" and "-e" not in words else arguments[1:]
    elif base in ("cp", "install", "ln") and len(arguments) > 1:
        arguments = arguments[-1:]
    elif base not in ("tee", "mv", "rm", "touch", "truncate", "unlink", "patch"):
        return ()
    return tuple(word for word in arguments if _names_file(word))


def is_commit(words: tuple[str, ...]) -> tuple[str, str] | None:
    """For a `git commit`: the directory it names with -C and the subject that its words give; None for anything else."""
    words = unwrapped(words)
    if not words or _base(words[0]) != "git":
        return None
    where, index = "", 1
    while index < len(words) and words[index].startswith("-"):
        if words[index] in ("-C", "-c") and index + 1 < len(words):
            where = words[index + 1] if words[index] == "-C" else where
            index += 1
        index += 1
    if index >= len(words) or words[index] != "commit":
        return None
    message = ""
    for place, word in enumerate(words[index + 1 :], index + 1):
        if word.startswith("--message="):
            message = word.partition("=")[2]
        elif (
            word == "--message" or (word.startswith("-") and word[1:2] != "-" and word.endswith("m"))
        ) and place + 1 < len(words):
            message = words[place + 1]
        if message:
            break
    if message.startswith("$(cat <<"):
        message = message.partition("\n")[2]
    return where, message.strip().partition("\n")[0].strip()


FILTERS = frozenset(
    (
        "head",
        "tail",
        "grep",
        "egrep",
        "rg",
        "less",
        "cat",
        "wc",
        "sed",
        "awk",
        "sort",
        "uniq",
        "tee",
        "column",
        "cut",
        "tr",
    )
)
TRIVIAL = ("cd", "echo", "printf", "pwd", "true", "set", "export", "source", ".", "sleep", "pushd", "popd")
QUIET_FAILURES = frozenset(
    ("grep", "egrep", "fgrep", "rg", "ag", "diff", "cmp", "test", "[", "[[", "pgrep", "which", "type", "command")
)


def meaning(pipeline: Pipeline) -> tuple[str, ...]:
    """The words that make two runs the same run: without flags, wrappers and what only shortens the output."""
    kept: list[str] = []
    for index, written in enumerate(pipeline.commands):
        words = unwrapped(written)
        base = _base(words[0]) if words else ""
        if index and base in FILTERS:
            break
        kept.extend(("|",) if kept else ())
        kept.extend("python" if word in PYTHONS else word for word in words if word == "-" or not word.startswith("-"))
    return tuple(kept)


def is_trivial(pipeline: Pipeline) -> bool:
    """Whether a pipeline only moves about or prints."""
    words = unwrapped(pipeline.commands[0])
    return not words or (_base(words[0]) in TRIVIAL and len(pipeline.commands) == 1)


def only_says_no(pipelines: tuple[Pipeline, ...]) -> bool:
    """Whether exit code 1 of the line is an answer (no match, a difference) and no failure."""
    words = unwrapped(pipelines[-1].commands[-1]) if pipelines else ()
    if words[:1] == ("git",) and len(words) > 1:
        return words[1] in ("diff", "grep")
    return bool(words) and _base(words[0]) in QUIET_FAILURES
