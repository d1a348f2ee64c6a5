"""Options: what is known, typed, contradictory; a wrong one is named with what was expected."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

from josefine_arrow.batches.row_filter import ALL_ROWS
from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.errors import OptionError
from josefine_spark.options.kafka_options import IGNORED_BY_SOURCE
from josefine_spark.options.options import (
    Delivery,
    JsonColumn,
    NumberedBatch,
    ReadOptions,
    UnreadableBatches,
)
from josefine_spark.options.positions import Kind
from josefine_spark.read.source_options import ALWAYS, COLUMNS, SOURCE_OPTIONS, source_options
from josefine_spark.write.sink_options import TWO_PHASE, sink_options

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


def test_sizes_have_powers_of_1024() -> None:
    for text, size in (("7", 7), ("64k", 65_536), ("2 MB", 2 << 20), ("1gib", 1 << 30)):
        assert (
            source_options(
                BASE | {"maxBytesPerTrigger": text}, streaming=True
            ).max_bytes_per_trigger
            == size
        )


def test_columns_are_a_part_of_those_there_are_in_their_order() -> None:
    def read(**given: str) -> ReadOptions:
        return source_options(BASE | given, streaming=None).read

    assert read(columns="offset, Key,offset").columns == ("key", "offset")
    assert read(columns="headers", includeHeaders="true").columns == ("headers",)
    assert read(columns="key", includeHeaders="false").columns == ("key",)
    assert read().columns is None
    every = read(includeLeaderEpoch="true", includeHeaders="true").columns
    assert every == COLUMNS == (*ALWAYS, "headers", "leader_epoch")
    assert read(includeLeaderEpoch="true").columns == (*ALWAYS, "leader_epoch")
    assert read(includeLeaderEpoch="false").columns is None
    assert read(columns="leader_epoch,key").columns == ("key", "leader_epoch")


def test_unreadable_batches_follow_fail_on_data_loss_unless_they_are_decided_apart() -> None:
    def decided(**given: str) -> UnreadableBatches:
        return source_options(BASE | given, streaming=None).read.unreadable_batches

    assert decided() is UnreadableBatches.FAIL
    assert decided(failOnDataLoss="false") is UnreadableBatches.SKIP
    assert decided(unreadableBatches="asrow") is UnreadableBatches.AS_ROW
    assert decided(unreadableBatches="asRow", failOnDataLoss="false") is UnreadableBatches.AS_ROW
    assert decided(unreadableBatches="skip") is UnreadableBatches.SKIP
    assert decided(unreadableBatches="fail", failOnDataLoss="false") is UnreadableBatches.FAIL


def test_relative_starts_and_groups_are_read() -> None:
    options = source_options(BASE | {"startingGroup": "g", "commitGroup": "h"}, streaming=True)
    assert (options.starting_group, options.commit_group) == ("g", "h")
    assert not options.starting_given

    ago = source_options(BASE | {"startingOffsets": "10m ago"}, streaming=False)
    assert ago.starting.kind is Kind.AGO
    assert ago.starting_given
    assert source_options(BASE | {"startingOffsets": "last 5"}, streaming=True).starting.count == 5


def test_rows_are_asked_for_from_a_moment_on() -> None:
    def from_ms(text: str) -> int | None:
        return source_options(BASE | {"fromTimestamp": text}, streaming=None).read.rows.from_ms

    assert from_ms("1500") == from_ms("1970-01-01T00:00:01.500Z") == 1500
    assert from_ms(" 1970-01-02 ") == 86_400_000
    assert source_options(BASE, streaming=True).read.rows == ALL_ROWS
    start = source_options(BASE | {"startingTimestamp": "1970-01-01T01:00+01:00"}, streaming=True)
    assert start.starting.timestamp_ms == 0


def test_rows_are_asked_for_by_keys() -> None:
    def keys(text: str) -> frozenset[bytes] | None:
        return source_options(BASE | {"keys": text}, streaming=None).read.rows.keys

    assert keys('["a, b", "é", "", "a, b"]') == {b"a, b", "é".encode(), b""}
    assert source_options(BASE, streaming=None).read.rows.keys is None


INT_FIELD = '{"name":"x","type":"integer","nullable":true,"metadata":{}}'
INT_JSON = f'{{"type":"struct","fields":[{INT_FIELD}]}}'
VARIANT_JSON = INT_JSON.replace("integer", "variant")


def test_values_are_asked_for_as_objects() -> None:
    read = source_options(BASE | {"jsonSchema": INT_JSON}, streaming=True).read

    assert read.json == JsonColumn(schema=INT_JSON)
    assert source_options(BASE, streaming=True).read.json is None


def test_how_json_is_read_is_asked_for() -> None:
    how = {"jsonTimeZone": "Europe/Berlin", "jsonStrict": "true", "jsonAccept": "epoch_seconds, "}

    read = source_options(BASE | {"jsonSchema": INT_JSON} | how, streaming=True).read

    assert read.json == JsonColumn(
        schema=INT_JSON,
        time_zone="Europe/Berlin",
        strict=True,
        accept=frozenset(["epoch_seconds"]),
    )


SOURCE_MISTAKES = [
    ({"keys": "a,b"}, 'keys: expected JSON as ["first","second"], got \'a,b\''),
    ({"keys": "[]"}, "keys: expected JSON as"),
    ({"keys": '["a",1]'}, "keys: expected JSON as"),
    ({"keys": '"a"'}, "keys: expected JSON as"),
    ({"fromTimestamp": "10m ago"}, "fromTimestamp: a relative time would filter other"),
    ({"fromTimestamp": "yesterday"}, "fromTimestamp: 'yesterday' is neither a number of milli"),
    ({"fromTimestamp": "1969-12-31"}, "fromTimestamp: '1969-12-31' is neither"),
    ({"maxOffsetPerTrigger": "5"}, "did you mean maxOffsetsPerTrigger?"),
    ({"kafka.isolation.levle": "x"}, "did you mean kafka.isolation.level?"),
    ({"qqqqqqqqq": "5"}, "unknown option 'qqqqqqqqq'"),
    ({"assign": '{"t":[0]}'}, "exactly one of subscribe, subscribePattern and assign"),
    ({"kafka.auto.offset.reset": "latest"}, "is not supported: use startingOffsets"),
    ({"kafka.linger.ms": "5"}, "the list of kafka.* options is closed"),
    ({"isolation.level": "x"}, "did you mean kafka.isolation.level?"),
    ({"fetchOffset.numRetries": "many"}, "fetchOffset.numRetries: expected a whole number"),
    ({"subscribe": "a b"}, "subscribe: 'a b' is not a valid topic name"),
    ({"subscribe": "ok,.."}, "subscribe: '..' is not a valid topic name"),
    ({"path": "x"}, "name topics with subscribe"),
    ({"maxOffsetsPerTrigger": "0"}, "whole number from 1, got '0'"),
    ({"maxOffsetsPerTrigger": "many"}, "got 'many'"),
    ({"unreadableBatches": "keep"}, "unreadableBatches: expected fail or skip or asRow, got"),
    ({"columns": "key,vlaue"}, "leader_epoch; no column is called 'vlaue'"),
    ({"columns": "key", "includeLeaderEpoch": "true"}, "columns and includeLeaderEpoch contradict"),
    ({"includeLeaderEpoch": "yes"}, "includeLeaderEpoch: expected true or false"),
    ({"jsonSchema": "id INT"}, r"jsonSchema: expected StructType.json(), got 'id INT'"),
    ({"jsonSchema": VARIANT_JSON}, "jsonSchema: x VARIANT is not supported: expected STRING"),
    ({"jsonStrict": "true"}, "jsonStrict is of the column `json`: give its jsonSchema too"),
    ({"jsonSchema": INT_JSON, "jsonTimeZone": "Berlin"}, "jsonTimeZone: expected a zone such as"),
    ({"jsonSchema": INT_JSON, "jsonAccept": "nulls"}, "jsonAccept: expected some of rounded_dec"),
    (
        {"jsonSchema": INT_JSON, "jsonAccept": "epoch_seconds,epoch_milliseconds"},
        "jsonAccept: a number is in epoch_seconds or in epoch_milliseconds, not in both",
    ),
    ({"jsonSchema": INT_JSON, "columns": "key"}, "jsonSchema reads the column value: name it"),
    ({"columns": " "}, "columns: expected some of key, value, topic, "),
    ({"columns": "key", "includeHeaders": "true"}, "contradict each other"),
    ({"columns": "headers", "includeHeaders": "false"}, "contradict each other"),
    ({"includeHeaders": "yes"}, "includeHeaders: expected true or false"),
    ({"startingOffsets": "latestt"}, "startingOffsets: expected earliest, latest, "),
    ({"startingOffsets": '{"orders":[1]}'}, "startingOffsets: expected"),
    ({"startingOffsets": '{"orders":{"0":-3}}'}, "below -2"),
    ({"startingOffsets": '{"orders":{"0":true}}'}, "startingOffsets: expected"),
    ({"startingTimestamp": "-5"}, "milliseconds since 1970"),
    ({"startingTimestamp": "last 5"}, "milliseconds since 1970"),
    ({"startingOffsetsByTimestamp": "[]"}, "startingOffsetsByTimestamp: expected JSON"),
    ({"startingOffsetsByTimestampStrategy": "x"}, "expected error or latest, got 'x'"),
    ({"endingOffsets": "latest"}, "endingOffsets is for batch reads only"),
    ({"stopOffsets": "latest"}, 'stopOffsets: expected JSON as {"topic":{"0":23}}'),
    ({"stopOffsets": '{"orders":{"0":-1}}'}, "of offsets from 0 on"),
    ({"kafka.security.protocol": "TLS"}, "kafka.security.protocol: 'TLS' is not one of PLAINTEXT"),
    (
        {"kafka.security.protocol": "SSL", "kafka.ssl.truststore.location": "/x.jks"},
        "kafka.ssl.truststore.type: only PEM is read, got 'JKS'",
    ),
    (
        {"kafka.security.protocol": "SSL", "kafka.ssl.protocol": "TLSv1"},
        "kafka.ssl.protocol: unknown setting",
    ),
    ({"kafka.bootstrap.servers": "nohost"}, "expected host:port"),
    ({"bootstrapServers": "other:1"}, "differ: set only one"),
    ({"kafka.isolation.level": "dirty"}, "read_committed or read_uncommitted"),
    ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "3"}, "is above"),
    ({"maxTriggerDelay": "soon"}, "expected a duration"),
    ({"maxBytesPerTrigger": "much"}, "maxBytesPerTrigger: expected a size such as 64m"),
    ({"maxBytesPerTrigger": "0"}, "expected a size"),
    ({"startingOffsets": "ten ago"}, 'expected a time such as "10m ago"'),
    ({"lossTable": "/x"}, "lossTable is for failOnDataLoss=false"),
    ({"commitGroup": " "}, "commitGroup: expected the name of a consumer group"),
    (
        {"startingGroup": "g", "startingOffsets": '{"orders":{"0":1}}'},
        "startingGroup and startingOffsets both name offsets",
    ),
]


@pytest.mark.parametrize(("given", "words"), SOURCE_MISTAKES, ids=lambda one: str(one)[:40])
def test_a_wrong_source_option_is_one_sentence(given: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError) as caught:
        source_options(BASE | given, streaming=True)

    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_name_that_is_not_near_is_not_offered() -> None:
    for name in ("kafka.linger.ms", "kafka.buffer.memory", "kafka.compression.type"):
        with pytest.raises(OptionError) as caught:
            source_options(BASE | {name: "5"}, streaming=True)

        assert "did you mean" not in str(caught.value)
        assert repr(name) in str(caught.value)


def test_an_invalid_topic_is_named_once() -> None:
    for given in ({"subscribe": "a/b"}, {"assign": '{"a/b":[0]}'}):
        with pytest.raises(OptionError) as caught:
            source_options({"bootstrapServers": "b:1"} | given, streaming=True)

        assert str(caught.value).count("a/b") == 1


MOVED_OVER: list[tuple[str, str, str]] = [
    ("fetchOffset.numRetries", "5", "request.timeout.ms"),
    ("fetchOffset.retryIntervalMs", "100", "request.timeout.ms"),
    ("groupIdPrefix", "mine", "joins no group"),
    ("kafka.group.id", "mine", "joins no group"),
    ("kafka.session.timeout.ms", "45000", "joins no group"),
    ("kafka.max.poll.records", "500", "kafka.fetch.max.bytes"),
    ("kafka.max.partition.fetch.bytes", "1048576", "kafka.fetch.max.bytes"),
    ("kafka.fetch.min.bytes", "1", "kafka.fetch.max.bytes"),
    ("kafka.default.api.timeout.ms", "60000", "request.timeout.ms"),
    ("kafka.receive.buffer.bytes", "65536", "connections are"),
    ("kafka.client.rack", "eu-1", ""),
    ("kafka.metadata.max.age.ms", "300000", "before each batch"),
    ("kafka.metric.reporters", "x", "no Java classes"),
    ("kafka.metrics.num.samples", "2", "no Java classes"),
    ("kafka.ssl.truststore.password", "hidden", "PLAINTEXT"),
    ("kafka.sasl.jaas.config", "hidden", "PLAINTEXT"),
    ("kafka.request.timeout.ms", "5000", ""),
    ("kafka.client.id", "me", ""),
    ("kafka.isolation.level", "read_committed", ""),
    ("kafka.fetch.max.bytes", "1000", ""),
    ("kafka.fetch.max.wait.ms", "100", ""),
    ("kafka.check.crcs", "false", ""),
    ("kafka.security.protocol", "PLAINTEXT", ""),
    ("kafkaConsumer.pollTimeoutMs", "1000", ""),
]
"""Options that jobs of Spark's Kafka source have, a value, why it does nothing ("": it does)."""


