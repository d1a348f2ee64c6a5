"""Conditions that the table itself holds its rows to: added, met, broken; and those of others."""

from __future__ import annotations

import pytest

from pipelines.base.errors import RunError
from tests.spark.pipelines.conftest import ONE_SINK, ROWS, SUMS

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

SMALL = "mode: append, constraints: { small: id < 25 }"
FEW = "keys: [k]\n    constraints: { few: records <= 5 }"


@pytest.mark.long_proof(share=12, among="runs of pipelines")
@ONE_SINK
def test_a_batch_that_breaks_a_constraint_stops_with_its_name_and_loses_nothing(lab):
    lab.write_file(**{"mode: append": SMALL})
    lab.produce(20)
    lab.run()
    lab.produce(10)

    with pytest.raises(RunError) as stopped:
        lab.run()

    told = str(stopped.value).splitlines()
    assert told[:2] == [
        "sink `rows` stopped, nothing of its batch 1 was written: a row breaks constraint `small` "
        "(id < 25)",
        f"  table {lab.table('rows')}",
    ]
    ends = [f'{{"{lab.topic}": {{"0": {n}, "1": {n}}}}}' for n in (10, 15)]
    assert told[2] == f"  batch 1 reads from {ends[0]} to {ends[1]}"
    assert len(told) == 4
    assert lab.arrow("rows").num_rows == 20

    lab.write_file(**{"mode: append": SMALL.replace("25", "99")})
    with pytest.raises(RunError, match=r"has a constraint `small` already, .*: id < 25, the file"):
        lab.run()
    lab.spark.sql(f"ALTER TABLE delta.`{lab.table('rows')}` DROP CONSTRAINT small")
    lab.run()
    lab.check()
    assert lab.settings("rows")["delta.constraints.small"] == "id < 99"


@ONE_SINK
@pytest.mark.slow
def test_a_constraint_and_a_not_null_of_somebody_else_are_named(lab):
    """Without the checkpoint, too."""
    path = lab.table("rows")
    columns = "id INT, k STRING, v INT NOT NULL, _topic STRING, _partition INT, _offset BIGINT"
    lab.spark.sql(f"CREATE TABLE delta.`{path}` ({columns}) USING delta")
    lab.produce(4)
    with pytest.raises(RunError, match="a row breaks NOT NULL of column `v`"):
        lab.run()
    lab.spark.sql(f"ALTER TABLE delta.`{path}` ALTER COLUMN v DROP NOT NULL")
    lab.spark.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT theirs CHECK (v is null or v <> 2)")
    lab.lose_checkpoint()
    with pytest.raises(RunError, match=r"a row breaks constraint `theirs` \(\(v IS NULL\) OR"):
        lab.run()
    lab.spark.sql(f"ALTER TABLE delta.`{path}` DROP CONSTRAINT theirs")
    lab.run()
    lab.check()


@pytest.mark.slow
def test_a_merge_that_breaks_a_constraint_stops_alone_and_rows_that_are_there_refuse_one(lab):
    lab.write_file(sinks=ROWS + SUMS.replace("keys: [k]", FEW))
    lab.produce(35)
    lab.run()
    lab.produce(7)

    with pytest.raises(RunError, match=r"^sink `sums` stopped, .*constraint `few` \(records <= 5"):
        lab.run()

    assert sum(lab.arrow("sums")["records"].to_pylist()) == 35
    lab.write_file(
        sinks=ROWS + SUMS.replace("keys: [k]", FEW.replace("few: records <= 5", "none: k is null"))
    )
    with pytest.raises(RunError) as stopped:
        lab.run()
    assert str(stopped.value) == (
        f"sink `sums`: {lab.table('sums')} cannot get constraint `none` (k is null): 7 rows of it "
        "are against it. Fix or delete those rows, or write to a new table"
    )
    lab.spark.sql(f"ALTER TABLE delta.`{lab.table('sums')}` DROP CONSTRAINT few")
    lab.write_file()
    lab.run()
    lab.check()
