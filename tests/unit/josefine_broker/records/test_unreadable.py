"""Which batch cannot be read, and the first reason."""

import pytest

from josefine_broker.base.errors import CorruptData, UnreadableBatchError
from josefine_broker.records.batch import parse_header
from josefine_broker.records.builder import Record, build_batch
from josefine_broker.records.unreadable import read_whole_batch, unreadable


def good() -> bytearray:
    return build_batch([Record(b"k", b"v", (), n) for n in range(3)], base_offset=10)


def test_a_readable_batch_gives_its_records() -> None:
    batch = good()

    found = list(read_whole_batch(batch, parse_header(batch)))

    assert [each.offset for each in found] == [10, 11, 12]


def test_the_error_has_the_batchs_offsets_and_names_the_record() -> None:
    batch = good()
    batch[61] = 0  # the length of the first record

    with pytest.raises(UnreadableBatchError) as caught:
        list(read_whole_batch(batch, parse_header(batch)))

    assert (caught.value.offset, caught.value.end_offset) == (10, 13)
    assert caught.value.cause.startswith("record 0 of 3: ")
    assert isinstance(caught.value, CorruptData)


def test_more_records_than_the_header_states_are_named() -> None:
    batch = good()
    batch[57:61] = (2).to_bytes(4, "big")

    found = unreadable(batch, parse_header(batch), CorruptData("x"))

    assert found.cause == "it holds more than the 2 records that its header states"


def test_where_each_record_is_valid_the_error_itself_is_the_cause() -> None:
    batch = good()

    assert unreadable(batch, parse_header(batch), CorruptData("the disk")).cause == "the disk"
