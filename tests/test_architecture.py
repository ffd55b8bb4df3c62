"""The house rules that a reader can rely on: floors, purity, one owner for each library, sizes, and what a hook may import."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from vault_mem import usual

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "vault_mem"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


GROUND, CAPSULE, SESSION, FILES, EDGES, VAULT, VERBS, DOORS, FRONT, MAIN = range(1, 11)
# A module may import from floors below its own. The ground is one family: its modules may know each other.
FLOORS = {
    **dict.fromkeys(
        (
            "digest",
            "errors",
            "gitconfig",
            "jsonspans",
            "jsontext",
            "record",
            "redactassigned",
            "redactblocks",
            "redactnames",
            "redactrules",
            "redacttokens",
            "redactvalues",
            "report",
            "stamps",
            "usual",
            "version",
        ),
        GROUND,
    ),
    "capsule": CAPSULE,
    "session": SESSION,
    **dict.fromkeys(("files", "image", "lock", "processes"), FILES),
    **dict.fromkeys(
        (
            "checkpoints",
            "clientprocess",
            "clients",
            "extensionfile",
            "harness",
            "hooksfile",
            "index",
            "injections",
            "receipts",
            "redact",
            "repo",
            "roots",
            "settings",
            "spool",
            "statusfile",
            "tmux",
            "transcript",
            "trust",
            "wakes",
            "worktree",
        ),
        EDGES,
    ),
    "vault": VAULT,
    "tunables": VAULT,
    **dict.fromkeys(
        (
            "adopt",
            "context",
            "curate",
            "doctor",
            "importing",
            "install",
            "journal",
            "look",
            "replay",
            "reset",
            "resume",
            "retire",
            "search",
            "writer",
        ),
        VERBS,
    ),
    **dict.fromkeys(("cli", "hooks", "mergedriver"), DOORS),
    # The front door only chooses which door a command line belongs to.
    "entry": FRONT,
    "__main__": MAIN,
}
OWNERS = {
    "git": {"repo.history", "repo.store"},
    "frontmatter": {"capsule.yamlheader"},
    "ruamel": {"capsule.yamlheader"},
    "filelock": {"lock"},
    "sqlite3": {"search"},
}
IMPURE = _words(
    "os io pathlib shutil tempfile glob fcntl mmap subprocess signal _signal socket select threading multiprocessing asyncio "
    "logging sqlite3 urllib http platform pwd getpass random secrets uuid"
)
OUTSIDE = _words(
    "os.environ os.environb os.getenv os.getcwd os.getcwdb sys.argv sys.stdin sys.stdout time.time time.time_ns time.localtime "
    "datetime.now datetime.utcnow datetime.today date.today Path.cwd Path.home"
)
VAGUE = _words("utils util core helpers helper common manager managers services service misc")
HEAVY = _words(
    "re json typing dataclasses pathlib enum contextlib functools collections subprocess logging tempfile hashlib datetime argparse "
    "shutil signal uuid secrets random inspect traceback tomllib git frontmatter ruamel filelock yaml sqlite3 importlib.metadata"
)
FOREIGN_MODULES = 25
"""Of the standard library, beyond those of an empty program. Our own come out of one file (`vault_mem.image`) at 40 µs each."""
OWN_MODULES = 65


def _modules() -> dict[str, Path]:
    """Dotted name below the package -> file; packages by their name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if name:
            found[name] = path
    return found


MODULES = _modules()
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}


def _family(name: str) -> str:
    return name.partition(".")[0]


def _imports(name: str) -> Iterator[tuple[str, int]]:
    """Every import of a module wherever it stands, as absolute dotted names with the line."""
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{name}:{node.lineno}: relative imports hide the floor"
            for alias in node.names:
                yield f"{node.module}.{alias.name}", node.lineno


def _own_imports(name: str) -> Iterator[tuple[str, int]]:
    """Imports of our own modules, as names below the package, cut to what is a module."""
    for target, line in _imports(name):
        head, _, rest = target.partition(".")
        if head != "vault_mem":
            continue
        while rest and rest not in MODULES:
            rest = rest.rpartition(".")[0]
        if rest:
            yield rest, line


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def _calls(name: str) -> Iterator[tuple[str, int]]:
    """Calls of plain names, with the line."""
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id, node.lineno


def _floor(name: str) -> int:
    return FLOORS.get(_family(name), MAIN)


