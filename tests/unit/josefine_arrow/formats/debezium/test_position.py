"""Positions of Debezium's changes: their order as texts is the order of the database's log."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from josefine_arrow.formats.debezium.position import CONNECTORS
from tests.unit.josefine_arrow.formats.debezium.position_oracle import position_of

U32 = st.integers(0, 2**31 - 1)
U64 = st.integers(0, 2**64 - 1)
LSN = st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**16 - 1))


def lsn_of(parts):
    return f"{parts[0]:08x}:{parts[1]:08x}:{parts[2]:04x}"


def binary_log(connector):
    def source(numbers):
        file, pos, row = numbers
        return {"connector": connector, "file": f"db-1.bin.{file:06d}", "pos": pos, "row": row}

    return source


SOURCES = {
    "postgresql": (st.tuples(U64), lambda n: {"connector": "postgresql", "lsn": n[0]}),
    "mysql": (st.tuples(U32, U64, U32), binary_log("mysql")),
    "mariadb": (st.tuples(U32, U64, U32), binary_log("mariadb")),
    "oracle": (
        st.tuples(U64, U64),
        lambda n: {"connector": "oracle", "commit_scn": str(n[0]), "scn": str(n[1])},
    ),
    "sqlserver": (
        st.tuples(LSN, LSN, U32),
        lambda n: {
            "connector": "sqlserver", "commit_lsn": lsn_of(n[0]), "change_lsn": lsn_of(n[1]),
            "event_serial_no": n[2],
        },
    ),
    "mongodb": (
        st.tuples(U64, U32),
        lambda n: {"connector": "mongodb", "ts_ms": n[0], "ord": n[1]},
    ),
}  # fmt: skip
"""Connector → (numbers of a position, the envelope's `source` with these numbers)."""


def position(source):
    found, why = position_of(source)
    assert why is None
    return found


@pytest.mark.parametrize("connector", SOURCES)
def test_positions_sort_as_their_numbers(connector):
    numbers, source = SOURCES[connector]

    @given(numbers, numbers)
    def holds(one, other):
        assert (position(source(one)) < position(source(other))) == (one < other)

    holds()
    assert SOURCES.keys() == CONNECTORS.keys()


@given(st.sampled_from([10**n for n in range(1, 20)]), st.integers(0, 1))
@example(1_000_000, 0)
def test_positions_grow_past_each_power_of_ten(power, before):
    def grows(source):
        assert position(source(power - 1)) < position(source(power + before))

    grows(lambda n: {"connector": "postgresql", "lsn": n})
    grows(lambda n: {"connector": "oracle", "scn": str(n), "commit_scn": str(n)})
    grows(lambda n: {"connector": "mysql", "file": "bin.1", "pos": n})
    if power < 10**9:
        grows(lambda n: {"connector": "mysql", "file": f"mysql-bin.{n:06d}", "pos": 2**32 // n})


def test_a_snapshot_sorts_before_the_changes_that_follow_it():
    """And after the transactions that it contains."""
    oracle = {"connector": "oracle", "scn": "1000"}
    contained = {**oracle, "commit_scn": "999", "scn": "998"}
    # It was open while the snapshot was taken: its change is older, its commit is not.
    was_open = {**oracle, "commit_scn": "1001", "scn": "997"}
    assert position(contained) < position(oracle) < position(was_open)

    server = {"connector": "sqlserver", "commit_lsn": "00000027:00000758:0005", "change_lsn": None}
    change = {**server, "change_lsn": "00000027:00000758:0003", "event_serial_no": 1}
    assert position(server) < position(change)
    assert position({**server, "change_lsn": "NULL"}) == position(server)

    mysql = {"connector": "mysql", "file": "mysql-bin.000003", "pos": 154, "row": None}
    assert position(mysql) < position({**mysql, "row": 1}) < position({**mysql, "pos": 155})


def test_letters_of_an_lsn_sort_alike_in_both_cases():
    lower, upper = "0000002a:00000758:0003", "0000002A:00000758:0003"
    assert position({"connector": "sqlserver", "commit_lsn": lower}) == position(
        {"connector": "sqlserver", "commit_lsn": upper}
    )


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ({}, "no position: `source.connector` is missing"),
        ({"connector": "db2"}, "no position: unknown connector `db2`; known: postgresql, mysql, "),
        ({"connector": "postgresql"}, "no position: `source.lsn` is missing"),
        ({"connector": "oracle", "scn": "null"}, "no position: `source.scn` is missing"),
        (
            {"connector": "oracle", "scn": "1:2"},
            "no position: `source.commit_scn` or `source.scn` is `1:2`: expected a number",
        ),
        ({"connector": "mysql", "file": "", "pos": 0}, "no position: `source.file` is missing"),
        (
            {"connector": "mysql", "file": "mysql-bin", "pos": 4},
            "no position: `source.file` is `mysql-bin`: expected a binary log's name such as ",
        ),
        ({"connector": "postgresql", "lsn": -1}, "no position: `source.lsn` is `-1`: expected "),
        (
            {"connector": "oracle", "scn": "1\n"},
            "no position: `source.commit_scn` or `source.scn` is `1\n`: ",
        ),
        (
            {"connector": "sqlserver", "commit_lsn": "27:758:3"},
            "no position: `source.commit_lsn` is `27:758:3`: expected an LSN such as 00000027:",
        ),
    ],
)
def test_a_source_without_a_position_says_why(source, why):
    found, said = position_of(source)
    assert found is None
    assert said is not None
    assert said.startswith(why)


@given(
    st.sampled_from([*CONNECTORS, "db2", None]),
    st.dictionaries(
        st.sampled_from(
            [name for parts in CONNECTORS.values() for p in parts for name in p.fields]
        ),
        st.none() | st.integers() | st.text() | st.from_regex(r"[a-z.]*[0-9]+"),
    ),
)
def test_each_source_has_either_a_position_or_a_reason(connector, fields):
    found, why = position_of({"connector": connector, **fields})
    assert (found is None) != (why is None)
