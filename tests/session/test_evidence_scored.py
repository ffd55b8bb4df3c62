"""Small transcripts of every kind of trouble: all that a careful reader would write down is found, and nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts" / "lib"))

import bench_evidence


@pytest.mark.parametrize("name", bench_evidence.names())
def test_what_a_careful_reader_would_write_down_is_found(name: str) -> None:
    points = bench_evidence.score(name)

    assert [point for point in points if not point.met] == []
    assert len(points) > len(bench_evidence.FIELDS)


def test_there_are_both_clients_and_enough_of_them() -> None:
    names = bench_evidence.names()

    assert len(names) >= 30
    assert {name.partition("-")[0] for name in names} == {"claude", "codex"}
