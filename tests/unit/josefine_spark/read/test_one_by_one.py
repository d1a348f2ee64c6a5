"""A response decoded batch by batch: only a batch whose checksum is valid may be passed over."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.ids import TopicPartition
from josefine_broker.records.builder import Record, build_batch
from josefine_spark.base.errors import ReadError
from josefine_spark.options.options import Connection, ReadOptions, UnreadableBatches
from josefine_spark.read.admission import OffsetRange
from josefine_spark.read.data_loss import Reason
from josefine_spark.read.one_by_one import OneByOne

T0 = TopicPartition("t", 0)


def batch(offset: int, count: int = 3) -> bytearray:
    return build_batch([Record(None, b"v", (), 5)] * count, base_offset=offset)


class Decoder:
    """Decodes to the offsets; cannot read batches that start at `bad`."""

    def __init__(self, *bad: int):
        self.bad = bad

    def decode(self, data, start, end):
        from josefine_broker.records.batch import iter_batches

        rows = []
        for _, header in iter_batches(data):
            if header.base_offset in self.bad:
                raise CorruptData("a record is cut")
            rows += [n for n in range(header.base_offset, header.end_offset) if start <= n < end]
        return SimpleNamespace(batches=rows)

    def end_offset(self, data):
        from josefine_broker.records.batch import iter_batches

        return max(header.end_offset for _, header in iter_batches(data))


def read(decoder, *batches, how=UnreadableBatches.SKIP, start=0, end=9):
    """(rows, losses)."""
    losses = []
    wanted = OffsetRange(partition=T0, topic_id="", start=start, end=end)
    options = ReadOptions(connection=Connection(bootstrap="b:1"), unreadable_batches=how)
    one = OneByOne(decoder, wanted, options, losses)
    records = memoryview(b"".join(batches))
    return one.decode(records, start, (), CorruptData("whole")), losses


def test_readable_batches_around_an_unreadable_one_are_decoded_and_its_range_is_lost():
    rows, losses = read(Decoder(3), batch(0), batch(3), batch(6))

    assert rows == [0, 1, 2, 6, 7, 8]
    assert [(x.start, x.end, x.reason) for x in losses] == [(3, 6, Reason.UNREADABLE)]


@pytest.mark.parametrize(("start", "end", "lost"), [(4, 9, (4, 6)), (0, 5, (3, 5))])
def test_of_a_batch_that_is_partly_in_the_range_the_part_within_is_lost(start, end, lost):
    _, (loss,) = read(Decoder(3), batch(3), start=start, end=end)

    assert (loss.start, loss.end) == lost


def test_batches_outside_of_the_range_are_not_decoded():
    assert read(Decoder(0, 6), batch(0), batch(3), batch(6), start=3, end=6) == ([3, 4, 5], [])


@pytest.mark.parametrize("how", [UnreadableBatches.SKIP, UnreadableBatches.AS_ROW])
def test_bytes_that_disk_or_network_has_changed_are_an_error_whatever_the_options_say(how):
    damaged = batch(3)
    damaged[-1] ^= 1

    with pytest.raises(ReadError, match="the stored bytes are not those that were produced"):
        read(Decoder(3), batch(0), damaged, how=how)


def test_by_default_the_batch_is_an_error_with_the_ways_to_continue():
    with pytest.raises(ReadError, match=r"at offset 3: .*unreadableBatches=asRow"):
        read(Decoder(3), batch(3), how=UnreadableBatches.FAIL)


def test_as_a_row_nothing_is_lost():
    rows, losses = read(Decoder(3), batch(0), batch(3), how=UnreadableBatches.AS_ROW)

    assert rows[:3] == [0, 1, 2]
    assert rows[3].to_pylist()[0]["offset"] == 3
    assert losses == []


def test_a_batch_that_a_range_cuts_is_looked_at_as_a_whole():
    """Else the same records would be rows under one split of the topic and unreadable otherwise."""
    wanted = OffsetRange(partition=T0, topic_id="", start=0, end=4)
    data = memoryview(bytes(batch(0)) + bytes(batch(3)))
    decides = ReadOptions(
        connection=Connection(bootstrap="b:1"), unreadable_batches=UnreadableBatches.SKIP
    )
    fails = ReadOptions(
        connection=Connection(bootstrap="b:1"), unreadable_batches=UnreadableBatches.FAIL
    )

    with pytest.raises(CorruptData):
        OneByOne(Decoder(3), wanted, decides, []).check_ends(data, 0)
    OneByOne(Decoder(3), wanted, fails, []).check_ends(data, 0)
    OneByOne(Decoder(0), wanted, decides, []).check_ends(data, 0)
