"""One file with the byte code of every module a hook needs, so that a hook opens one file instead of sixty (4 ms of CPU, docs/explanation/performance.md).

It lies beside Python's own byte code in `__pycache__`, is made from it, and holds the same promise: an entry counts only while its source has the
size and time it was made from. Whatever is missing or stale is imported the usual way, and the hook that met it writes the image anew when its work
is done. Where Python may not write byte code (PYTHONDONTWRITEBYTECODE, a read-only installation) there is no image and everything works.

What every ordinary hook needs (`usual.STAGES`) lies there once more, a stage in one piece and in the order of its imports, and is run without asking
the import system about each module: that saves another 2 ms (`ahead`).

Layout: a marshalled table of the modules (name -> offset, length, whether a package, seconds and size of the source) and one of the stages (name ->
offset, length), their length first, then the code objects, then the stages (rows of name, whether a package, seconds, size, code object).
"""

from __future__ import annotations

import marshal
import os
import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import MAGIC_NUMBER, cache_from_source  # type: ignore[import-not-found, unused-ignore] # private to CPython

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import CodeType, ModuleType

    Row = tuple[int, int, bool, int, int]
    Ready = tuple[str, bool, int, int, CodeType]

PACKAGE = os.path.dirname(__file__)
HOOKS, LOOKS = "hooks", "looks"
"""One image for the hooks, and one for the commands that look, so that a hook reads no table of modules it never needs."""

STANDARD = 2  # the highest handle of a standard stream
HEADER = 16  # magic number and flags, source time, source size: the head of a .pyc


def path(kind: str = HOOKS) -> str:
    """Where the image lies."""
    return os.path.join(PACKAGE, "__pycache__", f"{kind}.{sys.implementation.cache_tag}.image")


class Image:
    """A finder and loader for the modules in an image.

    head: the file up to its table. file: its open handle, read a module at a time: most hooks need half of the modules, and a megabyte read
    at once costs more than fifty small reads.
    """

    def __init__(self, head: bytes, file: int = -1, kind: str = HOOKS) -> None:
        self.kind = kind
        self._rows: dict[str, Row] = {}
        self._stages: dict[str, tuple[int, int]] = {}
        if head[:4] == MAGIC_NUMBER:
            self._rows, self._stages = marshal.loads(head[8:])  # noqa: S302 - our own byte code, as trusted as a .pyc
        self._start = len(head)
        self._file = file
        self._used: set[str] = set()

    def is_whole(self, size: int) -> bool:
        """Whether a file of *size* bytes holds what the table says."""
        held = sum(row[1] for row in self._rows.values()) + sum(length for _, length in self._stages.values())
        return bool(self._rows) and self._start + held == size

    def ahead(self, stage: str) -> None:
        """Run the modules of *stage* that are not there yet, up to the first whose source is another one now."""
        if stage not in self._stages:
            return
        offset, length = self._stages[stage]
        ready: tuple[Ready, ...] = marshal.loads(os.pread(self._file, length, self._start + offset))  # noqa: S302 - see above
        modules = sys.modules
        for name, package, time, size, code in ready:
            if name in modules:
                continue
            above, _, own = name.rpartition(".")
            spec = self._spec(name, (package, time, size)) if above in modules else None
            if spec is None:
                return
            module = _Module(name)
            module.__spec__ = spec
            module.__loader__ = spec.loader
            module.__file__ = spec.origin
            module.__package__ = name if package else above
            if package:
                module.__path__ = spec.submodule_search_locations or []
            modules[name] = module
            try:
                exec(code, module.__dict__)  # noqa: S102 - what an import is
            except BaseException:
                del modules[name]
                raise
            setattr(modules[above], own, module)

    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module from the image when its source is the one it was made from."""
        row = self._rows.get(name)
        return self._spec(name, row[2:]) if row is not None else None

    def _spec(self, name: str, made_from: tuple[bool, int, int]) -> ModuleSpec | None:
        """What an import of *name* needs; None when its source is not the one that the byte code was made from."""
        package = made_from[0]
        source = _source(name, package=package)
        try:
            found = os.stat(source)
        except OSError:
            return None
        if (int(found.st_mtime) & 0xFFFFFFFF, found.st_size & 0xFFFFFFFF) != made_from[1:]:
            return None
        self._used.add(name)
        spec = ModuleSpec(name, self, origin=source, is_package=package)  # type: ignore[arg-type] # it has the methods of a loader
        spec.has_location = True
        if package:
            spec.submodule_search_locations = [os.path.dirname(source)]
        return spec

    def create_module(self, _spec: ModuleSpec) -> None:
        """The usual kind of module."""

    def exec_module(self, module: ModuleType) -> None:
        """Run the module's code."""
        offset, length = self._rows[module.__name__][:2]
        code = os.pread(self._file, length, self._start + offset)
        exec(marshal.loads(code), module.__dict__)  # noqa: S102, S302 - what an import is

    def missing(self) -> list[str]:
        """Modules of ours that were imported and did not come from the image."""
        return [
            name
            for name in sys.modules
            if name.startswith("vault_mem.") and name not in self._used and name != __name__
        ]


