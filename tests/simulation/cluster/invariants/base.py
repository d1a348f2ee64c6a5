"""What a checker may look at. Each raises AssertionError with the rule it saw broken."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.metadata.changes import At, Change
from josefine_broker.engine.metadata.image import MetadataImage
from josefine_broker.records.batch import BatchHeader
from tests.simulation.cluster.group_facts import Commit, Written
from tests.simulation.cluster.transfer_facts import Ledger, Transaction
from tests.simulation.cluster.view import Ack, Batch, PartitionFacts, View

if TYPE_CHECKING:
    from tests.simulation.cluster.process import Process
    from tests.simulation.cluster.share_watch import Delivery
    from tests.simulation.cluster.world import World

__all__ = ["Invariant", "Sight"]


class Sight(NamedTuple):
    """What of one replica matters to checkers, after an event."""

    hosted: HostedPartition
    is_leader: bool
    leader_epoch: int
    high_watermark: int


class Invariant:
    """Override what the rule needs."""

    def __init__(self, view: View) -> None:
        self.view = view

    def applied(self, process: Process, height: int) -> None:
        """A broker has just applied the block (or snapshot) of this height."""

    def decided(self, before: MetadataImage, change: Change | None, at: At) -> None:
        """A broker was the first to apply a block (no change: a snapshot): `view.image` is new."""

    def moved(
        self, process: Process, tp: TopicPartition, sight: Sight, before: Sight | None
    ) -> None:
        """An event changed a replica's role, epoch or high watermark; `before` is of this life."""

    def committed(self, process: Process, facts: PartitionFacts, batches: list[Batch]) -> None:
        """A leader's high watermark passed these for the first time; `facts` has them already."""

    def acknowledged(self, facts: PartitionFacts, ack: Ack) -> None:
        """A producer with acks=all was told that its batch is safe."""

    def read(self, facts: PartitionFacts, batches: list[Batch]) -> None:
        """A consumer was given these."""

    def assigned(self, group: str, generation: int, owner: str, tps: list[TopicPartition]) -> None:
        """A member of a consumer group was told what it owns."""

    def held(self, group: str, held: dict[str, set[TopicPartition]]) -> None:
        """What each member of a group of the consumer protocol has, when that changed."""

    def group_written(self, written: Written) -> None:
        """A record of the offsets topic is committed; `view.groups` has it next."""

    def offset_acknowledged(self, commit: Commit) -> None:
        """A member was told that its offset is safe."""

    def offset_told(self, group: str, tp: TopicPartition, token: str, known: int) -> None:
        """A member was told where to go on, by who coordinated the group all the while; so many
        offsets were committed when it asked."""

    def transfers_seen(self, ledger: Ledger) -> None:
        """A read_committed reader has read on."""

    def stable_end_told(
        self, facts: PartitionFacts, before: tuple[int, int], after: tuple[int, int]
    ) -> None:
        """A reader was told where stable records end, and in which leader epoch, and so before."""

    def transactional_written(self, topic: str, header: BatchHeader) -> None:
        """A batch or marker of a transaction is committed in a topic of transfers."""

    def transaction_ended(self, transaction: Transaction, topic: str) -> None:
        """Its marker is committed there: `outcomes` has it."""

    def shared(self, delivery: Delivery) -> None:
        """A member of a share group got records."""

    def share_finished(self, delivery: Delivery, epoch: int, now_ms: int) -> None:
        """A member was told that records are finished, when the newest leader epoch was this."""

    def lettered(self, tp: TopicPartition, offset: int, epoch: int, now_ms: int) -> None:
        """The dead letter of a record is committed, when its newest leader epoch is this."""

    def settled(self, world: World) -> None:
        """All faults have just stopped; the world may be run on."""
