"""Administration of transactions: list, state, open ones in a partition, and the end of one that
hangs (KIP-664).

A transaction hangs if it is open in a partition while its coordinator does not know it: it blocks
the last stable offset for ever. It is checked twice, because one may end in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition, by_topic
from josefine_broker.client.cluster import ClusterMetadata
from josefine_broker.client.effects import ANY_BROKER, Call, Operation
from josefine_broker.client.operations import (
    Answer,
    Spread,
    ask_each_broker,
    ask_once,
    ask_until,
    partition_error,
    refresh,
    results,
    spread,
)
from josefine_broker.client.session import Attempts, Session
from josefine_broker.wire import apis
from josefine_broker.wire import entities as e

TRANSACTION = 1
"""Coordinator type of transactions."""
NOT_OPEN = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionListing:
    """One transactional id of a list; `coordinator` is a broker id."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDescription:
    """One transactional id; in a prepared transaction the listed partitions still lack their
    marker."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int
    """-1: it never started one."""
    partitions: tuple[TopicPartition, ...]
    coordinator: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveProducer:
    """A producer that a partition remembers; `last_sequence`, `last_ms`: of its newest batch."""

    tp: TopicPartition
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_ms: int
    is_in_transaction: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction that is open in a partition, according to the partition's leader."""

    tp: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    first_offset: int
    last_ms: int
    """Time of its producer's last write there."""


def list_transactions(
    session: Session, states: Iterable[str], longer_than_ms: int, now_ms: int, deadline_ms: int
) -> Operation[list[TransactionListing]]:
    """The transactional ids of all brokers by name, filtered by `states` if any are given, and by
    minimum duration unless that is negative."""
    attempts = session.start(now_ms, deadline_ms, "list transactions")
    return (yield from _listed(session, attempts, tuple(states), longer_than_ms))


def _listed(
    session: Session, attempts: Attempts, states: tuple[str, ...] = (), longer_than_ms: int = -1
) -> Operation[list[TransactionListing]]:
    request = e.list_transactions.ListTransactionsRequest(
        state_filters=states, duration_filter=longer_than_ms
    )
    responses = yield from ask_each_broker(
        session, attempts, apis.LIST_TRANSACTIONS, request, _list_error
    )
    found = [
        TransactionListing(
            transactional_id=each.transactional_id,
            producer_id=each.producer_id,
            state=each.transaction_state,
            coordinator=node,
        )
        for node, response in responses
        for each in response.transaction_states
    ]
    return sorted(found, key=lambda each: each.transactional_id)


def _list_error(response: e.list_transactions.ListTransactionsResponse) -> KafkaError | None:
    if response.unknown_state_filters:
        unknown = ", ".join(response.unknown_state_filters)
        return KafkaError(ErrorCode.invalid_request, f"unknown transaction state '{unknown}'")
    code = response.error_code
    return None if code is ErrorCode.none else KafkaError(code, code.name.replace("_", " "))


def describe_transaction(
    session: Session, transactional_id: str, now_ms: int, deadline_ms: int
) -> Operation[TransactionDescription]:
    """The state of the id, from its coordinator."""
    attempts = session.start(now_ms, deadline_ms, f"transactional id '{transactional_id}'")
    return (yield from _described(session, attempts, transactional_id))


def _described(
    session: Session, attempts: Attempts, transactional_id: str
) -> Operation[TransactionDescription]:
    find = e.find_coordinator.FindCoordinatorRequest(
        key_type=TRANSACTION, coordinator_keys=(transactional_id,)
    )
    request = e.describe_transactions.DescribeTransactionsRequest(
        transactional_ids=(transactional_id,)
    )
    while True:
        call = Call(node=ANY_BROKER, api_key=apis.FIND_COORDINATOR, request=find)
        response, _ = yield from ask_until(
            attempts, call, lambda r: _error_of(transactional_id, r.coordinators[0].error_code)
        )
        node: int = response.coordinators[0].node_id
        if node not in session.cluster.brokers:
            yield from refresh(session, attempts, ())
        call = Call(node=node, api_key=apis.DESCRIBE_TRANSACTIONS, request=request)
        response, error, now_ms = yield from ask_once(
            attempts,
            call,
            lambda r: _error_of(transactional_id, r.transaction_states[0].error_code),
        )
        if error is None:
            return _description(response.transaction_states[0], node)
        yield attempts.after(error, now_ms)


def _description(told: Any, node: int) -> TransactionDescription:
    return TransactionDescription(
        transactional_id=told.transactional_id,
        state=told.transaction_state,
        producer_id=told.producer_id,
        producer_epoch=told.producer_epoch,
        timeout_ms=told.transaction_timeout_ms,
        started_ms=told.transaction_start_time_ms,
        partitions=tuple(
            TopicPartition(topic.topic, index)
            for topic in told.topics
            for index in topic.partitions
        ),
        coordinator=node,
    )


def _error_of(transactional_id: str, code: ErrorCode) -> KafkaError | None:
    if code is ErrorCode.none:
        return None
    if code is ErrorCode.transactional_id_not_found:
        return KafkaError(code, f"transactional id '{transactional_id}' is unknown")
    return KafkaError(code, f"transactional id '{transactional_id}': {code.name.replace('_', ' ')}")


def open_transactions(
    session: Session, topics: Sequence[str] | None, now_ms: int, deadline_ms: int
) -> Operation[list[OpenTransaction]]:
    """Open transactions in partitions of these topics (None: all), by partition."""
    attempts = session.start(now_ms, deadline_ms, "open transactions")
    return (yield from _open(session, attempts, topics))


