"""Warnings of a file: what has no effect, and nothing that could not be read."""

from __future__ import annotations

from pipelines.config.gaps import Gaps
from pipelines.lint.warnings import notices
from tests.unit.pipelines.config.sections import read
from tests.unit.pipelines.config.test_validate import GOOD

UNUSED = GOOD.replace(
    "transforms:\n",
    "  other: { type: josefine, bootstrap: 'b:1', topics: [x] }\n"
    "  names: { type: delta, path: /n, schema: id INT }\ntransforms:\n"
    "  alone: { inputs: [other], sql: select 1 from other }\n",
)


def told(text: str, gaps: Gaps = Gaps()) -> list[str]:
    found = list(notices(read(text)[0], gaps))
    assert not any(each.stops_run for each in found)
    return [f"{each.path}: {each.message}" for each in found]


def test_a_file_whose_nodes_reach_a_sink_has_none():
    assert told(GOOD) == []


def test_a_node_outside_of_every_sinks_lineage_is_named_also_a_lookup():
    why = "no sink uses it, directly or through a transform"

    assert told(UNUSED) == [f"sources.other: {why}", f"sources.names: {why}",
                            f"transforms.alone: {why}"]  # fmt: skip


def test_a_check_of_such_a_node_looks_at_nothing():
    check = "checks: { c: { on: alone, expr: id > 0, action: warn } }\n"

    assert told(UNUSED + check)[0] == "checks.c.on: no sink uses `alone`, so nothing is looked at"


def test_a_setting_that_nobody_knows_is_named():
    (found,) = told(GOOD.replace("/ck }", "/ck, conf: { spark.sql.shufle.partitions: 5 } }"))

    assert found.startswith("spark.conf.spark.sql.shufle.partitions: ")


def test_where_a_node_could_not_be_read_others_may_have_their_use_in_it():
    assert told(UNUSED, Gaps(frozenset({"transforms.clean"}))) == []
