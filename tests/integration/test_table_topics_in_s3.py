"""`josefine tables run` against an S3 server: killed at a commit, and with a lost answer."""

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.integration.test_table_topics import made, sent
from tests.support.cli import COMMAND, Done, environment
from tests.support.fixtures import broker_fixture
from tests.support.hostile_store import Fault, HostileStore, none, once
from tests.support.object_store import ACCESS_KEY, SECRET_KEY, ObjectStore

broker = broker_fixture(group__initial_rebalance_delay_ms=0)


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectStore]:
    with ObjectStore() as server:
        yield server


@pytest.fixture
def proxy(server: ObjectStore) -> Iterator[HostileStore]:
    with HostileStore(server.endpoint) as proxy:
        yield proxy


def run_once_in_s3(broker: Any, topic: str, proxy: HostileStore, fail: str = "") -> Done:
    named = {
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": proxy.endpoint,
    }
    env = {**environment(broker.bootstrap), **named, **({"JOSEFINE_FAIL": fail} if fail else {})}
    command = [*COMMAND, "tables", "run", "--topic", topic, "--once"]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    return Done(done.returncode, done.stdout, done.stderr)


def test_a_kill_and_a_lost_answer_lose_and_double_no_record_in_s3(
    broker: Any, server: ObjectStore, proxy: HostileStore
) -> None:
    lake = f"s3://{server.bucket()}/lake/events"
    made(broker, "events", location=lake)
    sent(broker, "events", [b"a", b"b"])

    killed = run_once_in_s3(broker, "events", proxy, fail="before_commit")
    proxy.plan = once(Fault.LOST_ANSWER, "PUT", "/events/_delta_log/0")
    lost = run_once_in_s3(broker, "events", proxy)
    proxy.plan = none
    sent(broker, "events", [b"c"])
    done = run_once_in_s3(broker, "events", proxy)

    assert (killed.code, done.code) == (-9, 0), done.err
    assert lost.code in (0, 1), lost.err
    assert [fault for fault, *_ in proxy.seen] == [Fault.LOST_ANSWER]
    found = DeltaTable(lake, storage_options=server.delta).to_pyarrow_table()
    assert sorted(found["value"].to_pylist()) == [b"a", b"b", b"c"]
    assert sorted(found["offset"].to_pylist()) == [0, 1, 2]
