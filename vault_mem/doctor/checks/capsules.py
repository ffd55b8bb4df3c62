"""What a clear would hand out, what it would pass over and why, and whether the clock can be believed. Pure."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from vault_mem.capsule import model, selector
from vault_mem.doctor.catalogue import found

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vault_mem.doctor.scene import Scene
    from vault_mem.report import Finding

EPOCH = 1_735_689_600.0  # 2025-01-01: no clock that is right shows less
WAITING = 12
SHOWN = 20
_UNREADABLE = ("symlink", "not-regular", "unreadable", "not-utf8")


def check(scene: Scene) -> Iterator[Finding]:
    """Findings about the capsules."""
    if scene.now < EPOCH:
        yield found("clock", "this machine", f"it says {scene.now:.0f} seconds since 1970", "date   # set it")
    if scene.place.token:
        return
    memory = scene.memory
    if memory.unavailable == "capsules-dir-unreadable":
        path = f"{scene.place.memory}/capsules"
        yield found("capsules-unreadable", path, "capsules-dir-unreadable", f"ls -ld {shlex.quote(path)}")
    yield from _rejected(scene)
    yield from _same_ids(scene)
    for path, text in memory.damaged[:SHOWN]:
        yield found("capsule-anchors", path, f"anchor-damage: {text}", _validate(scene, path))
    defects = {each.name for each in memory.selection.rejected if not each.ordinary} if memory.selection else set()
    for path, text in memory.problems[:SHOWN]:
        if path.rpartition("/")[2].removesuffix(".md") not in defects:
            yield found("capsule-invalid", path, text, _validate(scene, path))
    yield from _choice(scene)


def _validate(scene: Scene, path: str) -> str:
    return f"vault-mem capsule validate {shlex.quote(f'{scene.place.memory}/{path}')}"


def _rejected(scene: Scene) -> Iterator[Finding]:
    selection = scene.memory.selection
    paths = {candidate.name: candidate.path for candidate in scene.memory.candidates}
    defects = [each for each in selection.rejected if not each.ordinary] if selection else []
    for each in defects[:SHOWN]:
        path = paths.get(each.name, each.name)
        what = f"{each.reason}: {each.detail}" if each.detail else each.reason
        token = "capsule-future" if each.reason == "future-created_at" else "capsule-rejected"
        fix = (
            f"ls -l {shlex.quote(f'{scene.place.memory}/{path}')}"
            if each.reason in _UNREADABLE
            else _validate(scene, path)
        )
        yield found(token, path, what, fix)
    if len(defects) > SHOWN:
        yield found("capsule-rejected", "capsules", f"{len(defects) - SHOWN} more", "vault-mem explain")


def _same_ids(scene: Scene) -> Iterator[Finding]:
    paths: dict[str, list[str]] = {}
    for candidate in scene.memory.candidates:
        name = selector.text_of(candidate.fields, "id") if candidate.fields else ""
        if name:
            paths.setdefault(name, []).append(candidate.path)
    for name, same in paths.items():
        if len(same) > 1:
            yield found(
                "capsule-duplicate-id",
                same[1],
                f"id {name} is also that of {same[0]}",
                f"edit {shlex.quote(f'{scene.place.memory}/{same[1]}')}   # give it an id of its own",
            )


def _choice(scene: Scene) -> Iterator[Finding]:
    selection = scene.memory.selection
    if selection is None:
        return
    if selection.tier == selector.PLACEHOLDER and selection.chosen:
        yield found(
            "only-placeholders",
            selection.chosen.path,
            "neither objective nor next action was captured",
            "vault-mem explain",
        )
    active = sum(
        1
        for candidate in scene.memory.candidates
        if candidate.fields and model.status_of(candidate.fields) == model.ACTIVE
    )
    if active > WAITING:
        yield found(
            "capsules-waiting",
            "capsules",
            f"{active} are active",
            "vault-mem list   # then: vault-mem capsule resolve ID --why …",
        )
