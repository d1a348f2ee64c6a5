"""The description of a consumer group: its members, its offsets, its lag."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client import group_admin, share_admin
from josefine_broker.client.cluster import NO_LEADER
from josefine_broker.client.group_admin import DEAD, GroupDescription
from josefine_broker.client.io_blocking import LATEST, BlockingClient
from josefine_broker.client.share_admin import SHARE, ShareOffset
from josefine_cli.base.errors import UserError
from josefine_cli.kafka.names import unknown_group


def listed_at(
    client: BlockingClient, tps: Iterable[TopicPartition], at: int
) -> dict[TopicPartition, int]:
    """The offset of each partition at EARLIEST, LATEST or a time."""
    found = client.list_offsets(dict.fromkeys(tps, at))
    return {tp: listed.offset for tp, listed in found.items()}


def described_by(client: BlockingClient, group: str) -> GroupDescription:
    """What the group's coordinator reports; a missing group is DEAD."""
    return client.run(lambda s, t, d: group_admin.describe_group(s, group, t, d))


def lag_of(committed: int | None, end: int | None) -> int | None:
    """The records between two offsets; a commit after the end, of a topic made again, is no lag."""
    return None if committed is None or end is None else max(0, end - committed)


def description_of(client: BlockingClient, group: str) -> dict[str, Any]:
    """The description of a group. Raises UserError for a group that does not exist."""
    described = described_by(client, group)
    if described.state == DEAD:
        found = client.run(lambda s, t, d: group_admin.list_groups(s, (), t, d, []))
        raise UserError(unknown_group(group, (each.group for each in found)))
    if described.protocol_type == SHARE:
        return _described(described, _share_partitions(client, group))
    committed = client.run(lambda s, t, d: group_admin.all_committed(s, group, t, d))
    owners = {tp: member for member in described.members for tp in member.assigned}
    tps = sorted({*committed, *owners})
    known = client.metadata(sorted({tp.topic for tp in tps})) if tps else client.metadata([])
    # A partition without a leader has no end offset: ListOffsets would fail for all of them.
    led = [tp for tp in tps if (p := known.partition(tp)) is not None and p.leader != NO_LEADER]
    ends = listed_at(client, led, LATEST) if led else {}
    partitions: list[dict[str, Any]] = []
    for tp in tps:
        owner, at, end = owners.get(tp), committed.get(tp), ends.get(tp)
        partitions.append(
            {
                "topic": tp.topic,
                "partition": tp.partition,
                "committed": at,
                "end": end,
                "lag": lag_of(at, end),
                "owner": owner.member_id if owner else None,
            }
        )
    return _described(described, partitions)


def share_starts(client: BlockingClient, group: str) -> dict[TopicPartition, ShareOffset]:
    """Where a share group is in each partition of which it has state."""
    return client.run(lambda s, t, d: share_admin.share_offsets(s, group, t, d))


def _share_partitions(client: BlockingClient, group: str) -> list[dict[str, Any]]:
    """The partitions of a share group. Its lag leaves out what is finished above the start offset,
    and a partition may have several members, so it has no owner."""
    starts = share_starts(client, group)
    known = client.metadata(sorted({tp.topic for tp in starts})) if starts else client.metadata([])
    led = [tp for tp in starts if (p := known.partition(tp)) is not None and p.leader != NO_LEADER]
    ends = listed_at(client, led, LATEST) if led else {}
    return [
        {
            "topic": tp.topic,
            "partition": tp.partition,
            "committed": starts[tp].start,
            "end": ends.get(tp),
            "lag": starts[tp].lag,
            "owner": None,
        }
        for tp in sorted(starts)
    ]


def _described(described: GroupDescription, partitions: list[dict[str, Any]]) -> dict[str, Any]:
    """The description as JSON values."""
    return {
        "group": described.group,
        "state": described.state,
        "protocol_type": described.protocol_type,
        "assignor": described.assignor,
        "epoch": described.epoch,
        "coordinator": described.coordinator,
        "lag": sum(each["lag"] or 0 for each in partitions),
        "partitions": partitions,
        "members": [
            {
                "member": m.member_id,
                "instance": m.instance_id,
                "client": m.client_id,
                "host": m.host,
                "partitions": [
                    {"topic": tp.topic, "partition": tp.partition} for tp in sorted(m.assigned)
                ],
            }
            for m in described.members
        ],
    }
