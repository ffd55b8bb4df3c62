"""The documentation says what the code does: its tables are compared with the code, its links and the paths it names are followed."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from vault_mem.capsule import lifecycle, model, selector
from vault_mem.cli import main as commands

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(
    [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "vault" / "README.md"]
)
SOURCES = sorted((ROOT / "vault_mem").rglob("*.py"))
SAID_WITH_TOKEN = {"HeaderError", "GitRefusedError", "Outcome", "Answer", "Rejection", "Finding", "complain"}

# Named where another machine would have to be reached; it comes with sharing.
RESERVED = {"sync"}


def _page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_link_leads_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        if "://" in target:
            continue
        place = (page.parent / path).resolve() if path else page
        if not place.exists() or (anchor and anchor not in _anchors(place.read_text(encoding="utf-8"))):
            broken.append(target)

    assert not broken


def _anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("source", SOURCES, ids=_name)
def test_a_page_that_the_code_names_exists(source: Path) -> None:
    named = re.findall(r"docs/[\w/-]+\.md", source.read_text(encoding="utf-8"))

    assert not [page for page in named if not (ROOT / page).is_file()]


def test_no_page_is_an_orphan() -> None:
    linked = {
        (page.parent / target.partition("#")[0]).resolve()
        for page in PAGES
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
        if "://" not in target
    }

    assert not [_name(page) for page in PAGES if "docs" in page.parts and page.resolve() not in linked]


def test_the_life_of_a_capsule_is_drawn_as_it_is() -> None:
    events = list(dict.fromkeys(event for _, event in lifecycle.TRANSITIONS))
    rows = ["| from \\ event | " + " | ".join(events) + " |", "|---" * (len(events) + 1) + "|"]
    for status in model.STATUSES:
        cells = [lifecycle.TRANSITIONS.get((status, event), "") for event in events]
        rows.append(f"| {status} | " + " | ".join(cells) + " |")

    assert "\n".join(rows) in _page("reference/capsule.md"), "\n" + "\n".join(rows)


def test_every_field_and_section_of_a_capsule_is_described() -> None:
    page = _page("reference/capsule.md")

    assert not [name for name in (*model.FIELDS, *dict(model.FRAMING)) if f"`{name}`" not in page]
    assert not [section.anchor for section in model.SECTIONS if f"`{section.anchor}`" not in page]


@pytest.mark.parametrize("command", (*commands.COMMANDS, *commands.BEFORE_PARSING))
def test_every_command_is_described(command: str) -> None:
    page = _page("reference/cli.md")

    assert re.search(rf"^#+ .*`{command}\b", page, flags=re.MULTILINE)


def test_every_page_is_reached_from_the_readme() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")

    assert [_name(page) for page in (ROOT / "docs").rglob("*.md") if f"({_name(page)})" not in text] == []


def test_every_command_that_is_named_exists() -> None:
    pages = [*PAGES, *(ROOT / "vault_mem/skills").rglob("*.md")]
    known = {*commands.COMMANDS, *commands.BEFORE_PARSING, *RESERVED}

    spans = [
        span
        for page in pages
        for span in re.findall(r"`([^`\n]+)`|^ {0,3}(vault-mem .*)$", page.read_text("utf-8"), re.MULTILINE)
    ]
    named = {word for span in spans for word in re.findall(r"(?:vault-mem|\{program\}) ([a-z][a-z-]*)", "".join(span))}

    assert named - known == set()


def test_every_reason_token_is_explained() -> None:
    page = _page("reference/reasons.md")
    tokens = set(selector.ORDINARY_REASONS | selector.DEFECT_REASONS) | set(selector.UNAVAILABLE)
    for source in SOURCES:
        tokens |= _tokens(ast.parse(source.read_text(encoding="utf-8")))

    assert not sorted(token for token in tokens if f"`{token}`" not in page)


def _tokens(tree: ast.Module) -> set[str]:
    """Literal tokens: the `token` of an error class, and the first argument of whatever carries one."""
    found = set()
    for node in ast.walk(tree):
        value: ast.expr | None = None
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == "token" for target in node.targets
        ):
            value = node.value
        elif isinstance(node, ast.Call) and node.args:
            name = (
                node.func.id
                if isinstance(node.func, ast.Name)
                else node.func.attr
                if isinstance(node.func, ast.Attribute)
                else ""
            )
            value = node.args[0] if name in SAID_WITH_TOKEN else None
        if (
            isinstance(value, ast.Constant)
            and isinstance(value.value, str)
            and re.fullmatch(r"[a-z0-9]+(-[a-z0-9_]+)*", value.value)
        ):
            found.add(value.value)
    return found
