"""Special access rules of transactions: new producers, partitions, topics."""

from dataclasses import replace
from typing import Any

from josefine_broker.api.rules.asker import After, Asker, Refuse
from josefine_broker.api.rules.kinds import parted
from josefine_broker.base.acls import Operation, ResourceType
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.wire.entities import (
    add_partitions_to_txn,
    describe_transactions,
    init_producer_id,
)

TOPIC, TRANSACTIONAL_ID = ResourceType.TOPIC, ResourceType.TRANSACTIONAL_ID
BROKERS_SINCE = 4
"""Version of AddPartitionsToTxn (KIP-890)."""


def new_producer(
    asker: Asker, request: init_producer_id.InitProducerIdRequest, refuse: Refuse
) -> tuple[Any, After | None]:
    """WRITE on the transactional id; without one, on any topic, or IDEMPOTENT_WRITE (KIP-679)."""
    transactional_id = request.transactional_id
    if transactional_id is not None:
        if not asker.may(Operation.WRITE, TRANSACTIONAL_ID, transactional_id):
            raise asker.denied(Operation.WRITE, TRANSACTIONAL_ID)
        return request, None
    authorizer, principal = asker.authorizer, asker.info.principal
    if not (
        asker.may_cluster(Operation.IDEMPOTENT_WRITE)
        or authorizer.allows_some(principal, asker.host, Operation.WRITE, TOPIC)
    ):
        raise asker.denied(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)
    return request, None


def added_partitions(
    asker: Asker, request: add_partitions_to_txn.AddPartitionsToTxnRequest, refuse: Refuse
) -> tuple[Any, After | None]:
    """Brokers verify many transactions; a producer adds to its own: it needs WRITE on all topics,
    or none joins."""
    if asker.info.header.api_version >= BROKERS_SINCE:
        if not asker.may_cluster(Operation.CLUSTER_ACTION):
            raise asker.denied(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
        return request, None
    for transaction in request.transactions:
        if not asker.may(Operation.WRITE, TRANSACTIONAL_ID, transaction.transactional_id):
            raise asker.denied(Operation.WRITE, TRANSACTIONAL_ID)
        flags = [asker.may(Operation.WRITE, TOPIC, topic.name) for topic in transaction.topics]
        if not all(flags):
            return None, _none_joins(asker, transaction, flags, refuse)
    return request, None


def _none_joins(
    asker: Asker,
    transaction: add_partitions_to_txn.AddPartitionsToTxnTransaction,
    flags: list[bool],
    refuse: Refuse,
) -> After:
    results: list[add_partitions_to_txn.AddPartitionsToTxnTopicResult] = []
    others = KafkaError(ErrorCode.operation_not_attempted)
    errors = (others, asker.denied(Operation.WRITE, TOPIC))
    parts = parted(transaction, "topics", flags)
    for part, error in zip(parts, errors, strict=True):
        asked = add_partitions_to_txn.AddPartitionsToTxnRequest(transactions=(part,))
        results += refuse(asked, error).results_by_transaction[0].topic_results
    answer = add_partitions_to_txn.AddPartitionsToTxnResponse(
        results_by_transaction=(
            add_partitions_to_txn.AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id, topic_results=tuple(results)
            ),
        )
    )
    return lambda _: answer


def topics_of_transactions(
    asker: Asker, request: object, refuse: Refuse
) -> tuple[Any, After | None]:
    """Of a transaction only the topics that its client may DESCRIBE."""

    def after(
        answer: describe_transactions.DescribeTransactionsResponse,
    ) -> describe_transactions.DescribeTransactionsResponse:
        states = tuple(
            replace(
                each,
                topics=tuple(
                    topic
                    for topic in each.topics
                    if asker.may(Operation.DESCRIBE, TOPIC, topic.topic)
                ),
            )
            for each in answer.transaction_states
        )
        return replace(answer, transaction_states=states)

    return request, after
