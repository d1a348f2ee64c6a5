"""Transaction markers, byte for byte as Kafka writes them."""

import pytest

from josefine_broker.base.errors import CorruptData
from josefine_broker.records.batch import parse_header, verify
from josefine_broker.records.builder import Record, build_batch
from josefine_broker.records.control import Marker, build_marker, read_marker
from josefine_broker.records.keyed import emptied
from josefine_broker.records.reader import read_records


@pytest.mark.parametrize("is_commit", [True, False])
def test_marker_is_a_transactional_control_batch_that_says_how_it_ended(is_commit: bool) -> None:
    batch = build_marker(7, 3, Marker(is_commit, 5), 1_000)

    header = parse_header(batch)
    verify(batch, 0, header)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, -1)
    assert header.is_control
    assert header.is_transactional
    record = next(read_records(batch))
    assert record.key == bytes([0, 0, 0, is_commit])
    assert record.value == bytes([0, 0, 0, 0, 0, 5])
    assert read_marker(batch) == Marker(is_commit, 5)


def test_other_control_records_are_no_markers() -> None:
    assert read_marker(build_batch([Record(b"\0\0\0\2", b"")], control=True)) is None
    assert read_marker(build_batch([Record(b"\0", b"")], control=True)) is None
    assert read_marker(emptied(parse_header(build_marker(7, 3, Marker(True, 5), 1_000)))) is None


def test_marker_without_a_coordinator_is_corrupt() -> None:
    with pytest.raises(CorruptData, match="marker"):
        read_marker(build_batch([Record(b"\0\0\0\1", b"\0")], control=True))
