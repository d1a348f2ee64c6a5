"""Writes of transaction markers to partitions that are led here, for any coordinator.

Rules: a marker counts once every in-sync replica has it; a group's offsets that were committed in
the transaction become valid at that moment, or are dropped. This happens even if nobody waits for
the marker any more. A marker that is written twice changes nothing the second time.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import ProducerEpoch, ProducerId, TopicPartition
from josefine_broker.engine.context import Context
from josefine_broker.engine.coordinators.log import partition_of
from josefine_broker.engine.coordinators.offsets_topic import take_in_when_committed
from josefine_broker.engine.metadata.image import OFFSETS_TOPIC
from josefine_broker.engine.purgatory.promises import AwaitEach
from josefine_broker.engine.replicas.batches import append_marker
from josefine_broker.engine.replicas.committing import Appended
from josefine_broker.engine.transactions.values import VERSION_1, VERSION_2
from josefine_broker.records.control import Marker

TIMEOUT_MS = 10_000
"""How long a marker waits for its replicas; the coordinator repeats it after that."""

Codes = Mapping[TopicPartition, ErrorCode]
"""The result for each partition: none, or why its marker was not written."""


class _AwaitMarkers(AwaitEach):
    """The coordinator of the markers needs the result, whether it still waits or asks again."""

    __slots__ = ()

    outlives_client = True


def write_markers(
    ctx: Context,
    producer: tuple[ProducerId, ProducerEpoch],
    marker: Marker,
    tps: Iterable[TopicPartition],
    build: Callable[[Codes], object],
    version: int = VERSION_1,
) -> object:
    """Write a marker to each partition. `version`: of the transaction protocol. `build` gets the
    result of each partition: now, or later for the token that is returned."""
    codes: dict[TopicPartition, ErrorCode] = {}
    waiting = []
    now_ms = ctx.clock.now_ms()
    for tp in tps:
        try:
            hosted = ctx.hosted_partition(tp.topic, tp.partition)
            # A marker in the log of a replica that does not lead would make it diverge from the
            # leader.
            hosted.partition.check_serves()
            if hosted.settings.mirror_session:
                # It became a mirror after it was added: the transaction has nothing in it, and a
                # marker of ours would take an offset of the source.
                codes[tp] = ErrorCode.none
                continue
            end_offset = append_marker(
                ctx, tp, hosted, producer, marker, now_ms, raises_epoch=version >= VERSION_2
            )
        except KafkaError as error:
            # The other partitions do not depend on it: the coordinator repeats this marker alone.
            codes[tp] = error.code
            continue

        def settle(error: KafkaError | None, tp: TopicPartition = tp) -> None:
            codes[tp] = ErrorCode.none if error is None else error.code

        appended = Appended(ctx, tp, hosted, end_offset, settle)
        # Before the wait for the answer: a client that sees the transaction ended must also see the
        # offsets that it committed.
        if tp.topic == OFFSETS_TOPIC:
            take_in_when_committed(
                appended, partial(_settle_offsets, ctx, producer[0], tp, marker.is_commit)
            )
        waiting.append(appended)
    waiting = [each for each in waiting if not each.decide()]
    if not waiting:
        return build(codes)
    deadline_ms = ctx.clock.monotonic_ms() + TIMEOUT_MS
    return _AwaitMarkers(waiting, deadline_ms, lambda: build(codes)).park(ctx.parked)


def _settle_offsets(
    ctx: Context, producer_id: ProducerId, tp: TopicPartition, is_commit: bool
) -> None:
    """Commit or drop the offsets that the producer wrote for the groups of that partition.

    TxnOffsetCommit wrote them as pending (KIP-98): the marker in their partition is what decides
    about them.
    """
    ctx.clients.groups.coordinator.offsets.settle(
        producer_id,
        lambda group_id: partition_of(ctx, OFFSETS_TOPIC, group_id) == tp,
        is_commit=is_commit,
    )
