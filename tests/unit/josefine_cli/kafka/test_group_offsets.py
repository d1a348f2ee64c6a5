"""Where a group's offsets are to go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import EARLIEST, BlockingClient
from josefine_cli.base.errors import UsageError, UserError
from josefine_cli.kafka.group_offsets import Shift, TableEnd, Target, moves, parse_topic
from josefine_cli.kafka.groups import _target
from josefine_cli.kafka.offset_spec import AtOffset, AtTime

T0, T1 = (TopicPartition("t", p) for p in range(2))
NOBODY = BlockingClient("127.0.0.1:1")
"""Nobody is to be asked."""


def moved(target: Target, committed: dict[TopicPartition, int]) -> dict[Any, tuple[int, str]]:
    planned = moves(NOBODY, target, committed, {T0: 10, T1: 0}, {T0: 50, T1: 5})
    return {each.tp: (each.to, each.note) for each in planned}


def test_places_are_resolved_in_each_partition() -> None:
    assert moved(AtTime(EARLIEST), {}) == {T0: (10, ""), T1: (0, "")}
    assert moved(AtOffset(-3), {}) == {T0: (47, ""), T1: (2, "")}


def test_what_is_not_there_becomes_the_nearest_that_is_and_is_told() -> None:
    assert moved(AtOffset(7), {}) == {
        T0: (10, "7 is deleted: earliest"),
        T1: (5, "7 is not written yet: latest"),
    }


def test_shift_counts_from_what_is_committed() -> None:
    assert moved(Shift(-5), {T0: 20, T1: 3}) == {
        T0: (15, ""),
        T1: (0, "-2 is deleted: earliest"),
    }
    with pytest.raises(UserError, match="nothing is committed for t-1 to shift"):
        moved(Shift(1), {T0: 20})


def test_folder_without_a_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="is no Delta table on this machine"):
        moved(TableEnd(tmp_path), {})


def test_topics_with_partitions_are_read() -> None:
    assert parse_topic("orders") == ("orders", None)
    assert parse_topic("orders:0,12") == ("orders", [0, 12])
    for wrong in ("orders:", "orders:a", ":1", ""):
        with pytest.raises(UsageError):
            parse_topic(wrong)


def test_exactly_one_target_is_asked_for() -> None:
    for given in ((None, None, None), ("earliest", 3, None), (None, 3, Path("x"))):
        with pytest.raises(UsageError, match="give one of"):
            _target(*given)
    assert _target(None, -3, None) == Shift(-3)
