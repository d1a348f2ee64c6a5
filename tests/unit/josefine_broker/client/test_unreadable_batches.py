"""Readers of a batch that was produced broken: what they raise, and how to get past it."""

from __future__ import annotations

import pytest

from josefine_broker.base.errors import CorruptData, UnreadableBatchError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.fetch import records_between
from josefine_broker.records.batch import stamp
from josefine_cli.base.errors import UserError
from josefine_cli.kafka.consume_records import named_when_damaged
from tests.compat.produced_batches import STRUCTURE, batch, record


def at(offset: int, built: bytes) -> bytes:
    stamped = bytearray(built)
    stamp(stamped, 0, offset, 0)
    return bytes(stamped)


GOOD = at(0, batch([record(0), record(1)]))
BROKEN = at(2, batch(STRUCTURE["header_name_null"]))
LAST = at(5, batch([record(0)]))
LOG = memoryview(GOOD + BROKEN + LAST)


def test_the_error_says_which_batch_and_why() -> None:
    with pytest.raises(UnreadableBatchError) as caught:
        list(records_between(LOG, 0, None))

    assert (caught.value.offset, caught.value.end_offset) == (2, 5)
    assert str(caught.value) == (
        "the batch with the offsets 2 to 4 cannot be read: record 1 of 3: a header has no valid"
        " name"
    )


def test_who_starts_behind_the_batch_gets_past_it() -> None:
    assert [each.offset for each in records_between(LOG, 5, None)] == [5]
    assert [each.offset for each in records_between(LOG, 0, 2)] == [0, 1]


def test_bytes_behind_a_compressed_stream_and_garbage_are_named() -> None:
    garbage = memoryview(at(7, batch([record(0)], 1, packed=b"garbage")))

    with pytest.raises(UnreadableBatchError, match=r"offsets 7 to 7 .*gzip data"):
        list(records_between(garbage, 0, None))


def test_changed_bytes_are_damage_and_no_unreadable_batch() -> None:
    damaged = bytearray(GOOD)
    damaged[-1] ^= 1

    with pytest.raises(CorruptData) as caught:
        list(records_between(memoryview(damaged), 0, None))

    assert not isinstance(caught.value, UnreadableBatchError)


def test_consume_blames_the_producer_and_names_the_command_that_goes_past() -> None:
    tp = TopicPartition("orders", 3)

    with pytest.raises(UserError) as caught, named_when_damaged(tp):
        list(records_between(LOG, 0, None))

    said = str(caught.value)
    assert said.startswith("orders-3 at offset 2: the batch with the offsets 2 to 4 cannot be read")
    assert said.endswith("josefine consume orders --partitions 3 --from 5")
    assert "log verify" not in said


def test_consume_sends_to_the_files_where_bytes_changed() -> None:
    damaged = bytearray(GOOD)
    damaged[-1] ^= 1

    with (
        pytest.raises(UserError, match=r"orders-0 is damaged: .*log verify"),
        named_when_damaged(TopicPartition("orders", 0)),
    ):
        list(records_between(memoryview(damaged), 0, None))
