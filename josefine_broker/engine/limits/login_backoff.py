"""For how long a proof of who somebody is waits before it is looked at, by the wrong ones that its
address showed. Sans-I/O: time is monotonic and an argument.

A look at a password is milliseconds of the broker's thread, and a guess: who reconnects for the
next one has no more of either. `FREE` wrong ones cost nothing, then an address has one a second,
on however many connections. (Kafka's connection.failed.authentication.delay.ms is a connection's.)
"""

from __future__ import annotations

import ipaddress
from enum import Enum

FREE = 10
"""Of an address that was right for long: a person's slips, a fleet with an old password."""
EVERY_MS = 1_000
"""What one wrong proof costs beyond; so long it takes to be forgotten."""
WAIT_MS_MAX = 5_000
"""Who would wait longer is refused without a look: others of its address have taken the places."""
ADDRESSES_MAX = 10_000
"""The one that was wrong the longest ago is forgotten for a newcomer."""
IPV6_PREFIX = 64
"""A house has so many addresses of the newer kind."""


class Slot(Enum):
    """What an address's next proof gets."""

    FREE = "free"  # looked at now; a wrong one is noted
    TAKEN = "taken"  # looked at when its time comes, and paid for already
    NONE = "none"  # not looked at


class Guesses:
    """Of one broker, all its listeners together."""

    __slots__ = ("_due_ms",)

    def __init__(self) -> None:
        self._due_ms: dict[str, int] = {}
        """House → when all its wrong proofs are forgotten. The order is that of change."""

    def ask(self, address: str, now_ms: int) -> tuple[Slot, int]:
        """What the next proof gets, and for how long it waits. One that has `TAKEN` a slot and is
        right gives it back."""
        house = house_of(address)
        due_ms = self._due_ms.get(house, now_ms)
        wait_ms = due_ms - now_ms - (FREE - 1) * EVERY_MS
        if wait_ms <= 0:
            return Slot.FREE, 0
        if wait_ms > WAIT_MS_MAX:
            return Slot.NONE, 0
        self._put(house, due_ms + EVERY_MS)
        return Slot.TAKEN, wait_ms

    def wrong(self, address: str, now_ms: int) -> None:
        """A proof that was looked at in a `FREE` slot was wrong."""
        house = house_of(address)
        self._put(house, max(self._due_ms.get(house, now_ms), now_ms) + EVERY_MS)

    def give_back(self, address: str) -> None:
        """A proof with a `TAKEN` slot was right."""
        house = house_of(address)
        if house in self._due_ms:
            self._due_ms[house] -= EVERY_MS

    @property
    def houses(self) -> int:
        """That are remembered."""
        return len(self._due_ms)

    def _put(self, house: str, due_ms: int) -> None:
        self._due_ms.pop(house, None)
        self._due_ms[house] = due_ms
        if len(self._due_ms) > ADDRESSES_MAX:
            del self._due_ms[next(iter(self._due_ms))]


def house_of(address: str) -> str:
    """Addresses that one machine has as many of as it likes are one."""
    try:
        found = ipaddress.ip_address(address.strip("[]").partition("%")[0])
    except ValueError:
        return address
    if found.version == 4 or found.ipv4_mapped is not None:
        return str(found if found.version == 4 else found.ipv4_mapped)
    return str(ipaddress.ip_network((found, IPV6_PREFIX), strict=False))
