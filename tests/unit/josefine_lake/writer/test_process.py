"""The threads of the table writer's process: which failures end a table, and which do not."""

from __future__ import annotations

from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient
from josefine_broker.client.membership import Membership
from josefine_lake.config.leases import lease_partition
from josefine_lake.config.table_topic import TableTopic
from josefine_lake.report.table_stats import TableStats
from josefine_lake.writer import process, verdicts
from josefine_lake.writer.discovery import Discovered
from josefine_lake.writer.process import Offsets, Process, TableThread, Wanted
from josefine_lake.writer.worlds import monotonic_ms
from tests.support.waiting import wait_until


def test_a_table_is_tried_again_after_an_error_that_nobody_expected() -> None:
    tries, reports = [], []

    def open_client() -> BlockingClient:
        tries.append(1)
        raise RuntimeError("unheard of")

    table, stats = TableTopic(topic="t", location="/t"), TableStats()
    thread = TableThread(
        table, open_client, {}, Offsets(), reports.append, stats, pauses_ms=(1, 10)
    )
    wait_until(lambda: len(tries) > 1, 30, "a second try")
    thread.end()
    thread.join(0)

    assert reports == [
        "table of topic `t`: RuntimeError: unheard of; the writer tries again",
    ]
    assert (stats.counts.errors > 0, stats.is_stopped) == (True, False)


def test_a_stopped_table_is_looked_at_again_once_a_person_may_have_resolved_it() -> None:
    tries, reports = [], []
    table, stats = TableTopic(topic="t", location="/t"), TableStats()

    def open_client() -> BlockingClient:
        tries.append(1)
        raise verdicts.stopped(table, "the table was dropped")

    thread = TableThread(
        table, open_client, {}, Offsets(), reports.append, stats, pauses_ms=(1, 10)
    )
    wait_until(lambda: len(tries) > 2, 30, "a third look")
    thread.end()
    thread.join(0)

    assert len(reports) == 1, "the same reason is reported once"
    assert "the table was dropped" in reports[0]
    assert (stats.problem, stats.is_stopped) == (reports[0], True)


class FakeClient:
    """A client whose joins assign what the test says, or fail."""

    def __init__(self) -> None:
        self.assigned: list[tuple[TopicPartition, ...] | KafkaError] = []
        self.joins = 0
        self.member: Membership

    def run(self, operation: Any, **_: Any) -> Any:
        if self.member.is_of_a_generation and not self.assigned:
            return True  # a heartbeat
        self.joins += 1
        found = self.assigned.pop(0)
        if isinstance(found, KafkaError):
            raise found
        self.member.generation = self.joins
        return found


@pytest.fixture
def discovering(monkeypatch: pytest.MonkeyPatch) -> tuple[Process, FakeClient, dict[str, int]]:
    """A process, its client, and the partition counts of the table topics that it discovers."""
    counts: dict[str, int] = {}

    def discovered(
        client: Any, wanted: Any, known: Discovered | None, parse: object = None
    ) -> Discovered:
        tables = {t: TableTopic(topic=t, location="/t") for t in counts}
        return Discovered(tables=tables, counts=dict(counts))

    class Thread:
        def __init__(self, table: TableTopic, *_: Any) -> None:
            self.table = table

        def end(self) -> None: ...

        def join(self, until_ms: int) -> None: ...

    monkeypatch.setattr(process, "discover", discovered)
    monkeypatch.setattr(process, "TableThread", Thread)
    client = FakeClient()
    made = Process(Wanted(topics=(), env={}), lambda: client, print)  # type: ignore[arg-type, return-value]
    client.member = made._member
    return made, client, counts


def leases(topic: str, counts: int) -> tuple[TopicPartition, ...]:
    return (TopicPartition(topic, lease_partition(topic, counts)),)


def beat(made: Process) -> None:
    """A beat at which a look is due."""
    made._due_ms["look"] = 0
    made._beat(monotonic_ms())


def test_a_topic_that_gains_partitions_is_leased_again(discovering: Any) -> None:
    made, client, counts = discovering
    counts["t"] = 1
    client.assigned = [leases("t", 1)]
    beat(made)
    assert set(made._threads) == {"t"}
    assert lease_partition("t", 7) != lease_partition("t", 1)

    counts["t"] = 7
    client.assigned = [()]  # another process has the lease now
    beat(made)
    assert (client.joins, set(made._threads)) == (2, set())
    assert made._stats.tables == {}, "the lag of a table that another process writes would grow"

    beat(made)
    assert client.joins == 2, "the same partitions need no other generation"


def test_a_join_that_failed_is_repeated(discovering: Any) -> None:
    made, client, counts = discovering
    counts["t"] = 1
    client.assigned = [leases("t", 1)]
    beat(made)
    counts["u"] = 1
    lost = KafkaError(ErrorCode.request_timed_out, "join group: no answer")
    client.assigned = [lost, leases("t", 1) + leases("u", 1)]
    with pytest.raises(KafkaError):
        beat(made)
    made._beat(monotonic_ms())

    assert set(made._threads) == {"t", "u"}


def test_tables_end_with_the_last_table_topic(discovering: Any) -> None:
    made, client, counts = discovering
    counts["t"] = 1
    client.assigned = [leases("t", 1)]
    beat(made)
    counts.clear()
    beat(made)

    assert set(made._threads) == set()
