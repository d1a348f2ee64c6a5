"""Which names complete a word."""

from __future__ import annotations

from josefine_cli.kafka.completed import fitting

NAMES = ("rates", "orders_old", "__consumer_offsets", "orders")


def test_names_that_begin_so_are_sorted_and_internal_ones_wait_for_their_beginning() -> None:
    assert fitting(NAMES, "ord") == ["orders", "orders_old"]
    assert fitting(NAMES, "") == ["orders", "orders_old", "rates"]
    assert fitting(NAMES, "__") == ["__consumer_offsets"]
    assert fitting(NAMES, "x") == []
