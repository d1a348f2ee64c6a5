"""9. What was decided about a state of affairs that is over changes nothing.

A decision of another term's controller as a whole; of a decision or an ISR change, whatever was
made for another partition epoch; of new ISR members, those that are another incarnation by now.
"""

from josefine_broker.engine.metadata.changes import (
    AlterIsr,
    At,
    Change,
    Decision,
    IsrItem,
    PartitionState,
)
from josefine_broker.engine.metadata.image import MetadataImage, PartitionEntry
from tests.simulation.cluster.invariants.base import Invariant

__all__ = ["StaleChangesFail"]


class StaleChangesFail(Invariant):
    def decided(self, before: MetadataImage, change: Change | None, at: At) -> None:
        if isinstance(change, Decision):
            if change.controller_term != at.term:
                assert self.view.image == before, (
                    f"block {at}: a decision of term {change.controller_term} had an effect"
                )
            for state in change.partitions:
                self._check(before, state)
        elif isinstance(change, AlterIsr):
            for item in change.items:
                self._check(before, item)
                self._check_joined(before, item)

    def _check(self, before: MetadataImage, item: PartitionState | IsrItem) -> None:
        old, new = _entry(before, item), _entry(self.view.image, item)
        if old is None or old.partition_epoch == item.partition_epoch:
            return
        assert new == old, f"{item} had an effect on {old}: {new}"

    def _check_joined(self, before: MetadataImage, item: IsrItem) -> None:
        old, new = _entry(before, item), _entry(self.view.image, item)
        if old is None or new is None:
            return
        for broker_id in set(new.isr) - set(old.isr):
            epoch = before.brokers[broker_id].epoch
            assert (broker_id, epoch) in item.joined, (
                f"{item}: broker {broker_id} joined, whose epoch is {epoch}"
            )


def _entry(image: MetadataImage, item: PartitionState | IsrItem) -> PartitionEntry | None:
    name = image.topic_names.get(item.topic_id)
    return None if name is None else image.partition(name, item.partition)
