from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROBE = """
import sys
sys.argv = ["vault-mem", "hook", "stop"]
from vault_mem import image
served = image.install()
import vault_mem.roots
print(type(vault_mem.roots.__loader__).__name__)
print(image.refresh(served))
"""
AHEAD = """
import sys
from vault_mem import image
served = image.install()
image.ahead("hook")
image.ahead("post-tool-use")
run = sorted(name for name in sys.modules if name.startswith("vault_mem.") and name not in ("vault_mem.image",))
from vault_mem import receipts
from vault_mem.session import identity
assert receipts.files is sys.modules["vault_mem.files"] and identity.safe_id("a") == "a"
assert sys.modules["vault_mem.session"].identity is identity
print(type(receipts.__loader__).__name__, receipts.__spec__.name, receipts.__package__, *run)
image.refresh(served)
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "vault_mem", tmp_path / "lib/vault_mem", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "lib/vault_mem"


def probe(package: Path, what: str = PROBE, **more: str) -> list[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [sys.executable, "-c", what],
        cwd=package.parent,
        env={**environ, "PYTHONPATH": str(package.parent), **more},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_the_first_run_writes_the_image_and_the_next_one_is_served_from_it(package: Path) -> None:
    assert probe(package) == ["SourceFileLoader", "True"]
    assert probe(package) == ["Image", "False"]


def test_a_changed_source_is_imported_anew_and_the_image_follows(package: Path) -> None:
    probe(package)
    source = package / "roots.py"
    source.write_text(source.read_text("utf-8") + "\nADDED = 1\n", encoding="utf-8")

    assert probe(package) == ["SourceFileLoader", "True"]
    assert probe(package) == ["Image", "False"]


@pytest.mark.parametrize("junk", (b"", b"junk", b"\0" * 64, b"\xa7\x0d\x0d\x0a\xff\xff\xff\x7f"))
def test_junk_in_its_place_is_no_harm(package: Path, junk: bytes) -> None:
    probe(package)
    (image,) = (package / "__pycache__").glob("*.image")
    image.write_bytes(junk)

    assert probe(package) == ["SourceFileLoader", "True"]
    assert probe(package) == ["Image", "False"]


def test_a_cut_image_is_no_harm(package: Path) -> None:
    probe(package)
    (image,) = (package / "__pycache__").glob("*.image")
    image.write_bytes(image.read_bytes()[:-1])

    assert probe(package) == ["SourceFileLoader", "True"]
    assert probe(package) == ["Image", "False"]


def test_the_image_never_takes_the_place_of_a_closed_standard_stream(package: Path) -> None:
    probe(package)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

    done = subprocess.run(
        ["sh", "-c", f'exec "{sys.executable}" -c "$0" 1>&2 0<&-', PROBE],
        cwd=package.parent,
        env={**environ, "PYTHONPATH": str(package.parent)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stderr.split()[0] == "SourceFileLoader"


def test_where_python_may_not_write_byte_code_there_is_no_image(package: Path) -> None:
    assert probe(package, PYTHONDONTWRITEBYTECODE="1") == ["SourceFileLoader", "False"]
    assert not list(package.rglob("*.image"))


def test_a_command_that_looks_has_an_image_of_its_own_and_all_of_its_text_gets_out(
    package: Path, tmp_path: Path
) -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environ |= {"PYTHONPATH": str(package.parent), "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "vault_mem", "log", "--help"]

    told = [subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, check=True) for _ in range(2)]

    assert [path.name.split(".")[0] for path in (package / "__pycache__").glob("*.image")] == ["looks"]
    assert told[0].stdout == told[1].stdout
    assert told[0].stdout.endswith(b"\n")
    lost = subprocess.run(
        [*command[:-1], "--root", "/nowhere"], cwd=tmp_path, env=environ, capture_output=True, check=False
    )
    assert lost.returncode not in (0, 2)
    assert lost.stderr


def test_a_stage_is_run_ahead_as_an_import_would_have_run_it(package: Path) -> None:
    first, second = probe(package, AHEAD), probe(package, AHEAD)

    assert first == ["SourceFileLoader", "vault_mem.receipts", "vault_mem"]
    assert second[:3] == ["Image", "vault_mem.receipts", "vault_mem"]
    assert {"vault_mem.receipts", "vault_mem.session.identity"} <= set(second[3:])


def test_a_stage_stops_where_a_source_has_changed(package: Path) -> None:
    probe(package, AHEAD)
    probe(package, AHEAD)
    source = package / "receipts.py"
    source.write_text(source.read_text("utf-8") + "\nADDED = 1\n", encoding="utf-8")

    changed, after = probe(package, AHEAD), probe(package, AHEAD)

    assert changed[0] == "SourceFileLoader"
    assert "vault_mem.session.identity" not in changed[3:]
    assert after[0] == "Image"
    assert {"vault_mem.receipts", "vault_mem.session.identity"} <= set(after[3:])


def test_a_module_that_fails_while_it_is_run_ahead_is_not_left_behind(package: Path) -> None:
    source = package / "receipts.py"
    broken = '\nif os.environ.get("BROKEN"):\n    import no_such_module\n'
    source.write_text(source.read_text("utf-8") + broken, encoding="utf-8")
    probe(package, AHEAD)
    tried = AHEAD.replace('image.ahead("post-tool-use")', TRIED)

    assert probe(package, AHEAD)[0] == "Image"
    assert probe(package, tried, BROKEN="1") == ["no_such_module", "False"]


TRIED = """
try:
    image.ahead("post-tool-use")
except ModuleNotFoundError as error:
    print(error.name, "vault_mem.receipts" in sys.modules)
    sys.exit()
"""
