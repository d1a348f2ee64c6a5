"""A number of things is one word or many."""

from __future__ import annotations

from pipelines.base.plurals import counted


def test_one_is_not_many_and_thousands_are_set_apart():
    assert [counted(n, "row") for n in (0, 1, 1200)] == ["0 rows", "1 row", "1,200 rows"]
    assert counted(2, "batch", "batches") == "2 batches"
