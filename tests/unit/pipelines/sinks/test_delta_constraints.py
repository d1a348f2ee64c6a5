"""Constraints in a Delta table, and what a person reads when rows are against one."""

from __future__ import annotations

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.base.errors import ConfigError, RunError
from pipelines.exactly_once.offset_chain import Commit
from pipelines.sinks.delta_constraints import constrain, constraints_due, why_broken
from tests.unit.pipelines.config.sections import read
from tests.unit.pipelines.model.test_constraints import constraints, text

errors = pytest.importorskip("pyspark.errors")
P = TopicPartition("t", 0)


def sink_of(said="{ positive: amount > 0, small: amount < 9 }"):
    return read(text(said))[0].sinks["lake"]


class Session:
    """A session whose statements are kept; the one with `bad` fails."""

    def __init__(self, bad="", error=""):
        self.statements, self.bad, self.error = [], bad, error

    def sql(self, statement):
        if self.bad and self.bad in statement:
            raise errors.AnalysisException(self.error)
        self.statements.append(statement)


def test_each_constraint_is_a_statement_of_its_own():
    session = Session()

    constrain(session, sink_of(), "/lake", (("positive", "amount > 0"), ("small", "amount < 9")))

    assert session.statements == [
        "ALTER TABLE delta.`/lake` ADD CONSTRAINT `positive` CHECK (amount > 0)",
        "ALTER TABLE delta.`/lake` ADD CONSTRAINT `small` CHECK (amount < 9)",
    ]


@pytest.mark.parametrize(("rows", "many"), [(1, "1 row of it is"), (2, "2 rows of it are")])
def test_rows_that_are_against_a_new_constraint_are_counted(rows, many):
    why = f"{rows} rows in spark_catalog.default.t violate the new CHECK constraint (amount > 0)"
    session = Session("positive", f"[DELTA_NEW_CHECK_CONSTRAINT_VIOLATION] {why}")

    with pytest.raises(RunError, match=f"cannot get constraint `positive` .*: {many} against it"):
        constrain(session, sink_of(), "/lake", (("small", "a"), ("positive", "amount > 0")))

    assert len(session.statements) == 1


def test_a_condition_that_delta_rejects_is_an_error_at_its_place():
    session = Session("positive", "[UNRESOLVED_COLUMN] A column `amount` cannot be resolved.")
    place = constraints("{ positive: amount > 0 }")["positive"].place

    with pytest.raises(ConfigError) as caught:
        constrain(session, sink_of(), "/lake", (("positive", "amount > 0"),))

    assert str(caught.value).startswith(f"{place}: sinks.lake.constraints.positive: ")


def test_a_sink_without_constraints_does_not_read_the_table():
    assert constraints_due(None, sink_of("{}"), "/lake") == ()


def test_a_write_that_a_row_broke_names_the_constraint_and_the_batchs_offsets():
    commit = Commit(start={P: 3}, end=TopicOffsets(ends={P: 9}), txn_version=2)
    error = RuntimeError("[DELTA_NOT_NULL_CONSTRAINT_VIOLATED] NOT NULL constraint violated for "
                         "column: id.\n")  # fmt: skip

    why = why_broken(sink_of(), "/lake", commit, 5, error)

    assert why is not None
    assert str(why).splitlines()[:3] == [
        "sink `lake` stopped, nothing of its batch 5 was written: a row breaks NOT NULL of column "
        "`id`",
        "  table /lake",
        '  batch 5 reads from {"t": {"0": 3}} to {"t": {"0": 9}}',
    ]
    assert why_broken(sink_of(), "/lake", commit, 5, RuntimeError("an executor was lost")) is None
