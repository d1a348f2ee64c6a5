"""The start of a run: which topics it reads, and what its streams share."""

from __future__ import annotations

import pytest

from josefine_broker.client.io_blocking import NewTopic
from josefine_spark.options.environment import NAMES, shared_environment
from pipelines.sources.josefine import JosefineKind
from tests.spark.pipelines.conftest import ONE_SINK

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def test_the_shared_environment_is_settled_before_the_first_stream_starts(lab):
    """In a session that nobody settled, as one that was not made by josefine."""
    assert lab.spark is not None
    for name in NAMES:
        shared_environment(lab.spark).remove(name)
    seen: list[set[str]] = []

    class Watched(JosefineKind):
        def open(self, spark, source, at):
            stream = super().open(spark, source, at)
            seen.append(set(shared_environment(spark)))
            return stream

    lab.produce(20)
    lab.run(kind=Watched())

    assert len(seen) == 2
    assert seen[0] == seen[1] == set(shared_environment(lab.spark))
    lab.check()


@pytest.mark.long_proof(share=12, among="runs of pipelines")
@ONE_SINK
def test_a_pattern_reads_every_topic_whose_whole_name_it_matches(lab):
    """A topic that only contains a match is not read."""
    other, longer = f"{lab.topic}-more", f"x{lab.topic}"
    lab.client.create_topics([NewTopic(other, 1), NewTopic(longer, 1)])
    lab.write_file(topics=f'pattern: "{lab.topic}(-more)?"')
    lab.produce(10)
    lab.produce(5, partitions=1, topic=other)
    lab.produce(3, partitions=1, topic=longer)

    lab.run()

    rows = lab.arrow("rows")
    assert sorted(rows["id"].to_pylist()) == list(range(15))
    assert set(rows["_topic"].to_pylist()) == {lab.topic, other}
    assert lab.chain_ends("rows", "rows") == lab.topic_ends() | lab.topic_ends(other)
