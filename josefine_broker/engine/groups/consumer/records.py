"""The records of a consumer-protocol group in `__consumer_offsets`: Kafka's keys 3 and 5 to 8
(KIP-848).

Rules: the records written are the difference between the group before and after a change, so a
replay of the log gives the group; a null value deletes. Values have version 0, with the tagged
fields that we know. For each group: its epoch (3) and the epoch of its target (6); for each member:
its subscription (5), its target (7) and its current assignment (8). Each coordinator matches
regular expressions again: key 16 is not written.
"""

from josefine_broker.engine.groups.consumer.values import (
    ClassicSide,
    ConsumerGroup,
    ConsumerMember,
    Parts,
    by_topic,
)
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

GROUP_KEY, MEMBER_KEY, TARGET_EPOCH_KEY, TARGET_KEY, CURRENT_KEY = 3, 5, 6, 7, 8
_KEYS = (GROUP_KEY, MEMBER_KEY, TARGET_EPOCH_KEY, TARGET_KEY, CURRENT_KEY)
VALUE_VERSION = 0
HASH_TAG = 0
"""In ConsumerGroupMetadataValue: the hash of the topics that are read (KIP-1101)."""
CLASSIC_TAG = 0
"""In ConsumerGroupMemberMetadataValue: the member uses the classic protocol (KIP-848)."""
PRESENT = 1
"""Marks a nullable field as present."""

Entry = tuple[bytes, bytes | None]
"""Key and value of a record; None deletes the key."""


def is_consumer_key(key: bytes | None) -> bool:
    """Whether it is the key of such a group, not of an offset for example.

    The first two bytes are the version of the key, big-endian: all of ours are below 256.
    """
    return key is not None and len(key) > 2 and key[0] == 0 and key[1] in _KEYS


def changes(before: ConsumerGroup | None, after: ConsumerGroup | None) -> list[Entry]:
    """The records that lead from `before` to `after`; None: there is no such group. A member's own
    record is written before the records that refer to it, and deleted after them."""
    if before is after:
        return []
    group_id = (before or after).group_id  # type: ignore[union-attr]
    was = before or ConsumerGroup(group_id=group_id, epoch=-1, target_epoch=-1)
    now = after or ConsumerGroup(group_id=group_id, epoch=-1, target_epoch=-1)
    found: list[Entry] = []
    # Deletions are in reverse order of creation: no record may refer to a deleted member.
    for member_id in was.members:
        if member_id not in now.members:
            for kind in (CURRENT_KEY, TARGET_KEY, MEMBER_KEY):
                found.append((_key(kind, group_id, member_id), None))
    for member_id, member in now.members.items():
        known = was.members.get(member_id)
        if known is not member and (known is None or _said(known) != _said(member)):
            found.append((_key(MEMBER_KEY, group_id, member_id), _said(member)))
    if (was.epoch, was.metadata_hash) != (now.epoch, now.metadata_hash):
        value = None if after is None else _epoch_value(now.epoch, now.metadata_hash)
        found.append((_key(GROUP_KEY, group_id), value))
    for member_id, target in now.target.items():
        if was.target.get(member_id) != target:
            found.append((_key(TARGET_KEY, group_id, member_id), _target_value(target)))
    if was.target_epoch != now.target_epoch:
        value = None if after is None else _epoch_value(now.target_epoch)
        found.append((_key(TARGET_EPOCH_KEY, group_id), value))
    for member_id, member in now.members.items():
        known = was.members.get(member_id)
        if known is not member and (known is None or _current(known) != _current(member)):
            found.append((_key(CURRENT_KEY, group_id, member_id), _current_value(member)))
    return found


def _current(member: ConsumerMember) -> tuple[object, ...]:
    """What the current assignment record has of a member; equal values need no record."""
    return member.epoch, member.previous_epoch, member.state, member.assigned, member.revoking


# What is written.


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
    write_varint(out, 0)  # no tagged fields
    return bytes(out)


def _epoch_value(epoch: int, metadata_hash: int = 0) -> bytes:
    """ConsumerGroupMetadataValue, and ConsumerGroupTargetAssignmentMetadataValue."""
    out = _begun()
    write_int32(out, epoch)
    # Without the field, as brokers before KIP-1101 wrote it.
    if not metadata_hash:
        return _ended(out)
    for number in (1, HASH_TAG, 8):  # one field: its tag, its size
        write_varint(out, number)
    write_int64(out, metadata_hash)
    return bytes(out)


def _said(member: ConsumerMember) -> bytes:
    """ConsumerGroupMemberMetadataValue."""
    out = _begun()
    write_nullable_compact_string(out, member.instance_id)
    write_nullable_compact_string(out, member.rack_id)
    write_compact_string(out, member.client_id)
    write_compact_string(out, member.client_host)
    write_compact_count(out, len(member.topics))
    for topic in sorted(member.topics):
        write_compact_string(out, topic)
    write_nullable_compact_string(out, member.regex)
    write_int32(out, member.rebalance_timeout_ms)
    write_nullable_compact_string(out, member.assignor)
    if member.classic is None:
        return _ended(out)
    side = _classic_side(member.classic)
    for number in (1, CLASSIC_TAG, len(side)):
        write_varint(out, number)
    return bytes(out + side)


def _classic_side(side: ClassicSide) -> bytes:
    """ClassicMemberMetadata."""
    out = bytearray()
    write_int8(out, PRESENT)
    write_int32(out, side.session_timeout_ms)
    write_compact_count(out, len(side.protocols))
    for name, metadata in side.protocols:
        write_compact_string(out, name)
        write_compact_count(out, len(metadata))
        out += metadata
        write_varint(out, 0)
    write_varint(out, 0)
    return bytes(out)


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
    """ConsumerGroupTargetAssignmentMemberValue."""
    out = _begun()
    _write_parts(out, target)
    return _ended(out)


def _current_value(member: ConsumerMember) -> bytes:
    """ConsumerGroupCurrentMemberAssignmentValue."""
    out = _begun()
    write_int32(out, member.epoch)
    write_int32(out, member.previous_epoch)
    write_int8(out, member.state.value)
    _write_parts(out, member.assigned)
    _write_parts(out, member.revoking)
    return _ended(out)
