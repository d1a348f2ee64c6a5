"""The archive's reader refuses what it would read wrongly."""

from __future__ import annotations

import json
import socket
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema, write_deltalake
from deltalake.exceptions import DeltaProtocolError
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_broker.base.archive_note import ArchiveNote
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.groups import Committed
from josefine_lake.archive import reader
from josefine_lake.archive.config import archive_topic
from josefine_lake.archive.notes import ArchiveNotes
from josefine_lake.archive.reader import ArchiveTable
from josefine_lake.archive.serve import Archives, Handler, Server, answered
from josefine_lake.config.table_topic import ARCHIVE_ENABLE, ARCHIVE_LOCATION, TableTopic
from josefine_lake.writer.columns import ARCHIVE_SCHEMA
from josefine_lake.writer.discovery import Discovered
from tests.unit.josefine_lake.archive.test_archive_machine import Process


def with_features(folder: Path, *features: str) -> TableTopic:
    """An archive to which somebody has given reader features, as Spark does."""
    DeltaTable.create(str(folder), Schema.from_arrow(ARCHIVE_SCHEMA))
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": [*features],
        "writerFeatures": [*features],
    }
    commit = folder / "_delta_log" / f"{1:020d}.json"
    commit.write_text(json.dumps({"protocol": protocol}) + "\n")
    return TableTopic(topic="t", location=str(folder), dead_letter=None, is_archive=True)


@pytest.mark.parametrize("feature", ["deletionVectors", "columnMapping"])
def test_archive_whose_files_have_more_than_its_rows_is_refused(
    tmp_path: Path, feature: str
) -> None:
    """A DELETE with deletion vectors leaves the erased records in the files."""
    archive = with_features(tmp_path / "t", feature)

    with pytest.raises(DeltaProtocolError, match=f"table feature {feature}.*DROP FEATURE"):
        ArchiveTable(archive, {}).look()


def test_broker_gets_the_refusal_as_an_error_of_the_archive(tmp_path: Path) -> None:
    archives = Archives(lambda: pytest.fail("no cluster is asked"), {})
    archive = with_features(tmp_path / "t", "deletionVectors")
    archives._found = Discovered(tables={"t": archive})
    asked = {"topic": "t", "topic_id": "1", "partition": 0, "offset": 0, "end": 1, "bytes": 1}

    for _ in range(2):
        answer, data = answered(archives, json.dumps(asked).encode())
        assert data == b""
        assert "deletionVectors" in answer["error"]


def test_features_that_change_no_row_are_read(tmp_path: Path) -> None:
    ArchiveTable(with_features(tmp_path / "t", "v2Checkpoint"), {}).look()


