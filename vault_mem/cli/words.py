"""Reading a command line of flags and values without `argparse` (18 ms of CPU); whatever is unusual is asked again of it, for its messages."""

from __future__ import annotations

from vault_mem.errors import UsageError
from vault_mem.record import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn, TextIO

    Options = dict[str, str]
    """Every option and the positional by their names; a flag is "1" or empty."""


class Option(NamedTuple):
    """An option; one without *metavar* is a flag."""

    name: str
    metavar: str
    text: str


class Command(NamedTuple):
    """What a command takes. positional: empty for none, in brackets when it may be left out, with a blank in it for two words."""

    text: str
    example: str
    options: tuple[Option, ...]
    positional: str = ""
    about: str = ""


ROOT = Option("--root", "DIR", "the seat, instead of looking for one")


def read(name: str, command: Command, arguments: Sequence[str], *, out: TextIO) -> Options | None:
    """The options; None when help was asked for and printed. Raises UsageError."""
    known = {option.name: option for option in (ROOT, *command.options)}
    found = dict.fromkeys(known, "")
    places: list[str] = []
    rest = list(arguments)
    plain = True
    while rest and plain:
        word = rest.pop(0)
        key, equals, value = word.partition("=")
        option = known.get(key)
        if option is None:
            # `-n20` and an id after `--` are for argparse.
            plain = not word.startswith("-")
            places.append(word)
        elif not option.metavar:
            plain, found[key] = not equals, "1"
        elif equals or (rest and not rest[0].startswith("-")):
            found[key] = value if equals else rest.pop(0)
        else:
            plain = False
    most = len(command.positional.split()) if command.positional else 0
    least = int(bool(command.positional) and not command.positional.startswith("["))
    if not plain or not least <= len(places) <= most:
        return _argparse(name, command, arguments, out=out)
    return {**found, command.positional: " ".join(places)}


def _argparse(name: str, command: Command, arguments: Sequence[str], *, out: TextIO) -> Options | None:
    from vault_mem.cli.arguments import Parser

    parser = Parser(name, command.text, example=command.example)
    for option in command.options:
        if option.metavar:
            parser.add_argument(option.name, default="", metavar=option.metavar, help=option.text, dest=option.name)
        else:
            parser.add_argument(
                option.name, action="store_const", const="1", default="", help=option.text, dest=option.name
            )
    if command.positional:
        words = command.positional.split()
        count = "?" if command.positional.startswith("[") else "+" if len(words) > 1 else None
        parser.add_argument(
            command.positional, nargs=count, default="", metavar=words[0].strip("[]"), help=command.about
        )
    given = parser.read(arguments, out=out)
    if given is None:
        return None
    values = vars(given)
    found = {option.name: str(values[option.name]) for option in command.options}
    place = values.get(command.positional, "") if command.positional else ""
    text = " ".join(place) if isinstance(place, list) else str(place)
    return {"--root": str(values["root"]), **found, command.positional: text}


def number(command: str, option: str, text: str, default: int) -> int:
    """The value of an option that is a whole number from 0 up. Raises UsageError."""
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        refuse(command, f"{option} takes a number, not {text!r}")
    return int(text)


def refuse(command: str, problem: str) -> NoReturn:
    """Raise the UsageError of a command."""
    raise UsageError(f"{problem}; see `vault-mem {command} --help`")
