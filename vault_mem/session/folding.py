"""One pass over turns: evidence in, evidence and bullets out. Use it through `distil`."""

from __future__ import annotations

from zlib import crc32

from vault_mem.capsule import text as texts
from vault_mem.capsule.model import Bullet
from vault_mem.session import evidence as state
from vault_mem.session import nods, outcome, places, shell, turns
from vault_mem.session.evidence import Claim, Evidence, Failing, Question, Refusal, Slip, Todo, Use
from vault_mem.session.turns import OPERATOR, Turn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from vault_mem.session.outcome import Verdict
    from vault_mem.session.shell import Pipeline, Tests

REFUSED, INTERRUPTED, PLAN = "REFUSED", "INTERRUPTED", "PLAN"
TEXT = 4000  # characters of a text that are kept before it is cut for its place
TARGET = 110  # characters of a command or path in a bullet that says more
SAID = 800  # characters of an answer that are looked at
WORDS = 32  # words of a command that tell it from another one
STATE = 120  # characters of what became of a bullet
KEPT = {
    "todos": 60,
    "uses": 48,
    "slips": 24,
    "failing": 8,
    "questions": 8,
    "claims": 24,
    "refusals": 6,
    "changed": 160,
    "seen": 96,
}
BULLETS = 120  # of one section and one pass; the capsule keeps 40


def _beginning(text: str) -> str:
    """What a bullet shows of *text*: the client may count the blanks between its pieces differently."""
    text = texts.cut(text)
    place = texts.omission(text)
    return text if place < 0 else text[:place]


