"""Waiting until a side has finished what it acknowledged, so that the next answer is not a race.

Kafka's controller acknowledges a change before its broker has applied it. The metadata log has one
order: when a later change of a marker topic is visible, the earlier one is published; when a second
is, everything that was done with the first is finished. Both brokers acknowledge the end of a
transaction before its markers are written: DescribeTransactions shows when they are.
"""

from __future__ import annotations

from random import Random
from typing import Any

from josefine_broker.wire import apis
from tests.oracle.author import Author, Step
from tests.oracle.pools import Names
from tests.oracle.side import Side
from tests.support.waiting import wait_until

MARKER = "oracle-marker"
LIMIT_S = 30.0
CHANGES_METADATA = {
    apis.CREATE_TOPICS, apis.DELETE_TOPICS, apis.CREATE_PARTITIONS, apis.ALTER_CONFIGS,
    apis.INCREMENTAL_ALTER_CONFIGS, apis.ALTER_CLIENT_QUOTAS, apis.CREATE_ACLS, apis.DELETE_ACLS,
    apis.ALTER_USER_SCRAM_CREDENTIALS, apis.ALTER_PARTITION_REASSIGNMENTS, apis.ELECT_LEADERS,
    apis.UPDATE_FEATURES,
}  # fmt: skip
CHANGES_TRANSACTIONS = {apis.END_TXN, apis.INIT_PRODUCER_ID}
UNFINISHED = ("PrepareCommit", "PrepareAbort", "PrepareEpochFence")

_AUTHOR = Author(Random(0), Names(0))


def settle(side: Side, key: int, names: Names) -> None:
    """After an answer to a request of API `key`."""
    if key in CHANGES_METADATA and side.name != "here":
        for _ in range(2):
            _pass_a_marker(side)
    if key in CHANGES_TRANSACTIONS:
        wait_until(lambda: not _unfinished(side, names), LIMIT_S, f"{side.name}: marks")


def make_marker(side: Side) -> None:
    """The topic that markers are set on; Kafka's coordinators make their own topics, too."""
    fixed = {
        "name": MARKER, "num_partitions": 1, "replication_factor": 1, "assignments": [],
        "configs": [], "validate_only": False, "timeout_ms": 10_000,
    }  # fmt: skip
    side.ask(_step(apis.CREATE_TOPICS, 7, fixed))
    for kind in (0, 1):
        wanted = {"key_type": kind, "coordinator_keys": ["oracle"]}
        step = _step(apis.FIND_COORDINATOR, 4, wanted)
        wait_until(
            lambda step=step: side.ask(step)["coordinators"][0]["error_code"] == "NONE",
            LIMIT_S,
            f"{side.name}: a coordinator",
        )
    start = {"transactional_id": "oracle", "producer_id": -1, "producer_epoch": -1}
    start |= {"transaction_timeout_ms": 60_000}
    step = _step(apis.INIT_PRODUCER_ID, 4, start)
    wait_until(
        lambda: side.ask(step)["error_code"] == "NONE", LIMIT_S, f"{side.name}: transactions"
    )


def served(side: Side) -> set[tuple[int, int]]:
    """Each key and version in a side's ApiVersions."""
    keys = side.ask(_step(apis.API_VERSIONS, 0, {}))["api_keys"]
    return {
        (each["api_key"], version)
        for each in keys
        for version in range(each["min_version"], each["max_version"] + 1)
    }


_PASSED = [100_000]


def _pass_a_marker(side: Side) -> None:
    _PASSED[0] += 1
    value = str(_PASSED[0])
    where = {"resource_type": 2, "resource_name": MARKER}
    change = {**where, "name": "retention.ms", "config_operation": 0, "value": value}
    side.ask(_step(apis.INCREMENTAL_ALTER_CONFIGS, 1, {**change, "validate_only": False}))
    asked = _step(apis.DESCRIBE_CONFIGS, 4, {**where, "configuration_keys": ["retention.ms"]})

    def is_there() -> bool:
        (result,) = side.ask(asked)["results"]
        return any(each["value"] == value for each in result["configs"])

    wait_until(is_there, LIMIT_S, f"{side.name}: a change of metadata")


def _unfinished(side: Side, names: Names) -> bool:
    fixed = {"transactional_ids": list(names.transactions)}
    states = side.ask(_step(apis.DESCRIBE_TRANSACTIONS, 0, fixed))["transaction_states"]
    return any(each["transaction_state"] in UNFINISHED for each in states)


def _step(key: int, version: int, fixed: dict[str, Any]) -> Step:
    return _AUTHOR.request(key, version, fixed, mutations=0)
