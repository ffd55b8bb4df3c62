"""The program: hooks and `resume` are dispatched before any argument parser is imported."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

LOOKING = ("list", "show", "diff", "log", "explain")
"""Commands that only look at the vault: started often, by people and by skills."""


def script() -> None:
    """What the installed script and `python -m vault_mem` run. A hook leaves without Python's own tidying up.

    Taking modules apart at exit costs 2.4 ms of CPU a hook and the cyclic collector 1 ms while they are loaded
    (docs/explanation/performance.md); a hook writes through file descriptors, so nothing is lost in a buffer.
    """
    given = sys.argv[1:]
    open_standard_streams()
    hot = given[:1] in (["hook"], ["resume"])
    if sys.flags.no_site:
        _without_site(hot=hot)
    if not hot:
        sys.exit(_looked(given) if given and given[0] in LOOKING else main(given))
    import gc

    gc.disable()
    from vault_mem import image

    served = image.install()
    try:
        served.ahead(given[0])
        code = main(given)
        image.refresh(served)
    except BaseException as error:  # noqa: BLE001 - the doors catch what they can name; a session never gets a traceback
        code = 0 if given[0] == "hook" or given == ["resume"] else 1
        try:
            os.write(2, f"vault-mem: error:{type(error).__name__}: {error}\n".encode("utf-8", "replace"))
        except OSError:
            pass
    os._exit(code)


def _without_site(*, hot: bool) -> None:
    """What our own script starts (`install/launcher.py`): a Python that knows no packages yet. A hook asks for them only when it needs one."""
    if hot:
        sys.meta_path.append(_Packages())
        return
    import site

    site.main()


class _Packages:
    """The last to be asked for a module: looks where an ordinary Python would have looked from the start."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module, with the folders of installed packages on the path from now on."""
        sys.meta_path.remove(self)
        import site
        from importlib.machinery import PathFinder

        site.main()
        return PathFinder.find_spec(name, path, target)


def _looked(given: Sequence[str]) -> int:
    """The same for a command that only looks: it ends here unless something could not be written out, which Python then says."""
    import gc

    gc.disable()
    from vault_mem import image

    served = image.install(image.LOOKS)
    code = main(given)
    image.refresh(served)
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except (OSError, ValueError):
        return code
    os._exit(code)


def open_standard_streams() -> None:
    """Gives 0, 1 and 2 something where the caller closed them.

    Otherwise the next file that is opened gets that number: with standard output closed that is the vault lock, and a delivery would be
    written into it and count. What stands in for standard output cannot be written, so that a text that got nowhere is known to have.
    """
    for number, flags in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, flags), True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code, never 2: clients read 2 as "block"."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    match given:
        case ["hook", *rest]:
            from vault_mem.hooks import run

            return run.main(rest)
        case ["resume", *rest]:
            from vault_mem.hooks import start

            return start.main(rest)
        case _:
            from vault_mem.cli import main as commands

            return commands.main(given, program=program())


def program() -> str:
    """The absolute path people and clients start this program by; links are kept, for a venv's `bin` is where it belongs."""
    return os.path.abspath(sys.argv[0])
