"""Names: a pipeline's new one over the tables that it had, two pipelines' in one folder."""

from __future__ import annotations

import dataclasses

import pytest

from pipelines.base.errors import ChainError
from pipelines.config.validate import read_pipeline
from pipelines.exactly_once.checkpoint_start import Trust
from pipelines.run.options import Wishes
from pipelines.run.run import run_pipeline
from tests.spark.pipelines.conftest import ONE_SINK, Quiet

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_a_renamed_pipeline_and_sink_go_on_where_the_old_names_ended(lab):
    """Without a word from the user nothing is read; the old names are refused from then on."""
    lab.produce(30)
    lab.produce_raw(0, b"not json")
    lab.bad.append((0, 15))
    lab.run()
    old = lab.file.read_text()
    lab.write_file(**{"${PIPELINE:-lab}": "${PIPELINE:-lab2}", "  rows: { type": "  lines: { type"})
    lab.produce(10)

    with pytest.raises(ChainError) as stopped:
        lab.run()
    assert "--rename lab=lab2 --rename rows=lines" in str(stopped.value)
    assert lab.arrow("rows").num_rows == 30
    lab.run(wishes=Wishes(renames={"lab": "lab2", "rows": "lines"}))
    lab.produce(10)
    lab.run()

    assert sorted(lab.arrow("rows")["id"].to_pylist()) == list(range(50))
    assert sum(lab.arrow("sums")["records"].to_pylist()) == 50
    assert lab.arrow("dead").num_rows == 1
    lab.file.write_text(old)
    with pytest.raises(ChainError, match="--rename lab2=lab --rename lines=rows"):
        lab.run()


@pytest.mark.long_proof(share=12, among="runs of pipelines")
@ONE_SINK
def test_a_checkpoint_in_the_old_place_is_used_by_its_pipeline_and_left_alone_by_another(lab):
    """`<checkpoint>/<sink>` of before; two pipelines with a sink of the same name share it."""
    lab.produce(20)
    lab.run()
    old = lab.directory / "checkpoints" / "rows"
    lab.checkpoint("rows").rename(old)
    lab.produce(10)

    lab.run()
    assert (old / "offsets" / "1").exists()
    assert not lab.checkpoint("rows").exists()
    first = read_pipeline(lab.file, lab.environment(100, PIPELINE="second"))
    sink = dataclasses.replace(first.sinks["rows"], path=lab.table("second"))
    second = dataclasses.replace(first, sinks={"rows": sink}, dead_letter_path=lab.table("dead2"))
    with pytest.raises(ChainError, match=f"mv {old} {lab.directory}/checkpoints/second.rows"):
        run_pipeline(lab.spark, second, Quiet())
    run_pipeline(lab.spark, second, Quiet(), wishes=Wishes(trust=Trust.TABLE))

    assert lab.arrow("second").num_rows == 30
    lab.produce(10)
    lab.run()
    assert (old / "offsets" / "2").exists()
    lab.check()