def test_rows_of_another_topic_in_the_same_table_are_not_read(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    for topic, offset in (("t", 1), ("other", 0), ("other", 1)):
        row = {"topic": topic, "partition": 0, "offset": offset, "timestamp": 7, "value": b"v"}
        rows = pa.Table.from_pylist([row], schema=ARCHIVE_SCHEMA)
        write_deltalake(str(folder), rows, mode="append")
    archive = TableTopic(topic="t", location=str(folder), dead_letter=None, is_archive=True)
    table = ArchiveTable(archive, {})
    table.look()

    rows, _ = table.rows(0, 0, 5)
    assert [(each["topic"], each["offset"]) for each in rows.to_pylist()] == [("t", 1)]
    assert table.start(0) == 1
    assert table.at_time(0, 0, 5) == (1, 0)


@pytest.mark.parametrize(
    ("committed", "topic_id", "is_refused"),
    [(7, "1", True), (0, "1", False), (None, "1", False), (7, "another", False)],
)
def test_archive_that_is_gone_is_an_error_and_a_new_one_has_no_records(
    tmp_path: Path, committed: int | None, topic_id: str, is_refused: bool
) -> None:
    """Its file system is not mounted: consumers must not go on after its records."""
    archive = TableTopic(
        topic="t", location=str(tmp_path / "gone"), dead_letter=None, is_archive=True
    )
    archives = Archives(mock.MagicMock(), {})
    archives._found = Discovered(tables={"t": archive})
    asked = {"topic": "t", "topic_id": "1", "partition": 0, "offset": 0, "end": 5, "bytes": 1}
    note = ArchiveNote(topic_id=topic_id, table_id="t", look=1).text()
    there: dict[Any, Any] = (
        {} if committed is None else {TopicPartition("t", 0): Committed(committed, note)}
    )

    with mock.patch.object(ArchiveNotes, "committed", return_value=there):
        answer, _ = answered(archives, json.dumps(asked).encode())

    if is_refused:
        assert "had them up to 7: bring it back" in answer["error"]
    else:
        assert (answer["start"], answer["error"]) == (-1, "")


def test_small_parts_are_taken_from_one_window_until_the_next_look(tmp_path: Path) -> None:
    """Each read of the files decodes whole row groups."""
    rows = [
        {"topic": "t", "partition": p, "offset": at, "timestamp": 0, "timestampType": 0}
        for p in (0, 1)
        for at in (0, 1, 3, 4, 9)
    ]
    write_deltalake(str(tmp_path), pa.Table.from_pylist(rows, schema=ARCHIVE_SCHEMA))
    table = ArchiveTable(
        TableTopic(topic="t", location=str(tmp_path), dead_letter=None, is_archive=True), {}
    )
    table.look()
    taken = []
    with (
        mock.patch.object(table, "_between", wraps=table._between) as read,
        mock.patch.object(reader.ds, "dataset", wraps=reader.ds.dataset) as footer,
    ):
        for partition in (0, 1):
            for offset, end in ((0, 10), (1, 4), (4, 5), (5, 9), (9, 10), (0, 1)):
                found, until = table.rows(partition, offset, end)
                taken.append((found.column("offset").to_pylist(), until))
        calls = read.call_count
        assert footer.call_count == 1, "the file's footer is kept until the next look"
        table.look()
        table.rows(0, 4, 5)

    expected = [([0, 1, 3, 4, 9], 10), ([1, 3], 4), ([4], 5), ([], 9), ([9], 10), ([0], 1)]
    assert taken == expected * 2
    assert (calls, read.call_count) == (2, 3)


def test_a_wide_row_group_opens_no_window_over_the_rows_of_many_others(tmp_path: Path) -> None:
    """That of another topic with an archive in the same table, or of offsets that lie between."""
    groups = [("other", [0, 999]), ("t", [0, 400])]
    groups += [("t", [*range(at, at + 50)]) for at in (*range(50, 400, 50), *range(450, 1000, 50))]
    for topic, offsets in groups:
        rows = [{"topic": topic, "partition": 0, "offset": at, "timestamp": 7} for at in offsets]
        write_deltalake(
            str(tmp_path), pa.Table.from_pylist(rows, schema=ARCHIVE_SCHEMA), mode="append"
        )
    wanted = [at for topic, offsets in groups if topic == "t" for at in offsets]
    archive = TableTopic(topic="t", location=str(tmp_path), dead_letter=None, is_archive=True)
    ends, taken = in_windows_of_three_groups(archive)

    assert taken == sorted(wanted)
    assert max(b - a for a, b in pairwise(ends)) <= 150, "at most three groups at once"


def in_windows_of_three_groups(archive: TableTopic) -> tuple[list[int], list[int]]:
    """The edges of the windows in which partition 0 is read up to offset 1000, and the offsets."""
    table, at, ends, taken = ArchiveTable(archive, {}), 0, [0], list[int]()
    table.look()
    size = max(each.size for path, *_ in table._files for each in table._opened(path).groups)
    with (
        mock.patch.object(reader, "GROUPS_BYTES", 1),
        mock.patch.object(reader, "WINDOW_BYTES", 3 * size),
        mock.patch.object(reader, "WINDOW", 1),
    ):
        while at < 1000:
            rows, at = table.rows(0, at, 1000)
            taken += rows.column("offset").to_pylist()
            ends.append(at)
    return ends, taken


def test_row_groups_of_several_partitions_count_for_a_window(tmp_path: Path) -> None:
    """The reader once took all of them up to the next group that had one partition alone."""
    for at in range(0, 1000, 50):
        partitions = (0, 1) if at < 950 else (0,)
        rows = [
            {"topic": "t", "partition": p, "offset": n, "timestamp": 7}
            for p in partitions
            for n in range(at, at + 50)
        ]
        write_deltalake(
            str(tmp_path), pa.Table.from_pylist(rows, schema=ARCHIVE_SCHEMA), mode="append"
        )
    archive = TableTopic(topic="t", location=str(tmp_path), dead_letter=None, is_archive=True)
    ends, taken = in_windows_of_three_groups(archive)

    assert taken == [*range(1000)]
    assert max(b - a for a, b in pairwise(ends)) <= 150, "at most three groups at once"


def test_many_partitions_that_are_read_in_turn_keep_their_windows(tmp_path: Path) -> None:
    rows = [
        {"topic": "t", "partition": p, "offset": at, "timestamp": 0}
        for p in range(9)
        for at in range(3)
    ]
    write_deltalake(str(tmp_path), pa.Table.from_pylist(rows, schema=ARCHIVE_SCHEMA))
    archive = TableTopic(topic="t", location=str(tmp_path), dead_letter=None, is_archive=True)
    table = ArchiveTable(archive, {})
    table.look()

    def calls() -> int:
        with mock.patch.object(table, "_between", wraps=table._between) as read:
            for at in range(3):
                for partition in range(9):
                    assert table.rows(partition, at, 3)[0].column("offset")[0].as_py() == at
        return int(read.call_count)

    assert calls() == 9
    with mock.patch.object(reader, "KEPT_BYTES", 1):
        assert calls() == 26, "the first of them hits a window of before"


def test_connection_without_a_question_ends_without_a_word(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Brokers keep idle connections, and open new ones."""
    monkeypatch.setattr(Handler, "timeout", 0.05)
    archives = Archives(lambda: pytest.fail("no cluster is asked"), {})
    with (
        Server(0, archives) as server,
        socket.create_connection(server.server_address[:2], 20) as stream,
    ):
        server.handle_request()
        assert stream.recv(1) == b""

    assert capfd.readouterr().err == ""


def test_a_look_is_at_one_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A RESTORE came between offsets and files: a consumer would skip records that are gone."""
    path = tmp_path / "t"
    archive = archive_topic("t", {ARCHIVE_ENABLE: "true", ARCHIVE_LOCATION: str(path)})
    assert archive is not None
    writer, table = Process(path, archive, "one"), ArchiveTable(archive, {})
    for end in (2, 4):
        rows = [{"topic": "t", "partition": 0, "offset": at} for at in (end - 2, end - 1)]
        writer.append(rows, {0: end}, "")
    opened = reader.DeltaTable

    def restored(*args: Any, **more: Any) -> Any:
        monkeypatch.setattr(reader, "DeltaTable", opened)
        opened(path).restore(1)
        return opened(*args, **more)

    monkeypatch.setattr(reader, "DeltaTable", restored)
    table.look()

    taken, at = list[int](), 0
    while at < table.end(0):
        rows, at = table.rows(0, at, table.end(0))
        taken += rows.column("offset").to_pylist()
    assert taken == [*range(table.end(0))]
    table.look()
    assert table.end(0) == 2


EPOCHS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=4), min_size=1, max_size=4)


