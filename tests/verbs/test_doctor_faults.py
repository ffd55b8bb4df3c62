"""One row a fault: it is made on real files and a real git, the doctor names it, it is mended the way the doctor says, and it is gone.

`command` runs the command of the finding in a shell, `fix` is `--fix`; a function mends what only a person can.
"""

from __future__ import annotations

import io
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from vault_mem import stamps, trust
from vault_mem.cli import doctor as door
from vault_mem.cli import install
from vault_mem.doctor import collect, repair
from vault_mem.doctor.catalogue import KINDS
from vault_mem.doctor.examine import examine

if TYPE_CHECKING:
    from collections.abc import Callable

    from vault_mem.report import Finding

PROGRAM = str(Path(sys.executable).parent / "vault-mem")
OLD = 3600
SOUND = "echo 2.1.332 '(Claude Code)'"


class Box:
    """A seat to break, and the doctor to ask about it."""

    def __init__(self, seat: Path, environ: dict[str, str], git: Callable[..., str]) -> None:
        self.seat, self.environ, self.git = seat, environ, git
        self.vault = seat / "vault/memory"
        self.dot = self.vault / ".git"
        self.runtime = self.vault / "runtime"
        self.settings = seat / ".claude/settings.json"
        self.marker = seat / ".aigent/state.json"
        self.cwd = seat
        self.cleanup: list[Callable[[], Any]] = []

    def look(self, *, run_hooks: bool = False) -> tuple[Any, tuple[Finding, ...]]:
        scene, odd = collect.look(
            explicit="", environ=self.environ, cwd=str(self.cwd), now=time.time(), program=PROGRAM, run_hooks=run_hooks
        )
        return scene, (*examine(scene), *odd)

    def tokens(self, *, run_hooks: bool = False) -> dict[str, Finding]:
        return {found.token: found for found in self.look(run_hooks=run_hooks)[1]}

    def fix(self) -> tuple[repair.Mended, ...]:
        scene, findings = self.look()
        tools = door._tools(scene, environ=self.environ, now=time.time(), program=PROGRAM)
        return repair.mend(scene, findings, tools)

    def shell(self, command: str) -> None:
        path = f"{Path(PROGRAM).parent}{os.pathsep}{self.environ['PATH']}"
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=self.cwd,
            env={**self.environ, "PATH": path},
            capture_output=True,
            timeout=60,
            check=False,
            text=True,
        )
        assert done.returncode == 0, f"{command}: {done.stdout} {done.stderr}"

    def declare(self, value: Any) -> None:
        self.marker.write_text(json.dumps({"schemaVersion": 1, "memory_root": value}))

    def redeclare(self) -> None:
        self.declare("vault/memory")

    def hooks(self, change: Callable[[dict[str, Any]], Any]) -> None:
        value = json.loads(self.settings.read_text())
        change(value)
        self.settings.write_text(json.dumps(value, indent=2))

    def foreign(self, event: str, command: str, **more: Any) -> None:
        entry = {"type": "command", "command": command, **more}
        self.hooks(lambda value: value["hooks"].setdefault(event, []).append({"hooks": [entry]}))

    def capsule(self, name: str, *, commit: bool = True, body: str = "", **fields: str) -> Path:
        path = self.vault / "capsules" / f"{name}.md"
        header = {
            "id": name,
            "status": "active",
            "objective": "Split the parser",
            "waiting_on": "nothing",
            "next_valid_action": "Run the tests",
            "created_at": stamps.utc(time.time() - 60),
            **fields,
        }
        path.parent.mkdir(exist_ok=True)
        path.write_text("---\n" + "".join(f"{key}: {value}\n" for key, value in header.items()) + f"---\n{body}")
        if commit:
            self.git(self.vault, "add", "-f", "capsules")
            self.git(self.vault, "commit", "-q", "-m", name)
        return path


@pytest.fixture
def box(project: Path, environ: dict[str, str], git: Callable[..., str]) -> Any:
    out = io.StringIO()
    code = install.run(
        "init",
        ["--harness", "claude", "--scope", "project"],
        environ=environ,
        cwd=str(project),
        now=time.time(),
        program=PROGRAM,
        out=out,
        err=out,
    )
    assert code == 0, out.getvalue()
    made = Box(project, environ, git)
    stub(made, SOUND)
    environ["PATH"] = f"{project.parent}/clients:{environ['PATH']}"
    yield made
    for act in reversed(made.cleanup):
        act()


