"""The host of the transaction coordinator (`engine/transactions/coordinator.py`): it executes its
effects and runs its timers. `engine/coordinators/loading_transactions.py` loads its ids.

Rules: effects are executed in order, by one loop. A record counts once every in-sync replica has
it; the coordinator learns the result of each write. A marker is sent to its partition's leader in
the current image; a partition that no longer exists needs none. Markers without an answer are sent
again.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition, by_topic
from josefine_broker.base.rounds import PER_STEP
from josefine_broker.engine.context import Context
from josefine_broker.engine.coordinators.log import append_entries, led_partition
from josefine_broker.engine.coordinators.transaction_markers import write_markers
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.metadata.image import TRANSACTIONS_TOPIC
from josefine_broker.engine.purgatory.promises import AwaitEach, Translated
from josefine_broker.engine.transactions.records import (
    PLAIN_VERSION,
    TAGGED_VERSION,
    encode_key,
    encode_value,
)
from josefine_broker.engine.transactions.values import (
    Answer,
    Effect,
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
"""How long a broker may take to answer for its markers. A dead broker is noticed at once; a marker
that arrived after its transaction was completed could end the next one."""

DONE = frozenset(
    {
        ErrorCode.none,
        ErrorCode.invalid_producer_epoch,  # a marker of a later epoch has ended it
        ErrorCode.transaction_coordinator_fenced,  # another coordinator has taken over
    }
)
"""Answers after which a marker is not sent again."""


FINAL = frozenset(
    {
        ErrorCode.invalid_producer_epoch,
        ErrorCode.invalid_producer_id_mapping,
        ErrorCode.invalid_txn_state,
        ErrorCode.producer_fenced,
    }
)
"""Errors that end a producer."""


class TransactionWait(Translated):
    """A request that waits for the coordinator's answer.

    At its deadline the client gets COORDINATOR_NOT_AVAILABLE and retries: the change itself may be
    stored later, and the retry then finds it done. It gets the same instead of an error that would
    end it, if the controller may have appointed another coordinator meanwhile: this one then
    refuses by a state that is out of date.
    """

    __slots__ = ()

    def __init__(self, ctx: Context, translate: Callable[[TransactionAnswer], object]) -> None:
        deadline_ms = ctx.clock.monotonic_ms() + ctx.settings.metadata_timeout_ms
        late = TransactionAnswer(ErrorCode.coordinator_not_available)

        def checked(answer: TransactionAnswer) -> object:
            has_ended = ctx.clock.monotonic_ms() >= ctx.cluster.session_end_ms
            return translate(late if has_ended and answer.error in FINAL else answer)

        super().__init__(ctx.parked, deadline_ms, checked, late)


def now_of(ctx: Context) -> Now:
    """Both clocks, as the coordinator needs them."""
    return Now(ctx.clock.now_ms(), ctx.clock.monotonic_ms())


def transaction_partition(
    ctx: Context, transactional_id: str
) -> tuple[TopicPartition, HostedPartition]:
    """The partition of a transactional id, led and loaded here. Raises KafkaError(not_coordinator |
    coordinator_load_in_progress | invalid_request)."""
    if not transactional_id:
        raise KafkaError(ErrorCode.invalid_request, "a transactional id must not be empty")
    loading = ctx.clients.transactions.loading
    return led_partition(ctx, TRANSACTIONS_TOPIC, transactional_id, loading)


def answer_of(ctx: Context, wait: TransactionWait) -> object:
    """The response if the coordinator has answered already, else the token."""
    do_transactions_work(ctx)
    return wait.response if wait.done else wait


def do_transactions_work(ctx: Context) -> None:
    """Execute the coordinator's effects until there are none."""
    transactions = ctx.clients.transactions
    transactions.effects.run(transactions.coordinator.take_effects, partial(_execute, ctx))


def _execute(ctx: Context, effect: Effect) -> None:
    if isinstance(effect, Store):
        _store(ctx, effect)
    elif isinstance(effect, Mark):
        _mark(ctx, effect)
    else:
        assert isinstance(effect, Answer)
        assert isinstance(effect.ticket, TransactionWait)
        effect.ticket.answer(effect.answer)


def tick_transactions(ctx: Context) -> None:
    """Periodic: abort overdue transactions, and repeat what failed."""
    ctx.clients.transactions.coordinator.tick(now_of(ctx))
    do_transactions_work(ctx)


