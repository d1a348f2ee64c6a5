"""Loading and unloading of share states with the leadership of a `__share_group_state` partition.

Rules: while a new leader loads the partition (`engine/coordinators/loading.py`), requests for its
states get COORDINATOR_LOAD_IN_PROGRESS; the last record of a share partition counts.
"""

from functools import partial

from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.context import Context
from josefine_broker.engine.coordinators.loading import LastRecords, Loading, read_anew
from josefine_broker.engine.coordinators.log import partition_of
from josefine_broker.engine.coordinators.share_partitions_host import forget_missing_partitions
from josefine_broker.engine.coordinators.share_states_host import (
    coordinator_key,
    forget_missing_states,
)
from josefine_broker.engine.groups.share.state_records import decode_key, decode_value
from josefine_broker.engine.groups.share.values import ShareKey, ShareState
from josefine_broker.engine.hosted import HostedPartition


def _hand_over(ctx: Context, tp: TopicPartition, states: dict[ShareKey, ShareState]) -> None:
    shares = ctx.clients.shares
    del shares.loading[tp]
    shares.states.load(states)
    forget_missing_states(ctx)


def begin_loading_share_states(ctx: Context, tp: TopicPartition, hosted: HostedPartition) -> None:
    """Start to load the partition, which this broker leads now."""
    unload_share_states(ctx, tp)
    reader = LastRecords(decode_key, decode_value, partial(_hand_over, ctx, tp))
    ctx.clients.shares.loading[tp] = Loading(ctx, tp, hosted, reader)


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
