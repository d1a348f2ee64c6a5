"""The start of a run: nothing that its streams share may change shape once the first is started."""

from __future__ import annotations

import pytest

from josefine_spark.environment import NAMES, shared_environment
from pipelines.sources import JosefineKind

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def test_the_shared_environment_is_settled_before_the_first_stream_starts(lab):
    """In a session that nobody settled, as one that was not made by josefine."""
    assert lab.spark is not None
    for name in NAMES:
        shared_environment(lab.spark).remove(name)
    seen: list[set[str]] = []

    class Watched(JosefineKind):
        def open(self, spark, source, at, topic_ids):
            stream = super().open(spark, source, at, topic_ids)
            seen.append(set(shared_environment(spark)))
            return stream

    lab.produce(20)
    lab.run(kind=Watched())

    assert len(seen) == 2
    assert seen[0] == seen[1] == set(shared_environment(lab.spark))
    lab.check()
