"""Reset of a group's offsets through the dashboard: a plan first, then exactly that plan. Blocking.

Rules: both are changes (`changes.py` has their protection); a plan changes nothing; what is
executed are the offsets that the plan showed, and only if the group still has what the plan was
made from, so that nobody commits what nobody has seen.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient
from josefine_cli.base.errors import UsageError, UserError
from josefine_cli.kafka.group_offsets import Move, parse_topic
from josefine_cli.kafka.groups import commit_moves, plan_reset
from josefine_cli.kafka.offset_spec import parse_place

Json = dict[str, Any]


def reset_plan(client: BlockingClient, body: Mapping[str, Any]) -> Json:
    """The moves of `group` to `to`, in `topic` (empty: in all that it has committed); nothing is
    changed. Raises ValueError, KafkaError."""
    return {"plan": [_row(each) for each in _plan(client, body)], "said": "nothing is changed yet"}


def reset_offsets(client: BlockingClient, body: Mapping[str, Any]) -> Json:
    """Commit the plan `plan` of the same request. Raises ValueError, KafkaError."""
    planned = _plan(client, body)
    shown = body.get("plan")
    if not isinstance(shown, list):
        raise ValueError("plan: expected the moves of the dry run")
    # `latest` moves while records arrive, and a time may be an age: the offsets are those that were
    # shown. The rest of the plan must be as it was.
    by_place = {(each.tp.topic, each.tp.partition): each for each in planned}
    chosen: list[Move] = []
    for row in shown:
        move = by_place.get((row.get("topic"), row.get("partition"))) if _is_row(row) else None
        if move is None or row.get("committed") != move.committed:
            raise ValueError("the group has changed since the dry run: make a new one")
        to = row["to"]
        if not move.earliest <= to <= move.latest:
            raise ValueError(f"{move.tp} has no offset {to} any more: make a new dry run")
        chosen.append(
            Move(
                tp=TopicPartition(*move.tp),
                committed=move.committed,
                asked=to,
                earliest=move.earliest,
                latest=move.latest,
            )
        )
    if len(chosen) != len(planned):
        raise ValueError("the group has changed since the dry run: make a new one")
    try:
        commit_moves(client, str(body["group"]), chosen)
    except UserError as error:
        raise ValueError(str(error)) from error
    noun = "offset" if len(chosen) == 1 else "offsets"
    return {"said": f"moved {len(chosen)} {noun} of {body['group']}"}


def _is_row(row: Any) -> bool:
    to = row.get("to") if isinstance(row, dict) else None
    return isinstance(to, int) and not isinstance(to, bool)


def _plan(client: BlockingClient, body: Mapping[str, Any]) -> list[Move]:
    for name in ("group", "to"):
        if not isinstance(body.get(name), str) or not body[name]:
            raise ValueError(f"{name}: expected a text")
    topic = body.get("topic") or ""
    if not isinstance(topic, str):
        raise ValueError("topic: expected a text")
    try:
        place = parse_place(body["to"], "to", time.time_ns() // 1_000_000)
        chosen = [parse_topic(topic)] if topic else None
        return plan_reset(client, body["group"], place, chosen)
    except (UserError, UsageError) as error:
        raise ValueError(str(error).replace("--topic", "topic")) from error


def _row(move: Move) -> Json:
    return {
        "topic": move.tp.topic,
        "partition": move.tp.partition,
        "committed": move.committed,
        "to": move.to,
        "lag": move.latest - move.to,
        "note": move.note,
    }
