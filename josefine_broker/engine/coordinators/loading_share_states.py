"""Loading and unloading of share states with the leadership of a `__share_group_state` partition.

Rules: while a new leader loads the partition (`engine/coordinators/loading.py`), requests for its
states get COORDINATOR_LOAD_IN_PROGRESS; the last record of a share partition counts.
"""

from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.context import Context
from josefine_broker.engine.coordinators.loading import Loading, read_anew
from josefine_broker.engine.coordinators.log import partition_of
from josefine_broker.engine.coordinators.share_partitions_host import forget_missing_partitions
from josefine_broker.engine.coordinators.share_states_host import (
    coordinator_key,
    forget_missing_states,
)
from josefine_broker.engine.groups.share.state_records import decode_key, decode_value
from josefine_broker.engine.groups.share.values import ShareKey, ShareState
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.records.batch import BatchHeader
from josefine_broker.records.reader import read_records

RECORD_BYTES_MAX = 16 * 1024 * 1024


class _ShareStateReader:
    """The reader of a `__share_group_state` partition: it keeps the last record of each key."""

    def __init__(self, ctx: Context, tp: TopicPartition) -> None:
        self._ctx = ctx
        self._tp = tp
        self._states: dict[ShareKey, ShareState] = {}

    def begin(self) -> None:
        self._states = {}

    def take(self, header: BatchHeader, batch: memoryview) -> None:
        if header.is_control:
            return
        for record in read_records(batch, bytes_max=RECORD_BYTES_MAX):
            key = None if record.key is None else decode_key(record.key)
            if key is None:
                continue
            if record.value is None:
                self._states.pop(key, None)
            else:
                self._states[key] = decode_value(record.value)

    def finish(self) -> None:
        shares = self._ctx.clients.shares
        del shares.loading[self._tp]
        shares.states.load(self._states)
        forget_missing_states(self._ctx)


def begin_loading_share_states(ctx: Context, tp: TopicPartition, hosted: HostedPartition) -> None:
    """Start to load the partition, which this broker leads now."""
    unload_share_states(ctx, tp)
    loading = Loading(ctx, tp, hosted, _ShareStateReader(ctx, tp))
    ctx.clients.shares.loading[tp] = loading


def unload_share_states(ctx: Context, tp: TopicPartition) -> None:
    """Drop the partition's states, which another broker coordinates now."""
    shares = ctx.clients.shares
    loading = shares.loading.pop(tp, None)
    if loading is not None:
        ctx.parked.forget(loading)
    shares.states.unload(
        lambda key: partition_of(ctx, tp.topic, coordinator_key(key)) in (None, tp)
    )


def share_states_moved(ctx: Context, *, is_topic_gone: bool = False) -> None:
    """To be called when the image is applied: start the reads that are new, and forget what is
    known of deleted topics."""
    read_anew(ctx, ctx.clients.shares.loading)
    if is_topic_gone:
        forget_missing_states(ctx)
        forget_missing_partitions(ctx)