@pytest.mark.parametrize(("name", "value", "why"), MOVED_OVER, ids=lambda one: str(one)[:40])
def test_options_of_a_job_that_is_moved_over_are_taken_and_said_to_do_nothing_where_so(
    name: str, value: str, why: str
) -> None:
    """Checklist row 87."""
    said = source_options(BASE | {name: value}, streaming=True).without_effect

    assert bool(said) == bool(why)
    for clause in said:
        assert clause.startswith(f"{name} (")
        assert why in clause
        assert value not in clause


@pytest.mark.parametrize("name", [name for name in IGNORED_BY_SOURCE if "*" not in name])
def test_every_option_of_the_list_is_taken_and_named(name: str) -> None:
    said = source_options(BASE | {name: "1"}, streaming=False).without_effect

    assert said == (f"{name} ({IGNORED_BY_SOURCE[name]})",)


def test_every_source_option_has_a_row_in_the_documents_table() -> None:
    page = (Path(__file__).resolve().parents[4] / "docs/reference/spark.md").read_text()
    table = page.partition("## Source options")[2].partition("\n## ")[0]
    rows = [row for row in table.splitlines() if row.startswith("| `")]
    first_cells = " ".join(row.split("|")[1] for row in rows)

    assert sorted(re.findall(r"`([^`]+)`", first_cells)) == sorted(SOURCE_OPTIONS)