_Module = type(sys)
_served = Image(b"")


def ahead(stage: str) -> None:
    """Run what a hook usually needs from here on (`usual.STAGES`); nothing where no image serves this process."""
    _served.ahead(stage)


def _source(name: str, *, package: bool) -> str:
    parts = name.split(".")[1:]
    return os.path.join(PACKAGE, *parts, "__init__.py") if package else os.path.join(PACKAGE, *parts) + ".py"


def install(kind: str = HOOKS) -> Image:
    """Serve imports from the image; an empty one when there is none."""
    global _served  # noqa: PLW0603 - one image serves a process
    try:
        image = _opened(kind)
    except (OSError, ValueError, EOFError, TypeError):
        image = Image(b"", kind=kind)
    _served = image
    sys.meta_path.insert(0, image)
    return image


def _opened(kind: str) -> Image:
    file = os.open(path(kind), os.O_RDONLY | os.O_CLOEXEC)
    if file <= STANDARD:
        # A client closed a standard stream; its place must stay empty, for what is written there would go into our file.
        os.close(file)
        return Image(b"", kind=kind)
    whole = os.fstat(file).st_size
    first = os.pread(file, 8, 0)
    size = int.from_bytes(first[4:8], "little")
    image = Image(first + os.pread(file, size, 8) if 8 + size <= whole else b"", file, kind)
    if not image.is_whole(whole):
        os.close(file)
        return Image(b"", kind=kind)
    return image


def refresh(image: Image) -> bool:
    """Write the image anew when this run met modules outside it; whether it was written."""
    early = ("vault_mem.entry",)
    unwritable = sys.dont_write_bytecode or not os.access(os.path.dirname(path(image.kind)), os.W_OK)
    if unwritable or all(name in early for name in image.missing()):
        return False
    rows: dict[str, Row] = {}
    codes: list[bytes] = []
    offset = 0
    for name in sorted({*image.missing(), *image._rows} - {__name__, *early}):  # noqa: SLF001 - the same module
        compiled = _compiled(name)
        if compiled is not None:
            package, time, size, code = compiled
            rows[name] = (offset, len(code), package, time, size)
            codes.append(code)
            offset += len(code)
    stages = {}
    for stage, code in _staged() if image.kind == HOOKS else ():
        stages[stage] = (offset, len(code))
        codes.append(code)
        offset += len(code)
    table = marshal.dumps((rows, stages))
    whole = b"".join((MAGIC_NUMBER, len(table).to_bytes(4, "little"), table, *codes))
    temporary = f"{path(image.kind)}.{os.getpid()}.tmp"
    try:
        with open(temporary, "xb", buffering=0) as file:
            file.write(whole)
        os.replace(temporary, path(image.kind))
    except OSError:
        return False
    return True


def _compiled(name: str) -> tuple[bool, int, int, bytes] | None:
    """Whether it is a package, time and size of its source, and the marshalled code of a module; None where Python holds no byte code of it."""
    package = os.path.isdir(os.path.join(PACKAGE, *name.split(".")[1:]))
    try:
        with open(cache_from_source(_source(name, package=package)), "rb", buffering=0) as file:
            data = file.readall()
    except OSError:
        return None
    if data[:4] != MAGIC_NUMBER or data[4:8] != b"\0\0\0\0":
        return None
    time, size = (int.from_bytes(data[start : start + 4], "little") for start in (8, 12))
    return package, time, size, data[HEADER:]


def _staged() -> Iterator[tuple[str, bytes]]:
    """Each stage, as far as Python holds byte code of its modules."""
    from vault_mem import usual

    for stage, names in usual.STAGES.items():
        ready = []
        for name in names.split():
            compiled = _compiled(f"vault_mem.{name}")
            if compiled is not None:
                package, time, size, code = compiled
                ready.append((f"vault_mem.{name}", package, time, size, marshal.loads(code)))  # noqa: S302 - see above
        yield stage, marshal.dumps(tuple(ready))
