"""How much of what a careful reader would write down the distiller finds: small transcripts with their expectations, scored by section."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vault_mem.harness import registry
from vault_mem.session import distil, evidence

if TYPE_CHECKING:
    from collections.abc import Iterator

TRANSCRIPTS = Path(__file__).resolve().parents[2] / "tests" / "data" / "evidence"
PROJECT = "/home/user/project"
FIELDS = ("objective", "waiting_on", "next_valid_action")
SECTIONS = ("done", "errors", "rejected", "facts", "gates", "rows")
OPEN = ("gates", "rows")
GOAL = 0.95


@dataclass(frozen=True, slots=True)
class Point:
    """One expectation. kind: the section or `fields`, `files`, `resolved`, `absent`, `precision`; what: the words that were looked for."""

    kind: str
    what: str
    met: bool


def names() -> list[str]:
    """The transcripts that have an expectation."""
    return sorted(path.name.removesuffix(".expected.json") for path in TRANSCRIPTS.glob("*.expected.json"))


def score(name: str) -> list[Point]:
    """Every expectation of one transcript, met or not."""
    wanted: dict[str, Any] = json.loads((TRANSCRIPTS / f"{name}.expected.json").read_text("utf-8"))
    read = registry.reader(wanted["client"])
    lines = (TRANSCRIPTS / f"{name}.jsonl").read_bytes().splitlines()
    state, bullets = distil.fold(evidence.EMPTY, (turn for line in lines for turn in read(line)), project=PROJECT)
    # What a Stop hook does that has no text of its own: the last thing said was the conclusion.
    state, closing = distil.payload_message(state, "", at=state.newest)
    last = {(bullet.section, bullet.tag, bullet.text): bullet.state for bullet in (*bullets, *closing)}
    # Gates and rows that are over are history, and no longer what this section asks for.
    said = {section: [] for section in (*SECTIONS, "files")}
    for (section, _, text), outcome in last.items():
        if section not in OPEN or outcome == "unresolved":
            said[section].append((text, outcome))
    return list(_points(wanted, dict(zip(FIELDS, evidence.contract(state), strict=True)), said))


def _points(
    wanted: dict[str, Any], fields: dict[str, str | None], said: dict[str, list[tuple[str, str]]]
) -> Iterator[Point]:
    for key in FIELDS:
        found, right = fields[key], wanted.get(key)
        yield Point("fields", f"{key}: {right}", found is None if right is None else right in (found or ""))
    for section in SECTIONS:
        for text in wanted.get(section, ()):
            yield Point(section, text, any(text in bullet for bullet, _ in said[section]))
        if section in ("errors", "rejected", *OPEN):
            for bullet, _ in said[section]:
                yield Point("precision", bullet, any(text in bullet for text in wanted.get(section, ())))
    for path in wanted.get("modified", ()):
        yield Point("files", path, any(bullet == f"modified {path}" for bullet, _ in said["files"]))
    for text in wanted.get("resolved", ()):
        met = any(text in bullet and state.startswith("resolved") for bullet, state in said["errors"])
        yield Point("resolved", text, met)
    for text in wanted.get("absent_objective", ()):
        yield Point("absent", text, text not in (fields["objective"] or ""))
    for text in wanted.get("nowhere", ()):
        told = [bullet for rows in said.values() for bullet, _ in rows] + [value or "" for value in fields.values()]
        yield Point("absent", text, not any(text in bullet for bullet in told))


def report() -> int:
    """Print met and wanted for each kind, and what is missed; 1 when a share is below the goal."""
    tally: dict[str, list[bool]] = {}
    for name in names():
        for point in score(name):
            tally.setdefault(point.kind, []).append(point.met)
            if not point.met:
                print(f"missed in {name}: {point.kind}: {point.what}")
    for kind, met in sorted(tally.items()):
        print(f"{kind:<10} {sum(met):>4} / {len(met):<4} {sum(met) / len(met):.3f}")
    print(f"{len(names())} transcripts")
    return int(any(sum(met) < GOAL * len(met) for met in tally.values()))
