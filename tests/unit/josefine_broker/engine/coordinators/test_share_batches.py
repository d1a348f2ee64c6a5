"""The batches of a share fetch: found by their headers, and sent only if records were acquired."""

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.coordinators import share_batches
from josefine_broker.engine.coordinators.share_batches import (
    PIECE_BYTES,
    Room,
    batches_of,
    holding,
    read_available,
)
from josefine_broker.engine.groups.share.config import ShareConfig
from josefine_broker.engine.groups.share.partition import SharePartition
from josefine_broker.engine.groups.share.values import Acquired, Limits, ShareState
from josefine_broker.records.batch import stamp
from josefine_broker.records.builder import Record, build_batch


def batch(base_offset: int, count: int, value: bytes = b"v") -> bytes:
    data = bytearray(build_batch([Record(value=value)] * count))
    stamp(data, 0, base_offset, 0)  # type: ignore[arg-type]
    return bytes(data)


def test_batches_without_acquired_records_are_not_sent() -> None:
    first, second, third = batch(0, 3), batch(3, 2), batch(7, 1)
    found = list(batches_of([first + second, third]))
    assert [(each.base_offset, each.end_offset) for each, _ in found] == [(0, 3), (3, 5), (7, 8)]

    assert [bytes(each) for each in holding(found, [Acquired(2, 2, 1)])] == [first]
    assert [bytes(each) for each in holding(found, [Acquired(4, 7, 1)])] == [second, third]
    assert holding(found, [Acquired(5, 6, 1)]) == []


class Log:
    """A log of some batches. Mutable: how much was read of it."""

    log_start_offset = 0

    def __init__(self, batches: list[tuple[int, int, bytes]]) -> None:
        """`batches`: (first offset, end offset, bytes)."""
        self.batches = batches
        self.log_end_offset = batches[-1][1]
        self.bytes_read = 0
        self.damaged = self.log_end_offset
        """Where reads fail."""

    def read(self, offset: int, bytes_max: int, *, end_offset: int, at_least_one: bool) -> Any:
        found, size = [], 0
        for _, end, data in self.batches:
            if end <= offset:
                continue
            if size + len(data) > bytes_max and (found or not at_least_one):
                break
            if end > self.damaged:
                raise KafkaError(ErrorCode.kafka_storage_error)
            found.append(data)
            size += len(data)
        self.bytes_read += size
        return found


def reading(log: Log) -> Any:
    transactions = SimpleNamespace(has_aborted=False)
    partition = SimpleNamespace(
        readable_end=lambda _, end: end, producers=SimpleNamespace(transactions=transactions)
    )
    return SimpleNamespace(log=log, partition=partition)


def log_of(count: int, records: int, value: bytes) -> Log:
    starts = range(0, count * records, records)
    return Log([(at, at + records, batch(at, records, value)) for at in starts])


def room(records: int, bytes_max: int = 50 << 20, **changes: bool) -> Room:
    return Room(records, bytes_max, **({"is_strict": True, "at_least_one": True} | changes))


def test_little_more_is_read_than_is_acquired() -> None:
    """A read of all that the client takes would be held until its acknowledgements are stored."""
    log = log_of(100, 1, b"v" * 100_000)
    shared = SharePartition(ShareState(start_offset=0), Limits())
    for at in range(3):
        acquired, records = read_available(
            reading(log), shared, "a", room(1), ShareConfig(), now_ms=0
        )
        assert acquired == [Acquired(at, at, 1)]
        assert [bytes(each) for each in records] == [log.batches[at][2]]
    assert log.bytes_read <= 3 * PIECE_BYTES

    acquired, records = read_available(reading(log), shared, "a", room(50), ShareConfig(), now_ms=0)
    assert acquired == [Acquired(3, 52, 1)]
    assert len(records) == 50


@pytest.mark.parametrize("seed", range(30))
def test_pieces_give_what_one_read_gives(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, found = Random(seed), []
    log = log_of(rng.randint(1, 30), rng.randint(1, 4), b"v" * rng.randint(1, 200))
    steps = [
        (
            rng.choice("ab"),
            room(
                rng.randint(1, 12), rng.choice((0, 300, 900, 1 << 20)),
                is_strict=rng.random() < 0.5, at_least_one=rng.random() < 0.7,
            ),
            rng.choice("ab-"),
        )
        for _ in range(12)
    ]  # fmt: skip
    for piece in (1, 128, 1 << 30):
        monkeypatch.setattr(share_batches, "PIECE_BYTES", piece)
        shared = SharePartition(ShareState(start_offset=0), Limits(locks_max=40))
        got = []
        for member, wanted, leaver in steps:
            acquired, records = read_available(
                reading(log), shared, member, wanted, ShareConfig(), now_ms=0
            )
            got.append((acquired, [bytes(each) for each in records], list(shared.spans)))
            shared.release_all(leaver)
        found.append(got)
    assert found[0] == found[1]
    # A read of many bytes that others have acquired has less room for those that follow them.
    records_of = [sum(e.last - e.first + 1 for step in got for e in step[0]) for got in found]
    assert records_of[0] >= records_of[2]


def test_what_was_acquired_before_a_damaged_batch_is_the_members() -> None:
    log = log_of(9, 1, b"v" * PIECE_BYTES)
    log.damaged = 2
    shared = SharePartition(ShareState(start_offset=0), Limits())
    found = read_available(reading(log), shared, "a", room(9), ShareConfig(), now_ms=0)
    assert found[0] == [Acquired(0, 1, 1)]
    with pytest.raises(KafkaError):
        read_available(reading(log), shared, "a", room(9), ShareConfig(), now_ms=0)