def aged(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    then = time.time() - OLD
    os.utime(path, (then, then))


def replaced(path: Path, make: Callable[[Path], Any]) -> Callable[[], None]:
    """Puts something else in the place of *path*; calling the answer puts the old back."""
    aside = path.with_name(path.name + ".kept")
    path.rename(aside)
    make(path)

    def back() -> None:
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
        aside.rename(path)

    return back


# --- how each fault is made; what a function answers is called to mend it -------------------------------------------------------


def broken_declaration(text: str) -> Callable[[Box], Any]:
    def make(box: Box) -> Any:
        box.marker.write_text(text)
        return box.redeclare

    return make


def declared(value: Any) -> Callable[[Box], Any]:
    return broken_declaration(json.dumps({"memory_root": value}))


def marker_is_a_folder(box: Box) -> Any:
    return replaced(box.marker, lambda path: path.mkdir())


def root_behind_a_link(box: Box) -> Any:
    return replaced(box.seat / "vault", lambda path: path.symlink_to(path.name + ".kept"))


def root_is_a_file(box: Box) -> Any:
    return replaced(box.vault, lambda path: path.write_text(""))


def root_behind_a_file(box: Box) -> Any:
    return replaced(box.seat / "vault", lambda path: path.write_text(""))


def root_is_gone(box: Box) -> None:
    shutil.rmtree(box.vault)


def no_marker(box: Box) -> None:
    box.marker.unlink()


def no_seat(box: Box) -> Any:
    box.marker.unlink()
    return box.redeclare


def undeclared(box: Box) -> None:
    box.marker.write_text('{"schemaVersion": 1}')


def variable(name: str, value: str) -> Callable[[Box], Any]:
    def make(box: Box) -> Any:
        box.environ[name] = value
        return lambda: box.environ.pop(name)

    return make


def bad_extension(box: Box) -> Any:
    path = box.seat / ".aigent/lifecycle-extension.json"
    path.write_text("[]")
    return path.unlink


def distrusted(box: Box) -> None:
    trust.revoke(str(box.vault), environ=box.environ)


def trust_record(change: Callable[[Path], Any]) -> Callable[[Box], Any]:
    def make(box: Box) -> Any:
        return change(Path(trust.record_file(str(box.vault), environ=box.environ)))

    return make


def other_memory(path: Path) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), "memory_root": "/elsewhere"}))


def rewritten(box: Box) -> None:
    box.capsule("2026-01-01-before")
    box.shell("vault-mem trust")
    box.git(box.vault, "commit", "-q", "--amend", "-m", "something else", "--date=2026-01-01T00:00:00Z")


def replaced_by_another(box: Box) -> None:
    box.git(box.vault, "checkout", "-q", "--orphan", "other")
    box.git(box.vault, "commit", "-q", "-m", "another beginning")


def git_gone(box: Box) -> Any:
    before = box.environ["PATH"]
    box.environ["PATH"] = "/nonexistent"
    return lambda: box.environ.update(PATH=before)


def old_git(box: Box) -> Any:
    folder = box.seat.parent / "old"
    folder.mkdir()
    wrapper = folder / "git"
    wrapper.write_text(
        '#!/bin/sh\nfor word; do [ "$word" = version ] && { echo git version 2.11.4; exit; }; done\nexec /usr/bin/git "$@"\n'
    )
    wrapper.chmod(0o755)
    before = box.environ["PATH"]
    box.environ["PATH"] = f"{folder}:{before}"
    return lambda: box.environ.update(PATH=before)


def no_repository(box: Box) -> None:
    shutil.rmtree(box.dot)


def head_to_nowhere(box: Box) -> Any:
    head = next((box.dot / "refs/heads").iterdir())
    text = head.read_text()
    head.write_text("1" * 40 + "\n")
    return lambda: head.write_text(text)


def lost_object(box: Box) -> Any:
    box.capsule("2026-01-01-lost")
    oid = box.git(box.vault, "rev-parse", "HEAD^{tree}")
    path = box.dot / "objects" / oid[:2] / oid[2:]
    data = path.read_bytes()
    path.unlink()
    return lambda: path.write_bytes(data)


