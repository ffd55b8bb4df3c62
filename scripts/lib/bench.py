"""What a hook costs. P is the CPU of `python -I -c pass` with the interpreter that runs the program; every figure is a ratio within one run.

Each round runs every command once, in shuffled order (whoever follows a heavy process pays for cold caches), and prepares its input outside
the measured time. CPU is user and system time of the process and all children it waited for.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import bench_evidence
from bench_world import Seat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OVER = "over budget"
MOST = 3.0
"""What a resume may cost in the largest tree, as a multiple of the smallest."""
PROGRAM = str(Path(sys.executable).parent / "vault-mem")
HEAVY = """
re json typing dataclasses pathlib enum contextlib functools collections subprocess logging tempfile hashlib datetime argparse
shutil signal uuid secrets random git frontmatter ruamel filelock
"""


@dataclass(frozen=True, slots=True)
class Case:
    """One command to measure. prepare: makes its input and gives standard input; check: whether it did its work."""

    name: str
    command: tuple[str, ...]
    environ: dict[str, str]
    cwd: Path
    prepare: Callable[[], bytes]
    budget: float | None = None
    goal: float | None = None
    check: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table; the spread is that of ratios taken in pairs, round by round."""

    name: str
    cpu_ms: float
    ratio: float
    ratio_p10: float
    ratio_p90: float
    budget: float | None
    goal: float | None
    verdict: str


@dataclass(frozen=True, slots=True)
class Shape:
    """What does not depend on the machine's speed."""

    children: int | None
    counted_by: str
    modules: int
    forbidden: list[str]


def cpu(case: Case) -> float:
    """Milliseconds of CPU of one run, children included."""
    stdin = case.prepare()
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as said:
        given.write(stdin)
        given.seek(0)
        process = subprocess.Popen(case.command, cwd=case.cwd, env=case.environ, stdin=given, stdout=said, stderr=said)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            raise SystemExit(f"{case.name}: exit {process.returncode}\n{said.read().decode('utf-8', 'replace')}")
    case.check()
    return (used.ru_utime + used.ru_stime) * 1000


def one_more(seat: Seat, what: str, before: list[int]) -> Callable[[], None]:
    """A check that each run made exactly one commit."""

    def check() -> None:
        now = seat.commits()
        if now != before[0] + 1:
            raise SystemExit(f"{what}: {now - before[0]} commits instead of one")
        before[0] = now

    return check


def hook_cases(base: Path, sizes: list[int], transcript_bytes: int) -> Iterator[Case]:
    """The hooks of the budget table, one seat for each kind of writing so that they do not meet."""
    bare = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(base)}
    yield Case("python -I -c pass", (sys.executable, "-I", "-c", "pass"), bare, base, lambda: b"")
    for size in sizes:
        stop = Seat(base / f"stop-{size}", PROGRAM, size).make(transcript_bytes=transcript_bytes)

        def grown(seat: Seat = stop) -> bytes:
            seat.grow()
            return seat.stop_payload()

        check = one_more(stop, "Stop", [stop.commits()])
        yield Case(
            f"Stop, one turn, commit ({size} capsules)",
            (PROGRAM, "hook", "stop"),
            stop.environ,
            stop.project,
            grown,
            2.5,
            2.0,
            check,
        )
        resume = Seat(base / f"resume-{size}", PROGRAM, size).make(transcript_bytes=0)
        serial = iter(range(10**6))

        def cleared(seat: Seat = resume, serial: Iterator[int] = serial) -> bytes:
            return seat.start_payload("clear", f"c1ea7000-0000-4000-8000-{next(serial):012}")

        check = one_more(resume, "resume on clear", [resume.commits()])
        budget, goal = (2.5, 2.0) if size <= 100 else (3.0, 2.5)
        yield Case(
            f"resume on clear, consume ({size} capsules)",
            (PROGRAM, "resume"),
            resume.environ,
            resume.project,
            cleared,
            budget,
            goal,
            check,
        )
    quiet = Seat(base / "quiet", PROGRAM, sizes[0]).make(transcript_bytes=0)
    yield Case(
        "user-prompt-submit",
        (PROGRAM, "hook", "user-prompt-submit"),
        quiet.environ,
        quiet.project,
        quiet.prompt_payload,
        2.0,
        1.7,
    )
    yield Case(
        "post-tool-use", (PROGRAM, "hook", "post-tool-use"), quiet.environ, quiet.project, quiet.tool_payload, 2.0, 1.7
    )
    start = lambda: quiet.start_payload("startup", quiet.session)  # noqa: E731 - read once, two lines below
    yield Case("resume on startup (orientation)", (PROGRAM, "resume"), quiet.environ, quiet.project, start)
    nowhere = base / "nowhere"
    nowhere.mkdir()
    environ = {key: value for key, value in quiet.environ.items() if key != "CLAUDE_PROJECT_DIR"}
    payload = json.dumps(
        {"session_id": "nobody", "transcript_path": "", "cwd": str(nowhere), "hook_event_name": "Stop"}
    ).encode()
    yield Case("Stop, no seat here", (PROGRAM, "hook", "stop"), environ, nowhere, lambda: payload, 1.5, 1.3)
    yield git_case(base, sizes[0])


