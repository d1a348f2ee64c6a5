"""Where the records of a read come from."""

from __future__ import annotations

from josefine_broker.base.ids import TopicPartition
from josefine_cli.kafka.consume_origin import LINES_MAX, origins

TP = TopicPartition("orders", 0)


def line(start: int, end: int | None, local: int) -> list[str]:
    return origins({TP: start}, {TP: end}, {TP: local})


def test_a_read_that_starts_below_the_local_start_is_of_the_archive_up_to_there() -> None:
    archive = "orders-0: offsets 2 to 4 come from the archive"
    assert line(2, 9, 5) == [f"{archive}, from 5 on from brokers"]
    assert line(2, None, 5) == [f"{archive}, from 5 on from brokers"]
    assert line(2, 5, 5) == [archive]
    assert line(2, 4, 5) == ["orders-0: offsets 2 to 3 come from the archive"]


def test_a_read_of_brokers_alone_is_not_reported() -> None:
    assert line(5, 9, 5) == line(0, 9, 0) == line(2, 2, 5) == []
    assert origins({TP: 2}, {TP: 9}, {}) == []


def test_the_lines_are_few() -> None:
    tps = [TopicPartition("orders", number) for number in range(20)]
    lines = origins(dict.fromkeys(tps, 0), dict.fromkeys(tps, 9), dict.fromkeys(tps, 5))
    assert len(lines) == LINES_MAX
    assert lines[-1] == "13 more partitions are read from archives too"
