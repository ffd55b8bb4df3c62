"""`vault-mem injected [SESSION]`: what a session was told, byte for byte, and whether history vouches for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vault_mem import injections, jsontext, stamps
from vault_mem.capsule.inert import inert, plain
from vault_mem.cli.arguments import Parser
from vault_mem.vault import store as seats

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TextIO

    from vault_mem.injections import Injection


def run(
    command: str,
    arguments: Sequence[str],
    *,
    environ: Mapping[str, str],
    cwd: str,
    now: float,
    program: str,
    out: TextIO,
    err: TextIO,
) -> int:
    """Without a session: the sessions that were told anything. With one: its texts, oldest first."""
    del now, program
    parser = Parser(
        command,
        "What a session was told, byte for byte.",
        example="vault-mem injected 5e551011-0000-4000-8000-000000000000",
    )
    parser.add_argument("session", nargs="?", default="", metavar="SESSION", help="its id, or how it begins")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    options = parser.read(arguments, out=out)
    if options is None:
        return 0
    store = seats.opened(explicit=options.root, environ=environ, cwd=cwd)
    known = injections.sessions(store.runtime)
    if options.session:
        known = tuple(name for name in known if name.startswith(options.session))
    if not known:
        err.write("vault-mem: nothing-injected: no session here was told anything by that name\n")
        return 4
    told = [each for name in known for each in injections.read(store.runtime, name)]
    if options.json:
        out.write(jsontext.dumps(_document(told, whole=bool(options.session)), escaped=True) + "\n")
    elif options.session:
        for each in told:
            _show(each, out)
    else:
        for each in told:
            out.write(f"{_line(each)}\n")
    return 0 if all(each.whole for each in told) else 1


def _line(each: Injection) -> str:
    mark = "" if each.whole else "  CHANGED SINCE: the text has another hash"
    size = len(each.text.encode("utf-8", "replace"))
    return (
        f"{stamps.utc(each.at)}  {plain(each.session, limit=80)}  {plain(each.source, limit=20)}  {size} bytes  "
        f"sha256 {plain(each.hash, limit=64)}{mark}"
    )


def _show(each: Injection, out: TextIO) -> None:
    """The text as it was told; one whose hash differs was changed on disk and is only quoted."""
    out.write(f"--- {_line(each)}\n")
    if each.whole and not any(char < " " and char != "\n" for char in each.text):
        out.write(each.text if each.text.endswith("\n") else f"{each.text}\n")
    else:
        out.writelines(f"{inert(line, limit=2000)}\n" for line in each.text.splitlines())


def _document(told: Sequence[Injection], *, whole: bool) -> dict[str, Any]:
    rows = []
    for each in told:
        row: dict[str, Any] = {"session": each.session, "at": stamps.utc_millis(each.at), "source": each.source}
        row |= {"sha256": each.hash, "whole": each.whole}
        rows.append(row | ({"text": each.text} if whole else {}))
    return {
        "schema": "vault-mem/injected/1",
        "command": "injected",
        "ok": all(each.whole for each in told),
        "injections": rows,
    }
