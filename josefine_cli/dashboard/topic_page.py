"""The page of a topic: configuration, consumers and producers. Blocking.

Rules: each part is asked for by itself, with the rights of this command's user: one that is refused
is shown with the reason in its place, and the others are shown all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from josefine_broker.base.errors import KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client import config_admin, group_admin, transaction_admin
from josefine_broker.client.admin import RESOURCE_TOPIC
from josefine_broker.client.io_blocking import LATEST, BlockingClient
from josefine_cli.kafka.names import partition_count

GROUPS_MAX = 200
"""Groups whose committed offsets are looked through for a topic; more are only counted."""
PRODUCERS_MAX = 500

Json = dict[str, Any]


def topic_page(client: BlockingClient, topic: str) -> Json:
    """{"configs", "consumers", "producers", …}; a part that failed is {"error": sentence}. Raises
    KafkaError, UserError for an unknown topic."""
    count = partition_count(client, topic)
    return {
        "configs": part(lambda: _configs(client, topic)),
        "consumers": part(lambda: _consumers(client, topic, count)),
        "producers": part(lambda: _producers(client, topic)),
    }


def part(asked: Callable[[], Any]) -> Any:
    """What was asked, or why it was refused."""
    try:
        return asked()
    except KafkaError as error:
        return {"error": str(error)}


def _configs(client: BlockingClient, topic: str) -> list[Json]:
    found = client.run(
        lambda s, t, d: config_admin.describe_resource(s, RESOURCE_TOPIC, topic, t, d)
    )
    return [asdict(each) for each in found]


def _consumers(client: BlockingClient, topic: str, count: int) -> Json:
    """Groups with an offset or a member in the topic."""
    listed = client.run(lambda s, t, d: group_admin.list_groups(s, (), t, d, []))
    tps = [TopicPartition(topic, each) for each in range(count)]
    ends = client.list_offsets(dict.fromkeys(tps, LATEST))
    rows = []
    for group in listed[:GROUPS_MAX]:
        committed = _committed(client, group.group)
        lags = [max(0, ends[tp].offset - at) for tp, at in committed.items() if tp in ends]
        if not lags:
            continue
        rows.append(
            {
                "group": group.group,
                "state": group.state,
                "partitions": len(lags),
                "lag": sum(lags),
            }
        )
    return {"rows": rows, "omitted": max(0, len(listed) - GROUPS_MAX)}


def _committed(client: BlockingClient, group: str) -> dict[TopicPartition, int]:
    return client.run(lambda s, t, d: group_admin.all_committed(s, group, t, d))


def _producers(client: BlockingClient, topic: str) -> Json:
    found = client.run(lambda s, t, d: transaction_admin.active_producers(s, [topic], t, d))
    newest = sorted(found, key=lambda each: (-each.last_ms, each.tp, each.producer_id))
    rows = [
        {
            "partition": each.tp.partition,
            "producer_id": each.producer_id,
            "epoch": each.producer_epoch,
            "last_sequence": each.last_sequence,
            "last_ms": each.last_ms,
            "in_transaction": each.is_in_transaction,
        }
        for each in newest[:PRODUCERS_MAX]
    ]
    return {"rows": rows, "omitted": max(0, len(newest) - PRODUCERS_MAX)}
