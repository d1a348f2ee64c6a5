"""The progress of a group by its description."""

from __future__ import annotations

from josefine_cli.base.top import Reading
from josefine_cli.kafka.group_description import lag_of
from josefine_cli.kafka.groups_top import reading_of


def test_a_partition_without_a_commit_has_read_nothing() -> None:
    partitions = [{"committed": 3}, {"committed": None}, {"committed": 4}]
    described = {"state": "Stable", "lag": 9, "partitions": partitions}

    assert reading_of(described) == Reading(state="Stable", read=7, lag=9)


def test_a_lag_is_known_with_both_offsets_and_never_negative() -> None:
    assert [lag_of(3, 10), lag_of(10, 3), lag_of(None, 3), lag_of(3, None)] == [7, 0, None, None]
