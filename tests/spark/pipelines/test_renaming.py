"""A sink or a pipeline under a new name, over the tables that it had: no row twice."""

from __future__ import annotations

import pytest

from pipelines.errors import ChainError
from pipelines.wishes import Wishes

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


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