def many_cases(base: Path, sizes: list[int]) -> Iterator[Case]:
    """Resume in flat trees that were adopted, of several sizes: what a start costs where nothing ever leaves the tree."""
    bare = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(base)}
    yield Case("python -I -c pass", (sys.executable, "-I", "-c", "pass"), bare, base, lambda: b"")
    for size in sizes:
        seat = Seat(base / f"flat-{size}", PROGRAM, size, adopted=True).make(transcript_bytes=0)
        serial = iter(range(10**6))

        def cleared(seat: Seat = seat, serial: Iterator[int] = serial) -> bytes:
            return seat.start_payload("clear", f"c1ea7000-0000-4000-8000-{next(serial):012}")

        def started(seat: Seat = seat) -> bytes:
            return seat.start_payload("startup", seat.session)

        before = [seat.spent()]

        def check(seat: Seat = seat, before: list[int] = before, size: int = size) -> None:
            now = seat.spent() if size <= 1000 else before[0] + 1
            if now != before[0] + 1:
                raise SystemExit(f"resume on clear: {now - before[0]} capsules handed out instead of one")
            before[0] = now

        name = f"resume on clear ({size} capsules, adopted, flat)"
        yield Case(name, (PROGRAM, "resume"), seat.environ, seat.project, cleared, check=check)
        name = f"resume on startup ({size} capsules, adopted, flat)"
        yield Case(name, (PROGRAM, "resume"), seat.environ, seat.project, started)


def growth(rows: list[Row], sizes: list[int], most: float) -> tuple[list[str], bool]:
    """What the largest tree costs as a multiple of the smallest, a line for each kind of start, and whether all stay within *most*."""
    lines, good = [], True
    small, large = min(sizes), max(sizes)
    for row in rows:
        kind, mark, _ = row.name.partition(f" ({large} capsules")
        first = next((each for each in rows if each.name.startswith(f"{kind} ({small} capsules")), None)
        if mark and first is not None and large > small:
            times = row.cpu_ms / first.cpu_ms
            good = good and times <= most
            verdict = "within" if times <= most else OVER
            lines.append(f"{kind}: {large} capsules cost {times:.2f} x {small} ({verdict} {most:g} x)")
    return lines, good


def git_case(base: Path, size: int) -> Case:
    """The yardstick G: one `git commit --only` of one capsule in a vault of the same size."""
    seat = Seat(base / "git", PROGRAM, size).make(transcript_bytes=0)
    file = next(seat.vault.glob("capsules/*/*.md"))
    name = str(file.relative_to(seat.vault))

    def changed() -> bytes:
        with file.open("a", encoding="utf-8") as out:
            out.write(f"- one more line, {file.stat().st_size}\n")
        return b""

    switched_off = ("core.hooksPath=/dev/null", "commit.gpgsign=false", "gc.auto=0", "maintenance.auto=false")
    options = [word for setting in switched_off for word in ("-c", setting)]
    return Case(
        "git commit --only (G)",
        ("git", *options, "commit", "-qm", "x", "--only", "--", name),
        seat.environ,
        seat.vault,
        changed,
    )


