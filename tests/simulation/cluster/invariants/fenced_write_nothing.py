"""17. A fenced producer writes nothing more: behind what was committed when its successor was given
the id, no record of it is ever committed."""

from josefine_broker.records.batch import BatchHeader
from tests.simulation.cluster.invariants.base import Invariant

__all__ = ["FencedWriteNothing"]


class FencedWriteNothing(Invariant):
    def transactional_written(self, topic: str, header: BatchHeader) -> None:
        for fence in self.view.transfers.fences:
            if fence.producer.producer_id == header.producer_id:
                is_fenced = header.producer_epoch < fence.producer.epoch
                assert not is_fenced or header.base_offset < fence.ends.get(topic, 0), (
                    f"{topic}: {header} lies behind offset {fence.ends[topic]}, where its producer "
                    f"was fenced by epoch {fence.producer.epoch}"
                )
