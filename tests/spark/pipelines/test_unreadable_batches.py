"""Record batches whose records nobody can read, in a pipeline: dead letters, or skipped ranges."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from josefine_broker.base.ids import TopicPartition
from pipelines.base.errors import RunError
from pipelines.config.validate import read_pipeline
from pipelines.dead_letters.replay import Replay, replays
from pipelines.dead_letters.replay_plan import HAS_NO_RECORDS
from pipelines.dead_letters.summary import newest, waiting
from pipelines.formats import decode
from pipelines.formats.text import CsvValues
from tests.compat.produced_batches import STRUCTURE, batch
from tests.spark.pipelines.conftest import ONE_SINK
from tests.support.broker import BrokerProcess

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

CAUSE = "record 1 of 3: its key's length is not valid"


@pytest.fixture(scope="module")
def pipe_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """It stores what its producers write, as brokers of other makes do."""
    directory = tmp_path_factory.mktemp("unreadable")
    with BrokerProcess(directory, log__validate_records="headers") as process:
        yield process


def produce_broken(lab) -> tuple[int, bytes]:
    """An unreadable batch of three records in partition 1: its first offset, and its bytes."""
    start = lab.topic_ends()[lab.topic, 1]
    lab.client.produce({TopicPartition(lab.topic, 1): batch(STRUCTURE["key_beyond"])})
    fetched = lab.client.fetch({TopicPartition(lab.topic, 1): start})
    return start, bytes(fetched[TopicPartition(lab.topic, 1)].records)


@pytest.mark.long_proof(share=12, among="runs of pipelines")
@ONE_SINK
def test_an_unreadable_batch_is_a_dead_letter_with_its_bytes_exactly_once(lab):
    lab.write_file(on_error="dead_letter")
    lab.produce(20)
    start, stored = produce_broken(lab)
    lab.produce(20)

    lab.run()
    lab.lose_checkpoint()
    lab.run()

    lab.check()
    (dead,) = lab.arrow("dead").to_pylist()
    reason = f"unreadable batch, offsets {start} to {start + 2}: {CAUSE}"
    assert (dead["source"], dead["topic"], dead["reason"]) == ("events", lab.topic, reason)
    assert (dead["value"], dead["key"]) == (stored, None)
    assert len(lab.history("dead")) == 1
    check_it_is_shown_and_not_replayed(lab, dead)


def check_it_is_shown_and_not_replayed(lab, dead):
    pipeline = read_pipeline(lab.file, lab.environment(40))
    assert waiting(lab.spark, pipeline, every=False) == [
        ("events", f"unreadable batch: {CAUSE}", 1)
    ]
    (shown,) = newest(lab.spark, pipeline, 5, every=False)
    assert shown["reason"] == dead["reason"]
    assert shown["value"] == f"{len(dead['value'])} bytes of a batch"
    (outlook,) = replays(lab.spark, pipeline, ["rows"], Replay.look)
    assert (outlook.letters, outlook.planned) == (1, {})
    assert outlook.held == {HAS_NO_RECORDS: 1}


@pytest.mark.long_proof(share=12, among="runs of pipelines")
@ONE_SINK
def test_an_unreadable_batch_is_skipped_by_decision_and_its_offsets_are_recorded_once(lab):
    lab.produce(20)
    start, _ = produce_broken(lab)
    lab.produce(20)

    with pytest.raises(RunError, match=f"cannot read {lab.topic}-1 at offset {start}") as stopped:
        lab.run()
    assert CAUSE in str(stopped.value)
    for way in ("on_error: dead_letter", "on_data_loss: skip_and_record"):
        assert way in str(stopped.value)
    assert lab.arrow("rows").num_rows == 0
    lab.write_file(**{"start: earliest": "start: earliest\n    on_data_loss: skip_and_record"})
    lab.die("mid_loss:1", 40)
    lab.lose_checkpoint()
    lab.run()

    lab.check()
    (lost,) = lab.arrow("rows_lost").to_pylist()
    assert (lost["topic"], lost["partition"], lost["sink"]) == (lab.topic, 1, "rows")
    assert (lost["start_offset"], lost["end_offset"]) == (start, start + 3)


def test_a_marked_row_is_bad_also_where_its_format_takes_the_bytes(spark):
    mark = "unreadable_batch STRUCT<start_offset: BIGINT, end_offset: BIGINT, cause: STRING>"
    columns = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, "
    rows = [
        (None, b"good", "t", 0, 1, None, None),
        (None, b"taken", "t", 0, 2, None, (2, 4, "why")),
    ]
    frame = spark.createDataFrame(rows, f"{columns} timestamp TIMESTAMP, {mark}")
    side = decode.Side(
        column="value",
        values=CsvValues(spark.createDataFrame([], "word STRING").schema),
        null_is_good=True,
    )

    parsed = decode.parsed(frame, (side,))
    good = decode.good_rows(parsed, (side,))
    bad = decode.bad_rows(parsed, (side,), "events").collect()

    assert [row.offset for row in good.collect()] == [1]
    assert "unreadable_batch" not in good.columns
    assert [(row.offset, row.reason) for row in bad] == [
        (2, "unreadable batch, offsets 2 to 3: why")
    ]