def _tracked() -> list[Path]:
    """What is in the repository, or would be after `git add .`; everything but the obvious where this is no checkout."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout: the tracked files are unknown")
    return [
        ROOT / os.fsdecode(name) for name in listed.stdout.split(b"\0") if name and (ROOT / os.fsdecode(name)).is_file()
    ]


def test_every_module_has_a_floor() -> None:
    unknown = {_family(name) for name in MODULES} - set(FLOORS)

    assert not unknown, f"give these a floor in {Path(__file__).name}: {sorted(unknown)}"


@pytest.mark.parametrize("name", MODULES)
def test_a_module_imports_from_lower_floors_or_its_own_family(name: str) -> None:
    own = _floor(name)
    wrong = [
        f"line {line}: {target} (floor {_floor(target)})"
        for target, line in _own_imports(name)
        if _family(target) != _family(name) and _floor(target) >= own and not own == _floor(target) == GROUND
    ]

    assert not wrong, f"{name} (floor {own}) imports {wrong}"


def test_no_module_imports_itself_through_others() -> None:
    graph = {name: {target for target, _ in _own_imports(name)} - {name} for name in MODULES}
    settled: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, f"a cycle: {' -> '.join((*path[path.index(name) :], name))}"
        if name not in settled:
            for target in graph[name]:
                visit(target, (*path, name))
            settled.add(name)

    for name in graph:
        visit(name, ())


@pytest.mark.parametrize("name", [name for name in MODULES if _floor(name) <= SESSION])
def test_the_lower_floors_touch_no_file_process_clock_or_environment(name: str) -> None:
    wrong = [f"line {line}: {target}" for target, line in _imports(name) if target.partition(".")[0] in IMPURE]
    wrong += [f"line {line}: {called}()" for called, line in _calls(name) if called in ("open", "print", "input")]

    assert not wrong, f"{name}: {wrong}"


@pytest.mark.parametrize("name", [name for name in MODULES if _floor(name) < DOORS])
def test_only_doors_ask_for_the_clock_the_environment_or_the_working_directory(name: str) -> None:
    wrong = [
        f"line {node.lineno}: {node.value.id}.{node.attr}"
        for node in ast.walk(TREES[name])
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and f"{node.value.id}.{node.attr}" in OUTSIDE
    ]

    assert not wrong, f"{name}: {wrong}"


@pytest.mark.parametrize("library", OWNERS)
def test_a_library_is_imported_by_its_owner_alone_and_inside_a_function(library: str) -> None:
    users = {name for name in MODULES for target, _ in _imports(name) if target.partition(".")[0] == library}
    at_import = [
        f"{name}:{node.lineno}"
        for name in users
        for node in TREES[name].body
        if (isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == library)
        or (isinstance(node, ast.Import) and any(alias.name.partition(".")[0] == library for alias in node.names))
    ]

    assert users <= OWNERS[library]
    assert not at_import, f"imported with the module: {at_import}"


def test_packages_are_folders_and_hold_nothing_else() -> None:
    full = [
        str(path.relative_to(ROOT))
        for path in PACKAGE.glob("*/**/__init__.py")
        if path.read_text(encoding="utf-8").strip()
    ]

    assert not full


def test_no_module_has_a_name_that_says_nothing() -> None:
    assert not {name for name in MODULES if VAGUE & set(name.split("."))}


@pytest.mark.parametrize("name", MODULES)
def test_a_file_and_its_functions_stay_readable(name: str) -> None:
    lines = len(MODULES[name].read_text(encoding="utf-8").splitlines())
    long = [
        f"{node.name} ({node.end_lineno - node.lineno + 1} lines)"
        for node in _functions(TREES[name])
        if node.end_lineno is not None and node.end_lineno - node.lineno + 1 > 80
    ]

    assert lines <= 600
    assert not long


def test_nothing_is_defined_that_nobody_uses() -> None:
    """A name that stands once in the whole tree is its own definition."""
    texts = [
        path.read_text(encoding="utf-8")
        for folder in ("vault_mem", "scripts", "tests")
        for path in (ROOT / folder).rglob("*.py")
    ]
    counted = Counter(word for text in texts for word in re.findall(r"[A-Za-z_]\w*", text))
    # Python calls these by their names: a loader's, and those of a class with a protocol.
    called = {"create_module", "find_spec", "exec_module"}
    unused = {
        f"{name}: {defined}"
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        for defined in _defined(node, module=tree)
        if counted[defined] == 1 and not defined.startswith("__") and defined not in called
    }

    assert not unused


def _defined(node: ast.AST, *, module: ast.Module) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign) and node in module.body:
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return []


@pytest.mark.parametrize("name", MODULES)
def test_every_public_function_says_what_it_promises(name: str) -> None:
    bare = [
        f"line {node.lineno}: {node.name}"
        for node in TREES[name].body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
    ]

    assert not bare


@pytest.mark.parametrize("name", [name for name in MODULES if _floor(name) < DOORS])
def test_only_doors_print(name: str) -> None:
    calls = [node for node in ast.walk(TREES[name]) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]

    assert not [node.lineno for node in calls if node.func.id == "print"]  # type: ignore[attr-defined]  # names only, see above


def test_no_suppression_is_without_a_reason() -> None:
    bare = []
    for path in [*PACKAGE.rglob("*.py"), *(ROOT / "tests").rglob("*.py"), *(ROOT / "scripts").glob("*.py")]:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            found = re.search(r"#\s*(?:noqa(?::[A-Z0-9, ]+)?|type: ignore(?:\[[^]]*\])?)(.*)$", line)
            if found and len(found.group(1).strip(" -#")) < 3:
                bare.append(f"{path.relative_to(ROOT)}:{number}")

    assert not bare


def test_no_tracked_file_names_a_place_of_one_machine() -> None:
    places = re.compile(
        rb"(?<![\w.])/(?:"
        + b"|".join((b"work/" + b"main", b"work/" + b"shared", b"far" + b"m/", b"ro" + b"ot/"))
        + rb")"
    )

    found = [str(path.relative_to(ROOT)) for path in _tracked() if places.search(path.read_bytes())]

    assert not found


def test_the_readme_names_the_demo_and_the_tests_and_both_can_be_started() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")

    for script in ("scripts/demo", "scripts/test"):
        assert script in readme
        assert os.access(ROOT / script, os.X_OK)


START = "import sys; from vault_mem.entry import main; sys.exit(main())"


def _imports_told(*arguments: str, stdin: bytes, cwd: Path, environ: dict[str, str]) -> list[str]:
    """The modules that one run of the program imports, in the order in which their imports end."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", START, *arguments],
        input=stdin,
        cwd=cwd,
        env={**environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
        timeout=60,
    )
    said = done.stderr.decode("utf-8", "replace")
    assert done.returncode == 0, said
    return [line.rpartition("|")[2].strip() for line in said.splitlines() if line.startswith("import time:")]