def test_bootstrap_and_subscription_are_needed() -> None:
    with pytest.raises(OptionError, match="bootstrap"):
        source_options({"subscribe": "t"}, streaming=True)
    with pytest.raises(OptionError, match="exactly one of"):
        source_options({"bootstrapServers": "b:1"}, streaming=True)
    with pytest.raises(OptionError, match="not a valid Python regular expression"):
        source_options({"bootstrapServers": "b:1", "subscribePattern": "("}, streaming=True)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"startingOffsets": "latest"}, "latest"),
        ({"startingOffsets": '{"orders":{"0":-1}}'}, "latest"),
        ({"endingOffsets": "earliest"}, "earliest"),
        ({"endingOffsets": '{"orders":{"0":-2}}'}, "earliest"),
        ({"maxOffsetsPerTrigger": "5"}, "streaming reads only"),
        ({"maxBytesPerTrigger": "5"}, "streaming reads only"),
        ({"commitGroup": "g"}, "streaming reads only"),
        ({"stopOffsets": '{"orders":{"0":1}}'}, "streaming reads only"),
        ({"endingOffsets": "last 5"}, "is a start, not an end"),
    ],
)
def test_a_batch_read_starts_at_no_latest_and_ends_at_no_earliest(
    given: dict[str, str], words: str
) -> None:
    with pytest.raises(OptionError, match=words):
        source_options(BASE | given, streaming=False)


