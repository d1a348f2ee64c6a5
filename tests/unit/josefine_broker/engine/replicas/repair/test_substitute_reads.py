"""A consumer that meets damage does not wait for the repair of a whole segment."""

from __future__ import annotations

from typing import Any

import pytest

from josefine_broker.engine.coordinators.share_batches import Room
from josefine_broker.engine.coordinators.share_partitions_host import LedShare, acquire
from josefine_broker.engine.groups.share.config import ShareConfig
from josefine_broker.engine.groups.share.partition import SharePartition
from josefine_broker.engine.groups.share.values import Limits, ShareKey, ShareState
from josefine_broker.engine.metadata_quorum.apply_committed import resume
from josefine_broker.engine.partition.repair.substitutes import AGAIN_MS
from josefine_broker.engine.purgatory.purgatory import Parked
from josefine_broker.engine.replicas.repair.repairs import Repairs
from josefine_broker.engine.replicas.repair.substitute_reads import ask_for_substitutes
from josefine_broker.records.reader import read_records
from tests.unit.josefine_broker.api.world import values_in
from tests.unit.josefine_broker.engine.replicas.repair.test_repairs import TP, VALUES, Damaged


class Slow(Damaged):
    """The leader's copies end only when they are let."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs: list[Any] = []
        damaged = self.hosting[1].damaged
        self.repairs[1] = Repairs(self.ctx[1], damaged, self._keep, resume)

    def _keep(self, job: Any, is_wanted: Any, done: Any) -> None:
        self.jobs.append((job, done))

    def let(self) -> None:
        while self.jobs:
            job, done = self.jobs.pop(0)
            done(job(lambda: None))

    def read(self, offset: int) -> list[bytes | None]:
        return values_in(self.fetch(1, offset))


@pytest.mark.parametrize("spoilt", [(), (2,), (2, 3)], ids=["", "one lacks it", "nobody has it"])
def test_consumer_gets_the_batch_of_another_replica_meanwhile(spoilt: tuple[int, ...]) -> None:
    cluster = Slow()
    for broker_id in (1, *spoilt):
        cluster.spoil(broker_id, 2)
    assert cluster.read(2) == []

    cluster.repair(1)

    has_it = spoilt != (2, 3)
    assert cluster.read(2)[:1] == ([b"c"] if has_it else [])
    assert cluster.read(3) == VALUES[3:]
    assert cluster.damaged(1)
    if has_it:
        cluster.let()
        assert not cluster.damaged(1)
        assert cluster.hosted(1).substitutes is None
        assert cluster.read(0) == VALUES


def test_consumer_that_waits_is_answered_when_the_batch_is_here() -> None:
    cluster = Slow()
    cluster.spoil(1, 2)
    waiting = cluster.fetch(1, 2, max_wait_ms=60_000, min_bytes=1)
    assert isinstance(waiting, Parked)

    cluster.repair(1)

    assert waiting.done
    assert waiting.response is not None


def test_member_of_a_share_group_gets_the_batch_of_another_replica_meanwhile() -> None:
    cluster = Slow()
    cluster.spoil(1, 2)
    hosted, ctx = cluster.hosted(1), cluster.ctx[1]
    led = LedShare(ShareKey("readers", hosted.topic_id, 0), TP, hosted)
    led.partition = SharePartition(ShareState(start_offset=1), Limits())
    room = Room(1, 1, is_strict=True, at_least_one=True)

    def member() -> tuple[list[tuple[int, int]], list[bytes | None]]:
        acquired, records = acquire(ctx, led, "a", room, ShareConfig())
        values = [each.value for batch in records for each in read_records(memoryview(batch))]
        return [(each.first, each.last) for each in acquired], values

    assert member() == ([(1, 1)], [b"b"])
    assert member() == ([], []), "nothing is here yet"

    cluster.repair(1)

    assert cluster.damaged(1)
    assert member() == ([(2, 2)], [b"c"])
    assert member() == ([(3, 3)], [b"d"])


def test_replica_that_was_silent_is_asked_again() -> None:
    cluster = Slow()
    cluster.spoil(1, 2)
    cluster.silent = {2, 3}
    cluster.read(2)
    cluster.repair(1)
    cluster.silent = set()

    cluster.read(2)
    cluster.repair(1)
    assert cluster.read(2) == []
    cluster.repair(1, after_ms=AGAIN_MS)

    assert cluster.read(2)[:1] == [b"c"]


def test_later_leader_epoch_forgets_what_was_sent() -> None:
    """An unclean election may have changed it."""
    cluster = Slow()
    cluster.spoil(1, 2)
    cluster.read(2)
    cluster.repair(1)
    assert cluster.read(2)

    cluster.lead(2)
    cluster.lead(1)

    assert cluster.read(2) == []


def test_other_replicas_get_none_of_it() -> None:
    """A repair of theirs asks for what this disk has; a follower waits."""
    cluster = Slow()
    cluster.spoil(1, 2)
    cluster.read(2)
    cluster.repair(1)

    assert values_in(cluster.fetch(1, 2, replica_id=-2)) == []


def test_nobody_is_asked_for_a_log_that_may_differ_from_its_leaders() -> None:
    cluster = Slow()
    hosted = cluster.hosted(2)
    hosted.substitute(2, 1, 5, at_least_one=True)
    hosted.partition.damaged()

    ask_for_substitutes(cluster.ctx[2], TP, hosted)

    assert hosted.substitutes is not None
    assert not hosted.substitute(2, 1, 5, at_least_one=True)
    assert not hosted.substitutes.is_asking
