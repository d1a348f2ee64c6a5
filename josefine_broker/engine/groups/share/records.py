"""The records of a share group in `__consumer_offsets`: Kafka's keys 10 to 15 (KIP-932).

Rules: the records written are the difference between the group before and after a change, so a
replay of the log gives the group; a null value deletes. Values have version 0. For each group: its
epoch (11), the epoch of its target (12) and the topics with share state (15); for each member: its
subscription (10), its target (13) and its current assignment (14).
"""

from collections.abc import Mapping
from uuid import UUID

from josefine_broker.engine.groups.consumer.values import Parts, by_topic
from josefine_broker.engine.groups.share.group import ShareGroup, ShareMember
from josefine_broker.wire.primitives import (
    write_compact_count,
    write_compact_string,
    write_int8,
    write_int16,
    write_int32,
    write_int64,
    write_nullable_compact_string,
    write_string,
    write_uuid,
    write_varint,
)

# The number of a key is its version, as in all of `__consumer_offsets`: 0 and 1 are offsets, 2 is a
# group of the classic protocol.
MEMBER_KEY, GROUP_KEY, TARGET_EPOCH_KEY, TARGET_KEY, CURRENT_KEY, STATES_KEY = range(10, 16)
VALUE_VERSION = 0
STABLE = 1
"""The state of every member in its current assignment: none waits for another."""

Entry = tuple[bytes, bytes | None]
"""Key and value of a record; None deletes the key."""


def is_share_key(key: bytes | None) -> bool:
    """Whether it is the key of such a group, not of an offset for example. The first two bytes are
    the version, big-endian; the group id follows."""
    return key is not None and len(key) > 2 and key[0] == 0 and MEMBER_KEY <= key[1] <= STATES_KEY


def changes(before: ShareGroup | None, after: ShareGroup | None) -> list[Entry]:
    """The records that lead from `before` to `after`; None: there is no such group. A member's own
    record is written before the records that refer to it, and deleted after them.

    They are appended as one record batch, so a crash leaves all of them or none. The order is for
    other readers of the log: `replay.py` keeps each kind apart, and does not need it.
    """
    if before is after:
        return []
    group_id = (before or after).group_id  # type: ignore[union-attr]
    # Epochs that no group has: the records of the epochs are always among those of a new group.
    was = before or ShareGroup(group_id=group_id, epoch=-1, target_epoch=-1)
    now = after or ShareGroup(group_id=group_id, epoch=-1, target_epoch=-1)
    found: list[Entry] = []
    # Deletions are in reverse order of creation: no record may refer to a deleted member.
    for member_id in was.members:
        if member_id not in now.members:
            for kind in (CURRENT_KEY, TARGET_KEY, MEMBER_KEY):
                found.append((_key(kind, group_id, member_id), None))
    for member_id, member in now.members.items():
        known = was.members.get(member_id)
        if known is None or _said(known) != _said(member):
            found.append((_key(MEMBER_KEY, group_id, member_id), _said(member)))
    if (was.epoch, was.metadata_hash) != (now.epoch, now.metadata_hash):
        value = None if after is None else _group_value(now)
        found.append((_key(GROUP_KEY, group_id), value))
    for member_id, target in now.target.items():
        if was.target.get(member_id) != target:
            found.append((_key(TARGET_KEY, group_id, member_id), _target_value(target)))
    if was.target_epoch != now.target_epoch:
        value = None if after is None else _target_epoch_value(now)
        found.append((_key(TARGET_EPOCH_KEY, group_id), value))
    for member_id, member in now.members.items():
        known = was.members.get(member_id)
        if known is None or _current(known) != _current(member):
            found.append((_key(CURRENT_KEY, group_id, member_id), _current_value(member)))
    if dict(was.topics) != dict(now.topics):
        value = None if after is None else _states_value(now.topics)
        found.append((_key(STATES_KEY, group_id), value))
    return found


def _current(member: ShareMember) -> tuple[object, ...]:
    """What the current assignment record has of a member; equal values need no record."""
    return member.epoch, member.previous_epoch, member.assigned


def _key(kind: int, group_id: str, member_id: str | None = None) -> bytes:
    """Keys are of fixed versions, which name the kind of record, and so have no compact strings."""
    out = bytearray()
    write_int16(out, kind)
    write_string(out, group_id)
    if member_id is not None:
        write_string(out, member_id)
    return bytes(out)


def _begun() -> bytearray:
    """The start of every value: its version."""
    out = bytearray()
    write_int16(out, VALUE_VERSION)
    return out


def _ended(out: bytearray) -> bytes:
    """The end of every value."""
    write_varint(out, 0)  # no tagged fields
    return bytes(out)


def _group_value(group: ShareGroup) -> bytes:
    """ShareGroupMetadataValue."""
    out = _begun()
    write_int32(out, group.epoch)
    write_int64(out, group.metadata_hash)
    return _ended(out)


def _target_epoch_value(group: ShareGroup) -> bytes:
    """ShareGroupTargetAssignmentMetadataValue."""
    out = _begun()
    write_int32(out, group.target_epoch)
    return _ended(out)


def _said(member: ShareMember) -> bytes:
    """ShareGroupMemberMetadataValue. Topics are sorted: equal subscriptions are equal bytes, which
    is how `changes` finds out that nothing has to be written."""
    out = _begun()
    write_nullable_compact_string(out, member.rack_id)
    write_compact_string(out, member.client_id)
    write_compact_string(out, member.client_host)
    write_compact_count(out, len(member.topics))
    for topic in sorted(member.topics):
        write_compact_string(out, topic)
    return _ended(out)


def _write_parts(out: bytearray, parts: Parts) -> None:
    """Partitions by topic id, sorted, so that equal assignments are equal bytes."""
    topics = by_topic(parts)
    write_compact_count(out, len(topics))
    for topic_id, indexes in topics:
        write_uuid(out, topic_id)
        write_compact_count(out, len(indexes))
        for index in indexes:
            write_int32(out, index)
        write_varint(out, 0)


def _target_value(target: Parts) -> bytes:
    """ShareGroupTargetAssignmentMemberValue."""
    out = _begun()
    _write_parts(out, target)
    return _ended(out)


def _current_value(member: ShareMember) -> bytes:
    """ShareGroupCurrentMemberAssignmentValue."""
    out = _begun()
    write_int32(out, member.epoch)
    write_int32(out, member.previous_epoch)
    write_int8(out, STABLE)
    _write_parts(out, member.assigned)
    return _ended(out)


def _states_value(topics: Mapping[UUID, int]) -> bytes:
    """ShareGroupStatePartitionMetadataValue: all topics are initialized, because a partition's
    leader does that when it reads their state; names and times are not needed."""
    out = _begun()
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
    return _ended(out)
