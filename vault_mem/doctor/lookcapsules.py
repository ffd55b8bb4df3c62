"""Looks at the capsules the way a clear would, and then closer: every document is read, its sections are counted, its ids compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vault_mem import index
from vault_mem.capsule import gate, header, model, sections, selector
from vault_mem.doctor.scene import Memory
from vault_mem.errors import HeaderError
from vault_mem.vault import choice, tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vault_mem.capsule.selector import Candidate
    from vault_mem.doctor.scene import Place, State

CLOSELY = 300
"""How many documents are read as a whole; the newest names."""


def look(*, place: Place, state: State, now: float) -> Memory:
    """The capsules; what history says of them is taken from the book as it lies there, which is not brought up to date."""
    candidates, unavailable = tree.entries(place.memory)
    book = index.read(state.runtime)
    facts = choice.facts_of(candidates, book, started=now)
    selection = selector.select(candidates, now=now, facts=facts, unavailable=unavailable)
    problems: list[tuple[str, str]] = []
    damaged: list[tuple[str, str]] = []
    for candidate in sorted(candidates, key=lambda each: each.path, reverse=True)[:CLOSELY]:
        for kind, text in _closely(place.memory, candidate):
            (damaged if kind == "sections" else problems).append((candidate.path, text))
    delivered = frozenset(
        (session, capsule)
        for session, capsule, _ in state.intents
        if (delivery := book.delivery(capsule)) is not None and delivery.consumer == session
    )
    return Memory(candidates, unavailable, selection, tuple(problems), tuple(damaged), delivered)


def _closely(memory: str, candidate: Candidate) -> Iterator[tuple[str, str]]:
    if candidate.fields is None or model.status_of(candidate.fields) != model.ACTIVE:
        return
    try:
        document = tree.read_document(f"{memory}/{candidate.path}")
        body = document[header.split(document).body :]
    except HeaderError as error:
        yield "header", str(error)
        return
    if model.is_autosave(candidate.fields):
        for damage in sections.damage(document):
            yield "sections", damage
    for problem in gate.problems(candidate.fields, body):
        yield "rule", problem
