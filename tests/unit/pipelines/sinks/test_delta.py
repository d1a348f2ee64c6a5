"""The Delta target without Spark: where its rows are, what it needs and what it refuses."""

from __future__ import annotations

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.base.errors import ConfigError
from pipelines.base.finding import SKIPPED
from pipelines.exactly_once.offset_chain import Tip
from pipelines.exactly_once.other_chains import ChainName
from pipelines.model.pipeline import Mode, Sink
from pipelines.sinks.delta import DeltaTarget, _needs_proof
from pipelines.sinks.target import TableAt
from tests.unit.pipelines.config.bad_sinks import MERGE, SINK, UPSERT
from tests.unit.pipelines.config.sections import read
from tests.unit.pipelines.config.test_validate import GOOD
from tests.unit.pipelines.inspect.test_status import Lake
from tests.unit.pipelines.tiny_spark import Frame

NAMED = SINK.replace("path: /lake", "table: shop.orders")
SCD2 = SINK.replace("append", "scd2, keys: [id], order_by: [at, _offset]")
DEDUPLICATED = SINK.replace("append", "append, deduplicate: { keys: [id] }")


def sink_of(sink: str = SINK) -> Sink:
    pipeline, _, problems = read(GOOD.replace(SINK, sink))
    assert problems == []
    return pipeline.sinks["lake"]


def refused(sink: str, *columns: str) -> str:
    pipeline, _, _ = read(GOOD.replace(SINK, sink))
    with pytest.raises(ConfigError) as caught:
        DeltaTarget(pipeline.sinks["lake"]).rows(pipeline, Frame([], columns))
    return str(caught.value)


@pytest.mark.parametrize(
    ("sink", "keys"),
    [(SINK, ()), (MERGE, ("id",)), (UPSERT, ("id",)), (SCD2, ("id", "at", "_offset"))],
)
def test_a_row_is_identified_by_its_keys_and_in_a_history_by_its_order_too(sink, keys):
    assert DeltaTarget(sink_of(sink)).keys() == keys


@pytest.mark.parametrize(
    ("sink", "needs"),
    [
        (SINK, False),
        (DEDUPLICATED, True),
        (MERGE, True),
        (SINK.replace("append", "append, constraints: { c: id > 0 }"), True),
        (SINK.replace("append", "append, cluster_by: id"), True),
    ],
)
def test_a_new_table_is_proved_unless_its_creation_proves_it(sink, needs):
    assert _needs_proof(sink_of(sink)) is needs


def test_the_rows_of_an_append_are_written_as_they_are():
    pipeline, _, _ = read(GOOD)
    rows = Frame([{"id": 1}])

    assert DeltaTarget(pipeline.sinks["lake"]).rows(pipeline, rows) is rows


def test_two_columns_of_one_name_are_refused_at_the_select():
    assert refused(SINK, "id", "ID") == (
        "f.yaml:12:32: transforms.clean.sql: column id is there twice"
    )


@pytest.mark.parametrize(
    ("sink", "columns", "missing"),
    [(MERGE, ["top"], "id"), (UPSERT, ["id"], "_offset, at"), (SCD2, ["at"], "_offset, id")],
)
def test_columns_that_a_merge_needs_are_named_with_those_that_are_there(sink, columns, missing):
    assert refused(sink, *columns).endswith(
        f"no column {missing} in `clean`; it has: {', '.join(columns)}"
    )


def test_losses_are_next_to_the_table_by_its_path_or_by_its_name():
    pipeline, _, _ = read(GOOD)

    assert DeltaTarget(sink_of()).loss_table(pipeline) == TableAt(path="/lake_lost")
    assert DeltaTarget(sink_of(NAMED)).loss_table(pipeline) == TableAt(table="shop.orders_lost")


def test_a_table_by_its_name_has_no_folder_to_check_and_that_is_said():
    assert list(DeltaTarget(sink_of()).folders()) == [("sinks.lake.path", "/lake")]
    assert DeltaTarget(sink_of()).findings(None) == []
    assert list(DeltaTarget(sink_of(NAMED)).folders()) == []
    (found,) = DeltaTarget(sink_of(NAMED)).findings(None)
    assert (found.level, found.what.partition(": ")[0]) == (SKIPPED, "sinks.lake.table")


def test_a_table_of_this_machine_is_described_from_its_log(tmp_path):
    lake = Lake(tmp_path)
    lake.commit(7)
    name = ChainName(pipeline="orders", sink="lake")

    seen = DeltaTarget(sink_of(SINK.replace("/lake", f"{tmp_path}/lake"))).describe(name)

    assert seen is not None
    assert isinstance(seen.tip, Tip)
    assert seen.tip.reached == TopicOffsets(
        ends={TopicPartition("orders", 0): 7}, topic_ids={"orders": "id"}
    )
    assert seen.queries() == {"q"}
    assert DeltaTarget(sink_of(NAMED)).describe(name) is None


def test_no_mode_is_without_a_way_to_its_rows():
    found = {sink_of(each).mode for each in (SINK, MERGE, UPSERT, SCD2)}

    assert found == {*Mode} - {Mode.UPDATE}, "a table has no changes: the file is refused"
