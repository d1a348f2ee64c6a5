"""The declarative pipeline that `export --sdp` writes has the rows that a run makes."""

from __future__ import annotations

import pytest
from pyspark.pipelines.output import TemporaryView

from pipelines.config.validate import read_pipeline
from pipelines.inspect.sdp import export
from tests.unit.pipelines.inspect.test_sdp import graph_of

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]

BAD = (b"not json", b'{"id": "one"}', b'{"id": 7} rest', b"[1]", None)


def run_graph(spark, made):
    """As Spark's own runner, which needs gRPC: views by their names, each sink a query."""
    registry, _ = graph_of(made, {"spark": spark})
    flows = {flow.target: flow for flow in registry.flows}
    for output in registry.outputs:
        frame = flows[output.name].func()
        if isinstance(output, TemporaryView):
            frame.createOrReplaceTempView(output.name)
            continue
        path = f"{output.options['path']}_sdp"
        query = frame.writeStream.format(output.format).trigger(availableNow=True)
        query.option("checkpointLocation", f"{path}_checkpoint").start(path).awaitTermination()


@pytest.mark.parametrize("on_error", ["dead_letter", "null"])
def test_the_exported_pipeline_makes_the_rows_of_a_run(lab, on_error):
    checks = "checks:\n  odd: { on: rows, expr: id % 2 = 1 or id is null, action: drop }\nsinks:"
    sql = {"where value.id >= 0": "where value.id >= 0 or value is null"}
    lab.write_file(on_error=on_error, **{"sinks:": checks}, **sql)
    lab.produce(20)
    lab.produce_raw(1, *BAD)
    lab.run()

    pipeline = read_pipeline(lab.file, lab.environment(1000))
    made = export(pipeline)
    run_graph(lab.spark.newSession(), made)

    assert made.sinks == ("rows",)

    def rows(name):
        return sorted(map(str, lab.arrow(name).to_pylist()))

    assert rows("rows_sdp") == rows("rows")
    assert len(rows("rows")) == 10 + (len(BAD) if on_error == "null" else 0)
