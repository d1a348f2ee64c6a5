"""Where a josefine source begins and ends by the words of its file, with a real broker."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from pipelines.base.errors import ChainError, RunError
from pipelines.exactly_once.checkpoint_start import Trust
from tests.spark.pipelines.conftest import APPS, NOW_MS, ONE_SINK, Lab
from tests.support.broker import BrokerProcess

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def offsets(lab: Lab) -> list[tuple[int, int]]:
    rows = lab.arrow("rows")
    return sorted(zip(rows["_partition"].to_pylist(), rows["_offset"].to_pylist(), strict=True))


@pytest.mark.long_proof(share=12, among="runs of pipelines")
@ONE_SINK
def test_a_group_is_where_a_new_table_begins_and_no_start_moves_one_that_has_a_commit(
    lab: Lab,
) -> None:
    lab.produce(20)
    first, second = (TopicPartition(lab.topic, n) for n in range(2))
    lab.client.commit_offsets("g1", {first: 4})
    lab.write_file(**{"start: earliest": "start: { group: g1 }"})
    with pytest.raises(RunError, match=f"group g1 has committed no offset for {second}"):
        lab.run()

    lab.client.commit_offsets("g1", {second: 7})
    lab.run()

    expected = [(0, n) for n in range(4, 10)] + [(1, n) for n in range(7, 10)]
    assert offsets(lab) == expected
    lab.lose_checkpoint()
    lab.produce(2)
    lab.write_file(**{"start: earliest": "start: table"})
    lab.run()
    assert offsets(lab) == sorted([*expected, (0, 10), (1, 10)])
    shutil.rmtree(lab.table("rows"))
    lab.lose_checkpoint()
    with pytest.raises(RunError, match="a table that is new, or gone, is not filled"):
        lab.run()


@ONE_SINK
def test_a_run_ends_where_the_file_says_and_the_next_one_goes_on_there(lab: Lab) -> None:
    lab.produce(40)
    at = datetime.fromtimestamp((NOW_MS + 30) / 1000, UTC).isoformat()

    def run(stop: str, kind: str = "kafka") -> int:
        words = {"start: earliest": f"start: earliest\n    stop: {stop}"}
        lab.write_file(**words, **{"type: josefine": f"type: {kind}"})
        return lab.run(rows=12).sinks["rows"].records

    assert run(f"{{ timestamp: '{at}' }}") == 30
    assert offsets(lab) == [(p, n) for p in range(2) for n in range(15)]
    assert run(f"{{ offsets: {{ {lab.topic}: {{ 0: 3, 1: 15 }} }} }}") == 0
    lab.lose_checkpoint()
    assert run("latest", "josefine") == 10
    lab.check()


@pytest.mark.slow
@ONE_SINK
def test_partitions_that_are_left_out_keep_their_place_in_the_table(lab: Lab) -> None:
    lab.produce(20)
    lab.run()
    lab.write_file(topics=f"assign: {{ {lab.topic}: [0] }}")
    for _ in range(2):  # the first one goes on without the old checkpoint, the second with its own
        lab.produce(4)
        lab.run()

    assert [n for p, n in offsets(lab) if p == 0] == list(range(14))
    assert [n for p, n in offsets(lab) if p == 1] == list(range(10))
    assert lab.checkpoint("rows.set-aside-1").exists()
    lab.write_file()
    with pytest.raises(ChainError, match="the table has more than the checkpoint planned"):
        lab.run()
    lab.run(trust=Trust.TABLE)
    lab.check()


@pytest.mark.slow
def test_a_broker_at_an_address_of_ipv6_is_read_and_written(spark, tmp_path):
    """By its workers, too: bootstrap and what the broker advertises have their brackets."""
    six = BrokerProcess(tmp_path / "broker", broker__listeners=["PLAINTEXT://[::1]:0"])
    with six as broker, BlockingClient(broker.bootstrap) as client:
        client.create_topics([NewTopic("six", 2)])
        lab = Lab(tmp_path, client, broker.bootstrap, "six", spark, apps=APPS[:1])
        lab.write_file(**{"${BOOTSTRAP}": '"${BOOTSTRAP}"'})
        lab.produce(20)
        lab.run()

        lab.check()
