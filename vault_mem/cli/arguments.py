"""The argument parser of the commands a person types: a wrong word is exit 64 with a sentence, never argparse's own exit 2."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, NoReturn

from vault_mem.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO


class Parser(argparse.ArgumentParser):
    """`--root` everywhere, long options in full, an example in every help text."""

    def __init__(self, command: str, text: str, *, example: str) -> None:
        super().__init__(
            prog=f"vault-mem {command}",
            description=text,
            epilog=f"example: {example}",
            allow_abbrev=False,
            exit_on_error=False,
            add_help=False,
        )
        self.add_argument("--root", default="", metavar="DIR", help="the seat, instead of looking for one")
        self.add_argument("-h", "--help", action="store_true", help="show this and leave")

    def error(self, message: str) -> NoReturn:
        """Raise UsageError instead of leaving with 2."""
        raise UsageError(f"{message}; see `{self.prog} --help`")

    def read(self, arguments: Sequence[str], *, out: TextIO) -> argparse.Namespace | None:
        """The options; None when help was asked for and printed. Raises UsageError."""
        if {"-h", "--help"} & set(arguments):
            out.write(self.format_help())
            return None
        try:
            return self.parse_args(arguments)
        except argparse.ArgumentError as error:
            raise UsageError(f"{error}; see `{self.prog} --help`") from error