def bare(box: Box) -> None:
    box.git(box.vault, "config", "core.bare", "true")


def unborn(box: Box) -> None:
    box.git(box.vault, "symbolic-ref", "HEAD", "refs/heads/fresh")


def detached(box: Box) -> None:
    box.git(box.vault, "checkout", "-q", "--detach")


def state_file(name: str, text: str = "x\n") -> Callable[[Box], Any]:
    def make(box: Box) -> Any:
        path = box.dot / name
        path.write_text(text)
        return path.unlink

    return make


def rebasing(box: Box) -> Any:
    (box.dot / "rebase-merge").mkdir()
    return (box.dot / "rebase-merge").rmdir


def bisecting(box: Box) -> None:
    box.git(box.vault, "bisect", "start")


def other_owner(box: Box) -> Any:
    folder = box.seat.parent / "owned"
    folder.mkdir()
    wrapper = folder / "git"
    wrapper.write_text('#!/bin/sh\nGIT_TEST_ASSUME_DIFFERENT_OWNER=1 exec /usr/bin/git "$@"\n')
    wrapper.chmod(0o755)
    before = box.environ["PATH"]
    box.environ["PATH"] = f"{folder}:{before}"
    return lambda: box.environ.update(PATH=before)


def configured(key: str, value: str) -> Callable[[Box], Any]:
    def make(box: Box) -> Any:
        box.git(box.vault, "config", key, value)
        return lambda: box.git(box.vault, "config", "--unset-all", key)

    return make


def configured_for_all(**values: str) -> Callable[[Box], Any]:
    def make(box: Box) -> Any:
        before = Path(box.environ["GIT_CONFIG_GLOBAL"]).read_text()
        for key, value in values.items():
            box.git(box.vault, "config", "--global", key.replace("__", "."), value)
        return lambda: Path(box.environ["GIT_CONFIG_GLOBAL"]).write_text(before)

    return make


def nobody(text: str) -> Callable[[Box], Any]:
    def make(box: Box) -> None:
        Path(box.environ["GIT_CONFIG_GLOBAL"]).write_text(text)

    return make


def hostile_attributes(box: Box) -> Any:
    path = box.vault / ".gitattributes"
    before = path.read_text()
    path.write_text(before + "*.md filter=evil\n")
    return lambda: path.write_text(before)


def old_lock(name: str) -> Callable[[Box], Any]:
    return lambda box: aged(box.dot / name)


def young_lock(name: str) -> Callable[[Box], Any]:
    def make(box: Box) -> Any:
        path = box.dot / name
        path.write_text("")
        return path.unlink

    return make


def branch_lock(box: Box) -> None:
    aged(box.dot / (box.git(box.vault, "symbolic-ref", "HEAD") + ".lock"))


def killed_writer(box: Box) -> None:
    box.runtime.mkdir(exist_ok=True)
    record = {"pid": 999999999, "start": "x", "ref": "", "gitdir": "", "old": "", "new": ""}
    where = {"path": "/nonexistent", "inode": 0}
    (box.runtime / "committing.json").write_text(json.dumps({**record, "index": where, "branch": where}))


def ignored(box: Box) -> Any:
    path = box.seat.parent / "ignore"
    path.write_text("capsules/\n")
    box.git(box.vault, "config", "--global", "core.excludesFile", str(path))
    return path.unlink


def no_driver(box: Box) -> None:
    box.git(box.vault, "config", "--unset", "merge.vault-mem.driver")


def driver_gone(box: Box) -> None:
    box.git(box.vault, "config", "merge.vault-mem.driver", "/gone/bin/vault-mem merge-driver %O %A %B %P")


def no_attributes(box: Box) -> None:
    box.git(box.vault, "rm", "-q", ".gitattributes")
    box.git(box.vault, "commit", "-q", "-m", "gone")


def not_excluded(box: Box) -> None:
    (box.seat / ".git/info/exclude").write_text("")


def tracked(box: Box) -> Any:
    blob = box.git(box.seat, "hash-object", "-w", "--stdin", stdin="x")
    box.git(box.seat, "update-index", "--add", "--cacheinfo", f"100644,{blob},vault/memory/x.md")


