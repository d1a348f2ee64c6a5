"""WriteTxnMarkers (key 27, KIP-98): another broker, the transaction's coordinator, ends it in
partitions led here. Answered when every marker is on every in-sync replica."""

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import ProducerEpoch, ProducerId, TopicPartition
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.coordinators.transaction_markers import TIMEOUT_MS, Codes, write_markers
from josefine_broker.engine.purgatory.promises import Promise
from josefine_broker.engine.purgatory.purgatory import Parked
from josefine_broker.records.control import Marker
from josefine_broker.wire.entities import write_txn_markers as e


def handle(ctx: Context, info: RequestInfo, request: e.WriteTxnMarkersRequest) -> object:
    """Errors are per partition."""
    found: dict[int, Codes] = {}

    def build() -> e.WriteTxnMarkersResponse:
        results = (_result(each, found.get(at, {})) for at, each in enumerate(request.markers))
        return e.WriteTxnMarkersResponse(markers=tuple(results))

    wait: Promise | None = None

    def settled(at: int, codes: Codes) -> None:
        found[at] = codes
        if wait is not None and len(found) == len(request.markers):
            wait.keep(build)

    for at, each in enumerate(request.markers):
        _write(ctx, each, lambda codes, at=at: settled(at, codes))
    if len(found) == len(request.markers):
        return build()
    deadline_ms = ctx.clock.monotonic_ms() + TIMEOUT_MS
    wait = Promise(ctx.parked, deadline_ms, build)
    return wait


def refuse(request: e.WriteTxnMarkersRequest, error: KafkaError) -> e.WriteTxnMarkersResponse:
    """The answer when the whole request is refused."""
    results = (_result(each, {}, error.code) for each in request.markers)
    return e.WriteTxnMarkersResponse(markers=tuple(results))


def _write(ctx: Context, marker: e.WritableTxnMarker, settled: object) -> Parked | None:
    assert callable(settled)
    tps = [
        TopicPartition(topic.name, index)
        for topic in marker.topics
        for index in topic.partition_indexes
    ]
    producer = ProducerId(marker.producer_id), ProducerEpoch(marker.producer_epoch)
    ended = Marker(marker.transaction_result, marker.coordinator_epoch)
    waiting = write_markers(ctx, producer, ended, tps, settled, marker.transaction_version)
    return waiting if isinstance(waiting, Parked) else None


def _result(
    marker: e.WritableTxnMarker,
    codes: Codes,
    otherwise: ErrorCode = ErrorCode.request_timed_out,
) -> e.WritableTxnMarkerResult:
    return e.WritableTxnMarkerResult(
        producer_id=marker.producer_id,
        topics=tuple(
            e.WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=tuple(
                    e.WritableTxnMarkerPartitionResult(
                        partition_index=index,
                        error_code=codes.get(TopicPartition(topic.name, index), otherwise),
                    )
                    for index in topic.partition_indexes
                ),
            )
            for topic in marker.topics
        ),
    )