def expire_transactions(ctx: Context) -> Iterator[object]:
    """Periodic, in steps: forget transactional ids that have not been used for long."""
    for at, _ in enumerate(ctx.clients.transactions.coordinator.expire(now_of(ctx)), 1):
        if at % PER_STEP == 0:
            do_transactions_work(ctx)
            yield None
    do_transactions_work(ctx)


# The coordinator's effects.


def _store(ctx: Context, effect: Store) -> None:
    """Write a record. Raises nothing: a write that failed is reported like a lost one."""
    transactional_id, write_id, record = effect

    def settle(error: KafkaError | None) -> None:
        code = ErrorCode.none if error is None else error.code
        coordinator = ctx.clients.transactions.coordinator
        coordinator.stored(transactional_id, write_id, code, now_of(ctx))

    # Only when every broker can read it: any of them may load this partition next.
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
    """The coordinator needs the result of a write, whether the client still waits or not."""

    __slots__ = ()

    outlives_client = True


def _mark(ctx: Context, effect: Mark) -> None:
    """Send the markers, one request per leader, all at once."""
    coordinator = ctx.clients.transactions.coordinator
    transactional_id, mark_id = effect.transactional_id, effect.mark_id

    def tell(partitions: set[TopicPartition], *, is_written: bool) -> None:
        """Report a part of the result to the coordinator, which keeps what is missing."""
        if partitions:
            coordinator.marked(
                transactional_id, mark_id, partitions, now_of(ctx), is_written=is_written
            )

    # The leader epoch of our own partition is the coordinator epoch of the markers: a coordinator
    # that has lost its partition is fenced by the markers of its successor (KIP-98).
    try:
        tp, hosted = transaction_partition(ctx, transactional_id)
    except KafkaError:
        tell(set(effect.partitions), is_written=False)
        return
    marker = Marker(effect.is_commit, hosted.partition.leader_epoch)
    gone: set[TopicPartition] = set()
    by_leader: dict[int, set[TopicPartition]] = {}
    # Sorted, so that a simulation with the same seed sends the same requests.
    for tp in sorted(effect.partitions):
        entry = ctx.image.partition(tp.topic, tp.partition)
        if entry is None:
            gone.add(tp)
        else:
            by_leader.setdefault(entry.leader, set()).add(tp)
    # A topic that was deleted meanwhile: nobody reads its records, and waiting would never end.
    tell(gone, is_written=True)
    for leader, tps in by_leader.items():

        def answered(
            codes: Mapping[TopicPartition, ErrorCode], tps: set[TopicPartition] = tps
        ) -> None:
            """Partitions without a code count as not written: their markers are sent again."""
            written = {each for each in tps if codes.get(each) in DONE}
            tell(written, is_written=True)
            tell(tps - written, is_written=False)
            do_transactions_work(ctx)

        _ask_for_markers(ctx, leader, effect, marker, tps, answered)


def _ask_for_markers(
    ctx: Context,
    leader: int,
    effect: Mark,
    marker: Marker,
    tps: set[TopicPartition],
    answered: Callable[[Mapping[TopicPartition, ErrorCode]], None],
) -> None:
    """Send one leader its markers; `answered` is called once, now or later."""
    if leader == ctx.broker_id:
        write_markers(ctx, effect.producer, marker, sorted(tps), answered, effect.version)
        return
    ask = ctx.ports.forward
    # No leader at the moment. The next tick sends the marker again.
    if leader < 0 or ask is None:
        answered({})
        return

    def heard(answer: Any | None) -> None:
        """The codes in the answer; None, without an answer, gives none."""
        codes: dict[TopicPartition, ErrorCode] = {}
        for each in () if answer is None else answer.markers:
            for topic in each.topics:
                for part in topic.partitions:
                    codes[TopicPartition(topic.name, part.partition_index)] = part.error_code
        answered(codes)

    deadline_ms = ctx.clock.monotonic_ms() + MARK_TIMEOUT_MS
    ask(leader, WRITE_TXN_MARKERS, _request(effect, marker, tps), deadline_ms, heard)


def _request(effect: Mark, marker: Marker, tps: set[TopicPartition]) -> e.WriteTxnMarkersRequest:
    """WriteTxnMarkers with one marker for all partitions of that leader."""
    return e.WriteTxnMarkersRequest(
        markers=(
            e.WritableTxnMarker(
                producer_id=effect.producer.producer_id,
                producer_epoch=effect.producer.epoch,
                transaction_result=marker.is_commit,
                topics=tuple(
                    e.WritableTxnMarkerTopic(name=name, partition_indexes=tuple(indexes))
                    for name, indexes in by_topic(sorted(tps)).items()
                ),
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=effect.version,
            ),
        )
    )
