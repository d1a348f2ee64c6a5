"""Changes through the dashboard, enabled by --allow-changes: topics, records, groups' offsets.

Rules: a change is a POST of JSON with the token that the command printed, so that neither another
page in the same browser nor a client that only reaches the port can make one; the brokers authorize
it by this command's credentials and their ACLs. An invalid request gets one sentence and changes
nothing.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable, Mapping
from typing import Any

from aiohttp import web

from josefine_broker.base.errors import KafkaError
from josefine_broker.client.admin import BROKER_DEFAULT
from josefine_broker.client.io_blocking import BlockingClient, BlockingProducer, NewTopic
from josefine_cli.dashboard.offset_reset import reset_offsets, reset_plan

Json = dict[str, Any]
BODY_BYTES_MAX = 1_100_000
"""Limit of a request: a record of a million bytes with its field names."""


def create_topic(client: BlockingClient, body: Mapping[str, Any]) -> Json:
    """Create a topic from `name` and, optionally, `partitions` and `replication_factor`. Raises
    ValueError, KafkaError."""
    name = _text(body, "name")
    topic = NewTopic(name, _count(body, "partitions"), _count(body, "replication_factor"))
    client.create_topics([topic])
    return {"said": f"created {name} with {client.partition_count(name)} partitions"}


def delete_topic(client: BlockingClient, body: Mapping[str, Any]) -> Json:
    """Delete the topic `name`; `typed` is its name, typed as a confirmation. Raises ValueError,
    KafkaError."""
    name = _text(body, "name")
    if body.get("typed") != name:
        raise ValueError(f"type the topic's name, {name}, to delete it")
    client.delete_topics([name])
    return {"said": f"deleted {name}"}


def produce(client: BlockingClient, body: Mapping[str, Any]) -> Json:
    """Write a record from `topic`, `value` and, optionally, `key` and `partition`; an empty string
    means no key. Raises ValueError, KafkaError."""
    topic, value = _text(body, "topic"), body.get("value")
    key = body.get("key") or None
    if not isinstance(value, str) or not isinstance(key, str | None):
        raise ValueError("value and key: expected texts")
    partition = _number(body, "partition", 0)
    count = client.partition_count(topic)
    if partition is not None and partition >= count:
        raise ValueError(f"partition={partition}: {topic} has {count}")
    producer = BlockingProducer(client)
    producer.send(topic, None if key is None else key.encode(), value.encode(), (), partition)
    producer.flush()
    ((tp, delivered),) = producer.delivered.items()
    return {"said": f"written to {topic}, partition {tp.partition}, offset {delivered.last_offset}"}


CHANGES: Mapping[str, Callable[[BlockingClient, Mapping[str, Any]], Json]] = {
    "/api/topics/create": create_topic,
    "/api/topics/delete": delete_topic,
    "/api/produce": produce,
    "/api/groups/plan": reset_plan,
    "/api/groups/reset": reset_offsets,
}


async def change(
    request: web.Request, connect: Callable[[], BlockingClient], token: str | None
) -> web.Response:
    """The handler of CHANGES. `token` None: changes are disabled."""
    if token is None:
        return _refused("this dashboard is read-only; start it with --allow-changes", 403)
    said = request.headers.get("Authorization", "")
    wanted = f"Bearer {token}".encode()
    if not hmac.compare_digest(said.encode(errors="surrogateescape"), wanted):
        return _refused("open the address that the command printed, with the part after #", 403)
    if request.content_type != "application/json":
        return _refused("expected application/json", 415)
    try:
        body = await request.json()
    except ValueError:
        return _refused("the body is not valid JSON", 400)
    if not isinstance(body, dict):
        return _refused("expected a JSON object", 400)

    def work() -> Json:
        with connect() as client:
            return CHANGES[request.path](client, body)

    try:
        return web.json_response(await asyncio.to_thread(work))
    except (ValueError, KafkaError) as error:
        return _refused(str(error), 400)


def _refused(why: str, status: int) -> web.Response:
    return web.json_response({"error": why}, status=status)


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name}: expected a text")
    return value


def _count(body: Mapping[str, Any], name: str) -> int:
    found = _number(body, name, 1)
    return BROKER_DEFAULT if found is None else found


def _number(body: Mapping[str, Any], name: str, least: int) -> int | None:
    value = body.get(name)
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not str(value).isdecimal() or int(value) < least:
        raise ValueError(f"{name}={value}: expected a number from {least} on")
    return int(value)
