"""A stand-in for an AI terminal client in a tmux pane: composer row, transcript, SessionStart hook, `/clear`; no model, no network.

Files in --ctl drive it: NAME.tool runs as a tool call (the busy line is shown), NAME.hook as a hook; NAME.rc and NAME.out answer. Submitted
lines go to `submitted` (one repr a line), every byte that arrives to `bytes`.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import select
import subprocess
import sys
import termios
import time
import tty
import uuid
from pathlib import Path
from typing import Any

BUSY, IDLE = "  esc to interrupt", "  ? for shortcuts"


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ctl", required=True)
    parser.add_argument("--sid", required=True)
    parser.add_argument("--transcript", required=True)
    parser.add_argument("--hook", default="")
    parser.add_argument("--name", default="claude")
    parser.add_argument("--draft", default="")
    parser.add_argument("--swallow", type=int, default=0, help="the first N Enters are lost")
    parser.add_argument("--loop-ms", type=int, default=0, help="a slow event loop")
    parser.add_argument(
        "--paste-bytes", type=int, default=0, help="a read of so many bytes is a paste, its Enter a newline"
    )
    parser.add_argument("--dialog", action="store_true")
    parser.add_argument("--deaf", action="store_true", help="nothing that is typed is shown")
    parser.add_argument("--no-clear-event", action="store_true")
    return parser.parse_args()


class Client:
    def __init__(self, given: argparse.Namespace) -> None:
        self.given, self.ctl = given, Path(given.ctl)
        self.sid, self.path = given.sid, Path(given.transcript)
        self.text, self.swallow = given.draft, given.swallow
        self.child: tuple[subprocess.Popen[bytes], Path] | None = None
        self.busy = False
        self.environ = {**os.environ, "CLAUDECODE": "1"}

    def fire(self, source: str) -> None:
        if not self.given.hook or (source == "clear" and self.given.no_clear_event):
            return
        payload = {"session_id": self.sid, "transcript_path": str(self.path), "cwd": str(Path.cwd()), "source": source}
        payload["hook_event_name"] = "SessionStart"
        done = subprocess.run(
            self.given.hook,
            shell=True,
            input=json.dumps(payload),
            text=True,
            capture_output=True,
            env=self.environ,
            check=False,
        )
        with (self.ctl / "starts").open("a") as file:
            file.write(json.dumps({"source": source, "sid": self.sid, "out": done.stdout, "err": done.stderr}) + "\n")

    def record(self, **fields: Any) -> None:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
        row = {"isSidechain": False, "sessionId": self.sid, "uuid": str(uuid.uuid4()), "timestamp": stamp, **fields}
        with self.path.open("a") as file:
            file.write(json.dumps(row) + "\n")

    def draw(self) -> None:
        rule = "\u2500" * 40
        rows = ["\x1b[H\x1b[2J stand-in client", ""]
        if self.given.dialog:
            rows += ["Do you want to proceed?", " \u276f 1. Yes", "   2. No"]
        shown = "" if self.given.deaf else self.text.replace("\n", "\u23ce")
        rows += [rule, f"\u276f\u00a0{shown}\x1b7", rule, BUSY if self.busy else IDLE]
        sys.stdout.write("\r\n".join(rows) + "\x1b8")
        sys.stdout.flush()

    def submit(self, line: str) -> None:
        with (self.ctl / "submitted").open("a") as file:
            file.write(repr(line) + "\n")
        if line == "/clear":
            self.sid = str(uuid.uuid4())
            self.path = self.path.parent / f"{self.sid}.jsonl"
            self.record(type="user", message={"role": "user", "content": "<command-name>/clear</command-name>"})
            self.fire("clear")
        elif line.strip():
            message = {"role": "user", "content": line}
            self.record(type="user", origin={"kind": "human"}, promptSource="typed", message=message)

    def work(self) -> None:
        if self.child is not None and self.child[0].poll() is not None:
            self.child[1].with_suffix(".rc").write_text(str(self.child[0].returncode))
            self.child, self.busy = None, False
            self.draw()
        jobs = sorted([*self.ctl.glob("*.tool"), *self.ctl.glob("*.hook")]) if self.child is None else []
        for job in jobs[:1]:
            text = job.read_text()
            job.rename(job.with_suffix(".done"))
            with job.with_suffix(".out").open("wb") as out:
                started = subprocess.Popen(
                    ["/bin/bash", "-c", text], stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=self.environ
                )
            self.child, self.busy = (started, job), job.suffix == ".tool"
            self.draw()

    def take(self, raw: bytes) -> None:
        with (self.ctl / "bytes").open("ab") as file:
            file.write(raw)
        paste = 0 < self.given.paste_bytes <= len(raw)
        for char in raw.decode("utf-8", "replace"):
            if self.given.dialog:
                if char in "\r\n123":
                    self.submit(f"dialog:{char}")
            elif char in "\r\n" and paste:
                self.text += "\n"
            elif char in "\r\n" and self.swallow > 0:
                self.swallow -= 1
            elif char in "\r\n":
                line, self.text = self.text, ""
                self.submit(line)
            elif char in "\x7f\x08":
                self.text = self.text[:-1]
            elif char >= " ":
                self.text += char
        self.draw()

    def run(self) -> None:
        self.fire("startup")
        self.draw()
        (self.ctl / "ready").touch()
        while True:
            self.work()
            if not select.select([0], [], [], 0.03)[0]:
                continue
            time.sleep(self.given.loop_ms / 1000)
            raw = os.read(0, 4096)
            if not raw:
                return
            self.take(raw)


def main() -> None:
    given = options()
    try:
        ctypes.CDLL(None).prctl(15, given.name.encode()[:15], 0, 0, 0)
    except (OSError, AttributeError):
        pass  # the name of a process can be set this way on Linux only
    before = termios.tcgetattr(0)
    tty.setraw(0)
    try:
        Client(given).run()
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


if __name__ == "__main__":
    main()
