"""The records of a share group in `__consumer_offsets`: Kafka's keys 10 to 15 (KIP-932).

Rules: the records written are the difference between the group before and after a change, so a
replay of the log gives the group; a null value deletes. Values have version 0. For each group: its
epoch (11), the epoch of its target (12) and the topics with share state (15); for each member: its
subscription (10), its target (13) and its current assignment (14).
"""

from collections.abc import Mapping
from uuid import UUID

from josefine_broker.engine.groups.consumer import member_records
from josefine_broker.engine.groups.consumer.member_records import (
    Entry,
    Kinds,
    begun,
    encode_key,
    ended,
    write_parts,
)
from josefine_broker.engine.groups.share.group import ShareGroup, ShareMember
from josefine_broker.wire.primitives import (
    write_compact_count,
    write_compact_string,
    write_int8,
    write_int32,
    write_int64,
    write_nullable_compact_string,
    write_uuid,
    write_varint,
)

# The number of a key is its version, as in all of `__consumer_offsets`: 0 and 1 are offsets, 2 is a
# group of the classic protocol.
MEMBER_KEY, GROUP_KEY, TARGET_EPOCH_KEY, TARGET_KEY, CURRENT_KEY, STATES_KEY = range(10, 16)
STABLE = 1
"""The state of every member in its current assignment: none waits for another."""


def is_share_key(key: bytes | None) -> bool:
    """Whether it is the key of such a group, not of an offset for example. The first two bytes are
    the version, big-endian; the group id follows."""
    return key is not None and len(key) > 2 and key[0] == 0 and MEMBER_KEY <= key[1] <= STATES_KEY


def changes(before: ShareGroup | None, after: ShareGroup | None) -> list[Entry]:
    """The records that lead from `before` to `after`; None: there is no such group."""
    if before is after:
        return []
    group_id = (before or after).group_id  # type: ignore[union-attr]
    # Epochs that no group has: the records of the epochs are always among those of a new group.
    none = ShareGroup(group_id=group_id, epoch=-1, target_epoch=-1)
    was, now = before or none, after or none
    found = member_records.changes(_KINDS, was, now, is_deleted=after is None)
    if dict(was.topics) != dict(now.topics):
        value = None if after is None else _states_value(now.topics)
        found.append((encode_key(STATES_KEY, group_id), value))
    return found


def _current(member: ShareMember) -> tuple[object, ...]:
    """What the current assignment record has of a member; equal values need no record."""
    return member.epoch, member.previous_epoch, member.assigned


def _group_value(group: ShareGroup) -> bytes:
    """ShareGroupMetadataValue."""
    out = begun()
    write_int32(out, group.epoch)
    write_int64(out, group.metadata_hash)
    return ended(out)


def _target_epoch_value(group: ShareGroup) -> bytes:
    """ShareGroupTargetAssignmentMetadataValue."""
    out = begun()
    write_int32(out, group.target_epoch)
    return ended(out)


def _said(member: ShareMember) -> bytes:
    """ShareGroupMemberMetadataValue. Topics are sorted: equal subscriptions are equal bytes, which
    is how `changes` finds out that nothing has to be written."""
    out = begun()
    write_nullable_compact_string(out, member.rack_id)
    write_compact_string(out, member.client_id)
    write_compact_string(out, member.client_host)
    write_compact_count(out, len(member.topics))
    for topic in sorted(member.topics):
        write_compact_string(out, topic)
    return ended(out)


def _current_value(member: ShareMember) -> bytes:
    """ShareGroupCurrentMemberAssignmentValue."""
    out = begun()
    write_int32(out, member.epoch)
    write_int32(out, member.previous_epoch)
    write_int8(out, STABLE)
    write_parts(out, member.assigned)
    return ended(out)


def _states_value(topics: Mapping[UUID, int]) -> bytes:
    """ShareGroupStatePartitionMetadataValue: all topics are initialized, because a partition's
    leader does that when it reads their state; names and times are not needed."""
    out = begun()
    # Three lists: topics that are being initialized, those that are, and those being deleted.
    write_compact_count(out, 0)
    write_compact_count(out, len(topics))
    for topic_id, count in sorted(topics.items()):
        write_uuid(out, topic_id)
        write_compact_string(out, "")
        write_compact_count(out, count)
        for index in range(count):
            write_int32(out, index)
        write_int64(out, -1)
        write_varint(out, 0)
    write_compact_count(out, 0)
    return ended(out)


_KINDS = Kinds(
    MEMBER_KEY,
    GROUP_KEY,
    TARGET_EPOCH_KEY,
    TARGET_KEY,
    CURRENT_KEY,
    group_value=_group_value,
    target_epoch_value=_target_epoch_value,
    said=_said,
    state=_current,
    current_value=_current_value,
)
