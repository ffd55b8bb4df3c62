"""Whether the person is here: one predicate for the watcher and for the reset, a token and a clause. Pure."""

from __future__ import annotations

from vault_mem.record import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vault_mem.session.meter import Human

SPOKE, IDLE, UNREADABLE, UNRECORDED, UNMEASURABLE = "spoke", "idle", "unreadable", "unrecorded", "unmeasurable"
AHEAD = 5.0
"""Seconds a record may lie ahead of the clock before that is called a fault of the clock."""


class Presence(NamedTuple):
    """A token and a clause for messages; only `idle` means absent."""

    token: str
    clause: str

    @property
    def here(self) -> bool:
        """Whether the person counts as present."""
        return self.token != IDLE


def judge(human: Human | None, *, now: float, idle: float) -> Presence:
    """From the last sign of the person in the transcript; what cannot be established counts as present."""
    if human is None:
        return Presence(
            UNRECORDED, "no message of the person is in the transcript, so nothing shows that they are away"
        )
    if human.at is None:
        if not human.stamp:
            return Presence(UNRECORDED, "the person's last message carries no time")
        return Presence(UNREADABLE, "the time of the person's last message cannot be read")
    if not 0 < now < 1e11:
        return Presence(UNMEASURABLE, "the clock cannot be used")
    if human.at > now + AHEAD:
        return Presence(UNMEASURABLE, "the person's last message lies ahead of the clock; one of the clocks is wrong")
    if now - human.at <= idle:
        return Presence(SPOKE, f"the person has been active within the last {idle:.0f}s")
    return Presence(IDLE, f"the person has been silent for {now - human.at:.0f}s")