def test_exactly_once_names_its_sink_and_its_transactions() -> None:
    once = {"bootstrapServers": "b:1", "delivery": "exactly_once"}
    for said, two_phase in (({}, None), ({TWO_PHASE: "true"}, True), ({TWO_PHASE: "false"}, False)):
        assert sink_options({**once, **said}).two_phase is two_phase

    found = sink_options({**once, "sinkId": "a-1", "kafka.transaction.timeout.ms": "60000"})

    assert (found.delivery, found.sink_id, found.transaction_timeout_ms) == (
        Delivery.EXACTLY_ONCE,
        "a-1",
        60_000,
    )
    for more, words in (
        ({"sinkId": "a:b"}, "sinkId: expected 1 to 150 of"),
        ({TWO_PHASE: "perhaps"}, f"{TWO_PHASE}: expected true or false"),
        ({"kafka.acks": "1"}, "needs kafka.acks=all"),
        ({"kafka.enable.idempotence": "false"}, "needs kafka.acks=all"),
        ({"delivery": "at_least_once", "sinkId": "a"}, "sinkId is for delivery=exactly_once"),
        ({"delivery": "at_least_once", "batchId": "1"}, "batchId is for delivery=exactly_once"),
        ({"batchId": "1"}, "batchId needs sinkId"),
        ({"sinkId": "a", "batchId": "-1"}, "batchId: expected a whole number from 0"),
        ({"sinkId": "a", "batchNote": "x"}, "batchNote is for a write with batchId"),
    ):
        with pytest.raises(OptionError, match=words):
            sink_options(once | more)


