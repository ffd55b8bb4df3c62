"""Is there a seat, is its memory root in order, does this user trust it? Pure."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from vault_mem import roots
from vault_mem.doctor.catalogue import found

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vault_mem.doctor.scene import Scene
    from vault_mem.report import Finding


def check(scene: Scene) -> Iterator[Finding]:
    """Findings about seat, memory root, trust and the switches."""
    place = scene.place
    if place.token:
        yield found(place.token, place.root or place.cwd, place.error, _mend(scene))
    elif place.source == "default":
        yield found(
            "root-undeclared",
            roots.marker_of(place.root),
            f"{place.relative} is used because it is there",
            f"vault-mem init --root {shlex.quote(place.root)} --memory-root {shlex.quote(place.relative)}",
        )
    for name in place.off:
        yield found("switched-off", name, f"{name}=1 in this environment", f"unset {name}")
    if scene.extension is not None and scene.extension.warning:
        yield found("extension-refused", place.root, scene.extension.warning, "vault-mem extension render resume_ack")
    if place.memory and place.token in ("", "root-missing"):
        yield from _trust(scene)


def _mend(scene: Scene) -> str:
    place = scene.place
    here = f" --root {shlex.quote(place.root)}" if place.root and place.root != place.cwd else ""
    if place.token in ("no-seat", "root-missing"):
        return f"vault-mem init{here}"
    if place.token in ("root-symlink", "root-not-directory", "root-uninspectable") and place.memory:
        return f"ls -ld {shlex.quote(place.memory)}   # then move away what lies there, and: vault-mem init{here}"
    marker = roots.marker_of(place.root) if place.root else roots.MARKER
    if place.token == "root-unreadable":
        return f"ls -l {shlex.quote(marker)}   # make it a regular file that you can read"
    return f'edit {shlex.quote(marker)}   # for example {{"schemaVersion": 1, "memory_root": "vault/memory"}}'


def _trust(scene: Scene) -> Iterator[Finding]:
    trusting, place = scene.trusting, scene.place
    command = f"vault-mem trust --root {shlex.quote(place.root)}"
    if trusting.state == "absent":
        yield found(
            "untrusted", place.memory, "this user never ran `vault-mem init` or `vault-mem trust` for it", command
        )
    elif trusting.state == "unreadable":
        yield found("trust-unreadable", trusting.file, trusting.problem, command)
    elif trusting.state == "moved":
        yield found("trust-moved", trusting.file, trusting.problem, command)
    if trusting.loose:
        yield found(
            "trust-open-to-others",
            trusting.file,
            "others may write it",
            f"chmod go-w {shlex.quote(trusting.file.rpartition('/')[0])} {shlex.quote(trusting.file)}",
        )