class Folding:
    """The evidence being changed, and the bullets so far."""

    def __init__(
        self,
        evidence: Evidence,
        *,
        project: str,
        redact: Callable[[str], str] | None = None,
        quiet_until: float = 0.0,
        undated: float = 0.0,
    ) -> None:
        self.was_open = state.open_items(evidence)
        self.project = project
        self.redact = redact
        self.quiet_until = quiet_until
        self.bullets: dict[str, dict[tuple[str, str], Bullet]] = {}
        self.reasons: dict[tuple[str, str, str], str] = {}
        self.newest, self.clock = evidence.newest, evidence.clock or undated
        self.cwd, self.branch = evidence.cwd, evidence.branch
        self.first, self.latest, self.asked = evidence.first, evidence.latest, evidence.asked
        self.turn = evidence.turn
        self.said, self.said_ref, self.said_at = evidence.said, evidence.said_ref, evidence.said_at
        self.said_raw = False
        self.concluded, self.test, self.edited = evidence.concluded, evidence.test, evidence.edited
        self.halted = evidence.halted
        self.todos, self.slips, self.failing = list(evidence.todos), list(evidence.slips), list(evidence.failing)
        self.questions, self.claims = list(evidence.questions), list(evidence.claims)
        self.refusals = list(evidence.refusals)
        self.uses = {use.ref: use for use in evidence.uses}
        self.again, self.told = evidence.again, evidence.told
        self.changed, self.seen = dict.fromkeys(evidence.changed), dict.fromkeys(evidence.seen)

    def finished(self) -> tuple[Evidence, tuple[Bullet, ...]]:
        """The evidence now, and the bullets of this pass in the order of their events."""
        self._cleaned()
        after = Evidence(
            newest=self.newest,
            clock=self.clock,
            cwd=self.cwd,
            branch=self.branch,
            first=self.first,
            latest=self.latest,
            asked=self.asked,
            turn=self.turn,
            said=self.said,
            said_ref=self.said_ref,
            said_at=self.said_at,
            concluded=self.concluded,
            test=self.test,
            edited=self.edited,
            halted=self.halted,
            todos=tuple(self.todos[-KEPT["todos"] :]),
            uses=tuple(self.uses.values())[-KEPT["uses"] :],
            slips=tuple(self.slips[-KEPT["slips"] :]),
            failing=tuple(self.failing[-KEPT["failing"] :]),
            questions=tuple(self.questions[-KEPT["questions"] :]),
            claims=tuple(self.claims[-KEPT["claims"] :]),
            refusals=tuple(self.refusals[-KEPT["refusals"] :]),
            changed=tuple(self.changed)[-KEPT["changed"] :],
            seen=tuple(self.seen)[-KEPT["seen"] :],
            again=self.again,
            told=self.told,
        )
        now_open = state.open_items(after)
        for (section, tag, text), at in now_open.items():
            if (section, tag, text) not in self.was_open:
                # With a state: the bullet may stand there closed, from an earlier time.
                self.tell(section, text, at, tag, "unresolved")
        for (section, tag, text), at in self.was_open.items():
            if (section, tag, text) not in now_open:
                self.tell(section, text, at, tag, f"closed: {self._reason(section, tag, text)}")
        return after, tuple(bullet for found in self.bullets.values() for bullet in found.values())

    def _reason(self, section: str, tag: str, text: str) -> str:
        if tag == state.TODO:
            status = next((todo.status for todo in self.todos if todo.text == text), "")
            return {turns.DONE: "completed", turns.DOING: "in progress", turns.PENDING: "pending again"}.get(
                status, "no longer on the list"
            )
        return texts.cut(self.reasons.get((section, tag, text), "done"), STATE)

    # telling

    def clean(self, text: str, limit: int = TEXT) -> str:
        """*text* on one line, without secrets, bounded."""
        text = text[: 2 * TEXT]
        if self.redact is not None:
            text = self.redact(text)
        return texts.fold(text)[:limit]

    def tell(self, section: str, text: str, at: float, tag: str = "", outcome: str = "") -> None:
        """Adds a bullet; one that is there already takes the new *outcome* and keeps its time."""
        if at <= self.quiet_until and self.clock <= self.quiet_until:
            return
        text = texts.cut(texts.fold(text))
        if not text:
            return
        found = self.bullets.setdefault(section, {})
        known = found.get((tag, text))
        if known is not None:
            if outcome:
                found[tag, text] = known._replace(state=outcome)
            return
        found[tag, text] = Bullet(section, at, text, tag, outcome)
        if len(found) > BULLETS:
            for key in list(found)[: BULLETS // 2]:
                del found[key]

    # turns

    def take(self, turn: Turn) -> None:
        """One turn, in the order of the transcript."""
        if turn.uuid:
            mark = crc32(turn.uuid.encode("utf-8", "replace"))
            if mark in self.seen:
                return
            self.seen[mark] = None
            if len(self.seen) > 2 * KEPT["seen"]:
                self.seen = dict.fromkeys(list(self.seen)[-KEPT["seen"] :])
        if turn.at is not None:
            self.clock = turn.at
            self.newest = max(self.newest, turn.at)
        self._place(turn)
        match turn.kind:
            case turns.PROMPT:
                self._prompt(turn)
            case turns.SAID:
                self._said(turn)
            case turns.USE:
                self._use(turn)
            case turns.RESULT:
                self._result(turn)
            case turns.INTERRUPT:
                self._interrupt()
            case turns.ENDED:
                self.conclude()
            case turns.COMPACTED:
                self._compacted(turn)

    def _place(self, turn: Turn) -> None:
        # Names are chosen by people, and some choose a branch or a folder with a key in it.
        if turn.cwd and turn.cwd != self.cwd and (cwd := self.clean(turn.cwd)) != self.cwd:
            self.cwd = cwd
            self.tell("facts", f"cwd: {cwd}", self.clock)
        if turn.branch and turn.branch != self.branch and (branch := self.clean(turn.branch)) != self.branch:
            self.branch = branch
            self.tell("facts", f"branch: {branch}", self.clock)

    def _prompt(self, turn: Turn) -> None:
        if turn.status != turns.MIDTURN and not (turn.ref and turn.ref == self.turn):
            self.conclude()
        self.turn = turn.ref
        text = self.clean(turn.text)
        if not text:
            return
        self.tell("done", text, self.clock, turn.tag)
        if turn.tag != OPERATOR:
            return
        for refusal in self.refusals:
            self.tell("rejected", refusal.text, refusal.at, refusal.tag, f"closed: {texts.cut(text, STATE)}")
        self.refusals.clear()
        for question in self.questions:
            self.reasons["gates", state.QUESTION, question.text] = text
        self.questions.clear()
        self.halted = False
        self.asked = texts.cut(text)
        if not nods.is_nod(text):
            self.latest = text[: state.REQUEST * 4]
            self.first = self.first or self.latest

    def _said(self, turn: Turn) -> None:
        if not turn.text.strip():
            return
        known = self._cleaned() if self.said and turn.ref and turn.ref == self.said_ref else ""
        if known:
            more = f" {self._shortened(turn.text)}" if texts.omission(known) < 0 else ""
            self.said, self.said_raw = f"{known}{more}", False
        else:
            # Cleaned when it turns out to be the last of its turn: most of what is said is not.
            self.said, self.said_raw = turn.text, True
        self.said_ref, self.said_at = turn.ref, self.clock
        self.halted = False

    def _last_said(self) -> str:
        """What was said last, clean; nothing when it is the conclusion already: the payload of a hook had it before the record came."""
        if self._cleaned() and _beginning(self.said) == _beginning(self.concluded):
            self.said = self.said_ref = ""
        return self.said

    def _cleaned(self) -> str:
        if self.said_raw:
            self.said, self.said_raw = self._shortened(self.said), False
        return self.said

    def _shortened(self, text: str) -> str:
        """What a bullet can show of *text*, clean; redacting the whole of every long answer would be most of the work."""
        text = text.strip()
        rest = len(text) - SAID
        text = self.clean(text[:SAID])
        if rest <= 0:
            return text
        kept = texts.boundary(text, texts.LIMIT) if len(text) > texts.LIMIT else len(text)
        return f"{text[:kept]}…[+{len(text) - kept + rest} chars]"

    def conclude(self) -> None:
        """The turn is over: the last thing said is its conclusion."""
        text = texts.cut(self._last_said())
        if text:
            self.concluded = text
            self.tell("done", text, self.said_at)
        self.said = self.said_ref = ""

    def close_with(self, text: str, at: float) -> None:
        """The turn is over, and the client says how it ended."""
        text = self._shortened(text)
        if text and _beginning(text) == _beginning(self.concluded):
            self.said = self.said_ref = ""
        elif text and text != self._last_said():
            self.said, self.said_at = text, at
        self.conclude()

    def _interrupt(self) -> None:
        self.conclude()
        if not self.halted and not self.questions:
            running = next((use for use in reversed(self.uses.values()) if not use.session), None)
            stopped = self._call(running) if running else self.asked
            self._stopped(INTERRUPTED, stopped or "the turn")
        self.halted = False
        self.uses = {ref: use for ref, use in self.uses.items() if use.session}

    def _stopped(self, tag: str, text: str, reason: str = "") -> None:
        text = texts.cut(f"{texts.cut(text, TARGET)}: {reason}" if reason else text)
        self.tell("rejected", text, self.clock, tag)
        if not reason:
            self.refusals.append(Refusal(tag, text, self.clock))

    def _compacted(self, turn: Turn) -> None:
        # Codex leaves the summary as an ordinary message before the row that says so.
        if self._last_said() and self.said[:200] in self.clean(turn.text):
            self.said = self.said_ref = ""

    # tools

    def _use(self, turn: Turn) -> None:
        self.said_ref = ""
        self.halted = False
        target = self.clean(turn.text) if turn.action != turns.SHELL else ""
        items = tuple(self.clean(item) for row in turn.items for item in row)
        if turn.action == turns.ASK:
            for question in items:
                text = texts.cut(question)
                if text:
                    self.questions.append(Question(turn.ref, text, self.clock))
        if turn.action == turns.TODOS:
            items = tuple(map(texts.cut, items))
        if turn.action == turns.SHELL:
            target = turn.text[:TEXT] if self.redact is None else self.redact(turn.text[: 2 * TEXT])[:TEXT]
        self.uses[turn.ref] = Use(turn.ref, turn.name, turn.action, target, items, turn.cwd or self.cwd, self.clock)
        if len(self.uses) > 2 * KEPT["uses"]:
            for ref in list(self.uses)[: KEPT["uses"]]:
                del self.uses[ref]

    def _set_todos(self, items: tuple[str, ...]) -> None:
        """The whole list as it is now: text and status in turn."""
        before = {todo.text: todo for todo in self.todos}
        after = []
        for text, status in zip(items[::2], items[1::2], strict=False):
            known = before.get(text)
            if status == turns.DONE and (known is None or known.status != turns.DONE):
                self.tell("done", text, self.clock, state.TODO)
            after.append(known if known and known.status == status else Todo("", text, status, self.clock))
        self.todos = after

    def _result(self, turn: Turn) -> None:
        use = self.uses.get(turn.ref)
        if use is None or (turn.tag == turns.LATE) != bool(use.session):
            return
        del self.uses[turn.ref]
        if use.action == turns.STDIN:
            running = next((other for other in self.uses.values() if other.session == use.target), None)
            if turn.status == turns.RUNNING or (turn.status == turns.OK and turn.tag != turns.EXIT):
                return
            if running is not None and turn.tag == turns.EXIT:
                del self.uses[running.ref]
                use = running
        match turn.status:
            case turns.OK:
                self._success(use, turn)
            case turns.FAILED:
                self._failure(use, turn.text, ran=turn.tag != turns.UNRUN)
            case turns.REFUSED:
                self._refused(use, turn.text)
            case turns.STOPPED:
                if use.action != turns.ASK:
                    self._stopped(INTERRUPTED, self._call(use))
                self.halted = True
            case turns.RUNNING:
                self.uses[use.ref] = use._replace(session=turn.text)

    def _refused(self, use: Use, reason: str) -> None:
        self.halted = not reason
        reason = self.clean(reason)
        if use.action == turns.PLAN:
            self._stopped(PLAN, f"plan sent back: {use.target}", reason)
        elif use.action == turns.ASK and not reason:
            return  # asked and not answered: the question stays open
        else:
            self._stopped(REFUSED, self._call(use), reason)

    def _call(self, use: Use) -> str:
        """A tool call in few words."""
        if use.action == turns.SHELL:
            return f"{use.name} {shell.brief(use.target)}"
        return f"{use.name} {', '.join(self._paths(use)[:3]) if use.action in (turns.MODIFY, turns.READ) else use.target}".rstrip()

    def _success(self, use: Use, turn: Turn) -> None:
        match use.action:
            case turns.SHELL:
                self._ran(use, turn.text, failed=False)
            case turns.MODIFY | turns.READ:
                self._file_done(use)
            case turns.ASK:
                self._answered(use, turn)
            case turns.TODOS:
                self._set_todos(use.items)
            case turns.TASK_NEW:
                ident = turn.items[0][0] if turn.items and turn.items[0] else ""
                self.todos.append(Todo(ident, texts.cut(use.target), turns.PENDING, self.clock))
            case turns.TASK_CHANGE:
                self._change_task(*use.items[:3])
            case turns.CLAIM:
                self.claims = [claim for claim in self.claims if claim.row != use.target]
                self.claims.append(Claim(texts.cut(use.target, 160), self.clock))
            case turns.RELEASE:
                self.claims = [claim for claim in self.claims if claim.row != use.target]
                self.reasons["rows", state.CLAIM, use.target] = "released"
        if use.action not in (turns.SHELL, turns.MODIFY, turns.READ):
            self._resolve(f"tool {use.name}", (use.target,), use.name)

    def _change_task(self, ident: str, status: str, subject: str = "") -> None:
        for index, todo in enumerate(self.todos):
            if todo.id == ident and ident:
                text = texts.cut(subject) or todo.text
                if status == turns.DONE and todo.status != turns.DONE:
                    self.tell("done", text, self.clock, state.TODO)
                if status == "deleted":
                    del self.todos[index]
                elif status != todo.status or text != todo.text:
                    self.todos[index] = Todo(ident, text, status or todo.status, self.clock)
                return

    def _answered(self, use: Use, turn: Turn) -> None:
        answers = {texts.cut(self.clean(item[0])): self.clean(item[1]) for item in turn.items if len(item) == 2}
        for question in [question for question in self.questions if question.ref == use.ref]:
            answer = answers.get(question.text, "") or next(iter(answers.values()), "") or "answered"
            self.questions.remove(question)
            self.reasons["gates", state.QUESTION, question.text] = answer
            self.tell("done", f"{texts.cut(question.text, TARGET)} {answer}", self.clock, "ANSWER")

    # files

    def _paths(self, use: Use) -> tuple[str, ...]:
        return tuple(dict.fromkeys(places.relative(item, cwd=use.cwd, project=self.project) for item in use.items))

    def _file_done(self, use: Use) -> None:
        for path in self._paths(use):
            self._touched(path, changes=use.action == turns.MODIFY)
            self._resolve(use.action, (path,), f"{use.name} {path}")

    def _touched(self, path: str, *, changes: bool, sure: bool = True) -> None:
        mark = crc32(path.encode("utf-8", "replace"))
        files = self.bullets.get("files", {})
        if not changes:
            if mark not in self.changed:
                self.tell("files", f"read {path}", self.clock)
            return
        if sure:
            files.pop(("", f"read {path}"), None)
            files.pop(("", f"modified? {path}"), None)
            self.changed.pop(mark, None)
            self.changed[mark] = None
            self.tell("files", f"modified {path}", self.clock)
        elif mark not in self.changed:
            self.tell("files", f"modified? {path}", self.clock)
        if places.is_code(path) and (sure or "." in path.rpartition("/")[2]):
            self.edited = self.edited or self.clock

    # failures and what ends them

    def _message(self, text: str) -> str:
        text = outcome.bounded(text)
        return outcome.message(self.redact(text) if self.redact is not None else text)

    def _slip(self, family: str, words: tuple[str, ...], use: Use, output: str) -> None:
        named = use.items[:1] if use.action != turns.TODOS else ()
        target = shell.brief(use.target) if use.action == turns.SHELL else texts.fold(use.target or " ".join(named))
        if use.action in (turns.MODIFY, turns.READ):
            target = ", ".join(self._paths(use)[:3]) or target
        said = self._message(output)
        text = texts.cut(f"{use.name} {texts.cut(target, TARGET)}".rstrip() + f": {said}")
        self.slips = [slip for slip in self.slips if slip.text != text]
        label = target if use.action in (turns.SHELL, turns.MODIFY, turns.READ) else f"{use.name} {target}".rstrip()
        words = tuple(word[: texts.LIMIT] for word in words[:WORDS])
        self.slips.append(Slip(family, words, text, (label or use.name)[: 2 * TARGET], self.clock))
        self.tell("errors", text, self.clock, outcome="unresolved")

    def _failure(self, use: Use, output: str, *, ran: bool) -> None:
        if use.action == turns.SHELL and not ran:
            self._slip(turns.SHELL, self._core(shell.parse(use.target)), use, output)
        elif use.action == turns.SHELL:
            self._ran(use, output, failed=True)
        elif use.action in (turns.MODIFY, turns.READ):
            for path in self._paths(use)[:1] or ("",):
                self._slip(use.action, (path,), use, output)
        elif use.action == turns.ASK:
            self.questions = [question for question in self.questions if question.ref != use.ref]
        else:
            self._slip(f"tool {use.name}", (use.target,), use, output)

    def _resolve(self, family: str, words: tuple[str, ...], how: str) -> None:
        left = []
        words = tuple(word[: texts.LIMIT] for word in words[:WORDS])
        for slip in self.slips:
            if slip.family == family and slip.words == words:
                self.tell("errors", slip.text, slip.at, outcome=f"resolved: {texts.cut(texts.fold(how), STATE)}")
            else:
                left.append(slip)
        self.slips = left

    # the shell

    def _ran(self, use: Use, output: str, *, failed: bool) -> None:
        pipelines = shell.parse(use.target)
        if not failed:
            self._shell_files(use, pipelines)
            self._commits(use, pipelines, output)
        ran = outcome.ran_tests(pipelines)
        verdict = outcome.verdict(output) if ran else None
        tests_failed = False
        if verdict is not None:
            self._set_test(ran[-1][0])
            alone = sum(not shell.is_trivial(pipeline) for pipeline in pipelines) == 1
            tests_failed = verdict.failed or (failed and alone and not verdict.passed)
            if tests_failed:
                self._tests_failed(use, ran[-1], output)
            elif verdict.passed or not (failed or outcome.is_filtered(pipelines)):
                self._tests_passed(ran, verdict, output)
        if failed and use.items:
            self._slip(turns.MODIFY, self._paths(use)[:1], use, output)
        elif failed and not tests_failed:
            if not self._is_answer(pipelines, output):
                self._slip(turns.SHELL, self._core(pipelines), use, output)
        elif not failed:
            for pipeline in shell.proven(pipelines):
                meaning = shell.meaning(pipeline)
                self._resolve(
                    turns.SHELL,
                    meaning,
                    f"{texts.cut(shell.brief(use.target), 80)}: {outcome.last_line(output)}".rstrip(": "),
                )

    @staticmethod
    def _is_answer(pipelines: tuple[Pipeline, ...], output: str) -> bool:
        return output[:12].casefold().strip() in ("exit code 1", "") and shell.only_says_no(pipelines)

    @staticmethod
    def _core(pipelines: tuple[Pipeline, ...]) -> tuple[str, ...]:
        """What has to succeed later: the last command of the line that does something."""
        for pipeline in reversed(pipelines):
            if not shell.is_trivial(pipeline):
                return shell.meaning(pipeline)
        return shell.meaning(pipelines[-1]) if pipelines else ()

    def _set_test(self, command: str) -> None:
        command = texts.cut(texts.fold(command), 160)
        if command != self.test and not self._is_narrower(command):
            self.test = command
            self.tell("facts", f"test command: {command}", self.clock)

    def _is_narrower(self, command: str) -> bool:
        """Whether *command* runs only some of what the known test command runs."""
        now, known = (outcome.ran_tests(shell.parse(text)) for text in (command, self.test))
        return (
            bool(now and known)
            and now[-1][1].runner == known[-1][1].runner
            and bool(now[-1][1].picked)
            and not known[-1][1].picked
        )

    def _tests_failed(self, use: Use, ran: tuple[str, Tests], output: str) -> None:
        command, tested = ran
        words = (tested.runner, *tested.picked)
        command = texts.cut(texts.fold(command), 160)
        since = next((failing.at for failing in self.failing if failing.command == command), self.clock)
        self.failing = [failing for failing in self.failing if failing.command != command]
        self.failing.append(Failing(command, words, since))
        self.edited = 0.0
        self._slip("test", words, use, output)

    def _tests_passed(self, ran: tuple[tuple[str, Tests], ...], verdict: Verdict, output: str) -> None:
        how = verdict.summary or outcome.last_line(output) or "passed"
        for command, tested in ran:
            for failing in list(self.failing):
                if shell.covers(tested, shell.Tests(failing.words[0], failing.words[1:])):
                    self.failing.remove(failing)
                    self.reasons["gates", state.TESTS, f"failing: {failing.command}"] = how
            for slip in list(self.slips):
                if slip.family == "test" and shell.covers(tested, shell.Tests(slip.words[0], slip.words[1:])):
                    same = texts.cut(texts.fold(command), 80)
                    self._resolve("test", slip.words, how if slip.label == same else f"{same}: {how}")
            if self.test:
                self.reasons["gates", state.TESTS, f"not run since the last edit: {self.test}"] = how
        self.edited = 0.0

    def _shell_files(self, use: Use, pipelines: tuple[Pipeline, ...]) -> None:
        for path in self._paths(use):  # files of a patch that was given to the shell
            self._touched(path, changes=True)
            self._resolve(turns.MODIFY, (path,), f"{use.name} {path}")
        cwd = use.cwd
        for pipeline in pipelines:
            first = pipeline.commands[0]
            if first[0] == "cd" and len(first) > 1:
                cwd = places.joined(cwd, first[1])
                continue
            for words in pipeline.commands:
                for path in shell.writes(words):
                    self._touched(places.relative(path, cwd=cwd, project=self.project), changes=True, sure=False)
                if use.name != "Bash":
                    for path in shell.reads(words):
                        self._touched(places.relative(path, cwd=cwd, project=self.project), changes=False)
            for path in pipeline.writes:
                if path not in shell.HARMLESS and not use.items:
                    self._touched(places.relative(path, cwd=cwd, project=self.project), changes=True, sure=False)

    def _commits(self, use: Use, pipelines: tuple[Pipeline, ...], output: str) -> None:
        subjects = []
        cwd = use.cwd
        for pipeline in pipelines:
            first = pipeline.commands[0]
            if first[0] == "cd" and len(first) > 1:
                cwd = places.joined(cwd, first[1])
            for words in pipeline.commands:
                named = shell.is_commit(words)
                if named is not None and places.inside(places.joined(cwd, named[0]), self.project):
                    subjects.append(named[1])
        if subjects:
            for commit in outcome.commits(output, tuple(subject for subject in subjects if subject)):
                subject = self.clean(commit.subject)
                self.tell("done", f"{commit.hash} {subject}".strip(), self.clock, "COMMIT")