def _imported(*arguments: str, stdin: bytes, cwd: Path, environ: dict[str, str]) -> set[str]:
    return set(_imports_told(*arguments, stdin=stdin, cwd=cwd, environ=environ))


def _bare(cwd: Path, environ: dict[str, str]) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "pass"], cwd=cwd, env=environ, capture_output=True, check=True
    )
    return {line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines()}


@pytest.fixture
def ordinary_turn(seat: Path, tmp_path: Path) -> dict[str, Any]:
    """A payload that fits every hook, and a transcript of one turn with a request, an edit and an answer."""
    transcript = tmp_path / "5e551011.jsonl"
    common = {
        "isSidechain": False,
        "cwd": str(seat),
        "sessionId": "5e551011",
        "version": "2.1.332",
        "gitBranch": "main",
    }
    tool = {
        "type": "tool_use",
        "id": "toolu_1",
        "name": "Edit",
        "input": {"file_path": f"{seat}/a.py", "old_string": "1", "new_string": "2"},
    }
    rows: tuple[tuple[str, Any], ...] = (
        ("user", {"role": "user", "content": "Rename the reader and keep the old name"}),
        ("assistant", {"id": "m1", "role": "assistant", "content": [tool]}),
        ("user", {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "done"}]}),
        (
            "assistant",
            {"id": "m2", "role": "assistant", "content": [{"type": "text", "text": "The reader is renamed."}]},
        ),
    )
    typed = {"origin": {"kind": "human"}, "promptSource": "typed"}
    with transcript.open("w", encoding="utf-8") as out:
        for number, (kind, message) in enumerate(rows):
            row = {
                "type": kind,
                "uuid": f"u{number}",
                "timestamp": f"2026-11-30T10:00:0{number}.000Z",
                "message": message,
                **common,
                **(typed if isinstance(message["content"], str) else {}),
            }
            out.write(json.dumps(row) + "\n")
    return {
        "session_id": "5e551011",
        "transcript_path": str(transcript),
        "cwd": str(seat),
        "prompt": "Rename the reader",
        "source": "clear",
        "tool_name": "Edit",
        "tool_input": tool["input"],
    }


