"""26. A mirror has the batches of its source, at the same offsets: all of them below its end, and
no others before it is cut over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from josefine_broker.records.batch import parse_header
from tests.simulation.cluster.group_names import MIRRORED
from tests.simulation.cluster.invariants.base import Invariant
from tests.simulation.cluster.view import PartitionFacts

if TYPE_CHECKING:
    from tests.simulation.cluster.world import World

__all__ = ["MirrorIsEqual"]


class MirrorIsEqual(Invariant):
    def settled(self, world: World) -> None:
        topic = self.view.image.topics.get(MIRRORED)
        if world.mirror is None or topic is None:
            return
        facts: PartitionFacts = self.view.facts((topic.topic_id, 0))
        headers = [parse_header(each.data) for each in world.mirror.source]
        wanted = [(each.base_offset, each.end_offset, each.crc) for each in headers]
        found = [(each.base_offset, each.end_offset, each.crc) for each in facts.batches]
        if facts.excused:
            return
        assert found[: len(wanted)] == wanted, f"{facts.name}: not the batches of its source"
        world.met["mirror equal to its source"] += 1
