"""Whole frames: header versions, lengths, unknown keys, and bytes that nobody sane would send."""

import tracemalloc
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_broker.base.errors import CorruptData, ErrorCode, KafkaError
from josefine_broker.wire import apis, codec
from josefine_broker.wire import entities as e
from tests.unit.josefine_broker.wire.kio_entities import KEY_VERSIONS, entities, schema, to_bytes

HEADER_OF_METADATA = b"\x00\x03\x00\x01\x00\x00\x00\x09"
"""Key 3, version 1, correlation id 9."""

Decoded = tuple[codec.RequestHeader, Any]


def request_frame(data: st.DataObject, api_key: int, version: int) -> bytes:
    """A whole request of kio's, header included, without the length prefix."""
    cls = schema(api_key, version, "request")
    header = cls.__header_schema__(
        request_api_key=api_key,
        request_api_version=version,
        correlation_id=77,
        client_id=data.draw(st.none() | st.text(max_size=5)),
    )
    return to_bytes(header) + to_bytes(data.draw(entities(cls)))


def response_frame(data: st.DataObject, api_key: int, version: int) -> bytes:
    cls = schema(api_key, version, "response")
    return to_bytes(cls.__header_schema__(correlation_id=78)) + to_bytes(data.draw(entities(cls)))


def decode(frame: bytes) -> Decoded:
    view = memoryview(bytearray(frame))
    header = codec.parse_request_header(view)
    return header, codec.decode_request(header, view)


@pytest.mark.parametrize(("api_key", "version"), KEY_VERSIONS)
@settings(max_examples=3)
@given(data=st.data())
def test_header_versions_are_those_of_the_key_and_version(
    api_key: int, version: int, data: st.DataObject
) -> None:
    """Checklist row 18. Both header versions, both directions; ApiVersions answers with v0."""
    request = request_frame(data, api_key, version)
    response = response_frame(data, api_key, version)

    header, entity = decode(request)
    correlation_id, answer = codec.decode_response(api_key, version, memoryview(response))

    assert header[:3] == (api_key, version, 77)
    assert correlation_id == 78
    again = b"".join(codec.encode_request(api_key, version, 77, header.client_id, entity))
    assert decode(again[4:]) == (header, entity)
    assert int.from_bytes(again[:4], "big") == len(again) - 4
    back = b"".join(codec.encode_response(api_key, version, 78, answer))
    assert codec.decode_response(api_key, version, memoryview(back)[4:]) == (78, answer)
    assert int.from_bytes(back[:4], "big") == len(back) - 4


@pytest.mark.parametrize("version", range(5))
def test_api_versions_response_header_has_no_tags(version: int) -> None:
    """Checklist row 18. The client reads it before it knows which versions we speak."""
    response = e.api_versions.ApiVersionsResponse(api_keys=())

    frame = b"".join(codec.encode_response(apis.API_VERSIONS, version, 5, response))

    assert frame[4:8] == b"\x00\x00\x00\x05"
    assert frame[8:10] == b"\x00\x00"


def test_unsupported_version_still_has_a_header_and_raises_35() -> None:
    """Checklist row 17. The broker can answer ApiVersions v99 with a v0 body and error 35."""
    frame = memoryview(b"\x00\x12\x00\x63\x00\x00\x00\x09\x00\x02me" + b"?" * 40)

    header = codec.parse_request_header(frame)

    assert header[:4] == (apis.API_VERSIONS, 99, 9, "me")
    with pytest.raises(KafkaError) as raised:
        codec.decode_request(header, frame)
    assert raised.value.code is ErrorCode.unsupported_version


@pytest.mark.parametrize(
    ("api_key", "version"),
    [(-1, 0), (6, 0), (1000, 0), (0, -1), (0, 14), (3, 14), (18, 6), (3, -1)],
)
def test_what_is_not_in_the_table_is_refused(api_key: int, version: int) -> None:
    for call in (
        lambda: codec.decode_request(
            codec.RequestHeader(api_key, version, 1, None, 0), memoryview(b"")
        ),
        lambda: codec.encode_response(api_key, version, 1, None),
        lambda: codec.encode_request(api_key, version, 1, None, None),
        lambda: codec.decode_response(api_key, version, memoryview(b"")),
    ):
        with pytest.raises(KafkaError, match="unsupported_version"):
            call()


