"""A topic without an end in S3: retention, Kafka clients and Spark's source over its archive."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from deltalake import DeltaTable

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import EARLIEST, BlockingClient
from josefine_lake.archive.config import parser
from josefine_lake.archive.process import archives
from josefine_lake.archive.serve import Archives, serve
from josefine_lake.archive.status import status
from josefine_lake.archive.verify import verify
from josefine_lake.writer.discovery import discover
from josefine_lake.writer.process import Process, Wanted
from tests.integration.test_archive import (
    WAIT_S,
    by_spark,
    consumed,
    local_start_only,
    made,
    produced,
)
from tests.support.broker import BrokerProcess
from tests.support.object_store import ObjectStore
from tests.support.ports import free_ports
from tests.support.waiting import wait_until

LAG_MS = 100
TP = TopicPartition("deep", 0)


@contextmanager
def running(*bodies: Any) -> Iterator[None]:
    """Threads that end with the block; each body gets the event that ends it."""
    ended = threading.Event()
    threads = [threading.Thread(target=body, args=(ended,), daemon=True) for body in bodies]
    for each in threads:
        each.start()
    try:
        yield
    finally:
        ended.set()
        for each in threads:
            each.join(WAIT_S)


def test_records_past_local_retention_are_read_from_s3(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with (
        ObjectStore() as server,
        BrokerProcess(
            tmp_path / "broker",
            group__initial_rebalance_delay_ms=0,
            group__min_session_timeout_ms=500,
            log__retention_check_interval_ms=200,
            log__archive_reader_port=port,
        ) as broker,
    ):
        lake, env = f"s3://{server.bucket()}/lake/deep", server.delta
        made(broker, "deep", lake)  # type: ignore[arg-type]
        count = produced(broker, "deep", 18)
        expected = consumed(broker, "deep", count)

        def connected() -> BlockingClient:
            return BlockingClient(broker.bootstrap)

        def write(ended: threading.Event) -> None:
            wanted = Wanted(topics=(), env=env, service=archives(LAG_MS))
            Process(wanted, connected, print).run(ended)

        def read(ended: threading.Event) -> None:
            serve(port, Archives(connected, env), ended, lambda at: None, print)

        with running(write, read):
            wait_until(lambda: local_start_only(broker, "deep") > 12, WAIT_S, "segments deleted")
            with connected() as client:
                first = lambda: client.list_offsets({TP: EARLIEST})[TP].offset  # noqa: E731
                wait_until(lambda: first() == 0, WAIT_S, "the archive's start is known")
            assert consumed(broker, "deep", count) == expected
            with mock.patch.dict(os.environ, env):
                assert by_spark(broker, "deep", archive="auto") == expected

        with connected() as client:
            tables = discover(client, ["deep"], parse=parser(LAG_MS)).tables
            (state,) = status(client, tables, env)
            (verified,) = verify(client, tables, env)
        assert (state.lag, state.lag_ms, state.stopped, state.location) == (0, 0, "", lake)
        assert (verified.records, verified.wrong) == (count, "")
        found = DeltaTable(lake, storage_options=env).to_pyarrow_table()
        assert sorted(found["offset"].to_pylist()) == [each[0] for each in expected]
