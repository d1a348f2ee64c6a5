"""The plan of a sink, for scripts."""

from __future__ import annotations

import json

from pipelines.inspect.plan import PlannedSink


def test_scripts_get_each_check_and_each_column_by_its_name():
    planned = PlannedSink(
        name="lake", source="raw, more", transforms=("clean",), table="/lake", mode="merge",
        keys=("id",), checkpoint="/ck/orders.lake", dead_letters=None,
        columns=(("id", "int"), ("n", "bigint")), checks=(("c", "clean", "id > 0", "warn"),),
    )  # fmt: skip

    assert json.loads(json.dumps(planned.to_json())) == {
        "name": "lake", "source": "raw, more", "transforms": ["clean"], "table": "/lake",
        "mode": "merge", "keys": ["id"], "checkpoint": "/ck/orders.lake", "dead_letters": None,
        "columns": [{"name": "id", "type": "int"}, {"name": "n", "type": "bigint"}],
        "checks": [{"name": "c", "on": "clean", "expr": "id > 0", "action": "warn"}],
    }  # fmt: skip