def active_producers(
    session: Session, topics: Sequence[str], now_ms: int, deadline_ms: int
) -> Operation[list[ActiveProducer]]:
    """The producers that the leaders of these topics' partitions remember, by partition."""
    attempts = session.start(now_ms, deadline_ms, "producers")
    return (yield from _producers(session, attempts, topics, _active_in))


def _open(
    session: Session, attempts: Attempts, topics: Sequence[str] | None
) -> Operation[list[OpenTransaction]]:
    return (yield from _producers(session, attempts, topics, _open_in))


def _producers(
    session: Session,
    attempts: Attempts,
    topics: Sequence[str] | None,
    parse: Callable[[ClusterMetadata, Any], Iterable[Answer]],
) -> Operation[list[Any]]:
    cluster, _ = yield from refresh(session, attempts, topics)
    for name, topic in cluster.topics.items():
        if topic.error_code is not ErrorCode.none:
            raise partition_error(TopicPartition(name, 0), topic.error_code, None)
    tps = [
        TopicPartition(name, index)
        for name, topic in sorted(cluster.topics.items())
        for index in sorted(topic.partitions)
    ]
    kind = Spread(api_key=apis.DESCRIBE_PRODUCERS, build=_producers_request, parse=parse)
    outcomes = yield from spread(session, attempts, kind, tps)
    return [each for found in results(outcomes).values() for each in found]


def _producers_request(cluster: ClusterMetadata, tps: Sequence[TopicPartition]) -> Any:
    return e.describe_producers.DescribeProducersRequest(
        topics=tuple(
            e.describe_producers.TopicRequest(name=topic, partition_indexes=tuple(indexes))
            for topic, indexes in by_topic(tps).items()
        )
    )


def _each_partition(
    response: Any, made: Callable[[TopicPartition, Any], Iterable[Any]]
) -> Iterable[Answer]:
    """`made` of each producer of a partition, by partition."""
    for topic in response.topics:
        for part in topic.partitions:
            tp = TopicPartition(topic.name, part.partition_index)
            found = [one for each in part.active_producers for one in made(tp, each)]
            yield Answer(tp, part.error_code, found, part.error_message)


def _active_in(cluster: ClusterMetadata, response: Any) -> Iterable[Answer]:
    def made(tp: TopicPartition, each: Any) -> Iterable[ActiveProducer]:
        yield ActiveProducer(
            tp=tp,
            producer_id=each.producer_id,
            producer_epoch=each.producer_epoch,
            last_sequence=each.last_sequence,
            last_ms=each.last_timestamp,
            is_in_transaction=each.current_txn_start_offset != NOT_OPEN,
        )

    return _each_partition(response, made)


def _open_in(cluster: ClusterMetadata, response: Any) -> Iterable[Answer]:
    def made(tp: TopicPartition, each: Any) -> Iterable[OpenTransaction]:
        if each.current_txn_start_offset != NOT_OPEN:
            yield OpenTransaction(
                tp=tp,
                producer_id=each.producer_id,
                producer_epoch=each.producer_epoch,
                coordinator_epoch=each.coordinator_epoch,
                first_offset=each.current_txn_start_offset,
                last_ms=each.last_timestamp,
            )

    return _each_partition(response, made)


def hanging_transactions(
    session: Session, topics: Sequence[str] | None, now_ms: int, deadline_ms: int
) -> Operation[list[OpenTransaction]]:
    """Open transactions in these topics (None: all) that no coordinator will end."""
    attempts = session.start(now_ms, deadline_ms, "hanging transactions")
    before = yield from _open(session, attempts, topics)
    if not before:
        return []
    known: set[tuple[TopicPartition, int]] = set()
    for listing in (yield from _listed(session, attempts)):
        try:
            told = yield from _described(session, attempts, listing.transactional_id)
        except KafkaError as error:
            if error.code is not ErrorCode.transactional_id_not_found:
                raise
            continue
        known.update((tp, told.producer_id) for tp in told.partitions)
    suspects = [each for each in before if (each.tp, each.producer_id) not in known]
    after = yield from _open(session, attempts, sorted({each.tp.topic for each in suspects}))
    still = {(each.tp, each.producer_id, each.first_offset) for each in after}
    return [each for each in suspects if (each.tp, each.producer_id, each.first_offset) in still]


def abort_transaction(
    session: Session, transaction: OpenTransaction, now_ms: int, deadline_ms: int
) -> Operation[None]:
    """Abort it in its partition, in place of its coordinator."""
    attempts = session.start(now_ms, deadline_ms, f"abort in {transaction.tp}")
    kind = Spread(
        api_key=apis.WRITE_TXN_MARKERS,
        build=lambda cluster, tps: _abort_request(transaction),
        parse=_aborted,
    )
    results((yield from spread(session, attempts, kind, [transaction.tp])))


def _abort_request(transaction: OpenTransaction) -> e.write_txn_markers.WriteTxnMarkersRequest:
    topic, index = transaction.tp
    return e.write_txn_markers.WriteTxnMarkersRequest(
        markers=(
            e.write_txn_markers.WritableTxnMarker(
                producer_id=transaction.producer_id,
                producer_epoch=transaction.producer_epoch,
                transaction_result=False,
                topics=(
                    e.write_txn_markers.WritableTxnMarkerTopic(
                        name=topic, partition_indexes=(index,)
                    ),
                ),
                coordinator_epoch=max(transaction.coordinator_epoch, 0),
            ),
        )
    )


def _aborted(cluster: ClusterMetadata, response: Any) -> Iterable[Answer]:
    for marker in response.markers:
        for topic in marker.topics:
            for part in topic.partitions:
                tp = TopicPartition(topic.name, part.partition_index)
                yield Answer(tp, part.error_code, None)
