"""The threads of the table writer's process: which failures end a table, and which do not."""

from __future__ import annotations

from josefine_broker.client.io_blocking import BlockingClient
from josefine_lake.config.table_topic import TableTopic
from josefine_lake.writer.process import Offsets, TableThread
from tests.support.waiting import wait_until


def test_a_table_is_tried_again_after_an_error_that_nobody_expected() -> None:
    tries, reports = [], []

    def open_client() -> BlockingClient:
        tries.append(1)
        raise RuntimeError("unheard of")

    table = TableTopic(topic="t", location="/t")
    thread = TableThread(table, open_client, {}, Offsets(), reports.append)
    wait_until(lambda: len(tries) > 1, 30, "a second try")
    thread.end()
    thread.join(0)

    assert reports == [
        "table of topic `t`: RuntimeError: unheard of; the writer tries again",
    ]