@pytest.mark.parametrize(
    ("event", "arguments"),
    (
        pytest.param("Stop", ("hook", "stop"), id="stop"),
        pytest.param("UserPromptSubmit", ("hook", "user-prompt-submit"), id="prompt"),
        pytest.param("PostToolUse", ("hook", "post-tool-use"), id="tool"),
        pytest.param("SessionStart", ("resume",), id="resume on clear"),
    ),
)
def test_an_ordinary_hook_imports_little_and_nothing_heavy(
    event: str, arguments: tuple[str, ...], seat: Path, ordinary_turn: dict[str, Any], environ: dict[str, str]
) -> None:
    first = json.dumps({**ordinary_turn, "hook_event_name": "Stop"}).encode()
    _imported("hook", "stop", stdin=first if event == "SessionStart" else b"", cwd=seat, environ=environ)
    session = "fresh" if event == "SessionStart" else ordinary_turn["session_id"]
    payload = {**ordinary_turn, "hook_event_name": event, "session_id": session}
    commits = _commits(seat, environ)

    imported = _imported(*arguments, stdin=json.dumps(payload).encode(), cwd=seat, environ=environ) - _bare(
        seat, environ
    )

    assert _commits(seat, environ) == commits + (event in ("Stop", "SessionStart"))
    assert not imported & HEAVY
    own = {name for name in imported if name.partition(".")[0] == "vault_mem"}
    assert len(imported - own) <= FOREIGN_MODULES, sorted(imported - own)
    assert len(own) <= OWN_MODULES, sorted(own)


def _order(*arguments: str, stdin: bytes, cwd: Path, environ: dict[str, str]) -> list[str]:
    """Our modules that one run of the program imports, in the order in which their imports end."""
    early = ("vault_mem", "vault_mem.entry", "vault_mem.image")
    lines = _imports_told(*arguments, stdin=stdin, cwd=cwd, environ=environ)
    return [name.removeprefix("vault_mem.") for name in lines if name.startswith("vault_mem") and name not in early]


@pytest.mark.parametrize(
    ("event", "arguments", "stages"),
    (
        pytest.param("Stop", ("hook", "stop"), ("hook", "saving"), id="stop"),
        pytest.param("UserPromptSubmit", ("hook", "user-prompt-submit"), ("hook", "user-prompt-submit"), id="prompt"),
        pytest.param("PostToolUse", ("hook", "post-tool-use"), ("hook", "post-tool-use"), id="tool"),
        pytest.param("SessionStart", ("resume",), ("resume",), id="resume on clear"),
    ),
)
def test_what_is_run_ahead_is_what_an_ordinary_hook_imports(
    event: str,
    arguments: tuple[str, ...],
    stages: tuple[str, ...],
    seat: Path,
    ordinary_turn: dict[str, Any],
    environ: dict[str, str],
) -> None:
    first = json.dumps({**ordinary_turn, "hook_event_name": "Stop"}).encode()
    _imported("hook", "stop", stdin=first, cwd=seat, environ=environ)
    if event == "Stop":
        transcript = Path(ordinary_turn["transcript_path"])
        rows = transcript.read_text(encoding="utf-8").replace('"uuid": "u', '"uuid": "v').replace("a.py", "b.py")
        with transcript.open("a", encoding="utf-8") as out:
            out.write(rows.replace("T10:00:0", "T10:01:0").replace("the old name", "the new one"))
    session = "fresh" if event == "SessionStart" else ordinary_turn["session_id"]
    payload = {**ordinary_turn, "hook_event_name": event, "session_id": session}

    order = _order(*arguments, stdin=json.dumps(payload).encode(), cwd=seat, environ=environ)

    listed = [name for stage in stages for name in usual.STAGES[stage].split()]
    assert order == listed, "write into vault_mem/usual.py: " + " ".join(order)


def test_an_ordinary_save_and_a_delivery_start_at_most_one_program(
    seat: Path, ordinary_turn: dict[str, Any], environ: dict[str, str], tmp_path: Path
) -> None:
    calls = tmp_path / "calls"
    real = shutil.which("git")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").write_text(f'#!/bin/sh\necho "$*" >>"{calls}"\nexec "{real}" "$@"\n')
    (tmp_path / "bin" / "git").chmod(0o755)
    watched = {**environ, "PATH": f"{tmp_path / 'bin'}{os.pathsep}{environ['PATH']}"}
    for arguments, more in (
        (("hook", "stop"), {"hook_event_name": "Stop"}),
        (("resume",), {"hook_event_name": "SessionStart", "session_id": "fresh"}),
    ):
        calls.write_text("")

        _imported(*arguments, stdin=json.dumps({**ordinary_turn, **more}).encode(), cwd=seat, environ=watched)

        assert len(calls.read_text().splitlines()) <= 1


def _commits(seat: Path, environ: dict[str, str]) -> int:
    vault = json.loads((seat / ".aigent" / "state.json").read_text(encoding="utf-8"))["memory_root"]
    counted = subprocess.run(
        ["git", "rev-list", "--count", "HEAD"], cwd=seat / vault, env=environ, capture_output=True, check=True
    )
    return int(counted.stdout)
