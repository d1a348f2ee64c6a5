"""Options: what is known, typed, contradictory; a wrong one is named with what was expected."""

from __future__ import annotations

import pickle

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_spark.errors import OptionError
from josefine_spark.options import sink_options, source_options
from josefine_spark.positions import Kind

BASE = {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "orders"}


def test_defaults_are_those_of_sparks_kafka_source() -> None:
    stream = source_options(BASE, streaming=True)
    batch = source_options(BASE, streaming=False)

    assert stream.starting.kind is Kind.LATEST
    assert batch.starting.kind is Kind.EARLIEST
    assert batch.ending.kind is Kind.LATEST
    assert stream.read.fail_on_data_loss
    assert not stream.read.include_headers
    assert stream.read.poll_timeout_ms == 120_000


def test_names_are_compared_without_case() -> None:
    given = {"BOOTSTRAPSERVERS": "b:1", "Subscribe": "a, b,a", "MAXOFFSETSPERTRIGGER": "5"}

    options = source_options(given, streaming=True)

    assert options.read.connection.bootstrap == "b:1"
    assert options.subscription.topics == ("a", "b")
    assert options.max_offsets_per_trigger == 5


def test_options_survive_pickling() -> None:
    options = source_options(BASE | {"startingOffsets": '{"orders":{"0":5}}'}, streaming=True)

    assert pickle.loads(pickle.dumps(options)) == options


def test_assign_names_partitions() -> None:
    given = {"bootstrapServers": "b:1", "assign": '{"b":[2,0,2],"a":[1]}'}

    options = source_options(given, streaming=False)

    assert options.subscription.assigned == (("a", (1,)), ("b", (0, 2)))
    assert options.subscription.names == ("a", "b")


def test_one_timestamp_beats_timestamps_beats_offsets() -> None:
    given = BASE | {
        "startingOffsets": "earliest",
        "startingOffsetsByTimestamp": '{"orders":{"0":7}}',
        "startingTimestamp": "9",
    }

    assert source_options(given, streaming=True).starting.timestamp_ms == 9
    del given["startingTimestamp"]
    starting = source_options(given, streaming=True).starting
    assert starting.values == {TopicPartition("orders", 0): 7}


def test_a_stored_stream_offset_is_a_start_with_its_topic_ids() -> None:
    text = '{"first":{},"offsets":{"orders":{"0":7}},"topic_ids":{"orders":"x"},"v":1}'

    starting = source_options(BASE | {"startingOffsets": text}, streaming=True).starting

    assert starting.values == {TopicPartition("orders", 0): 7}
    assert starting.topic_ids == {"orders": "x"}


SOURCE_MISTAKES = [
    ({"maxOffsetPerTrigger": "5"}, "did you mean maxOffsetsPerTrigger?"),
    ({"kafka.isolation.levle": "x"}, "did you mean kafka.isolation.level?"),
    ({"qqqqqqqqq": "5"}, "unknown option 'qqqqqqqqq'"),
    ({"assign": '{"t":[0]}'}, "exactly one of subscribe, subscribePattern and assign"),
    ({"kafka.group.id": "g"}, "joins no group"),
    ({"path": "x"}, "name topics with subscribe"),
    ({"maxOffsetsPerTrigger": "0"}, "whole number from 1, got '0'"),
    ({"maxOffsetsPerTrigger": "many"}, "got 'many'"),
    ({"includeHeaders": "yes"}, "includeHeaders: expected true or false"),
    ({"startingOffsets": "latestt"}, "startingOffsets: expected earliest, latest or JSON"),
    ({"startingOffsets": '{"orders":[1]}'}, "startingOffsets: expected"),
    ({"startingOffsets": '{"orders":{"0":-3}}'}, "below -2"),
    ({"startingOffsets": '{"orders":{"0":true}}'}, "startingOffsets: expected"),
    ({"startingTimestamp": "-5"}, "milliseconds since 1970"),
    ({"startingOffsetsByTimestamp": "[]"}, "startingOffsetsByTimestamp: expected JSON"),
    ({"startingOffsetsByTimestampStrategy": "x"}, "expected error or latest, got 'x'"),
    ({"endingOffsets": "latest"}, "endingOffsets is for batch reads only"),
    ({"kafka.security.protocol": "SSL"}, "only PLAINTEXT is built yet"),
    ({"kafka.bootstrap.servers": "nohost"}, "expected host:port"),
    ({"bootstrapServers": "other:1"}, "say different things"),
    ({"kafka.isolation.level": "dirty"}, "read_committed or read_uncommitted"),
    ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "3"}, "is above"),
    ({"maxTriggerDelay": "soon"}, "expected a duration"),
]


@pytest.mark.parametrize(("given", "words"), SOURCE_MISTAKES, ids=lambda one: str(one)[:40])
def test_a_wrong_source_option_is_one_sentence(given: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError) as caught:
        source_options(BASE | given, streaming=True)

    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bootstrap_and_subscription_are_needed() -> None:
    with pytest.raises(OptionError, match="bootstrap"):
        source_options({"subscribe": "t"}, streaming=True)
    with pytest.raises(OptionError, match="exactly one of"):
        source_options({"bootstrapServers": "b:1"}, streaming=True)
    with pytest.raises(OptionError, match="no pattern"):
        source_options({"bootstrapServers": "b:1", "subscribePattern": "("}, streaming=True)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"startingOffsets": "latest"}, "latest"),
        ({"startingOffsets": '{"orders":{"0":-1}}'}, "latest"),
        ({"endingOffsets": "earliest"}, "earliest"),
        ({"endingOffsets": '{"orders":{"0":-2}}'}, "earliest"),
        ({"maxOffsetsPerTrigger": "5"}, "streaming reads only"),
    ],
)
def test_a_batch_read_starts_at_no_latest_and_ends_at_no_earliest(
    given: dict[str, str], words: str
) -> None:
    with pytest.raises(OptionError, match=words):
        source_options(BASE | given, streaming=False)


def test_exactly_once_has_its_place_and_is_refused_for_now() -> None:
    with pytest.raises(OptionError, match="exactly_once is not built yet"):
        sink_options({"bootstrapServers": "b:1", "delivery": "exactly_once"})
    assert sink_options({"bootstrapServers": "b:1", "delivery": "at_least_once"}).acks == -1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"topics": "t"}, "did you mean topic?"),
        ({"subscribe": "t"}, "unknown option 'subscribe'"),
        ({"kafka.acks": "0"}, "expected all or 1"),
        ({"kafka.compression.type": "brotli"}, "none, gzip, snappy, lz4, zstd"),
        ({"delivery": "twice"}, "expected at_least_once"),
    ],
)
def test_a_wrong_sink_option_is_one_sentence(given: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError) as caught:
        sink_options({"bootstrapServers": "b:1"} | given)

    assert words in str(caught.value)
