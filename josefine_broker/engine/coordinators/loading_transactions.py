"""The transactional ids of a partition of `__transaction_state` come with its leadership, and go
with it.

Rules: while a new leader reads the partition (`engine/coordinators/loading.py`) who asks for one of
its ids is told COORDINATOR_LOAD_IN_PROGRESS; the last record of an id counts. Who waits when the
leadership goes is answered NOT_COORDINATOR.
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
    """Reads a partition of `__transaction_state`: the last record of each id."""

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
    """This broker leads the partition now: its ids are not known yet."""
    unload_transactions(ctx, tp)
    loading = Loading(ctx, tp, hosted, _TransactionReader(ctx, tp))
    ctx.clients.transactions.loading[tp] = loading


def unload_transactions(ctx: Context, tp: TopicPartition) -> None:
    """Another broker coordinates this partition's ids. Who waits is answered by
    `transactions_moved`."""
    transactions = ctx.clients.transactions
    loading = transactions.loading.pop(tp, None)
    if loading is not None:
        ctx.parked.forget(loading)
    transactions.coordinator.unload(
        lambda transactional_id: partition_of(ctx, tp.topic, transactional_id) in (None, tp)
    )


def transactions_moved(ctx: Context) -> None:
    """All is as the image says: begin to read what is led anew, and answer who waited for ids that
    are others' now."""
    read_anew(ctx, ctx.clients.transactions.loading)
    do_transactions_work(ctx)
