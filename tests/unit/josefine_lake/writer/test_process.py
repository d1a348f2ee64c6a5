"""The threads of the table writer's process: which failures end a table, and which do not."""

from __future__ import annotations

from josefine_broker.client.io_blocking import BlockingClient
from josefine_lake.config.table_topic import TableTopic
from josefine_lake.writer import verdicts
from josefine_lake.writer.process import Offsets, TableThread
from tests.support.waiting import wait_until


def test_a_table_is_tried_again_after_an_error_that_nobody_expected() -> None:
    tries, reports = [], []

    def open_client() -> BlockingClient:
        tries.append(1)
        raise RuntimeError("unheard of")

    table = TableTopic(topic="t", location="/t")
    thread = TableThread(table, open_client, {}, Offsets(), reports.append, pauses_ms=(1, 10))
    wait_until(lambda: len(tries) > 1, 30, "a second try")
    thread.end()
    thread.join(0)

    assert reports == [
        "table of topic `t`: RuntimeError: unheard of; the writer tries again",
    ]


def test_a_stopped_table_is_looked_at_again_once_a_person_may_have_resolved_it() -> None:
    tries, reports = [], []
    table = TableTopic(topic="t", location="/t")

    def open_client() -> BlockingClient:
        tries.append(1)
        raise verdicts.stopped(table, "the table was dropped")

    thread = TableThread(table, open_client, {}, Offsets(), reports.append, pauses_ms=(1, 10))
    wait_until(lambda: len(tries) > 2, 30, "a third look")
    thread.end()
    thread.join(0)

    assert len(reports) == 1, "the same reason is reported once"
    assert "the table was dropped" in reports[0]