def edited(box: Box) -> Any:
    path = box.capsule("2026-01-01-edited")
    text = path.read_text()
    path.write_text(text + "\nby hand\n")
    return lambda: path.write_text(text)


def untracked(box: Box) -> None:
    box.capsule("2026-01-01-new", commit=False)


def vanished(box: Box) -> None:
    box.capsule("2026-01-01-gone").unlink()


def diverged(box: Box) -> Any:
    remote = box.seat.parent / "remote.git"
    box.git(box.seat, "init", "-q", "--bare", str(remote))
    box.git(box.vault, "remote", "add", "origin", str(remote))
    box.git(box.vault, "push", "-q", "-u", "origin", "HEAD")
    box.git(box.vault, "commit", "-q", "--allow-empty", "-m", "there")
    box.git(box.vault, "push", "-q")
    box.git(box.vault, "reset", "-q", "--hard", "HEAD~1")
    box.git(box.vault, "commit", "-q", "--allow-empty", "-m", "here")
    return lambda: box.git(box.vault, "rebase", "-q", "origin/" + box.git(box.vault, "branch", "--show-current"))


def ahead(box: Box) -> Any:
    diverged(box)()
    return lambda: box.git(box.vault, "push", "-q")


def runtime_is_a_file(box: Box) -> None:
    shutil.rmtree(box.runtime, ignore_errors=True)
    box.runtime.write_text("")


def runtime_is_a_link(box: Box) -> None:
    shutil.rmtree(box.runtime, ignore_errors=True)
    (box.seat.parent / "away").mkdir()
    box.runtime.symlink_to(box.seat.parent / "away")


