"""Partial results of batches, folded into the table, are the results over all rows."""

from __future__ import annotations

import sqlite3

from hypothesis import given
from hypothesis import strategies as st

from pipelines.base.errors import Place
from pipelines.model.pipeline import Aggregate, Mode, Sink
from pipelines.transforms.aggregate import fold

PLACE = Place(file="f", line=1, column=1)
FUNCTIONS = {"n": ("count", None), "c": ("count", "x"), "s": ("sum", "x"), "lo": ("min", "x"),
             "hi": ("max", "x")}  # fmt: skip
SINK = Sink(
    name="s", place=PLACE, input="", path=None, table=None, keys=("k",), mode=Mode.MERGE,
    aggregates=tuple(
        Aggregate(column=column, function=function, argument=argument, place=PLACE)
        for column, (function, argument) in FUNCTIONS.items()
    ),
)  # fmt: skip
VALUES = st.lists(st.none() | st.integers(-9, 9), min_size=1, max_size=6)


def results(values):
    """As SQL defines the functions."""
    there = [value for value in values if value is not None]
    return {
        "n": len(values), "c": len(there), "s": sum(there) if there else None,
        "lo": min(there, default=None), "hi": max(there, default=None),
    }  # fmt: skip


def folded(table, batch):
    """The update of a MERGE, evaluated by SQLite, whose min and max of two are strict in null."""
    database = sqlite3.connect(":memory:")
    names = ", ".join(FUNCTIONS)
    marks = ", ".join("?" * len(FUNCTIONS))
    for name, row in (("t", table), ("s", batch)):
        database.execute(f"CREATE TABLE {name} ({names})")
        database.execute(f"INSERT INTO {name} VALUES ({marks})", [row[n] for n in FUNCTIONS])
    for name, pick in (("least", min), ("greatest", max)):
        database.create_function(
            name,
            2,
            lambda a, b, pick=pick: pick((v for v in (a, b) if v is not None), default=None),
        )
    update = fold(SINK).update
    found = database.execute(f"SELECT {', '.join(update[n] for n in FUNCTIONS)} FROM t, s")
    return dict(zip(FUNCTIONS, found.fetchone(), strict=True))


@given(VALUES, VALUES)
def test_what_is_folded_is_what_all_rows_together_give(one, other):
    assert folded(results(one), results(other)) == results([*one, *other])


def test_a_column_of_any_name_is_one_word_of_the_statement():
    aggregate = Aggregate(column="a`b", function="sum", argument="x", place=PLACE)
    merge = fold(Sink(name="s", place=PLACE, input="", path=None, table=None, keys=("k",),
                      aggregates=(aggregate,)))  # fmt: skip

    assert merge.update == {"a`b": "coalesce(t.`a``b` + s.`a``b`, t.`a``b`, s.`a``b`)"}
    assert (merge.keys, merge.columns) == (("k",), ("k", "a`b"))