def peer_cases(base: Path, peers: list[str], example: Case) -> Iterator[Case]:
    """Other programs on the same input as a Stop hook; `{cwd}` in a template is an empty directory of its own."""
    for number, peer in enumerate(peers):
        name, equals, template = peer.partition("=")
        if not equals:
            raise SystemExit(f"--peer wants NAME=COMMAND, not {peer!r}")
        place = base / f"peer-{number}"
        place.mkdir()
        command = tuple(word.replace("{cwd}", str(place)) for word in shlex.split(template))
        yield Case(name, command, {**os.environ, "HOME": str(base)}, place, example.prepare)


def measured(cases: list[Case], rounds: int) -> dict[str, list[float]]:
    """CPU of every case in every round; the first round only warms caches and byte code."""
    seen: dict[str, list[float]] = {case.name: [] for case in cases}
    for turn in range(rounds + 1):
        for case in random.sample(cases, len(cases)):
            spent = cpu(case)
            if turn:
                seen[case.name].append(spent)
        print(f"\rround {turn} of {rounds}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return seen


def structure(case: Case) -> Shape:
    """Children, modules beyond a bare interpreter, imports that a hook must not make."""
    bare = _modules((sys.executable, "-X", "importtime", "-I", "-c", "pass"), b"", case)
    # Without the image: what is run out of it, Python does not count as imported.
    start = "import sys; from vault_mem.entry import main; sys.exit(main())"
    own = _modules((sys.executable, "-X", "importtime", "-c", start, *case.command[1:]), case.prepare(), case) - bare
    case.check()
    children, how = _children(case)
    return Shape(children, how, len(own), sorted(own & set(HEAVY.split())))


def _modules(command: tuple[str, ...], stdin: bytes, case: Case) -> set[str]:
    done = subprocess.run(command, cwd=case.cwd, env=case.environ, input=stdin, capture_output=True, check=True)
    rows = [line for line in done.stderr.decode("utf-8", "replace").splitlines() if line.startswith("import time:")]
    return {row.rpartition("|")[2].strip() for row in rows[1:]}


def _children(case: Case) -> tuple[int | None, str]:
    """Programs started by one run: by strace where it works, else the calls of git by a wrapper that stands first on PATH."""
    with tempfile.TemporaryDirectory() as place:
        log = Path(place) / "log"
        log.touch()
        environ, command, how = case.environ, case.command, "strace"
        if shutil.which("strace"):
            command = ("strace", "-f", "-qq", "-e", "trace=execve", "-o", str(log), *command)
        else:
            how = "git wrapper"
            real = shutil.which("git") or "git"
            wrapper = Path(place) / "git"
            wrapper.write_text(
                f'#!/bin/sh\necho call >>{shlex.quote(str(log))}\nexec {shlex.quote(real)} "$@"\n', encoding="utf-8"
            )
            wrapper.chmod(0o755)
            environ = {**environ, "PATH": f"{place}{os.pathsep}{environ['PATH']}"}
        done = subprocess.run(
            command, cwd=case.cwd, env=environ, input=case.prepare(), capture_output=True, check=False
        )
        if done.returncode:
            return None, f"{how} failed"
        case.check()
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        return (sum(" = 0" in line for line in lines) - 1 if how == "strace" else len(lines)), how


def report(seen: dict[str, list[float]], cases: list[Case]) -> list[Row]:
    """One row for each case, in their order."""
    yardstick = seen[cases[0].name]
    base = statistics.median(yardstick)
    rows = []
    for case in cases:
        pairs = sorted(own / bare for own, bare in zip(seen[case.name], yardstick, strict=True))
        edge = len(pairs) // 10
        median = statistics.median(seen[case.name])
        ratio = round(median / base, 2)
        spread = round(pairs[edge], 2), round(pairs[-1 - edge], 2)
        rows.append(Row(case.name, round(median, 2), ratio, *spread, case.budget, case.goal, verdict(ratio, case)))
    return rows


def verdict(ratio: float, case: Case) -> str:
    """How a ratio stands to its budget."""
    if case.budget is None:
        return ""
    if ratio > case.budget:
        return OVER
    return "goal reached" if case.goal is not None and ratio <= case.goal else "in budget"


def table(rows: list[Row]) -> str:
    """The rows for a person."""
    lines = [["command", "CPU ms", "x P", "p10-p90", "budget", "goal", ""]]
    for row in rows:
        limits = [str(limit) if limit else "" for limit in (row.budget, row.goal)]
        lines.append(
            [row.name, str(row.cpu_ms), str(row.ratio), f"{row.ratio_p10}-{row.ratio_p90}", *limits, row.verdict]
        )
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


@contextlib.contextmanager
def somewhere() -> Iterator[Path]:
    """A directory in memory where there is one: on some disks a mass delete makes file creation slow for minutes."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="vault-mem-bench.", dir=memory, ignore_cleanup_errors=True) as place:
        yield Path(place).resolve()


def main() -> int:
    """Measure, print the table and write the JSON; the exit code says whether the budgets hold."""
    parser = argparse.ArgumentParser(
        prog="scripts/bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "what",
        nargs="?",
        default="hooks",
        choices=["hooks", "many", "evidence"],
        help="hooks; many: resume in large adopted trees; evidence: what the writer finds in small transcripts",
    )
    parser.add_argument(
        "--capsules",
        type=int,
        nargs="+",
        metavar="N",
        help="capsules in the tree; several numbers make several rows (100; for many 100 and 10000)",
    )
    parser.add_argument(
        "--transcript-mb",
        type=float,
        default=1.0,
        metavar="MB",
        help="size of the transcript before the measured turns",
    )
    parser.add_argument(
        "--rounds", type=int, default=21, metavar="N", help="measured rounds, at least 15 for a figure to quote"
    )
    parser.add_argument(
        "--peer", action="append", default=[], metavar="NAME=COMMAND", help="another program on the same Stop payload"
    )
    parser.add_argument(
        "--json", metavar="FILE", help="write everything here too (- for standard output instead of the table)"
    )
    chosen = parser.parse_args()
    if chosen.what == "evidence":
        return bench_evidence.report()
    many = chosen.what == "many"
    chosen.capsules = chosen.capsules or ([100, 10_000] if many else [100])
    if min(chosen.capsules) < chosen.rounds + 5:
        parser.error("--capsules must be larger than --rounds + 5: every resume on clear consumes one")
    with somewhere() as base:
        if many:
            cases = list(many_cases(base, chosen.capsules))
        else:
            cases = list(hook_cases(base, chosen.capsules, int(chosen.transcript_mb * 1e6)))
        shapes = {case.name: structure(case) for case in cases[1:3]}
        cases += peer_cases(base, chosen.peer, cases[1])
        seen = measured(cases, chosen.rounds)
        rows = report(seen, cases)
    grown, good = growth(rows, chosen.capsules, MOST) if many else ([], True)
    document = {
        "schema": "vault-mem/bench/1",
        "python": sys.version.split()[0],
        "capsules": chosen.capsules,
        "transcript_mb": chosen.transcript_mb,
        "rounds": chosen.rounds,
        "rows": [asdict(row) for row in rows],
        "growth": grown,
        "structure": {name: asdict(shape) for name, shape in shapes.items()},
        "cpu_ms": seen,
    }
    if chosen.json == "-":
        print(json.dumps(document, indent=1))
    else:
        print(table(rows))
        print("".join(f"{line}\n" for line in grown), end="")
        for name, shape in shapes.items():
            forbidden = ", ".join(shape.forbidden) or "none"
            print(
                f"{name}: {shape.children} child processes ({shape.counted_by}), {shape.modules} modules, forbidden imports: {forbidden}"
            )
        if chosen.json:
            Path(chosen.json).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return int(not good or any(row.verdict == OVER for row in rows))


if __name__ == "__main__":
    sys.exit(main())
