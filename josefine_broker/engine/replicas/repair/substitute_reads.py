"""Asks other replicas for the batches that consumers wait for while a segment is repaired.

One question at a time for each partition, with the reads of a repair (`replica_reads.py`); what is
not known to be committed is not used.
"""

from __future__ import annotations

from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.context import Context
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.partition.repair.repair import order_of
from josefine_broker.engine.replicas.replica_reads import (
    ANSWER_MS,
    FETCH,
    records_of,
    request_of,
)
from josefine_broker.wire.fetch import FetchResponse


def ask_for_substitutes(ctx: Context, tp: TopicPartition, hosted: HostedPartition) -> None:
    """Ask the next replica, if a consumer waits and nobody is being asked."""
    its, partition = hosted.substitutes, hosted.partition
    now_ms = ctx.clock.monotonic_ms()
    if its is None or its.wanted is None or its.is_asking or now_ms < its.retry_at_ms:
        return
    if partition.awaits_repair or partition.leader_epoch != its.leader_epoch:
        return  # its log may differ from its leader's
    if ctx.ports.forward is None:
        return
    wanted = its.wanted
    order = order_of(partition.leader, partition.isr, partition.replicas, ctx.broker_id)
    replica = next((each for each in order if each not in its.refused), None)
    if replica is None:
        its.exhausted(now_ms)
        return

    def answered(answer: FetchResponse | None) -> None:
        its.is_asking = False
        if hosted.substitutes is not its or ctx.hosted.partitions.get(tp) is not hosted:
            return  # repaired meanwhile, or deleted
        records, _ = records_of(answer, wanted, is_all_of_use=False)
        if partition.leader_epoch != its.leader_epoch:
            return
        if its.take(records, wanted, partition.high_watermark, partition.epochs):
            ctx.hosted.restored += 1
            ctx.parked.wake(tp, ctx.clock.monotonic_ms())
        else:
            its.refuse(replica)
            ask_for_substitutes(ctx, tp, hosted)

    its.is_asking = True
    request = request_of(hosted, tp.partition, wanted)
    ctx.ports.forward(replica, FETCH, request, now_ms + ANSWER_MS, answered)
