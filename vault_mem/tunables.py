"""The numbers of the reset, from the environment: our names, and those of the mechanism it follows. A bad value is a finding."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from vault_mem import settings
from vault_mem.report import WARN, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from vault_mem.settings import Settings

NAMES = {
    "ceiling": ("VAULT_MEM_CEILING", "FM_CONTEXT_CEILING"),
    "idle": ("VAULT_MEM_RESET_IDLE_SECS", "FM_CONTEXT_CAPTAIN_IDLE_SECS"),
    "receipt_age": ("VAULT_MEM_RESET_RECEIPT_MAX_AGE", "FM_CONTEXT_RECEIPT_MAX_AGE"),
    "growth": ("VAULT_MEM_RESET_RECEIPT_MAX_GROWTH_BYTES", "FM_CONTEXT_RECEIPT_MAX_GROWTH_BYTES"),
    "tail": ("VAULT_MEM_RESET_TAIL_BYTES", "FM_CONTEXT_TAIL_BYTES"),
    "interval": ("VAULT_MEM_RESET_CHECK_INTERVAL", "FM_CONTEXT_CHECK_INTERVAL"),
    "resurface": ("VAULT_MEM_RESET_RESURFACE", "FM_CONTEXT_ERROR_RESURFACE"),
    "patience": ("VAULT_MEM_RESET_DEFERRED_AFTER", ""),
    "poll": ("VAULT_MEM_RESET_POLL", "FM_POLL"),
    "delivery": ("VAULT_MEM_RESET_DELIVERY_RETRY", "FM_DELIVERY_RETRY"),
    "confirm": ("VAULT_MEM_RESET_CONFIRM_SECS", ""),
    "presses": ("VAULT_MEM_RESET_SEND_PRESSES", "FM_SEND_RETRIES"),
    "wait": ("VAULT_MEM_RESET_SEND_WAIT", "FM_SEND_SLEEP"),
    "pause": ("VAULT_MEM_RESET_SEND_PAUSE", "FM_SEND_SETTLE"),
    "luma": ("VAULT_MEM_RESET_GHOST_LUMA", "FM_COMPOSER_GHOST_LUMA_MAX"),
}
"""Ours first; ours wins when both are set. The ceiling's own name is read by `settings`, shares of a window included."""

PATTERNS = {
    "busy": ("VAULT_MEM_RESET_BUSY_REGEX", "FM_BUSY_REGEX"),
    "placeholder": ("VAULT_MEM_RESET_COMPOSER_IDLE_REGEX", "FM_COMPOSER_IDLE_RE"),
}
WHOLE = ("ceiling", "growth", "tail", "presses", "luma")
ZERO = ("resurface", "idle", "pause", "luma")
MOST = {"presses": 20, "wait": 60, "pause": 60, "luma": 255}


@dataclass(frozen=True, slots=True)
class Tunables:
    """Tokens, bytes and seconds; *share* is the ceiling in percent of a window that the client named; *busy*, *placeholder*: expressions, "" for ours."""

    ceiling: int = settings.CEILING
    share: int = settings.CEILING_SHARE
    idle: float = 1800
    receipt_age: float = 900
    growth: int = 262_144
    tail: int = 2_097_152
    interval: float = 300
    resurface: float = 3600
    patience: float = 3600
    poll: float = 1
    delivery: float = 45
    confirm: float = 60
    presses: int = 3
    wait: float = 0.4
    pause: float = 0
    luma: int = 128
    busy: str = ""
    placeholder: str = ""
    findings: tuple[Finding, ...] = field(default=())


def load(*, environ: Mapping[str, str], seat: str = "", settled: Settings | None = None) -> Tunables:
    """What holds for the seat; a value that is no number, negative or zero leaves the default and is a finding.

    settled: the settings, where the caller has read them and says their problems itself.
    """
    chosen: dict[str, float] = {}
    findings = []
    known = settled or settings.load(environ=environ, seat=seat)
    findings += [_bad("settings", problem) for problem in (() if settled else known.problems)]
    for name, names in NAMES.items():
        for variable in names:
            text = environ.get(variable, "").strip() if variable else ""
            if not text or variable == "VAULT_MEM_CEILING":
                continue
            value = _number(text, zero=name in ZERO, most=MOST.get(name, 1e12))
            if value is None:
                findings.append(_bad(variable, f"{text[:40]!r} is not a number that can be used; the default holds"))
            else:
                chosen[name] = value
                break
    whole = {name: int(value) if name in WHOLE else value for name, value in chosen.items()}
    if environ.get("VAULT_MEM_CEILING", "").strip() or "ceiling" not in whole:
        whole["ceiling"] = known.ceiling
    whole["share"] = known.ceiling_share
    patterns: dict[str, str] = {}
    for name, names in PATTERNS.items():
        for variable in names:
            text = environ.get(variable, "")
            if text and not _is_expression(text):
                findings.append(_bad(variable, f"{text[:40]!r} is no regular expression; the default holds"))
            elif text:
                patterns[name] = text
                break
    return Tunables(**whole, **patterns, findings=tuple(findings))  # type: ignore[arg-type] # names and kinds are those of the table above


def _number(text: str, *, zero: bool, most: float) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if (0 if zero else 1e-9) <= value <= most else None


def _is_expression(text: str) -> bool:
    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError):
        return False
    return True


def _bad(where: str, what: str) -> Finding:
    return Finding("bad-tunable", WARN, where, what, fix=f"unset {where}   # or give it a value that can be used")
