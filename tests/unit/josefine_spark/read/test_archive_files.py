"""Reads over the seam of archive and log, while retention moves it."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from josefine_arrow.batches.columns import arrow_schema
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import EARLIEST, LATEST, FetchedPartition
from josefine_broker.client.offsets import ListedOffset
from josefine_spark.base.errors import DataLossError, OptionError, ReadError
from josefine_spark.options.options import BelowLocalStart, Connection, ReadOptions
from josefine_spark.read import archive_files, task_reader
from josefine_spark.read.admission import OffsetRange
from josefine_spark.read.archive_files import ArchivedClient, batches_of
from josefine_spark.read.local_start import EARLIEST_LOCAL, LocalClient
from josefine_spark.read.offset_clients import offsets_client
from josefine_spark.read.source_options import source_options
from tests.unit.josefine_broker.api.world import batch_of

TP = TopicPartition("t", 0)
END = 20
SCHEMA = arrow_schema(True, [*arrow_schema(True).names, "leader_epoch"])
OPTIONS = ReadOptions(
    connection=Connection(bootstrap="none:1"), archive=BelowLocalStart.AUTO, poll_timeout_ms=1_000
)


class Broker:
    """A log whose start moves before each answer, never past what the archive has."""

    def __init__(self, moves: list[int], archived: int = END, *, has_reader: bool = True) -> None:
        """Without `has_reader` what is gone is a passing error, as of a broker without an archive
        reader."""
        self._moves = iter(moves)
        self._archived = archived
        self._has_reader = has_reader
        self.start = 0

    def _moved(self) -> None:
        self.start = min(self.start + next(self._moves, 0), self._archived)

    def metadata(self, topics: Any) -> Any:
        return SimpleNamespace(topic_id=lambda topic: None, topics=dict.fromkeys(topics))

    def known_topic_id(self, topic: str) -> None:
        return None

    def list_offsets(self, wanted: dict[Any, int], **more: Any) -> dict[Any, ListedOffset]:
        self._moved()
        at = {LATEST: END, EARLIEST: self.start, EARLIEST_LOCAL: self.start}
        return {tp: ListedOffset(at.get(time, -1), -1, -1) for tp, time in wanted.items()}

    def fetch(self, positions: dict[Any, int], **more: Any) -> dict[Any, FetchedPartition]:
        self._moved()
        offset = positions[TP]
        is_out = offset < self.start
        if is_out and not self._has_reader:
            raise KafkaError(ErrorCode.kafka_storage_error)
        error = ErrorCode.offset_out_of_range if is_out else ErrorCode.none
        found = [] if is_out else range(offset, min(offset + 2, END))
        data = b"".join(batch_of(b"%d" % at, base_offset=at) for at in found)
        answer = FetchedPartition(
            records=memoryview(data),
            high_watermark=END,
            last_stable_offset=END,
            log_start_offset=self.start,
            error_code=error,
        )
        return {TP: answer}


class Archive:
    """Some rows at a time; those of `gaps` are of markers. It fails once for each of `errors`."""

    def __init__(self, first: int = 0, end: int = END, step: int = 3, errors: int = 0) -> None:
        self.first, self.end, self.step, self.errors = first, end, step, errors

    def start(self, partition: int) -> int | None:
        return self.first if self.first < self.end else None

    def at_time(self, partition: int, time_ms: int, end: int) -> int | None:
        return self.first if self.first < end else None

    def rows(self, partition: int, offset: int, end: int) -> tuple[Any, int]:
        if self.errors:
            self.errors -= 1
            raise KafkaError(ErrorCode.kafka_storage_error, "no such disk")
        until = min(offset + self.step, end, self.end)
        if offset < self.first or offset >= until:
            return None, offset
        rows = [row(at) for at in range(offset, until)]
        return pa.Table.from_pylist(rows, SCHEMA), until


def row(offset: int) -> dict[str, Any]:
    return {"key": b"k", "value": b"%d" % offset, "topic": "t", "partition": 0, "offset": offset}


def read(
    broker: Any, archive: Any, start: int = 0, end: int = END, options: ReadOptions = OPTIONS
) -> list[tuple[int, bytes]]:
    """The (offset, value) of a task's rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archive_files, "client_for", lambda connection: broker)
        patch.setattr(archive_files, "archive_of", lambda *of: archive)
        patch.setattr(task_reader, "client_for", lambda connection: broker)
        patch.setattr(task_reader, "drop_client", lambda connection: None)
        patch.setattr(task_reader, "archive_of", lambda *of: archive)
        patch.setattr(task_reader, "WAIT_S", 0.001)
        wanted = OffsetRange(partition=TP, topic_id="", start=start, end=end)
        batches = list(task_reader.read_range(options, wanted))
    return [(each["offset"], each["value"]) for batch in batches for each in batch.to_pylist()]


def records(start: int, end: int) -> list[tuple[int, bytes]]:
    return [(at, b"%d" % at) for at in range(start, end)]


