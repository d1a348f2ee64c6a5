"""Back-off of logins per address: how long a proof of identity waits before it is verified, after
earlier failures from its address. Sans-I/O: time is monotonic and an argument.

Verifying a password costs milliseconds of the broker's thread, and is a guess for an attacker;
reconnecting must give more of neither. `FREE` failures cost nothing, after that an address gets one
attempt per second, over any number of connections. (Kafka's
connection.failed.authentication.delay.ms is per connection.)
"""

from __future__ import annotations

import ipaddress
from enum import Enum

FREE = 10
"""For an address without recent failures: a person's typos, a fleet with an old password."""
EVERY_MS = 1_000
"""The cost of each further failure, and the time until it is forgotten."""
WAIT_MS_MAX = 5_000
"""A proof that would wait longer is refused unverified: the queue of its address is full."""
ADDRESSES_MAX = 10_000
"""Above this the address whose last failure is oldest is forgotten."""
IPV6_PREFIX = 64
"""One site has that many IPv6 addresses."""


class Slot(Enum):
    """How an address's next proof is treated."""

    FREE = "free"  # verified now; a failure is noted
    TAKEN = "taken"  # verified after a wait, and charged already
    NONE = "none"  # refused unverified


class Guesses:
    """The failures by address, for all listeners of a broker together."""

    __slots__ = ("_due_ms",)

    def __init__(self) -> None:
        self._due_ms: dict[str, int] = {}
        """Site → when all its failures are forgotten, in order of change."""

    def ask(self, address: str, now_ms: int) -> tuple[Slot, int]:
        """How the next proof is treated, and for how long it waits. One with a `TAKEN` slot that
        succeeds gives it back."""
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
        """A proof in a `FREE` slot failed."""
        house = house_of(address)
        self._put(house, max(self._due_ms.get(house, now_ms), now_ms) + EVERY_MS)

    def give_back(self, address: str) -> None:
        """A proof with a `TAKEN` slot succeeded."""
        house = house_of(address)
        if house in self._due_ms:
            self._due_ms[house] -= EVERY_MS

    @property
    def houses(self) -> int:
        """Number of sites with failures."""
        return len(self._due_ms)

    def _put(self, house: str, due_ms: int) -> None:
        self._due_ms.pop(house, None)
        self._due_ms[house] = due_ms
        if len(self._due_ms) > ADDRESSES_MAX:
            del self._due_ms[next(iter(self._due_ms))]


def house_of(address: str) -> str:
    """The site of an address: one machine may own any number of addresses in an IPv6 prefix."""
    try:
        found = ipaddress.ip_address(address.strip("[]").partition("%")[0])
    except ValueError:
        return address
    if found.version == 4 or found.ipv4_mapped is not None:
        return str(found if found.version == 4 else found.ipv4_mapped)
    return str(ipaddress.ip_network((found, IPV6_PREFIX), strict=False))
