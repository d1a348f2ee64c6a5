"""17. A fenced producer writes nothing more: behind what was committed when its successor was given
the id, no record of it is ever committed. Where it is its own successor, by the end of a
transaction (KIP-890), a record that was on its way may come before the marker of that transaction:
it belongs to it, and to no later one."""

from josefine_broker.records.batch import BatchHeader
from tests.simulation.cluster.invariants.base import Invariant
from tests.simulation.cluster.transfer_facts import Fence
from tests.simulation.cluster.view import View

__all__ = ["FencedWriteNothing"]


class FencedWriteNothing(Invariant):
    def __init__(self, view: View) -> None:
        super().__init__(view)
        self._open: dict[tuple[str, int], int] = {}
        """The epoch of the transaction that has records and no marker yet, by topic and id."""

    def transactional_written(self, topic: str, header: BatchHeader) -> None:
        if not self.view.transfers.is_excused:
            for fence in self.view.transfers.fences:
                self._check(fence, topic, header)
        if header.is_control:
            self._open.pop((topic, header.producer_id), None)
        else:
            self._open[topic, header.producer_id] = header.producer_epoch

    def _check(self, fence: Fence, topic: str, header: BatchHeader) -> None:
        if fence.producer.producer_id != header.producer_id:
            return
        is_fenced = header.producer_epoch < fence.producer.epoch
        is_open = self._open.get((topic, header.producer_id)) == header.producer_epoch
        may_be_late = fence.is_end and is_open
        assert not is_fenced or may_be_late or header.base_offset < fence.ends.get(topic, 0), (
            f"{topic}: {header} lies behind offset {fence.ends[topic]}, where its producer "
            f"was fenced by epoch {fence.producer.epoch}"
        )