def locked(box: Box) -> Any:
    box.runtime.mkdir(exist_ok=True)
    (box.runtime / "vault.lock").touch()
    code = "import fcntl,sys; f=open(sys.argv[1]); fcntl.flock(f, 2); print('held', flush=True); sys.stdin.read()"
    holder = subprocess.Popen(
        [sys.executable, "-I", "-c", code, str(box.runtime / "vault.lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"

    def let_go() -> None:
        holder.communicate()

    box.cleanup.append(let_go)
    return let_go


def lock_is_a_link(box: Box) -> None:
    box.runtime.mkdir(exist_ok=True)
    (box.runtime / "vault.lock").unlink(missing_ok=True)
    (box.runtime / "vault.lock").symlink_to("elsewhere")


def owed(box: Box) -> None:
    path = box.capsule("2026-01-01-owed", commit=False)
    row = {"id": path.stem, "event": "autosave", "status": "active", "parent": "", "session": "s", "harness": "claude"}
    from vault_mem.capsule import lineage

    whole = lineage.Event(**row, at=time.time())._asdict()
    box.runtime.mkdir(exist_ok=True)
    (box.runtime / "pending.json").write_text(json.dumps({f"capsules/{path.name}": whole}))


def intent(box: Box, capsule: str = "c") -> Path:
    path = box.runtime / "deliveries/s1.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"capsule": capsule, "session": "s1", "at": time.time() - 60}))
    return path


def unfinished_delivery(box: Box) -> Any:
    return intent(box).unlink


def stale_delivery(box: Box) -> None:
    intent(box)
    head = box.git(box.vault, "rev-parse", "HEAD")
    (box.runtime / "index").mkdir(parents=True, exist_ok=True)
    (box.runtime / "index/consumed").write_text(f"\nD c s1 1000\nH {head}\n")


def spooled(box: Box) -> Any:
    path = box.runtime / "spool/s-1.json"
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    return path.unlink


def damaged_state(box: Box) -> None:
    (box.runtime / "cursors").mkdir(parents=True)
    (box.runtime / "cursors/s.json").write_text('{"session": ')


def leftovers(box: Box) -> None:
    aged(box.vault / "capsules/.vault-mem-999999999-1.tmp")


def unsaved(box: Box) -> Any:
    transcript = box.seat.parent / "t.jsonl"
    transcript.write_text('{"type":"user"}\n')
    path = box.runtime / "cursors/s.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"session": "s", "position": [0], "transcript": str(transcript)}))
    return path.unlink


def logged(box: Box, outcome: str = "error:ValueError") -> Path:
    box.runtime.mkdir(exist_ok=True)
    path = box.runtime / "log.jsonl"
    row = {"at": stamps.utc_millis(time.time() - 60), "door": "stop", "outcome": outcome, "session": "s", "detail": "x"}
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")
    return path


def failed_lately(box: Box) -> Any:
    path = logged(box)
    return path.unlink


def bad_setting_file(box: Box) -> Any:
    path = Path(box.environ["XDG_CONFIG_HOME"]) / "vault-mem/config.toml"
    path.parent.mkdir()
    path.write_text("ceiling = false\n")
    return path.unlink


def no_hooks(box: Box) -> None:
    box.settings.unlink()


def one_hook_gone(box: Box) -> None:
    box.hooks(lambda value: value["hooks"].pop("Stop"))


def in_two_scopes(box: Box) -> Any:
    path = Path(box.environ["HOME"]) / ".claude/settings.json"
    path.parent.mkdir()
    shutil.copy(box.settings, path)
    return path.unlink


def twice_in_one_file(box: Box) -> None:
    box.hooks(lambda value: value["hooks"]["Stop"].append(value["hooks"]["Stop"][0]))


def narrow_matcher(box: Box) -> None:
    box.hooks(lambda value: value["hooks"]["SessionStart"][0].update(matcher="startup|resume|clear"))


def wrong_place(box: Box) -> None:
    def change(value: dict[str, Any]) -> None:
        value["hooks"]["Notification"] = value["hooks"]["Stop"]

    box.hooks(change)


def entry_of(value: dict[str, Any], event: str = "Stop") -> Any:
    return value["hooks"][event][0]["hooks"][0]


def program_gone(box: Box) -> None:
    box.hooks(lambda value: entry_of(value).update(command="/gone/venv/bin/vault-mem hook stop"))


def program_not_executable(box: Box) -> None:
    path = box.seat.parent / "bin dir/vault-mem"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\n")
    box.hooks(lambda value: entry_of(value).update(command=f"{shlex.quote(str(path))} hook stop"))


def script(text: str) -> Callable[[Box], Any]:
    def make(box: Box) -> None:
        path = box.seat.parent / "bin dir/vault-mem"
        path.parent.mkdir()
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        box.hooks(lambda value: entry_of(value).update(command=f"{shlex.quote(str(path))} hook stop"))

    return make


def milliseconds(box: Box) -> None:
    box.hooks(lambda value: entry_of(value).update(timeout=15000))


def background(box: Box) -> None:
    box.hooks(lambda value: entry_of(value).update({"async": True}))


def mixed(box: Box) -> Any:
    before = box.settings.read_text()
    box.hooks(lambda value: entry_of(value).update(command=f"{PROGRAM} hook stop; echo done"))
    return lambda: box.settings.write_text(before)


def settings_text(text: str) -> Callable[[Box], Any]:
    def make(box: Box) -> Any:
        path = box.seat / ".claude/settings.local.json"
        path.write_text(text)
        return path.unlink

    return make


def settings_is_a_folder(box: Box) -> Any:
    path = box.seat / ".claude/settings.local.json"
    path.mkdir()
    return path.rmdir


def below(box: Box) -> Any:
    box.cwd = box.seat / "src"
    box.cwd.mkdir()
    return lambda: setattr(box, "cwd", box.seat)


def codex_unreviewed(box: Box) -> Any:
    path = box.seat / ".codex/hooks.json"
    path.parent.mkdir()
    shutil.copy(box.settings, path)
    events = ("session_start", "user_prompt_submit", "post_tool_use", "stop", "pre_compact", "session_end")

    def review() -> None:
        home = Path(box.environ["HOME"]) / ".codex"
        home.mkdir()
        rows = [f'[hooks.state."{path}:{event}:0:0"]\ntrusted_hash = "x"\n' for event in events]
        (home / "config.toml").write_text("".join(rows))

    return review


def stub(box: Box, text: str) -> Path:
    """A client program on PATH that answers with *text* of shell."""
    path = box.seat.parent / "clients/claude"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def client(text: str) -> Callable[[Box], Any]:
    def make(box: Box) -> Any:
        stub(box, text)
        return lambda: stub(box, SOUND)

    return make


def no_clients(box: Box) -> Any:
    stub(box, SOUND).chmod(0o644)
    return lambda: stub(box, SOUND)


def other_tool(event: str, command: str, **more: Any) -> Callable[[Box], Any]:
    def make(box: Box) -> Any:
        before = box.settings.read_text()
        box.foreign(event, command, **more)
        return lambda: box.settings.write_text(before)

    return make


def unquoted(box: Box) -> Any:
    moved = box.seat.with_name("my project")
    box.seat.rename(moved)
    box.__init__(moved, box.environ, box.git)  # type: ignore[misc] # the same box at another place
    box.shell("vault-mem trust")
    return other_tool("Stop", "$CLAUDE_PROJECT_DIR/x.sh")(box)


def no_skill(box: Box) -> None:
    shutil.rmtree(box.seat / ".claude/skills/resume")


def edited_skill(box: Box) -> Any:
    path = box.seat / ".claude/skills/resume/SKILL.md"
    before = path.read_text()
    path.write_text(before.replace("resume", "go on", 1))
    return lambda: path.write_text(before)


def linked_skill(box: Box) -> Any:
    return replaced(box.seat / ".claude/skills/resume", lambda path: path.symlink_to(path.name + ".kept"))


def capsules_link(box: Box) -> Any:
    shutil.rmtree(box.vault / "capsules", ignore_errors=True)
    (box.vault / "capsules").symlink_to(box.seat)
    return (box.vault / "capsules").unlink


def bad_capsule(**fields: str) -> Callable[[Box], Any]:
    def make(box: Box) -> Any:
        return box.capsule("2026-01-01-bad", commit=False, **fields).unlink

    return make


def doubled_id(box: Box) -> Any:
    box.capsule("2026-01-01-one", commit=False)
    return box.capsule("2026-01-01-two", commit=False, id="2026-01-01-one").unlink


def damaged_sections(box: Box) -> Any:
    fields = {"trigger": "stop-delta", "tags": "[capsule, autosave]"}
    return box.capsule("2026-01-01-auto-x", commit=False, body="## Done (don't redo)\n", **fields).unlink


def many(box: Box) -> Any:
    paths = [box.capsule(f"2026-01-01-{number:02}", commit=False) for number in range(13)]
    return lambda: [path.unlink() for path in paths]


FIX, COMMAND = "fix", "command"
FAULTS = (
    ("no-seat", no_seat, None),
    ("root-undeclared", undeclared, COMMAND),
    ("root-unreadable", marker_is_a_folder, None),
    ("root-not-json", broken_declaration("{"), None),
    ("root-not-json", broken_declaration('{"memory_root": "\\ud8'), None),
    ("root-not-object", broken_declaration("[]"), None),
    ("root-not-string", declared(7), None),
    ("root-empty", declared("  "), None),
    ("root-too-long", declared("x" * 241), None),
    ("root-control-character", declared("a\x1bb"), None),
    ("root-backslash", declared("a\\b"), None),
    ("root-absolute", declared("/tmp/x"), None),
    ("root-absolute", declared("C:/x"), None),
    ("root-dot-segment", declared("a/./b"), None),
    ("root-dot-segment", declared("a/"), None),
    ("root-parent-segment", declared("a/../b"), None),
    ("root-symlink", root_behind_a_link, None),
    ("root-not-directory", root_is_a_file, None),
    ("root-not-directory", root_behind_a_file, None),
    ("root-missing", root_is_gone, COMMAND),
    ("switched-off", variable("VAULT_MEM_OFF", "1"), None),
    ("switched-off", variable("LIFECYCLE_KILL_STOP_WRITER", "1"), None),
    ("extension-refused", bad_extension, None),
    ("untrusted", distrusted, COMMAND),
    ("trust-unreadable", trust_record(lambda path: path.write_text("{")), COMMAND),
    ("trust-moved", trust_record(other_memory), COMMAND),
    ("trust-open-to-others", trust_record(lambda path: path.chmod(0o666)), COMMAND),
    ("history-rewritten", rewritten, "vault-mem trust"),
    ("other-vault", replaced_by_another, "vault-mem trust"),
    ("git-missing", git_gone, None),
    ("git-old", old_git, None),
    ("vault-missing", no_repository, COMMAND),
    ("vault-broken", head_to_nowhere, None),
    ("vault-broken", lost_object, None),
    ("vault-bare", bare, COMMAND),
    ("vault-unborn", unborn, FIX),
    ("vault-detached", detached, COMMAND),
    ("vault-mid-merge", state_file("MERGE_HEAD", "0" * 40), None),
    ("vault-mid-rebase", rebasing, None),
    ("vault-mid-pick", state_file("CHERRY_PICK_HEAD"), None),
    ("vault-mid-pick", state_file("REVERT_HEAD"), None),
    ("vault-mid-bisect", bisecting, COMMAND),
    ("other-owner", other_owner, None),
    ("unsafe-git-config", configured("core.sshCommand", "evil"), COMMAND),
    ("unsafe-git-config", configured("filter.x.clean", "evil"), COMMAND),
    ("unsafe-git-config", hostile_attributes, None),
    ("config-ignored", configured("core.fsmonitor", "evil"), None),
    ("index-lock-left", old_lock("index.lock"), FIX),
    ("index-locked", young_lock("index.lock"), None),
    ("ref-lock-left", old_lock("HEAD.lock"), FIX),
    ("ref-lock-left", branch_lock, FIX),
    ("ref-locked", young_lock("HEAD.lock"), None),
    ("unfinished-commit", killed_writer, FIX),
    ("identity-missing", nobody(""), COMMAND),
    ("identity-config-only", nobody("[user]\n\tuseConfigOnly = true\n"), COMMAND),
    ("signing-unusable", configured_for_all(commit__gpgSign="true", gpg__program="/nonexistent/gpg"), None),
    ("signing-off-for-saves", configured_for_all(commit__gpgSign="true", gpg__program="/bin/true"), None),
    ("hooks-path-off-for-saves", configured_for_all(core__hooksPath="/nonexistent"), None),
    ("capsules-ignored", ignored, None),
    ("driver-missing", no_driver, FIX),
    ("driver-gone", driver_gone, FIX),
    ("attributes-missing", no_attributes, FIX),
    ("not-excluded", not_excluded, FIX),
    ("root-tracked", tracked, COMMAND),
    ("edited-outside", edited, None),
    ("untracked-capsule", untracked, COMMAND),
    ("capsule-vanished", vanished, COMMAND),
    ("diverged", diverged, None),
    ("unsynced", ahead, None),
    ("runtime-unusable", runtime_is_a_file, COMMAND),
    ("runtime-unusable", runtime_is_a_link, COMMAND),
    ("vault-lock-held", locked, None),
    ("lock-unusable", lock_is_a_link, COMMAND),
    ("commit-owed", owed, FIX),
    ("delivery-unfinished", unfinished_delivery, None),
    ("delivery-stale", stale_delivery, FIX),
    ("spooled", spooled, None),
    ("state-damaged", damaged_state, FIX),
    ("leftovers", leftovers, FIX),
    ("unsaved-work", unsaved, None),
    ("recent-failures", failed_lately, None),
    ("bad-settings", variable("VAULT_MEM_CEILING", "much"), None),
    ("bad-settings", bad_setting_file, None),
    ("hooks-missing", no_hooks, COMMAND),
    ("hook-missing", one_hook_gone, FIX),
    ("hook-missing", one_hook_gone, COMMAND),
    ("hook-doubled", in_two_scopes, None),
    ("hook-doubled", twice_in_one_file, FIX),
    ("hook-matcher", narrow_matcher, FIX),
    ("hook-wrong-place", wrong_place, FIX),
    ("hook-program-missing", program_gone, FIX),
    ("hook-program-missing", program_gone, COMMAND),
    ("hook-program-missing", program_not_executable, FIX),
    ("hook-fails", script("exit 3"), "vault-mem init"),
    ("hook-fails", script("echo hello"), "vault-mem init"),
    ("hook-blocks", script("exit 2"), "vault-mem init"),
    ("hook-timeout-unit", milliseconds, FIX),
    ("hook-background", background, FIX),
    ("hook-mixed", mixed, None),
    ("settings-malformed", settings_text("{"), None),
    ("settings-malformed", settings_text('{"hooks": {"Stop": "echo"}}'), None),
    ("settings-malformed", settings_text('{"hooks": {"Stop": [{"type": "command", "command": "x"}]}}'), None),
    ("settings-malformed", settings_text('{"hooks": []}'), None),
    ("settings-unreadable", settings_is_a_folder, None),
    ("hooks-disabled", settings_text('{"disableAllHooks": true}'), None),
    ("started-below-root", below, None),
    ("bad-client-home", variable("CLAUDE_CONFIG_DIR", "relative"), None),
    ("codex-unreviewed", codex_unreviewed, None),
    ("ceiling-above-compaction", variable("CLAUDE_CODE_AUTO_COMPACT_WINDOW", "100000"), None),
    ("ceiling-above-compaction", variable("CLAUDE_CODE_AUTO_COMPACT_WINDOW", "300000"), None),
    ("client-missing", no_clients, None),
    ("client-silent", client("exit 1"), None),
    ("client-old", client("echo 1.0.3"), None),
    ("foreign-timeout-unit", other_tool("Stop", "true", timeout=10000), None),
    ("foreign-unquoted", unquoted, None),
    ("foreign-missing", other_tool("Stop", "/nonexistent/tool"), None),
    ("foreign-recursion", other_tool("Stop", "claude -p 'sum up'"), None),
    ("foreign-lifecycle", other_tool("Stop", "node .claude/hooks/stop-capsule-writer.mjs"), None),
    ("two-memories", other_tool("SessionStart", "npx claude-mem context"), None),
    ("skill-missing", no_skill, COMMAND),
    ("skill-edited", edited_skill, None),
    ("skill-link", linked_skill, None),
    ("capsules-unreadable", capsules_link, None),
    ("capsule-rejected", bad_capsule(objective=""), None),
    ("capsule-rejected", bad_capsule(created_at="soon"), None),
    ("capsule-rejected", bad_capsule(status="done"), None),
    ("capsule-future", bad_capsule(created_at="2999-01-01T00:00:00Z"), None),
    ("capsule-duplicate-id", doubled_id, None),
    ("capsule-anchors", damaged_sections, None),
    ("capsule-invalid", bad_capsule(waiting_on="null"), None),
    ("only-placeholders", bad_capsule(next_valid_action="No concrete next action was captured."), None),
    ("capsules-waiting", many, None),
)
RUN_HOOKS = ("hook-fails", "hook-blocks")
NOT_IN_THE_TABLE = {
    # Their own tests below or beside: another kind of seat, a full disk, another clock, a proof.
    "vault-adopted-no-repo",
    "mirrored",
    "read-only",
    "disk-full",
    "disk-low",
    "clock",
    "root-uninspectable",
    "check-failed",
    "proof-save",
    "proof-resume",
    "proof-undo",
    "proof-touched",
    "proved",
    "proved-despite",
}


def rows() -> tuple[Any, ...]:
    return tuple(
        pytest.param(token, make, how, id=f"{token}-{number}") for number, (token, make, how) in enumerate(FAULTS)
    )


@pytest.mark.parametrize(("token", "make", "how"), rows())
def test_a_fault_is_found_mended_and_gone(box: Box, token: str, make: Callable[[Box], Any], how: str | None) -> None:
    runs = token in RUN_HOOKS
    before = box.tokens(run_hooks=runs)
    mend = make(box)
    found = box.tokens(run_hooks=runs)

    assert token not in before
    assert token in found, sorted(found)
    assert found[token].severity == KINDS[token].severity
    assert found[token].what
    assert found[token].why

    if how == FIX:
        done = [each for each in box.fix() if each.token == token]
        assert [each.done for each in done] == [True] * len(done), done
    elif how == COMMAND:
        box.shell(found[token].fix)
    elif how:
        box.shell(how)
    else:
        mend()
    after = box.tokens(run_hooks=runs)

    assert token not in after, after[token]


def test_every_finding_has_a_row() -> None:
    assert {token for token, _, _ in FAULTS} | NOT_IN_THE_TABLE == set(KINDS)


def test_what_says_it_is_mended_by_fix_is(box: Box) -> None:
    del box

    assert {token for token, kind in KINDS.items() if kind.fixed} == repair.MENDED
