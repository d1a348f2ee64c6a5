"""The batches of a share fetch: found by their headers, and sent only if records were acquired."""

from josefine_broker.engine.coordinators.share_batches import batches_of, holding
from josefine_broker.engine.groups.share.values import Acquired
from josefine_broker.records.batch import stamp
from josefine_broker.records.builder import Record, build_batch


def batch(base_offset: int, count: int) -> bytes:
    data = bytearray(build_batch([Record(value=b"v")] * count))
    stamp(data, 0, base_offset, 0)  # type: ignore[arg-type]
    return bytes(data)


def test_batches_without_acquired_records_are_not_sent() -> None:
    first, second, third = batch(0, 3), batch(3, 2), batch(7, 1)
    found = list(batches_of([first + second, third]))
    assert [(each.base_offset, each.end_offset) for each, _ in found] == [(0, 3), (3, 5), (7, 8)]

    assert [bytes(each) for each in holding(found, [Acquired(2, 2, 1)])] == [first]
    assert [bytes(each) for each in holding(found, [Acquired(4, 7, 1)])] == [second, third]
    assert holding(found, [Acquired(5, 6, 1)]) == []
