"""The exactly-once sink's protocol with three brokers, of which one dies under it; without Spark,
whose lives at every arrow are in tests/spark/kills. Checklist row 88."""

from __future__ import annotations

from pathlib import Path

from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from josefine_broker.engine.groups.offsets import coordinator_partition
from josefine_spark.write.state import attempt_id
from tests.integration.test_sink_exactly_once import (
    ROWS,
    TASKS,
    Driver,
    _closed,  # noqa: F401
    batch,
    committed,
    left_open,
    numbers,
)
from tests.support.cluster import REPLICATED, Cluster


class Patient(Driver):
    """On a busy machine a broker's death takes a good part of a minute."""

    timeout_ms = 600_000


def test_a_coordinator_killed_before_the_decision_loses_and_holds_up_nothing(
    tmp_path: Path,
) -> None:
    """What was open under it is another's then, and nobody waits for it to come back."""
    with (
        Cluster(tmp_path, **REPLICATED) as cluster,
        BlockingClient(cluster.bootstrap) as client,
    ):
        client.create_topics([NewTopic("rows", 2)])
        driver = Patient(cluster, "sink", "rows")
        driver.run(batch(0))
        planned = driver.plan(batch(1))
        names = [attempt_id("sink", planned.generation, n, n) for n in range(TASKS)]
        written = {name: driver.attempt(name, numbers(batch(1), n)) for n, name in enumerate(names)}
        count = client.partition_count("__transaction_state")
        kept_by = cluster.leader_of("__transaction_state", coordinator_partition(names[0], count))

        cluster.kill(kept_by)
        driver.decide(planned, batch(1), written)
        Patient(cluster, "sink", "rows").run(batch(2))

        assert committed(client, "rows") == list(range(3 * TASKS * ROWS))
        assert left_open(client, "rows") == []
