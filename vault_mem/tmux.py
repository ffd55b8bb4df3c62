"""The one place that runs tmux: facts of a pane, its composer row, keys. Every call has a time limit; panes are named by `%id` on one socket.

Commands used: `list-panes`, `capture-pane`, `send-keys`. `display-message` is never used: it answers for another pane when its target is gone.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass

from vault_mem.errors import VaultMemError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

LIMIT = 3.0
PANE = re.compile(r"%[0-9]+\Z")
_FIELDS = (
    "pane_id",
    "pane_pid",
    "pane_tty",
    "pane_dead",
    "pane_in_mode",
    "pane_input_off",
    "pane_synchronized",
    "cursor_y",
    "pid",
    "pane_height",
)
_GLYPHS = ("\u276f", "\u203a")
_BORDERS = "│┃|"
_STYLE = re.compile(r"\x1b\[([0-9;:]*)m")
_OTHER = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][A-Za-z0-9])")
_DARK = 128
_BUSY = re.compile(r"esc (?:to )?interrupt|Working\.\.\.|Ctrl\+c:cancel", re.IGNORECASE)


_DIALOG = re.compile(
    r"^\W{0,4}(?:[\u276f>]\s*)?\d\. (?:Yes|No|Allow|Deny)\b|^\W{0,4}Do you want to |\bEsc to cancel\b|\[y/N\]|\(y/n\)",
    re.IGNORECASE | re.MULTILINE,
)


class TmuxError(VaultMemError):
    """tmux did not answer, refused, or took too long."""

    token = "tmux-failed"


@dataclass(frozen=True, slots=True)
class Place:
    """A pane: socket path, process id of the server that `$TMUX` names, pane id."""

    socket: str
    server: int
    pane: str


@dataclass(frozen=True, slots=True)
class Pane:
    """What tmux says about a pane."""

    pid: int
    tty: str
    dead: bool
    mode: bool
    input_off: bool
    synchronized: bool
    cursor: int
    server: int
    height: int


def place(environ: Mapping[str, str]) -> Place | None:
    """The pane that the environment names; None outside tmux, or where the values make no sense."""
    socket, _, rest = environ.get("TMUX", "").partition(",")
    server, pane = rest.partition(",")[0], environ.get("TMUX_PANE", "")
    if not os.path.isabs(socket) or not server.isdigit() or not PANE.match(pane):
        return None
    return Place(socket, int(server), pane)


def run(socket: str, *arguments: str) -> str:
    """Standard output of one tmux command. Raises TmuxError; a call that hangs is ended after LIMIT seconds."""
    try:
        done = subprocess.run(
            ["tmux", "-u", "-S", socket, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TmuxError(f"tmux {arguments[0]} did not answer within {LIMIT:.0f}s") from error
    except OSError as error:
        raise TmuxError(f"tmux cannot be started: {error.strerror}") from error
    if done.returncode:
        raise TmuxError(f"tmux {arguments[0]}: {done.stderr.decode('utf-8', 'replace').strip()[:200]}")
    return done.stdout.decode("utf-8", "replace")


def look(at: Place) -> Pane | None:
    """The pane as it is; None when no pane of the socket has this id. Raises TmuxError."""
    form = "\t".join(f"#{{{name}}}" for name in _FIELDS)
    rows = [line.split("\t") for line in run(at.socket, "list-panes", "-a", "-F", form).splitlines()]
    mine = {row[0]: row for row in rows if row[0] == at.pane and len(row) == len(_FIELDS)}
    # A window that several sessions share is listed once for each; more than one pane cannot have the id.
    row = mine.get(at.pane)
    if row is None:
        return None
    dead, mode, off, together = (value not in ("", "0") for value in row[3:7])
    return Pane(
        int(row[1] or 0), row[2], dead, mode, off, together, int(row[7] or 0), int(row[8] or 0), int(row[9] or 0)
    )


def composer(at: Place, pane: Pane, *, dark: int = _DARK, placeholder: str = "") -> str | None:
    """The text in the composer, "" when it is empty; None when the cursor stands in no composer (a dialog, a shell, another program).

    dark: brightness below which text is a hint of the client; placeholder: an expression for a text that counts as empty.
    """
    text = run(at.socket, "capture-pane", "-p", "-e", "-N", "-t", at.pane)
    rows = text.split("\n")
    for up in range(4):  # a long text wraps: the prompt glyph stands some rows above the cursor
        if pane.cursor - up < 0 or pane.cursor >= len(rows):
            return None
        plain = _visible(rows[pane.cursor - up], dark).strip().strip(_BORDERS).strip()
        if plain.startswith(_GLYPHS):
            body = "".join(_visible(row, dark).rstrip("\n") for row in rows[pane.cursor - up : pane.cursor + 1])
            inner = body.strip().strip(_BORDERS).strip()[1:]
            held = inner.replace("\u00a0", " ").strip()
            return "" if placeholder and re.fullmatch(placeholder, held) else held
    return None


def asking(at: Place) -> bool:
    """Whether a question with choices is on the screen, which would take a key as its answer. Raises TmuxError."""
    return bool(_DIALOG.search(run(at.socket, "capture-pane", "-p", "-t", at.pane)))


def busy(at: Place, footer: str = "") -> bool:
    """Whether the pane shows the footer of a running turn, by ours or the given expression. Raises TmuxError."""
    return bool(
        (re.compile(footer, re.IGNORECASE) if footer else _BUSY).search(
            run(at.socket, "capture-pane", "-p", "-t", at.pane)
        )
    )


def _visible(row: str, dark: int) -> str:
    """The row without dim and dark text (hints a client draws itself) and without terminal sequences."""
    kept, hidden, at = [], False, 0
    for found in _STYLE.finditer(row):
        if not hidden:
            kept.append(row[at : found.start()])
        hidden = _is_hidden(found.group(1), dark, hidden=hidden)
        at = found.end()
    if not hidden:
        kept.append(row[at:])
    return _OTHER.sub("", "".join(kept))


def _is_hidden(codes: str, dark: int, *, hidden: bool) -> bool:
    parts = list(re.split("[;:]", codes)) if codes else ["0"]
    index = 0
    while index < len(parts):
        code = parts[index]
        if code in ("", "0", "22", "39"):
            hidden = False
        elif code == "2":
            hidden = True
        elif code == "38" and parts[index + 1 : index + 2] == ["2"]:
            shades = [int(value) for value in parts[index + 2 : index + 5] if value.isdigit()]
            hidden = len(shades) == 3 and sum(w * v for w, v in zip((299, 587, 114), shades, strict=True)) / 1000 < dark
            index += 4
        elif code in ("38", "48") and parts[index + 1 : index + 2] == ["5"]:
            index += 2
        elif code == "48" and parts[index + 1 : index + 2] == ["2"]:
            index += 4
        index += 1
    return hidden


def type_text(at: Place, text: str) -> None:
    """Type *text* as keys; a semicolon at the end would be tmux's own separator and is escaped. Raises TmuxError."""
    given = text[:-1] + "\\;" if text.endswith(";") else text
    run(at.socket, "send-keys", "-t", at.pane, "-l", "--", given)


def press(at: Place, key: str, times: int = 1) -> None:
    """Press a named key. Raises TmuxError."""
    run(at.socket, "send-keys", "-t", at.pane, "-N", str(times), key)
