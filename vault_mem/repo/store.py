"""Reading history: through GitPython, whose import costs as much as fifteen commits, or quickly for a command that people wait for.

It hands the environment of this process to every child and can add to it but not take away, so every call goes through `env -u`, which
takes away the variables that would lead git elsewhere.
"""

from __future__ import annotations

from vault_mem.errors import GitRefusedError
from vault_mem.repo import program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from typing import Any, Protocol
else:
    Protocol = object

LIMIT = 30.0
PATIENCE = 300.0  # for a person who asked for a whole history: 100,000 commits take 10 s on a busy machine


class Reading(Protocol):
    """What answers questions to git: *rev* is what to call the newest commit of the vault, `text` is stdout of one git."""

    rev: str

    def text(self, *arguments: str) -> str:
        """Stdout of `git <arguments>`; GitRefusedError when git fails."""


class Quick:
    """A few questions without GitPython, where its import would cost more than all of them."""

    def __init__(self, root: str, *, environ: Mapping[str, str], rev: str = "HEAD") -> None:
        self.rev = rev
        self._root, self._environ = root, environ

    def text(self, *arguments: str) -> str:
        """Stdout of `git <arguments>`, every byte of it; GitRefusedError when git fails."""
        given = ["--no-optional-locks", "--no-replace-objects", *arguments]
        answer = program.run(given, worktree=self._root, environ=self._environ, limit=PATIENCE)
        if answer.code:
            raise program.refusal(answer)
        return answer.out.decode("utf-8", "surrogateescape")


class Store:
    """A repository open for reading; every call is bounded in time, takes no lock and starts nothing a configuration names.

    *rev* is what to call the newest commit of the vault.
    """

    def __init__(self, repository: Any, *, root: str, environ: Mapping[str, str], limit: float, rev: str) -> None:
        self.rev = rev
        self._repository = repository
        self._limit = limit
        clean = program.scrubbed(environ, worktree=root)
        taken = [argument for name in environ if name not in clean for argument in ("-u", name)]
        given = [f"{name}={value}" for name, value in clean.items() if environ.get(name) != value]
        # Names of variables, and values of our own making: nothing of the person's shows in a list of processes.
        hardened = ["--no-optional-locks", "--no-replace-objects", *program.hardening()]
        self._command = ["env", *taken, *given, program.found(environ), *hardened]

    def text(self, *arguments: str) -> str:
        """Stdout of `git <arguments>`, every byte of it; GitRefusedError when git fails."""
        return self.data(*arguments).decode("utf-8", "surrogateescape")

    def data(self, *arguments: str, stdin: Any = None) -> bytes:
        """Like `text`, as bytes; *stdin* is an open file."""
        import git  # noqa: TID251 - this module is its owner

        try:
            code, out, err = self._repository.git.execute(
                [*self._command, *arguments],
                istream=stdin,
                with_extended_output=True,
                with_exceptions=False,
                stdout_as_string=False,
                strip_newline_in_stdout=False,
                kill_after_timeout=None if stdin is not None else self._limit,
            )
        except git.exc.GitCommandNotFound as error:
            raise GitRefusedError("git-missing") from error
        except git.exc.GitCommandError as error:
            raise GitRefusedError("git-failed:" + str(error).split("\n", 1)[0]) from error
        if code:
            if code == -9:
                raise GitRefusedError("timeout")
            raise program.refusal(
                program.Finished(code, b"", err.encode("utf-8", "replace") if isinstance(err, str) else err)
            )
        return bytes(out)

    def succeeds(self, *arguments: str) -> bool:
        """Whether git answers yes; a failure of any kind is no."""
        try:
            self.data(*arguments)
        except GitRefusedError:
            return False
        return True

    def blobs(self, names: Iterable[str]) -> Iterator[tuple[str, bytes | None]]:
        """Every name (`<commit>:<path>` or an object) with its content, None for what is not there; one process for all."""
        asked = list(names)
        if any("\n" in name for name in asked):
            raise GitRefusedError("bad-path")
        import tempfile

        with tempfile.TemporaryFile() as questions:
            questions.write("".join(f"{name}\n" for name in asked).encode("utf-8", "surrogateescape"))
            questions.seek(0)
            out = self.data("cat-file", "--batch", stdin=questions)
        position = 0
        for name in asked:
            end = out.index(b"\n", position)
            fields = out[position:end].split(b" ")
            position = end + 1
            if len(fields) == 3 and fields[1] == b"blob" and fields[2].isdigit():
                yield name, out[position : position + int(fields[2])]
                position += int(fields[2]) + 1
            elif len(fields) == 3 and fields[2].isdigit():
                yield name, None
                position += int(fields[2]) + 1
            else:
                yield name, None


def opened(
    root: str, *, environ: Mapping[str, str], limit: float = LIMIT, rev: str = "HEAD"
) -> AbstractContextManager[Store]:
    """The repository whose work tree is *root*, for a `with`; it raises GitRefusedError `not-a-repository` when there is none.

    *rev*: where the vault's history is not that of HEAD, its private reference.
    """
    import contextlib

    # GitPython looks for git while it is imported, and answers with half a screen of advice where there is none.
    program.found(environ)
    import git  # noqa: TID251 - this module is its owner

    @contextlib.contextmanager
    def open_until_left() -> Generator[Store]:
        try:
            repository = git.Repo(root, search_parent_directories=False)
        except (git.exc.InvalidGitRepositoryError, git.exc.NoSuchPathError) as error:
            raise GitRefusedError("not-a-repository", root) from error
        with contextlib.closing(repository):
            yield Store(repository, root=root, environ=environ, limit=limit, rev=rev)

    return open_until_left()
