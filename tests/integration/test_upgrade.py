"""A data directory that an earlier version wrote and was killed over is served by this one.

`tests/golden/versions` has one of each form that data on disk had: by the commit whose broker wrote
it (`tests/support/versions.py`). What its clients read then they read now.
"""

from __future__ import annotations

import json
import tarfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.support.broker import BrokerProcess
from tests.support.cli import josefine
from tests.support.versions import TIMEOUT_S, TOPICS, facts

VERSIONS = sorted(each for each in Path("tests/golden/versions").iterdir() if each.is_dir())


@pytest.mark.long_proof(share=3)
@pytest.mark.parametrize("version", VERSIONS, ids=lambda each: each.name)
def test_what_an_earlier_version_wrote_is_all_there_and_goes_on(
    tmp_path: Path, version: Path
) -> None:
    with tarfile.open(version / "data.tar.gz") as packed:
        packed.extractall(tmp_path, filter="data")
    then = json.loads((version / "facts.json").read_text())

    # Not to be cleaned while they are read: a compacted topic has all its records yet.
    with BrokerProcess(tmp_path, log__cleaner_backoff_ms=3_600_000) as broker:
        assert facts(broker.bootstrap) == then
        _produce(broker.bootstrap)
        broker.restart()
        now = facts(broker.bootstrap)

    assert now["committed"] == then["committed"]
    for name in TOPICS:
        before, after = (
            of["records"][f"{name} read_uncommitted"][0][:3] if name in _written(of) else [0, 0, -1]
            for of in (then, now)
        )
        assert after[0] == before[0] + 1, name
        assert after[2] > before[2], name


def _written(of: dict[str, Any]) -> set[str]:
    """The topics with records: before there were transactions, one had none."""
    return {name for name in TOPICS if of["records"][f"{name} read_uncommitted"]}


def test_a_cluster_of_before_is_raised_to_what_its_brokers_understand(tmp_path: Path) -> None:
    with tarfile.open("tests/golden/versions/89d3516/data.tar.gz") as packed:
        packed.extractall(tmp_path, filter="data")
    with BrokerProcess(tmp_path) as broker:
        asked = partial(josefine, broker.bootstrap)
        before = {
            each["name"]: each for each in json.loads(asked("features", "list", "--json").out)
        }
        assert before["josefine.version"]["level"] == 2
        refused = asked("quotas", "set", "-u", "alice", "--producer-byte-rate", "1000000")
        assert "quotas need josefine.version 7: finalize that level first" in refused.err, refused

        assert "--yes" in asked("features", "upgrade").err
        wrong = asked("features", "upgrade", "josefine.version=99", "--yes")
        assert (wrong.code, "does not support" in wrong.err) == (1, True), wrong
        told = asked("features", "upgrade", "--dry-run").out
        assert "josefine.version 2 -> " in told
        assert told.endswith(": would be done\n")
        assert asked("features", "upgrade", "--yes").code == 0

        after = json.loads(asked("features", "list", "--json").out)
        assert all(each["level"] == each["highest"] for each in after)
        assert (
            asked("features", "upgrade").out
            == "all features are at the highest level that all brokers support\n"
        )
        lowered = asked("features", "downgrade", "group.version=0")
        assert lowered.out == "group.version 1 -> 0\n"
        kept = asked("features", "downgrade", "josefine.version=2")
        assert (kept.code, "cannot be lowered" in kept.err) == (1, True), kept


def _produce(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for name in TOPICS:
        producer.produce(name, key="after", value=b"the upgrade", partition=0)
    assert producer.flush(TIMEOUT_S) == 0
