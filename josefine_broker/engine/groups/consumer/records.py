"""The records of a consumer-protocol group in `__consumer_offsets`: Kafka's keys 3 and 5 to 8
(KIP-848).

Rules: the records written are the difference between the group before and after a change, so a
replay of the log gives the group; a null value deletes. Values have version 0, with the tagged
fields that we know. For each group: its epoch (3) and the epoch of its target (6); for each member:
its subscription (5), its target (7) and its current assignment (8). Each coordinator matches
regular expressions again: key 16 is not written.
"""

from josefine_broker.engine.groups.consumer import member_records
from josefine_broker.engine.groups.consumer.member_records import (
    Entry,
    Kinds,
    begun,
    ended,
    write_parts,
)
from josefine_broker.engine.groups.consumer.values import (
    ClassicSide,
    ConsumerGroup,
    ConsumerMember,
)
from josefine_broker.wire.primitives import (
    write_compact_count,
    write_compact_string,
    write_int8,
    write_int32,
    write_int64,
    write_nullable_compact_string,
    write_varint,
)

GROUP_KEY, MEMBER_KEY, TARGET_EPOCH_KEY, TARGET_KEY, CURRENT_KEY = 3, 5, 6, 7, 8
_KEYS = (GROUP_KEY, MEMBER_KEY, TARGET_EPOCH_KEY, TARGET_KEY, CURRENT_KEY)
HASH_TAG = 0
"""In ConsumerGroupMetadataValue: the hash of the topics that are read (KIP-1101)."""
CLASSIC_TAG = 0
"""In ConsumerGroupMemberMetadataValue: the member uses the classic protocol (KIP-848)."""
PRESENT = 1
"""Marks a nullable field as present."""


def is_consumer_key(key: bytes | None) -> bool:
    """Whether it is the key of such a group, not of an offset for example.

    The first two bytes are the version of the key, big-endian: all of ours are below 256.
    """
    return key is not None and len(key) > 2 and key[0] == 0 and key[1] in _KEYS


def changes(before: ConsumerGroup | None, after: ConsumerGroup | None) -> list[Entry]:
    """The records that lead from `before` to `after`; None: there is no such group."""
    if before is after:
        return []
    group_id = (before or after).group_id  # type: ignore[union-attr]
    # Epochs that no group has: the records of the epochs are always among those of a new group.
    none = ConsumerGroup(group_id=group_id, epoch=-1, target_epoch=-1)
    return member_records.changes(_KINDS, before or none, after or none, is_deleted=after is None)


def _current(member: ConsumerMember) -> tuple[object, ...]:
    """What the current assignment record has of a member; equal values need no record."""
    return member.epoch, member.previous_epoch, member.state, member.assigned, member.revoking


def _epoch_value(epoch: int, metadata_hash: int = 0) -> bytes:
    """ConsumerGroupMetadataValue, and ConsumerGroupTargetAssignmentMetadataValue."""
    out = begun()
    write_int32(out, epoch)
    # Without the field, as brokers before KIP-1101 wrote it.
    if not metadata_hash:
        return ended(out)
    for number in (1, HASH_TAG, 8):  # one field: its tag, its size
        write_varint(out, number)
    write_int64(out, metadata_hash)
    return bytes(out)


def _said(member: ConsumerMember) -> bytes:
    """ConsumerGroupMemberMetadataValue."""
    out = begun()
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
        return ended(out)
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


def _current_value(member: ConsumerMember) -> bytes:
    """ConsumerGroupCurrentMemberAssignmentValue."""
    out = begun()
    write_int32(out, member.epoch)
    write_int32(out, member.previous_epoch)
    write_int8(out, member.state.value)
    write_parts(out, member.assigned)
    write_parts(out, member.revoking)
    return ended(out)


_KINDS = Kinds(
    MEMBER_KEY,
    GROUP_KEY,
    TARGET_EPOCH_KEY,
    TARGET_KEY,
    CURRENT_KEY,
    group_value=lambda group: _epoch_value(group.epoch, group.metadata_hash),
    target_epoch_value=lambda group: _epoch_value(group.target_epoch),
    said=_said,
    state=_current,
    current_value=_current_value,
)
