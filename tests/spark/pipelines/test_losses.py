"""Retention passes the table's end while the pipeline is down: a verdict, then exact records."""

from __future__ import annotations

import pytest

from josefine_broker.base.ids import TopicPartition
from pipelines.base.errors import ChainError

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_lost_records_stop_the_run_and_are_recorded_once_when_it_may_pass_over_them(lab):
    lab.produce(20)
    lab.run()
    lab.produce(40)
    lab.client.delete_records({TopicPartition(lab.topic, 1): 25})

    with pytest.raises(ChainError) as stopped:
        lab.run()
    assert f"{lab.topic}-1 offsets [10, 25)" in str(stopped.value)
    assert "--on-data-loss skip_and_record" in str(stopped.value)
    lab.write_file(**{"start: earliest": "start: earliest\n    on_data_loss: skip_and_record"})
    lab.run()
    lab.run()

    gone = {20 + 2 * n + 1 for n in range(15)}
    assert sorted(lab.arrow("rows")["id"].to_pylist()) == sorted(set(range(60)) - gone)
    assert sum(lab.arrow("sums")["records"].to_pylist()) == 45
    for sink in ("rows", "sums"):
        (row,) = lab.arrow(f"{sink}_lost").to_pylist()
        assert (row["topic"], row["partition"]) == (lab.topic, 1)
        assert (row["start_offset"], row["end_offset"], row["sink"]) == (10, 25, sink)
    for name, app in (("rows", "rows"), ("sums", "sums"), ("dead", "dead_letter.events")):
        assert lab.chain_ends(name, app) == lab.topic_ends()
