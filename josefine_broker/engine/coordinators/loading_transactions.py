"""Loading and unloading of transactional ids with the leadership of a `__transaction_state`
partition.

Rules: while a new leader loads the partition (`engine/coordinators/loading.py`), requests for its
ids get COORDINATOR_LOAD_IN_PROGRESS; the last record of an id counts. Requests that wait when the
leadership is lost get NOT_COORDINATOR.
"""

from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.context import Context
from josefine_broker.engine.coordinators.loading import Loading, read_anew
from josefine_broker.engine.coordinators.log import partition_of
from josefine_broker.engine.coordinators.transactions_host import do_transactions_work, now_of
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.transactions.records import decode_key, decode_value
from josefine_broker.engine.transactions.values import TransactionRecord
from josefine_broker.records.batch import BatchHeader
from josefine_broker.records.reader import read_records

RECORD_BYTES_MAX = 16 * 1024 * 1024


class _TransactionReader:
    """The reader of a `__transaction_state` partition: it keeps the last record of each id."""

    def __init__(self, ctx: Context, tp: TopicPartition) -> None:
        self._ctx = ctx
        self._tp = tp
        self._stored: dict[str, TransactionRecord] = {}

    def begin(self) -> None:
        self._stored = {}

    def take(self, header: BatchHeader, batch: memoryview) -> None:
        if header.is_control:
            return
        for record in read_records(batch, bytes_max=RECORD_BYTES_MAX):
            key = None if record.key is None else decode_key(record.key)
            if key is None:
                continue
            if record.value is None:
                self._stored.pop(key, None)
            else:
                self._stored[key] = decode_value(record.value)

    def finish(self) -> None:
        transactions = self._ctx.clients.transactions
        del transactions.loading[self._tp]
        transactions.coordinator.load(self._stored, now_of(self._ctx))
        do_transactions_work(self._ctx)


def begin_loading_transactions(ctx: Context, tp: TopicPartition, hosted: HostedPartition) -> None:
    """Start to load the partition, which this broker leads now."""
    unload_transactions(ctx, tp)
    loading = Loading(ctx, tp, hosted, _TransactionReader(ctx, tp))
    ctx.clients.transactions.loading[tp] = loading


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
