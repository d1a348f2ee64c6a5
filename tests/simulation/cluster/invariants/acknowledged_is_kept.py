"""1. A record that was acknowledged with acks=all is committed, and is never lost: not while enough
replicas are whole, nor without an unclean election that somebody has allowed (`unclean.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.cluster.invariants.base import Invariant
from tests.simulation.cluster.view import Ack, PartitionFacts, batches_of

if TYPE_CHECKING:
    from tests.simulation.cluster.world import World

__all__ = ["AcknowledgedIsKept"]


class AcknowledgedIsKept(Invariant):
    def acknowledged(self, facts: PartitionFacts, ack: Ack) -> None:
        if facts.excused:
            return
        found = facts.batch_at(ack.base_offset)
        assert found is not None, (
            f"{facts.name}: offset {ack.base_offset} was acknowledged to acks=all, "
            f"committed is what lies before {facts.end_offset}"
        )
        assert (found.base_offset, found.crc) == ack, (
            f"{facts.name}: acknowledged was {ack}, there lies {found}"
        )

    def settled(self, world: World) -> None:
        for facts, name, entry in self.view.entries():
            if facts.excused:
                continue
            for broker_id in entry.replicas:
                hosted = self.view.hosted(broker_id, name, facts.key)
                assert hosted is not None, f"{facts.name}: no replica at broker {broker_id}"
                log = hosted.log
                found = {
                    (each.base_offset, each.crc)
                    for each in batches_of(hosted, log.log_start_offset, log.log_end_offset)
                }
                lost = [
                    ack
                    for ack in facts.acks
                    if ack not in found and ack.base_offset >= facts.deleted_before
                ]
                assert not lost, (
                    f"{facts.name}: broker {broker_id} lacks acknowledged {lost[:3]}, "
                    f"{len(lost)} in all"
                )
