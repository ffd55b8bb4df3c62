"""A user's settings: the environment, else `config.toml` in the user's configuration, never anything inside a tree.

The hook path pays for `tomllib` (it imports `re`) only where the file exists. A value that cannot be used is named in `problems`
and the default stands, because a hook must go on.
"""

from __future__ import annotations

import os

from vault_mem.record import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

RETIRE_AFTER = 256
CEILING = 300_000
CEILING_SHARE = 80
FILE_LIMIT = 256 * 1024


class Settings(NamedTuple):
    """What a person can choose; *retire_after* None is `never`, *ceiling* is in tokens, *ceiling_share* in percent of a known window."""

    integrity: str = "report"
    retire_after: int | None = RETIRE_AFTER
    selection: str = "seat"
    ceiling: int = CEILING
    ceiling_share: int = CEILING_SHARE
    sign: bool = False
    autosync: bool = False
    durable: bool = True
    problems: tuple[str, ...] = ()


def config_file(environ: Mapping[str, str]) -> str:
    """Where this user's settings lie; "" when no home is known. An empty or relative XDG_CONFIG_HOME counts as unset."""
    config = environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(config):
        home = environ.get("HOME", "")
        if not os.path.isabs(home):
            return ""
        config = os.path.join(home, ".config")
    return os.path.join(config, "vault-mem", "config.toml")


def load(*, environ: Mapping[str, str], seat: str = "") -> Settings:
    """The settings that hold for the seat with id *seat*: environment over `[seat."<id>"]` over the top level of the file."""
    values, problems = _of_file(config_file(environ), seat)
    for name in _READERS:
        text = environ.get(f"VAULT_MEM_{name.upper()}", "").strip()
        if text:
            values[name] = (f"VAULT_MEM_{name.upper()}", text)
    chosen: dict[str, Any] = {}
    for name, (where, value) in values.items():
        try:
            chosen.update(_READERS[name](value))
        except ValueError as error:
            problems.append(f"{where}: {error}")
    return Settings(problems=tuple(problems), **chosen)


def _of_file(path: str, seat: str) -> tuple[dict[str, tuple[str, object]], list[str]]:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK) if path else -1
    except OSError as error:
        missing = isinstance(error, (FileNotFoundError, NotADirectoryError))
        return {}, [] if missing else [f"{path}: cannot be read ({error.strerror})"]
    if handle < 0:
        return {}, []
    import tomllib

    try:
        with open(handle, "rb") as file:
            table = tomllib.loads(file.read(FILE_LIMIT).decode("utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        return {}, [f"{path}: {error}"]
    found: dict[str, tuple[str, object]] = {}
    seats = table.pop("seat", {})
    own = seats.get(seat, {}) if isinstance(seats, dict) else {}
    problems = [] if isinstance(own, dict) else [f'{path}: seat."{seat}" is not a table']
    for where, part in ((path, table), (f'{path}: seat."{seat}"', own if isinstance(own, dict) else {})):
        for name, value in part.items():
            if name in _READERS:
                found[name] = (f"{where}: {name}", value)
            else:
                problems.append(f"{where}: {name} is not a setting")
    return found, problems


def _one_of(name: str, *words: str) -> Callable[[object], dict[str, Any]]:
    def read(value: object) -> dict[str, Any]:
        if value not in words:
            raise ValueError(f"must be one of {', '.join(words)}")
        return {name: value}

    return read


def _yes_no(name: str) -> Callable[[object], dict[str, Any]]:
    def read(value: object) -> dict[str, Any]:
        word = str(value).lower() if isinstance(value, (str, bool, int)) else ""
        if word not in ("1", "true", "yes", "on", "0", "false", "no", "off"):
            raise ValueError("must be true or false")
        return {name: word in ("1", "true", "yes", "on")}

    return read


def _count(value: object) -> int:
    if isinstance(value, str) and value.isascii() and value.replace("_", "").isdigit():
        value = int(value.replace("_", ""))
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError("must be a number of at least 1")
    return value


def _retire_after(value: object) -> dict[str, Any]:
    return {"retire_after": None if value == "never" else _count(value)}


def _ceiling(value: object) -> dict[str, Any]:
    """Tokens, a share of the window (`70%`), or both (`250000, 70%`)."""
    chosen: dict[str, Any] = {}
    for part in value.split(",") if isinstance(value, str) else (value,):
        word = part.strip() if isinstance(part, str) else part
        if isinstance(word, str) and word.endswith("%"):
            share = _count(word[:-1].strip())
            if share > 100:
                raise ValueError("must be at most 100%")
            chosen["ceiling_share"] = share
        else:
            chosen["ceiling"] = _count(word)
    return chosen


_READERS: dict[str, Callable[[object], dict[str, Any]]] = {
    "integrity": _one_of("integrity", "report", "refuse"),
    "retire_after": _retire_after,
    "selection": _one_of("selection", "seat", "project"),
    "ceiling": _ceiling,
    "sign": _yes_no("sign"),
    "autosync": _yes_no("autosync"),
    "durable": _yes_no("durable"),
}
