"""WriteTxnMarkers (key 27) in the one shape that handlers see: version 2."""

from dataclasses import dataclass

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class WritableTxnMarkerTopic:
    """Partitions that the transaction wrote to."""

    name: str
    partition_indexes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WritableTxnMarker:
    """The end of one transaction; `transaction_result` is whether it commits."""

    producer_id: int
    producer_epoch: int
    transaction_result: bool
    topics: tuple[WritableTxnMarkerTopic, ...]
    coordinator_epoch: int
    transaction_version: int = 0  # since version 2


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTxnMarkersRequest:
    """A coordinator ends transactions in partitions that are led here."""

    markers: tuple[WritableTxnMarker, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WritableTxnMarkerPartitionResult:
    """What became of one partition."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True, kw_only=True)
class WritableTxnMarkerTopicResult:
    """Partitions of one topic."""

    name: str
    partitions: tuple[WritableTxnMarkerPartitionResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WritableTxnMarkerResult:
    """Partitions of one producer's transaction."""

    producer_id: int
    topics: tuple[WritableTxnMarkerTopicResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTxnMarkersResponse:
    """One answer per marker."""

    markers: tuple[WritableTxnMarkerResult, ...]
