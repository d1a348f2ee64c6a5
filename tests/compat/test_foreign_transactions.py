"""Transactions of clients in other languages: the behaviours of `test_transactions.py` for each.

What is counted is what read_committed sees; every wait is for a condition with a deadline.
"""

from __future__ import annotations

from contextlib import closing

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient
from josefine_broker.engine.groups.offsets import coordinator_partition
from josefine_broker.records.builder import Record, build_batch
from tests.compat.foreign import TELLERS, ForeignError, NewTeller
from tests.compat.test_transactions import TRANSACTIONS_TOPIC, make_topic, values_of
from tests.support.cluster import REPLICATED, Cluster
from tests.support.fixtures import cluster_fixture

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture(params=TELLERS)
def new_teller(request: pytest.FixtureRequest) -> NewTeller:
    return TELLERS[request.param]


cluster = cluster_fixture(**REPLICATED)


def test_committed_is_seen_and_aborted_is_not(bootstrap: str, new_teller: NewTeller) -> None:
    topic = make_topic(bootstrap)
    with closing(new_teller(bootstrap, topic, topic)) as teller:
        for name, end in (("a", teller.commit), ("b", teller.abort), ("c", teller.commit)):
            teller.begin()
            for each in range(4):
                teller.send(each % 2, f"{name}{each}")
            end()

    assert values_of(bootstrap, topic, 8) == [f"{name}{each}" for name in "ac" for each in range(4)]
    assert len(values_of(bootstrap, topic, 12, "read_uncommitted")) == 12


def test_successor_aborts_and_fences_the_producer_before_it(
    bootstrap: str, new_teller: NewTeller
) -> None:
    topic = make_topic(bootstrap)
    with closing(new_teller(bootstrap, topic, topic)) as old:
        old.begin()
        old.send(0, "lost")
        with closing(new_teller(bootstrap, topic, topic)) as new:
            new.begin()
            new.send(0, "kept0")
            new.send(1, "kept1")
            new.commit()
        with pytest.raises(ForeignError):
            old.commit()

    assert values_of(bootstrap, topic, 2) == ["kept0", "kept1"]


def test_transaction_that_outlasts_its_timeout_is_aborted(
    bootstrap: str, new_teller: NewTeller
) -> None:
    topic = make_topic(bootstrap)
    with closing(new_teller(bootstrap, topic, topic, 1_000)) as late:
        late.begin()
        late.send(0, "late")
        with closing(new_teller(bootstrap, f"{topic}-other", topic)) as other:
            other.begin()
            other.send(0, "kept0")
            other.send(1, "kept1")
            other.commit()

        assert values_of(bootstrap, topic, 2) == ["kept0", "kept1"], "nobody waits for ever"
        with pytest.raises(ForeignError):
            late.commit()


def test_offsets_are_committed_with_what_is_made_of_the_records(
    bootstrap: str, new_teller: NewTeller
) -> None:
    """Consume, transform, produce: exactly once, though the first attempt is given up."""
    source, target = make_topic(bootstrap), make_topic(bootstrap)
    with BlockingClient(bootstrap) as client:
        for partition in range(2):
            records = [Record(value=f"r{partition}{each}".encode()) for each in range(5)]
            client.produce({TopicPartition(source, partition): build_batch(records)})
        with closing(new_teller(bootstrap, target, target)) as teller:
            teller.transform(target, source, 10, "abort")
            teller.transform(target, source, 10, "commit")
        both = [TopicPartition(source, each) for each in range(2)]
        committed = client.committed_offsets(target, both)

    assert committed == dict.fromkeys(both, 5)
    wanted = sorted(f"R{partition}{each}" for partition in range(2) for each in range(5))
    assert values_of(bootstrap, target, 10) == wanted


def test_transactions_outlive_their_coordinator(cluster: Cluster, new_teller: NewTeller) -> None:
    """It is killed while one is open."""
    if new_teller is TELLERS["franz-go"]:
        pytest.skip("franz-go ends no transaction once its coordinator's port has refused it")
    topic = make_topic(cluster.bootstrap, replicas=3)
    with closing(new_teller(cluster.bootstrap, topic, topic)) as teller:
        teller.begin()
        for each in range(4):
            teller.send(each % 2, f"v{each}")
        killed = cluster.leader_of(TRANSACTIONS_TOPIC, coordinator_partition(topic, 8))
        cluster.kill(killed)
        try:
            teller.commit()
            left = ",".join(cluster.broker(id_).bootstrap for id_ in cluster.alive)
            assert values_of(left, topic, 4) == [f"v{each}" for each in range(4)]
        finally:
            cluster.restart(killed)
            cluster.wait_settled()
