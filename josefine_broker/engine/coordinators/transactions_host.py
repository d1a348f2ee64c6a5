"""Hosts the transaction coordinator (`engine/transactions/coordinator.py`): does what it wants, and
lets time pass for it. Its ids come with partitions, see
`engine/coordinators/loading_transactions.py`.

Rules: what it wants is done in its order, by one loop. A record counts once every in-sync replica
has it; whatever becomes of it is told. A marker goes to the leader of its partition by the image of
the moment; one of a partition that is gone needs none. Who does not answer is asked again.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.base.rounds import PER_STEP
from josefine_broker.engine.context import Context
from josefine_broker.engine.coordinators.log import append_entries, led_partition
from josefine_broker.engine.coordinators.transaction_markers import write_markers
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.metadata.image import TRANSACTIONS_TOPIC
from josefine_broker.engine.purgatory.promises import AwaitEach, Promise
from josefine_broker.engine.transactions.records import (
    PLAIN_VERSION,
    TAGGED_VERSION,
    encode_key,
    encode_value,
)
from josefine_broker.engine.transactions.values import (
    Answer,
    Mark,
    Now,
    Store,
    TransactionAnswer,
)
from josefine_broker.records.control import Marker
from josefine_broker.wire.apis import WRITE_TXN_MARKERS
from josefine_broker.wire.entities import write_txn_markers as e

STORE_TIMEOUT_MS = 5_000
"""How long a record waits for its replicas (Kafka's offsets.commit.timeout.ms, as for groups)."""
MARK_TIMEOUT_MS = 30_000
"""How long a broker has to answer for its markers. A broker that died is noticed at once; a marker
that comes after its transaction was completed could end the next one."""

DONE = frozenset(
    {
        ErrorCode.none,
        ErrorCode.invalid_producer_epoch,  # another epoch's marker ended it
        ErrorCode.transaction_coordinator_fenced,  # another coordinator does this one's work
    }
)
"""Answers after which a marker is not to be written again."""


class TransactionWait(Promise):
    """A request that the coordinator will answer."""

    __slots__ = ("_translate",)

    is_cut_short = True

    def __init__(self, ctx: Context, translate: Callable[[TransactionAnswer], object]) -> None:
        deadline_ms = ctx.clock.monotonic_ms() + ctx.settings.metadata_timeout_ms
        late = TransactionAnswer(ErrorCode.coordinator_not_available)
        super().__init__(ctx.parked, deadline_ms, lambda: translate(late))
        self._translate = translate

    def answer(self, answer: TransactionAnswer) -> None:
        """Nothing is done for who waits no longer."""
        self.keep(lambda: self._translate(answer))


def now_of(ctx: Context) -> Now:
    """As the coordinator takes it."""
    return Now(ctx.clock.now_ms(), ctx.clock.monotonic_ms())


def transaction_partition(
    ctx: Context, transactional_id: str
) -> tuple[TopicPartition, HostedPartition]:
    """The partition, led here, that keeps a transactional id. Raises KafkaError(not_coordinator |
    coordinator_load_in_progress | invalid_request)."""
    if not transactional_id:
        raise KafkaError(ErrorCode.invalid_request, "a transactional id has a name")
    loading = ctx.clients.transactions.loading
    return led_partition(ctx, TRANSACTIONS_TOPIC, transactional_id, loading)


def answer_of(ctx: Context, wait: TransactionWait) -> object:
    """What was asked is with the coordinator: the answer if there is one now, else the token."""
    do_transactions_work(ctx)
    return wait.response if wait.done else wait


def do_transactions_work(ctx: Context) -> None:
    """Do what the coordinator wants, until it wants nothing; by whoever began with it."""
    transactions = ctx.clients.transactions
    if transactions.is_working:
        return
    transactions.is_working = True
    try:
        while effects := transactions.coordinator.take_effects():
            for effect in effects:
                if isinstance(effect, Store):
                    _store(ctx, effect)
                elif isinstance(effect, Mark):
                    _mark(ctx, effect)
                else:
                    assert isinstance(effect, Answer)
                    assert isinstance(effect.ticket, TransactionWait)
                    effect.ticket.answer(effect.answer)
    finally:
        transactions.is_working = False


def tick_transactions(ctx: Context) -> None:
    """Periodic: what is overdue, or failed, is taken up again."""
    ctx.clients.transactions.coordinator.tick(now_of(ctx))
    do_transactions_work(ctx)


def expire_transactions(ctx: Context) -> Iterator[object]:
    """Periodic, in steps: forget the transactional ids that nobody uses any more."""
    for at, _ in enumerate(ctx.clients.transactions.coordinator.expire(now_of(ctx)), 1):
        if at % PER_STEP == 0:
            do_transactions_work(ctx)
            yield None
    do_transactions_work(ctx)


# What the coordinator wants.


def _store(ctx: Context, effect: Store) -> None:
    """Raises nothing: a record that could not be written is told like one that was lost."""
    transactional_id, write_id, record = effect

    def settle(error: KafkaError | None) -> None:
        code = ErrorCode.none if error is None else error.code
        coordinator = ctx.clients.transactions.coordinator
        coordinator.stored(transactional_id, write_id, code, now_of(ctx))

    version = TAGGED_VERSION if ctx.image.tags_transactions else PLAIN_VERSION
    value = None if record is None else encode_value(record, version)
    entry = encode_key(transactional_id), value
    try:
        tp, hosted = transaction_partition(ctx, transactional_id)
        appended = append_entries(ctx, tp, hosted, [entry], ctx.clock.now_ms(), settle)
    except KafkaError as error:
        settle(error)
        return
    if not appended.decide():
        deadline_ms = ctx.clock.monotonic_ms() + STORE_TIMEOUT_MS
        _AwaitStore([appended], deadline_ms, lambda: do_transactions_work(ctx)).park(ctx.parked)


class _AwaitStore(AwaitEach):
    __slots__ = ()

    outlives_client = True


def _mark(ctx: Context, effect: Mark) -> None:
    """Each leader is asked for its partitions, all at once."""
    coordinator = ctx.clients.transactions.coordinator
    transactional_id, mark_id = effect.transactional_id, effect.mark_id

    def tell(partitions: set[TopicPartition], *, is_written: bool) -> None:
        if partitions:
            coordinator.marked(
                transactional_id, mark_id, partitions, now_of(ctx), is_written=is_written
            )

    try:
        tp, hosted = transaction_partition(ctx, transactional_id)
    except KafkaError:
        tell(set(effect.partitions), is_written=False)
        return
    marker = Marker(effect.is_commit, hosted.partition.leader_epoch)
    gone: set[TopicPartition] = set()
    by_leader: dict[int, set[TopicPartition]] = {}
    for tp in sorted(effect.partitions):
        entry = ctx.image.partition(tp.topic, tp.partition)
        if entry is None:
            gone.add(tp)
        else:
            by_leader.setdefault(entry.leader, set()).add(tp)
    tell(gone, is_written=True)
    for leader, tps in by_leader.items():

        def told(codes: Mapping[TopicPartition, ErrorCode], tps: set[TopicPartition] = tps) -> None:
            written = {each for each in tps if codes.get(each) in DONE}
            tell(written, is_written=True)
            tell(tps - written, is_written=False)
            do_transactions_work(ctx)

        _ask_for_markers(ctx, leader, effect, marker, tps, told)


def _ask_for_markers(
    ctx: Context,
    leader: int,
    effect: Mark,
    marker: Marker,
    tps: set[TopicPartition],
    told: Callable[[Mapping[TopicPartition, ErrorCode]], None],
) -> None:
    """`told` comes now or later, once."""
    if leader == ctx.broker_id:
        write_markers(ctx, effect.producer, marker, sorted(tps), told, effect.version)
        return
    ask = ctx.ports.forward
    if leader < 0 or ask is None:
        told({})
        return

    def heard(answer: Any | None) -> None:
        codes: dict[TopicPartition, ErrorCode] = {}
        for each in () if answer is None else answer.markers:
            for topic in each.topics:
                for part in topic.partitions:
                    codes[TopicPartition(topic.name, part.partition_index)] = part.error_code
        told(codes)

    deadline_ms = ctx.clock.monotonic_ms() + MARK_TIMEOUT_MS
    ask(leader, WRITE_TXN_MARKERS, _request(effect, marker, tps), deadline_ms, heard)


def _request(effect: Mark, marker: Marker, tps: set[TopicPartition]) -> e.WriteTxnMarkersRequest:
    topics: dict[str, list[int]] = {}
    for tp in sorted(tps):
        topics.setdefault(tp.topic, []).append(tp.partition)
    return e.WriteTxnMarkersRequest(
        markers=(
            e.WritableTxnMarker(
                producer_id=effect.producer.producer_id,
                producer_epoch=effect.producer.epoch,
                transaction_result=marker.is_commit,
                topics=tuple(
                    e.WritableTxnMarkerTopic(name=name, partition_indexes=tuple(indexes))
                    for name, indexes in topics.items()
                ),
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=effect.version,
            ),
        )
    )
