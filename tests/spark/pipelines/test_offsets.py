"""A sink's end put elsewhere: one commit without rows, the checkpoint aside, nobody overrun."""

from __future__ import annotations

import pytest

from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.base.errors import ChainError
from pipelines.config.validate import read_pipeline
from pipelines.exactly_once.offset_chain import Commit, Tip
from pipelines.inspect.offset_moves import Move, setting
from pipelines.inspect.offset_writer import put
from pipelines.inspect.sink_status import Sides, all_sides
from pipelines.sinks.commits import Link
from pipelines.sinks.delta_commits import DeltaChain
from pipelines.sinks.delta_tables import ensure_table
from tests.unit.pipelines.inspect.test_status import IDS, TOPICS, A, Lake

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

FACTS = {"columns": ["id"], "mode": "append", "keys": []}


def wrote(spark, path, sink: str, end: int) -> DeltaChain:
    """A table with one commit of this sink up to `end`."""
    frame = spark.createDataFrame([(1,), (2,)], "id INT")
    ensure_table(spark, str(path), None, frame.schema)
    link = Link(pipeline="orders", sink=sink, run="r", facts=FACTS)
    chain = DeltaChain(spark, str(path), link)
    chain.load()
    reached = TopicOffsets(ends={A: end}, topic_ids=IDS)
    chain.append(frame, Commit(start={A: 0}, end=reached, txn_version=1), 0)
    return chain


def seen(lake: Lake) -> Sides:
    (sides,) = all_sides(read_pipeline(lake.file, {}), lambda source: TOPICS)
    return sides


def put_at(spark, lake: Lake, sides: Sides, end: int) -> str | None:
    assert sides.tip is not None
    move = setting(sides.tip, {A: end}, IDS)
    assert isinstance(move, Move)
    return put(read_pipeline(lake.file, {}), sides, move, lambda: spark)


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_an_end_goes_where_it_is_put_with_what_the_next_run_has_to_know(spark, tmp_path):
    """The dead letters' chain goes on with it, and stays where the sink goes back."""
    lake = Lake(tmp_path)
    dead_path = tmp_path / "dead"
    text = lake.file.read_text().replace("on_error: fail", "on_error: dead_letter")
    lake.file.write_text(f"{text}dead_letter: {{ type: delta, path: {dead_path} }}\n")
    wrote(spark, tmp_path / "lake", "lake", 10)
    dead = wrote(spark, dead_path, "dead_letter.raw", 10)
    lake.checkpoint(10)
    first = seen(lake)

    aside = put_at(spark, lake, first, 15)

    assert aside == f"{tmp_path}/ck/orders.lake.set-aside-1"
    after = seen(lake)
    assert (after.stop, after.checkpoint) == (None, None)
    assert isinstance(after.tip, Tip)
    assert (dict(after.tip.reached.ends), after.tip.txn_version) == ({A: 15}, 2)
    assert {name: after.tip.said[name] for name in FACTS} == FACTS
    assert (after.tip.said["start"], after.tip.said["set_from"]) == ({"orders": {"0": 10}}, 1)
    assert dead.load().reached.ends == {A: 15}
    with pytest.raises(ChainError, match="another run of this sink has committed"):
        put_at(spark, lake, first, 12)

    put_at(spark, lake, after, 4)

    back = seen(lake).tip
    assert isinstance(back, Tip)
    assert (dict(back.reached.ends), back.txn_version) == ({A: 4}, 3)
    assert dead.load().reached.ends == {A: 15}
    rows = spark.read.format("delta").load(str(tmp_path / "lake"))
    assert sorted(row.id for row in rows.collect()) == [1, 2]
