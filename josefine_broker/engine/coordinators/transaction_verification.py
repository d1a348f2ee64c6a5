"""Verification of transactional writes with the transaction coordinator (KIP-890): before the first
batch of a transaction, the leader asks whether its partition is part of it.

Without verification, a batch that arrives after the end of its transaction would start the next
one, and hide later records from read_committed. Producers of version 2 do not add partitions
themselves: the leader does, with the same request.

Rules: the event loop never waits. A batch waits for the answer, and later batches of its producer
wait after it. An answer that is outdated is requested again (`engine/partition/questions.py`) until
the deadline. Without an answer, the producer gets an error after which every client retries.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import ProducerEpoch, ProducerId, TopicPartition, by_topic
from josefine_broker.engine.context import Context
from josefine_broker.engine.coordinators.log import partition_of
from josefine_broker.engine.coordinators.transactions_host import (
    TransactionWait,
    do_transactions_work,
    now_of,
    transaction_partition,
)
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.metadata.image import NO_LEADER, TRANSACTIONS_TOPIC
from josefine_broker.engine.partition.questions import Claim, Then
from josefine_broker.engine.purgatory.promises import Promise
from josefine_broker.engine.purgatory.purgatory import Hangup, Parked
from josefine_broker.engine.transactions.values import VERSION_2, Producer
from josefine_broker.records.batch import BatchHeader
from josefine_broker.wire.apis import ADD_PARTITIONS_TO_TXN
from josefine_broker.wire.entities import add_partitions_to_txn as e

VERIFY_MS_MAX = 5_000
"""Longest wait for an answer; after it the producer has to retry."""
SLACK_MS = 1_000
"""Writes that wait for verification end by their own deadlines; this is added for the last
resort."""

Codes = Mapping[TopicPartition, ErrorCode]
Wanted = tuple[TopicPartition, HostedPartition, Then]


def must_verify(
    ctx: Context,
    tp: tuple[str, int],
    hosted: HostedPartition,
    producer: tuple[ProducerId, ProducerEpoch],
    *,
    adds: bool,
) -> bool:
    """Whether the coordinator must be asked before that producer writes in a transaction. `adds`:
    the request adds the partition, because the producer does not; then at any feature level."""
    if not (adds or ctx.image.verifies_transactions) or not hosted.partition.is_leader:
        return False
    producer_id, epoch = producer
    # An earlier batch of it waits: this one must not overtake it, or their sequence numbers arrive
    # in the wrong order.
    if (tp, producer_id) in ctx.clients.questions:
        return True
    # With its first batch in the log, the transaction is open here until its marker comes: later
    # batches need no answer.
    return not hosted.partition.producers.is_in_transaction(producer_id, epoch)


def must_verify_batch(
    ctx: Context, tp: tuple[str, int], hosted: HostedPartition, header: BatchHeader, *, adds: bool
) -> bool:
    """The same for a batch; one that is stored already, or refused anyway, needs no answer."""
    producer = producer_id, _ = header.producer_id, header.producer_epoch
    if not header.is_transactional or not must_verify(ctx, tp, hosted, producer, adds=adds):
        return False
    try:
        # A duplicate is answered from memory: it is in the log, so its partition was verified then.
        return hosted.partition.producers.check(header) is None
    except KafkaError:
        return (tp, producer_id) in ctx.clients.questions


def go_on_when_verified(
    ctx: Context,
    claim: Claim,
    wanted: Sequence[Wanted],
    timeout_ms: int,
    go_on: Callable[[], object],
) -> object:
    """Call the `then` of each of `wanted`; afterwards `go_on` makes the answer: now, or for the
    token."""
    left = len(wanted)
    token: Promise | None = None

    def told(then: Then, code: ErrorCode) -> None:
        """One of the writes has its result; the last one makes the answer."""
        nonlocal left
        then(code)
        left -= 1
        if not left and token is not None and token.is_wanted:
            pass_on(go_on(), token)

    now_ms = ctx.clock.monotonic_ms()
    verify_ms = min(timeout_ms, VERIFY_MS_MAX)
    # All of them wait before the request is sent: the answer may come at once.
    new = []
    for tp, hosted, then in wanted:
        if ctx.clients.questions.wait(tp, hosted.partition, claim, partial(told, then)):
            new.append(tp)
    if new:
        _ask(ctx, claim, new, now_ms + verify_ms)
    if not left:
        return go_on()
    late = Hangup("the transaction coordinator did not answer")
    # Beyond all the deadlines of the writes: this one ends only what no other timer has ended.
    token = Promise(ctx.parked, now_ms + verify_ms + timeout_ms + SLACK_MS, lambda: late)
    return token


def pass_on(answer: object, token: Promise) -> None:
    """Answer `token` with `answer`, now or when it is complete."""
    if isinstance(answer, Parked) and not answer.done:
        answer.on_done = lambda done: token.keep(lambda: done.response)
    else:
        token.keep(lambda: answer.response if isinstance(answer, Parked) else answer)


def _ask(ctx: Context, claim: Claim, tps: Sequence[TopicPartition], deadline_ms: int) -> None:
    """Send one request for these partitions, and another one for those with an outdated answer."""

    def heard(codes: Codes) -> None:
        """Settle what is certain, and ask again for what changed while the answer was under way."""
        is_late = ctx.clock.monotonic_ms() >= deadline_ms
        again = []
        for tp in tps:
            code = codes.get(tp, ErrorCode.coordinator_not_available)
            # The producer wrote here in the meantime, or the epoch is another one: the answer may
            # be about a transaction that has ended.
            if code is ErrorCode.none and ctx.clients.questions.must_ask_again(tp, claim):
                if not is_late:
                    again.append(tp)
                    continue
                code = ErrorCode.coordinator_not_available
            ctx.clients.questions.settle(tp, claim, code)
        if again:
            _ask(ctx, claim, again, deadline_ms)

    # A missing answer is an error for all partitions: a batch must never be appended unverified.
    kept_in = partition_of(ctx, TRANSACTIONS_TOPIC, claim.transactional_id)
    entry = None if kept_in is None else ctx.image.partition(kept_in.topic, kept_in.partition)
    coordinator_id = NO_LEADER if entry is None else entry.leader
    if coordinator_id == ctx.broker_id:
        _ask_here(ctx, claim, tps, heard)
    elif coordinator_id == NO_LEADER or ctx.ports.forward is None:
        heard({})
    else:
        request = e.AddPartitionsToTxnRequest(transactions=(_transaction(claim, tps),))
        ctx.ports.forward(
            coordinator_id,
            ADD_PARTITIONS_TO_TXN,
            request,
            deadline_ms,
            lambda answer: heard(_codes(answer)),
        )


def _ask_here(
    ctx: Context, claim: Claim, tps: Sequence[TopicPartition], heard: Callable[[Codes], None]
) -> None:
    """Ask the coordinator of this broker itself."""
    producer = Producer(claim.producer_id, claim.epoch)
    coordinator = ctx.clients.transactions.coordinator
    try:
        transaction_partition(ctx, claim.transactional_id)
    except KafkaError as error:
        heard(dict.fromkeys(tps, error.code))
        return
    # Only a question: nothing is stored, so the answer is there at once.
    if not claim.adds:
        heard(coordinator.verify(claim.transactional_id, producer, tps))
        return
    # Version 2: the partition is added by a record, whose replicas the answer waits for.
    wait = TransactionWait(ctx, lambda answer: answer.error)
    coordinator.add(claim.transactional_id, producer, tps, wait, now_of(ctx), VERSION_2)
    do_transactions_work(ctx)
    if wait.done:
        heard(dict.fromkeys(tps, _code(wait.response)))
    else:
        wait.on_done = lambda done: heard(dict.fromkeys(tps, _code(done.response)))


def _code(answer: object) -> ErrorCode:
    return answer if isinstance(answer, ErrorCode) else ErrorCode.coordinator_not_available


def _transaction(claim: Claim, tps: Iterable[TopicPartition]) -> e.AddPartitionsToTxnTransaction:
    """The request of AddPartitionsToTxn v4. `verify_only`: a partition that is missing is not
    added."""
    return e.AddPartitionsToTxnTransaction(
        transactional_id=claim.transactional_id,
        producer_id=claim.producer_id,
        producer_epoch=claim.epoch,
        verify_only=not claim.adds,
        topics=tuple(
            e.AddPartitionsToTxnTopic(name=name, partitions=tuple(indexes))
            for name, indexes in by_topic(tps).items()
        ),
    )


def _codes(answer: Any | None) -> Codes:
    """The result of each partition; empty without an answer, so that all of them count as
    failed."""
    if answer is None:
        return {}
    return {
        TopicPartition(topic.name, part.partition_index): part.partition_error_code
        for each in answer.results_by_transaction
        for topic in each.topic_results
        for part in topic.results_by_partition
    }
