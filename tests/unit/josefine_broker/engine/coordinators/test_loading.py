"""The reader of coordinator partitions in which the last record of a key counts."""

from __future__ import annotations

from josefine_broker.engine.coordinators.loading import LastRecords
from josefine_broker.records.batch import parse_header
from josefine_broker.records.builder import Record, build_batch

FOREIGN = b"a key of another kind"


def test_the_last_record_of_each_key_is_handed_over() -> None:
    handed: list[dict[str, int]] = []
    reader = LastRecords(
        lambda key: None if key == FOREIGN else key.decode(),
        lambda value: int(value),
        lambda found: handed.append(dict(found)),
    )
    batches = (
        build_batch([Record(b"a", b"1"), Record(b"b", b"2"), Record(FOREIGN, b"no number")]),
        build_batch([Record(b"c", b"9"), Record(None, b"without a key")]),
        build_batch([Record(b"a", b"3"), Record(b"b", None), Record(b"never there", None)]),
        build_batch([Record(b"\0\0\0\0", b"\0\0\0\0\0\0")], control=True),
    )

    for _ in range(2):  # a partition that is loaded again begins with nothing
        reader.begin()
        for batch in batches:
            reader.take(parse_header(batch), memoryview(batch))
        reader.finish()
        batches = batches[:2]

    assert handed == [{"a": 3, "c": 9}, {"a": 1, "b": 2, "c": 9}]