def test_a_batch_write_that_may_be_done_again_has_a_number() -> None:
    once = {"bootstrapServers": "b:1", "delivery": "exactly_once", "sinkId": "a"}

    assert sink_options(once).batch is None
    assert sink_options({**once, "batchId": "0"}).batch == NumberedBatch(number=0)
    more = {"batchId": "7", "batchFingerprint": "f", "batchNote": '{"a": 1}'}
    assert sink_options({**once, **more}).batch == NumberedBatch(
        number=7, fingerprint="f", note='{"a": 1}'
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"topics": "t"}, "did you mean topic?"),
        ({"subscribe": "t"}, "option subscribe is not supported: that is for reading"),
        ({"kafka.partitioner.class": "x.Y"}, "there are no Java classes here"),
        ({"kafka.transactional.id": "x"}, "names transactions after sinkId"),
        ({"kafka.enable.idempotence": "true", "kafka.acks": "1"}, "needs kafka.acks=all"),
        ({"kafka.lingerms": "5"}, "did you mean kafka.linger.ms?"),
        ({"kafka.no.such": "5"}, "the list of kafka.* options is closed"),
        ({"kafka.delivery.timeout.ms": "soon"}, "expected a whole number from 1"),
        ({"kafka.acks": "0"}, "expected all or 1"),
        ({"kafka.compression.type": "brotli"}, "none, gzip, snappy, lz4, zstd"),
        ({"delivery": "twice"}, "expected at_least_once"),
    ],
)
def test_a_wrong_sink_option_is_one_sentence(given: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError) as caught:
        sink_options({"bootstrapServers": "b:1"} | given)

    assert words in str(caught.value)


def test_a_producers_options_are_taken_with_a_word_where_they_do_nothing() -> None:
    """What a job of Spark's Kafka sink brings along."""
    options = sink_options(
        {
            "bootstrapServers": "b:1",
            "kafka.acks": "1",
            "kafka.LINGER.ms": "5",
            "kafka.max.request.size": "9999999",
            "kafka.ssl.truststore.location": "/x",
            "kafka.max.block.ms": "7",
            "kafka.partitioner.ignore.keys": "true",
        }
    )

    assert (options.acks, options.idempotent, options.hash_keys) == (1, False, False)
    assert options.max_block_ms == 7
    assert [clause.split(" ")[0].lower() for clause in options.without_effect] == [
        "kafka.linger.ms",
        "kafka.max.request.size",
        "kafka.ssl.truststore.location",
    ]
    assert "a batch is sent when it is full" in options.without_effect[0]


def test_a_producer_is_idempotent_unless_told_otherwise() -> None:
    base = {"bootstrapServers": "b:1"}

    assert sink_options(base).idempotent
    assert not sink_options(base | {"kafka.enable.idempotence": "false"}).idempotent
    assert not sink_options(base | {"kafka.acks": "1"}).idempotent


def test_tls_of_a_job_is_taken_in_javas_words_and_its_secret_is_not_shown() -> None:
    options = source_options(
        BASE
        | {
            "kafka.security.protocol": "ssl",
            "kafka.ssl.truststore.location": "/ca.pem",
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.KEYSTORE.location": "/me.pem",
            "kafka.ssl.keystore.type": "PEM",
            "kafka.ssl.key.password": "hunter2",
        },
        streaming=True,
    )
    security = options.read.connection.security

    assert security.protocol.value == "SSL"
    assert (security.ca, security.certificate) == ("/ca.pem", "/me.pem")
    assert security.key_password == "hunter2"
    assert options.without_effect == ()
    assert "hunter2" not in repr(options)


def test_token_of_a_job_is_a_place_that_each_task_reads() -> None:
    words = {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "OAUTHBEARER"}
    place = {"kafka.sasl.oauthbearer.token": "file:/run/token"}

    options = source_options(BASE | words | place, streaming=True)

    assert str(options.read.connection.security.token) == "file:/run/token"
    assert options.without_effect == ()
    with pytest.raises(ValueError, match=r"oauthbearer\.token: must be file:") as caught:
        source_options(BASE | words | {"kafka.sasl.oauthbearer.token": "hunter2"}, streaming=True)
    assert "hunter2" not in str(caught.value)
