"""The simulated links between machines: when a message arrives, how often, and whether at all."""

from collections import Counter
from collections.abc import Iterable
from random import Random

from raft import NodeId
from tests.simulation.raft.faults import Faults

__all__ = ["Network"]


class Network:
    """Mutable: which links are cut, and when the last message of each link arrives."""

    def __init__(self, rng: Random, met: Counter[str]) -> None:
        self._rng = rng
        self._met = met
        self._blocked: set[tuple[NodeId, NodeId]] = set()
        self._last_ms: dict[tuple[NodeId, NodeId], int] = {}

    def arrivals(self, link: tuple[NodeId, NodeId], now_ms: int, faults: Faults) -> list[int]:
        """The times at which copies of a message sent now arrive."""
        met, chance = self._met, self._rng.random
        if link in self._blocked:
            met["message lost in a partition"] += 1
            return []
        if chance() < faults.message_drop:
            met["message dropped"] += 1
            return []
        times = [self._arrival(link, now_ms, faults)]
        if chance() < faults.message_duplicate:
            met["message duplicated"] += 1
            times.append(self._arrival(link, now_ms, faults))
        return times

    def _arrival(self, link: tuple[NodeId, NodeId], now_ms: int, faults: Faults) -> int:
        chance, last_ms = self._rng.random, self._last_ms.get(link, 0)
        arrival_ms = now_ms + 1 + int(chance() * 9)
        if chance() < faults.message_delay:
            self._met["message delayed"] += 1
            return arrival_ms + int(chance() * 1000)
        if chance() < faults.message_reorder:
            self._met["message reordered"] += arrival_ms < last_ms
            return arrival_ms
        self._last_ms[link] = arrival_ms = max(arrival_ms, last_ms)
        return arrival_ms

    def split(self, group: Iterable[NodeId], others: Iterable[NodeId]) -> None:
        """Neither side hears the other."""
        self.mute(group, others)
        self.mute(others, group)

    def mute(self, senders: Iterable[NodeId], receivers: Iterable[NodeId]) -> None:
        """What these send to those is lost."""
        self._blocked |= {(a, b) for a in senders for b in receivers}

    def heal(self) -> None:
        self._blocked.clear()
