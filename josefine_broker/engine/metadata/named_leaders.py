"""The leaders that Metadata named last to each client connection.

A client that asks again much later, and would be given the same leaders, may have lost one of them
before this broker noticed. Pure; bounded by `CLIENTS_MAX`.
"""

from __future__ import annotations

from collections import OrderedDict

CLIENTS_MAX = 1_000
"""Connections that are remembered. One that was forgotten counts as new."""
SETTLED_MS = 1_000
"""A client that starts asks for the same leaders several times within a second; later ones count as
repeated."""

Leaders = tuple[tuple[str, int, int, int], ...]
"""(topic, index, leader, leader epoch) of the partitions in an answer."""


class NamedLeaders:
    """The last answer of each connection, as a hash of its leaders. Mutable."""

    __slots__ = ("_named",)

    def __init__(self) -> None:
        self._named: OrderedDict[str, tuple[int, int]] = OrderedDict()
        """Client address → the hash, and since when (monotonic) it was named this."""

    def is_repeated(self, client: str, leaders: Leaders, now_ms: int) -> bool:
        """Note what `client` is given now; returns whether it was given the same long before."""
        named = hash(leaders)
        before, since_ms = self._named.pop(client, (None, now_ms))
        if before != named:
            since_ms = now_ms
        self._named[client] = named, since_ms
        if len(self._named) > CLIENTS_MAX:
            self._named.popitem(last=False)
        return now_ms - since_ms >= SETTLED_MS
