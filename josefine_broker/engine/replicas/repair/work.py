"""One repair in progress, what is logged of it, and the counters of all of them."""

from __future__ import annotations

from dataclasses import dataclass

from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.context import Context
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.partition.repair.ports import DamagedLog, RebuildPort
from josefine_broker.engine.partition.repair.repair import Repair
from josefine_broker.engine.ports import Gravity


@dataclass(slots=True)
class RepairWork:
    """One repair, and the copy it makes; None before it starts."""

    tp: TopicPartition
    hosted: HostedPartition
    log: DamagedLog
    repair: Repair
    rebuild: RebuildPort | None = None

    def tell(
        self, ctx: Context, message: str, gravity: Gravity = Gravity.INFO, **more: object
    ) -> None:
        """Log an event with its place: fields only, never bytes of records."""
        damage = self.repair.damage
        ctx.ports.tell(
            message,
            gravity=gravity,
            partition=str(self.tp),
            segment=damage.base_offset,
            offset=damage.offset,
            **more,
        )


@dataclass(slots=True)
class RepairCounters:
    """Counters since the start; the host exports them on a scrape."""

    repaired: int = 0
    bytes_fetched: int = 0
    failed: int = 0
