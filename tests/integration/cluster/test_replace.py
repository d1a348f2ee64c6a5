"""`josefine cluster replace` with real brokers: interrupted, resumed, and of a dead old broker."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import Done, josefine, josefine_process
from tests.support.cluster import REPLICATED, Cluster
from tests.support.waiting import wait_until

RECORDS = 1_000
NEW = 4


@pytest.fixture
def grown(tmp_path: Path) -> Iterator[Cluster]:
    """Three voters with a topic of records, and a newcomer without any replica."""
    patient = {**REPLICATED, "cluster__session_timeout_ms": 30_000}
    with Cluster(tmp_path, **patient) as cluster:
        cluster.wait_settled()
        create = ("topics", "create", "orders", "-p", "4")
        assert josefine(cluster.bootstrap, *create).code == 0
        lines = "".join(f"{each}\n" for each in range(RECORDS))
        assert josefine(cluster.bootstrap, "produce", "orders", stdin=lines).code == 0
        cluster.join(NEW)
        cluster.wait_settled()
        yield cluster


def replace(cluster: Cluster, *arguments: str) -> Done:
    return josefine(cluster.bootstrap, "cluster", "replace", *arguments)


def check_replaced(cluster: Cluster, old: int) -> None:
    """All records are there, and nothing names the old broker."""

    def views() -> list[dict[str, Any]]:
        return [cluster.view(each) for each in cluster.alive if each != old]

    for view in wait_until(lambda: all(views()) and views(), 60, "the views of all brokers") or ():
        assert old not in {each["id"] for each in view["brokers"]}
        assert all(old not in each["replicas"] for each in view["partitions"])
        assert all(NEW in each["replicas"] for each in view["partitions"])
    votes = lambda: {each["id"] for each in cluster.view(NEW)["raft"]["voters"]}  # noqa: E731
    wait_until(lambda: votes() == {1, 2, 3, 4} - {old}, 60, "the vote of the newcomer")
    read = josefine(cluster.bootstrap, "consume", "orders", "--max", str(RECORDS))
    assert sorted(map(int, read.out.split())) == list(range(RECORDS)), read.err


@pytest.mark.long_proof(share=3, among="histories of clusters")
def test_replacement_that_was_interrupted_is_resumed_by_the_same_command(grown: Cluster) -> None:
    old = grown.controller()
    command = ("cluster", "replace", str(old), "--with", str(NEW))
    dry = replace(grown, str(old), "--with", str(NEW), "--dry-run")
    assert (dry.code, "4 partitions would move" in dry.out) == (0, True), dry.err
    grown.pause(NEW)  # so that no move can end before the interruption; it is not fenced for long
    process = josefine_process(grown.bootstrap, *command)
    assert process.stdout is not None
    assert "partitions moved" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    grown.resume(NEW)

    assert process.returncode == 130, (out, err)
    assert f"'josefine cluster replace {old} --with {NEW}' continues the rest" in err
    grown.restart(NEW)
    done = replace(grown, str(old), "--with", str(NEW))

    assert done.code == 0, done.err
    assert f"broker {NEW} has replaced broker {old}" in done.out
    assert f"broker {old} does not vote any more" in done.out
    wait_until(lambda: not grown.broker(old).alive, 60, "the end of the replaced broker")
    check_replaced(grown, old)
    again = replace(grown, str(old), "--with", str(NEW))
    assert (again.code, "nothing (more) to replace" in again.err) == (1, True)


@pytest.mark.long_proof(share=3, among="histories of clusters")
def test_dead_broker_is_replaced_and_kept_out_when_it_comes_back(grown: Cluster) -> None:
    for new, reason in ((7, "broker 7 is not in the cluster"), (3, "already has a replica on")):
        refused = replace(grown, "2", "--with", str(new))
        assert (refused.code, reason in refused.err) == (1, True), refused.err
    assert "cannot replace itself" in replace(grown, "2", "--with", "2").err
    grown.kill(2)

    done = replace(grown, "2", "--with", str(NEW), "--json")

    assert done.code == 0, done.err
    assert json.loads(done.out) == {"replaced": 2, "with": NEW, "partitions": 4}
    check_replaced(grown, 2)
    grown.spawn(2)
    wait_until(lambda: not grown.broker(2).alive, 60, "the end of a broker that was replaced")
    assert "broker 2 was removed from this cluster" in grown.broker(2).output