@settings(max_examples=15)
@given(files=EPOCHS, asked=st.integers(-1, 12), end=st.integers(0, 16))
def test_end_of_a_leader_epoch_is_where_a_later_one_starts(
    tmp_path_factory: pytest.TempPathFactory, files: list[list[int]], asked: int, end: int
) -> None:
    """Each number is by how much a record's epoch is after the one before it; offsets have gaps."""
    folder, epoch, offset = tmp_path_factory.mktemp("archive") / "t", 0, 0
    records: list[tuple[int, int]] = []
    for steps in files:
        rows = []
        for step in steps:
            epoch, offset = epoch + step, offset + 1 + step
            records.append((offset, epoch))
            more = {"topic": "t", "partition": 0, "offset": offset, "leader_epoch": epoch}
            rows += [more, {**more, "partition": 1, "leader_epoch": 99}]
        table = pa.Table.from_pylist(rows, schema=ARCHIVE_SCHEMA)
        write_deltalake(str(folder), table, mode="append")
    archive = TableTopic(topic="t", location=str(folder), dead_letter=None, is_archive=True)
    reader = ArchiveTable(archive, {})
    reader.look()

    found = reader.epoch_end(0, asked, end)

    later = [each for each in records if each[1] > asked and each[0] < end]
    if not later:
        assert found is None
    else:
        before = [each[1] for each in records if each[0] < later[0][0]]
        assert found == (later[0][0], before[-1] if before else asked)


def test_a_broker_asks_for_the_end_of_an_epoch(tmp_path: Path) -> None:
    row = {"topic": "t", "partition": 0, "offset": 4, "leader_epoch": 3}
    write_deltalake(str(tmp_path / "t"), pa.Table.from_pylist([row], schema=ARCHIVE_SCHEMA))
    archives = Archives(lambda: pytest.fail("no cluster is asked"), {})
    archive = TableTopic(topic="t", location=str(tmp_path / "t"), dead_letter=None, is_archive=True)
    archives._found = Discovered(tables={"t": archive})
    asked = {"topic": "t", "topic_id": "1", "partition": 0, "end": 9}

    answers = [
        answered(archives, json.dumps({**asked, "epoch": epoch}).encode())[0] for epoch in (2, 3)
    ]

    assert answers == [
        {"size": 0, "offset": 4, "epoch": 2, "error": ""},
        {"size": 0, "offset": -1, "epoch": -1, "error": ""},
    ]
