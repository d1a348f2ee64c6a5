"""AddPartitionsToTxn (key 24) in the one shape that handlers see: version 5. Until 3 there is one
transaction, its producer's; since 4 there are many, and a broker may only ask (KIP-890)."""

from dataclasses import dataclass

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnTopic:
    """Partitions of one topic."""

    name: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnTransaction:
    """A producer is about to write to these partitions in its transaction; with `verify_only` the
    question is whether it may, and nothing joins."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    verify_only: bool = False
    topics: tuple[AddPartitionsToTxnTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnRequest:
    """One transaction from a producer, many from a broker."""

    transactions: tuple[AddPartitionsToTxnTransaction, ...]  # since version 4


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnPartitionResult:
    """What became of one partition."""

    partition_index: int
    partition_error_code: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnTopicResult:
    """Partitions of one topic."""

    name: str
    results_by_partition: tuple[AddPartitionsToTxnPartitionResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnResult:
    """Partitions of one transaction."""

    transactional_id: str
    topic_results: tuple[AddPartitionsToTxnTopicResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnResponse:
    """One answer per partition; the code of the whole exists since version 4."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none  # since version 4
    results_by_transaction: tuple[AddPartitionsToTxnResult, ...]  # since version 4
