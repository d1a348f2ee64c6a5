"""The simulated links between machines: when a message arrives, how often, and whether at all."""

from collections import Counter
from random import Random

from raft import NodeId
from tests.simulation.cuts import Cuts
from tests.simulation.raft.faults import Faults

__all__ = ["Network"]


class Network(Cuts):
    """Mutable: besides the cuts, when the last message of each link arrives."""

    def __init__(self, rng: Random, met: Counter[str]) -> None:
        super().__init__()
        self._rng = rng
        self._met = met
        self._last_ms: dict[tuple[NodeId, NodeId], int] = {}

    def arrivals(self, link: tuple[NodeId, NodeId], now_ms: int, faults: Faults) -> list[int]:
        """The times at which copies of a message sent now arrive."""
        met, chance = self._met, self._rng.random
        if self.is_blocked(*link):
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
