"""One broker's conversation: versions first, order kept, answers believed only when they fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from josefine_broker.base.errors import CorruptData, ErrorCode, KafkaError
from josefine_broker.client.connection import (
    CORRELATION_ID_MAX,
    TRANSITIONS,
    Connection,
    ConnectionState,
    Event,
    common_versions,
)
from josefine_broker.wire import apis, codec
from josefine_broker.wire import entities as e

ApiVersion = e.api_versions.ApiVersion
SERVED = (
    ApiVersion(api_key=apis.METADATA, min_version=0, max_version=9),
    ApiVersion(api_key=apis.API_VERSIONS, min_version=0, max_version=4),
)


def frame(buffers: list[Any]) -> memoryview:
    """Encoded buffers as a receiver sees them: without the length prefix."""
    return memoryview(bytearray(b"".join(buffers)))[4:]


def header_of(buffers: list[Any]) -> codec.RequestHeader:
    return codec.parse_request_header(frame(buffers))


def answer_hello(connection: Connection, served: tuple[Any, ...] = SERVED) -> bool:
    header = header_of(connection.hello())
    response = e.api_versions.ApiVersionsResponse(api_keys=served)
    buffers = codec.encode_response(
        apis.API_VERSIONS, header.api_version, header.correlation_id, response
    )
    return connection.hear_hello(frame(buffers))


def metadata_answer(correlation_id: int, version: int = 9) -> memoryview:
    response = e.metadata.MetadataResponse(brokers=(), topics=(), cluster_id="c")
    return frame(codec.encode_response(apis.METADATA, version, correlation_id, response))


def ready() -> Connection:
    connection = Connection("test")
    assert answer_hello(connection)
    return connection


def test_every_state_can_be_lost_and_closed_is_the_end() -> None:
    assert all((state, Event.LOST) in TRANSITIONS for state in ConnectionState)
    leaving = {to for (state, _), to in TRANSITIONS.items() if state is ConnectionState.CLOSED}
    assert leaving == {ConnectionState.CLOSED}


def test_the_newest_version_both_sides_know_is_used() -> None:
    connection = ready()

    header = header_of(connection.send(apis.METADATA, e.metadata.MetadataRequest(topics=None)))

    assert (header.api_key, header.api_version, header.client_id) == (apis.METADATA, 9, "test")


def test_keys_without_a_common_version_are_left_out() -> None:
    newest = apis.APIS[apis.METADATA].max_version
    served = (
        ApiVersion(api_key=apis.METADATA, min_version=newest + 1, max_version=newest + 5),
        ApiVersion(api_key=apis.FETCH, min_version=0, max_version=3),
        ApiVersion(api_key=9_999, min_version=0, max_version=1),
        ApiVersion(api_key=apis.PRODUCE, min_version=3, max_version=99),
    )

    assert common_versions(served) == {apis.PRODUCE: apis.APIS[apis.PRODUCE].max_version}


def test_an_api_the_broker_does_not_serve_is_refused_before_anything_is_sent() -> None:
    connection = ready()

    with pytest.raises(KafkaError) as refused:
        connection.send(apis.FETCH, None)

    assert refused.value.code is ErrorCode.unsupported_version
    assert "does not serve Fetch" in refused.value.message
    assert connection.in_flight == 0


def test_a_refused_hello_is_said_again_in_version_0() -> None:
    connection = Connection("test")
    first = header_of(connection.hello())
    refusal = e.api_versions.ApiVersionsResponse(
        error_code=ErrorCode.unsupported_version, api_keys=SERVED
    )
    body = codec.encode_response(apis.API_VERSIONS, 0, first.correlation_id, refusal)

    assert not connection.hear_hello(frame(body))
    assert connection.state is ConnectionState.OPENED
    second = header_of(connection.hello())

    assert (first.api_version, second.api_version) == (5, 0)


def test_a_hello_refused_for_another_reason_is_an_error() -> None:
    connection = Connection("test")
    header = header_of(connection.hello())
    refusal = e.api_versions.ApiVersionsResponse(
        error_code=ErrorCode.cluster_authorization_failed, api_keys=()
    )
    body = codec.encode_response(apis.API_VERSIONS, 4, header.correlation_id, refusal)

    with pytest.raises(KafkaError, match="cluster_authorization_failed"):
        connection.hear_hello(frame(body))


def test_answers_come_in_request_order() -> None:
    connection = ready()
    ids = [
        header_of(
            connection.send(apis.METADATA, e.metadata.MetadataRequest(topics=None))
        ).correlation_id
        for _ in range(3)
    ]

    answers = [connection.receive(metadata_answer(number)) for number in ids]

    assert [a.cluster_id for a in answers] == ["c", "c", "c"]
    assert connection.in_flight == 0


def test_an_answer_out_of_order_is_corrupt_data() -> None:
    connection = ready()
    request = e.metadata.MetadataRequest(topics=None)
    connection.send(apis.METADATA, request)
    second = header_of(connection.send(apis.METADATA, request)).correlation_id

    with pytest.raises(CorruptData, match="in place of"):
        connection.receive(metadata_answer(second))


def test_an_answer_that_nobody_asked_for_is_corrupt_data() -> None:
    with pytest.raises(CorruptData, match="without a request"):
        ready().receive(metadata_answer(1))


def test_a_request_without_response_is_not_waited_for() -> None:
    connection = ready()

    connection.send(apis.METADATA, e.metadata.MetadataRequest(topics=None), wants_response=False)

    assert connection.in_flight == 0


def test_correlation_ids_wrap_to_zero() -> None:
    connection = ready()
    connection._next_id = CORRELATION_ID_MAX
    request = e.metadata.MetadataRequest(topics=None)

    ids = [header_of(connection.send(apis.METADATA, request)).correlation_id for _ in range(2)]

    assert ids == [CORRELATION_ID_MAX, 0]


def test_a_broker_that_refuses_even_the_oldest_hello_ends_the_conversation() -> None:
    connection = Connection("test")
    refused = e.api_versions.ApiVersionsResponse(
        error_code=ErrorCode.unsupported_version, api_keys=()
    )

    def hello() -> bool:
        header = header_of(connection.hello())
        buffers = codec.encode_response(apis.API_VERSIONS, 0, header.correlation_id, refused)
        return connection.hear_hello(frame(buffers))

    assert not hello(), "asked once more, in version 0"
    with pytest.raises(KafkaError, match="refused to list"):
        hello()


def test_two_phase_commit_is_not_asked_of_a_broker_that_would_not_hear_it() -> None:
    """The flag has no place in the versions of before: an ordinary transaction would come of it."""
    init = ApiVersion(api_key=apis.INIT_PRODUCER_ID, min_version=0, max_version=5)
    connection = Connection("test")
    assert answer_hello(connection, (*SERVED, init))
    plain = e.init_producer_id.InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1)

    assert header_of(connection.send(apis.INIT_PRODUCER_ID, plain)).api_version == 5
    for asked in ({"enable2_pc": True}, {"keep_prepared_txn": True}):
        with pytest.raises(KafkaError) as refused:
            connection.send(apis.INIT_PRODUCER_ID, replace(plain, **asked))
        assert refused.value.code is ErrorCode.unsupported_version
    assert connection.in_flight == 1
