"""Loading and unloading of transactional ids with the leadership of a `__transaction_state`
partition.

Rules: while a new leader loads the partition (`engine/coordinators/loading.py`), requests for its
ids get COORDINATOR_LOAD_IN_PROGRESS; the last record of an id counts. Requests that wait when the
leadership is lost get NOT_COORDINATOR.
"""

from functools import partial

from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.context import Context
from josefine_broker.engine.coordinators.loading import LastRecords, Loading, read_anew
from josefine_broker.engine.coordinators.log import partition_of
from josefine_broker.engine.coordinators.transactions_host import do_transactions_work, now_of
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.transactions.records import decode_key, decode_value
from josefine_broker.engine.transactions.values import TransactionRecord


def _hand_over(ctx: Context, tp: TopicPartition, stored: dict[str, TransactionRecord]) -> None:
    transactions = ctx.clients.transactions
    del transactions.loading[tp]
    transactions.coordinator.load(stored, now_of(ctx))
    do_transactions_work(ctx)


def begin_loading_transactions(ctx: Context, tp: TopicPartition, hosted: HostedPartition) -> None:
    """Start to load the partition, which this broker leads now."""
    unload_transactions(ctx, tp)
    reader = LastRecords(decode_key, decode_value, partial(_hand_over, ctx, tp))
    ctx.clients.transactions.loading[tp] = Loading(ctx, tp, hosted, reader)


def unload_transactions(ctx: Context, tp: TopicPartition) -> None:
    """Drop the partition's ids, which another broker coordinates now. `transactions_moved` answers
    the requests that wait."""
    transactions = ctx.clients.transactions
    loading = transactions.loading.pop(tp, None)
    if loading is not None:
        ctx.parked.forget(loading)
    transactions.coordinator.unload(
        lambda transactional_id: partition_of(ctx, tp.topic, transactional_id) in (None, tp)
    )


def transactions_moved(ctx: Context) -> None:
    """To be called when the image is applied: start the reads that are new, and answer requests for
    ids that moved away."""
    read_anew(ctx, ctx.clients.transactions.loading)
    do_transactions_work(ctx)