@given(
    moves=st.lists(st.integers(0, 5), max_size=30),
    bounds=st.tuples(st.integers(0, END), st.integers(0, END)).map(sorted),
    step=st.integers(1, 7),
    errors=st.integers(0, 1),
    has_reader=st.booleans(),
)
def test_no_record_is_lost_or_doubled_while_the_seam_moves(
    moves: list[int], bounds: list[int], step: int, errors: int, has_reader: bool
) -> None:
    archive = Archive(step=step, errors=errors)
    broker = Broker(moves, has_reader=has_reader)

    assert read(broker, archive, *bounds) == records(*bounds)


@pytest.mark.parametrize(
    ("archive", "lost"),
    [(None, "[0, 5)"), (Archive(first=3), "[0, 3)"), (Archive(end=3), "[3, 5)")],
    ids=["none", "late", "short"],
)
def test_records_that_neither_has_are_lost_by_name(archive: Any, lost: str) -> None:
    with pytest.raises(DataLossError, match=re.escape(f"t-0 offsets {lost}")):
        read(Broker([5]), archive)


def test_a_read_that_may_lose_records_continues_at_the_start_of_the_archive() -> None:
    options = replace(OPTIONS, fail_on_data_loss=False)

    assert read(Broker([10]), Archive(first=6), options=options) == records(6, END)
    assert read(Broker([10]), None, options=options) == records(10, END)
    hole = read(Broker([10]), Archive(end=3), options=options)
    assert hole == [*records(0, 3), *records(10, END)]


def test_an_archive_that_stays_away_ends_the_task_with_a_sentence() -> None:
    with pytest.raises(ReadError, match=r"t-0 from offset 0 in its archive: .*no such disk"):
        read(Broker([5]), Archive(errors=10**6))


def planned(broker: Broker, archive: Any, wanted: int) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archive_files, "client_for", lambda connection: broker)
        patch.setattr(archive_files, "archive_of", lambda *of: archive)
        return int(ArchivedClient(OPTIONS.connection).list_offsets({TP: wanted})[TP].offset)


def test_starts_and_times_are_those_of_archive_and_log() -> None:
    assert planned(Broker([5]), Archive(first=2), EARLIEST) == 2
    assert planned(Broker([5]), None, EARLIEST) == 5
    assert planned(Broker([5]), Archive(first=0, end=0), EARLIEST) == 5
    assert planned(Broker([5]), Archive(first=2), 1_000) == 2
    assert planned(Broker([5]), Archive(first=9), 1_000) == -1
    assert planned(Broker([]), Archive(first=2), EARLIEST) == 0
    assert planned(Broker([5]), Archive(first=2), LATEST) == END


def test_without_archives_a_topic_starts_where_brokers_have_their_own_records() -> None:
    """A broker with an archive reader reports the archive's start as the earliest offset."""

    class Archived(Broker):
        def list_offsets(self, wanted: dict[Any, int], **more: Any) -> dict[Any, ListedOffset]:
            at = {LATEST: END, EARLIEST: 0, EARLIEST_LOCAL: 5, 1_000: 2, 9_000: 7, 99_000: -1}
            return {tp: ListedOffset(at[time], time, -1) for tp, time in wanted.items()}

    client = offsets_client(OPTIONS.connection, BelowLocalStart.OFF, Archived([]))  # type: ignore[arg-type]
    asked = (EARLIEST, LATEST, 1_000, 9_000, 99_000)
    found = [client.list_offsets({TP: time})[TP].offset for time in asked]

    assert isinstance(client, LocalClient)
    assert found == [5, END, 5, 7, -1]
    assert client.known_topic_id("t") is None


class Timed(Archive):
    """Each record's time in ms is its offset."""

    def rows(self, partition: int, offset: int, end: int) -> tuple[Any, int]:
        rows = [{**row(at), "timestamp": at * 1_000} for at in range(offset, end)]
        return pa.Table.from_pylist(rows, SCHEMA), end


def test_the_age_of_a_record_that_only_the_archive_has_is_known() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archive_files, "client_for", lambda connection: Broker([5]))
        patch.setattr(archive_files, "archive_of", lambda *of: Timed())
        client = ArchivedClient(OPTIONS.connection)

        assert client.first_ms({TP: 3}) == {TP: 3}
        assert client.first_ms({TP: 5}) == {}


def test_columns_and_filters_are_those_of_the_decoder() -> None:
    options = source_options(
        {
            "kafka.bootstrap.servers": "none:1",
            "subscribe": "t",
            "columns": "offset,key",
            "keys": '["a"]',
            "fromTimestamp": "2",
        },
        streaming=False,
    ).read
    rows = [
        {**row(at), "key": key, "timestamp": time_ms * 1_000}
        for at, (key, time_ms) in enumerate([(b"a", 1), (b"a", 2), (b"b", 2), (None, 2), (b"a", 3)])
    ]

    (batch,) = batches_of(pa.Table.from_pylist(rows, SCHEMA), options)

    assert batch.to_pylist() == [{"key": b"a", "offset": 1}, {"key": b"a", "offset": 4}]


def test_a_missing_package_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_files, "PROVIDER", "josefine_lake.no_such_module")
    with pytest.raises(OptionError, match=r"archive=auto needs the package josefine-lake"):
        archive_files.archive_of(OPTIONS.connection, "t", "1")