@pytest.mark.parametrize(("api_key", "version"), KEY_VERSIONS)
@settings(max_examples=2)
@given(data=st.data())
def test_a_frame_cut_anywhere_or_a_response_with_bytes_too_many_is_corrupt_data(
    api_key: int, version: int, data: st.DataObject
) -> None:
    request = request_frame(data, api_key, version)
    response = response_frame(data, api_key, version)

    for size in range(len(request)):
        with pytest.raises(CorruptData):
            decode(request[:size])
    for size in range(len(response)):
        with pytest.raises(CorruptData):
            codec.decode_response(api_key, version, memoryview(response)[:size])
    with pytest.raises(CorruptData):
        codec.decode_response(api_key, version, memoryview(response + b"\x00"))


def test_bytes_behind_a_request_are_ignored_because_librdkafka_sends_some() -> None:
    header_of_v13 = b"\x00\x03\x00\x0d\x00\x00\x00\x03" + b"\xff\xff\x00"

    _, request = decode(header_of_v13 + b"\x00\x00\x00\x00" + b"\x01\x00\x00")

    assert request.topics is None
    assert not request.allow_auto_topic_creation


@pytest.mark.parametrize(("api_key", "version"), KEY_VERSIONS)
@settings(max_examples=3)
@given(data=st.data(), seed=st.integers(0, 2**32))
def test_flipped_bytes_decode_or_are_corrupt_data_and_nothing_else(
    api_key: int, version: int, data: st.DataObject, seed: int
) -> None:
    rng = Random(seed)
    request = bytearray(request_frame(data, api_key, version))
    response = bytearray(response_frame(data, api_key, version))

    for _ in range(10):
        for frame in (request, response):
            frame[rng.randrange(len(frame))] = rng.choice(
                (0, 1, 0x7F, 0x80, 0xFF, rng.getrandbits(8))
            )
        for attempt in (
            lambda: decode(bytes(request)),
            lambda: codec.decode_response(api_key, version, memoryview(response)),
        ):
            with suppress(CorruptData, KafkaError):
                attempt()


@settings(max_examples=200)
@given(st.binary(max_size=60), st.sampled_from(KEY_VERSIONS))
def test_random_bodies_decode_or_are_corrupt_data_and_nothing_else(
    body: bytes, key_version: tuple[int, int]
) -> None:
    api_key, version = key_version
    frame = memoryview(body)

    for attempt in (
        lambda: codec.parse_request_header(frame),
        lambda: codec.decode_request(codec.RequestHeader(api_key, version, 0, None, 0), frame),
        lambda: codec.decode_response(api_key, version, frame),
    ):
        with suppress(CorruptData):
            attempt()


HUGE_COUNTS = (
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xfe",
    b"\x80\x80\x80\x80\x08",
)


@pytest.mark.parametrize(("api_key", "version"), KEY_VERSIONS)
def test_a_huge_count_is_refused_before_it_costs_memory(api_key: int, version: int) -> None:
    """At every position of a body of zeros and ones: the count of some array, or a length."""
    tracemalloc.start()
    try:
        for filler in (b"\x00", b"\x01", b"\x02"):
            for position in range(0, 40, 1 if api_key < 2 else 3):
                for count in HUGE_COUNTS:
                    body = memoryview(filler * position + count + filler * 20)
                    header = codec.RequestHeader(api_key, version, 0, None, 0)
                    with suppress(CorruptData):
                        codec.decode_request(header, body)
                    with suppress(CorruptData):
                        codec.decode_response(api_key, version, body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 5_000_000


def test_a_control_request_of_many_megabytes_is_refused() -> None:
    """A million two-byte names would become hundreds of megabytes of objects."""
    count = codec.CONTROL_BODY_BYTES_MAX // 2
    body = count.to_bytes(4, "big") + bytes(2 * count)
    frame = memoryview(HEADER_OF_METADATA + b"\xff\xff" + body)

    with pytest.raises(CorruptData, match="request of key 3"):
        codec.decode_request(codec.parse_request_header(frame), frame)


@pytest.mark.parametrize(
    "frame",
    [b"", b"\x00", HEADER_OF_METADATA + b"\xff\xfe", HEADER_OF_METADATA + b"\x00\x02\xff\xff"],
)
def test_a_bad_header_is_corrupt_data(frame: bytes) -> None:
    with pytest.raises(CorruptData):
        codec.parse_request_header(memoryview(frame))
