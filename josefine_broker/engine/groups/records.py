"""The record of a classic group in `__consumer_offsets`: Kafka's GroupMetadataKey v2 and
GroupMetadataValue v3.

Rules: Kafka's tools can read these records; versions 0 to 3 of the value are read; a null value
deletes the group. The record has the last generation that has an assignment or no members: a
coordinator that loads it knows every member, and no assignment that was not stored.
"""

from typing import NamedTuple

from josefine_broker.base.errors import CorruptData
from josefine_broker.engine.groups.states import MemberState
from josefine_broker.engine.groups.values import GroupRecord, Member, Protocol
from josefine_broker.wire.primitives import (
    MALFORMED,
    read_count,
    read_int16,
    read_int32,
    read_int64,
    read_nullable_string,
    read_string,
    write_count,
    write_int16,
    write_int32,
    write_int64,
    write_nullable_string,
    write_string,
)

KEY_VERSION = 2
VALUE_VERSION = 3
NO_TIMESTAMP_MS = -1


class StoredGroup(NamedTuple):
    """A record, and the wall clock time in it when its state began; -1 for none."""

    record: GroupRecord
    stamped_ms: int


def encode_key(group_id: str) -> bytes:
    """GroupMetadataKey v2."""
    out = bytearray()
    write_int16(out, KEY_VERSION)
    write_string(out, group_id)
    return bytes(out)


def is_group_key(key: bytes | None) -> bool:
    """Whether it is the key of a group, not of an offset for example."""
    return key is not None and key[:2] == KEY_VERSION.to_bytes(2)


def decode_key(key: bytes) -> str:
    """The group id. Raises CorruptData."""
    try:
        return read_string(key, 2)[0]
    except MALFORMED as error:
        raise CorruptData(f"group key {key!r}: {error}") from error


def encode_value(record: GroupRecord, stamped_ms: int) -> bytes:
    """GroupMetadataValue v3.

    `stamped_ms` is wall clock time, -1 for none: another broker computes expiration by it.
    """
    out = bytearray()
    write_int16(out, VALUE_VERSION)
    write_string(out, record.protocol_type)
    write_int32(out, record.generation)
    write_nullable_string(out, record.protocol_name)
    write_nullable_string(out, record.leader_id)
    write_int64(out, stamped_ms)
    write_count(out, len(record.members))
    # In the order in which they joined: the first one leads after the leader has left.
    for member in record.members:
        write_string(out, member.member_id)
        write_nullable_string(out, member.instance_id)
        write_string(out, member.client_id)
        write_string(out, member.client_host)
        write_int32(out, member.rebalance_timeout_ms)
        write_int32(out, member.session_timeout_ms)
        # The selected protocol alone: the others mean nothing after the rebalance.
        _write_bytes(out, member.metadata(record.protocol_name))
        _write_bytes(out, member.assignment)
    return bytes(out)


def decode_value(value: bytes) -> StoredGroup:
    """The group of a GroupMetadataValue of version 0 to 3. Raises CorruptData."""
    try:
        return _decode_value(value)
    except MALFORMED as error:
        raise CorruptData(f"group value {value[:40]!r}…: {error}") from error


def _decode_value(value: bytes) -> StoredGroup:
    """Fields in the order of GroupMetadataValue.json; later versions only add some. Raises
    CorruptData, and what malformed bytes raise."""
    version, pos = read_int16(value, 0)
    # Version 4 of Kafka is flexible, so that not even its first string can be read like this.
    if not 0 <= version <= VALUE_VERSION:
        raise CorruptData(f"group value of version {version}")
    protocol_type, pos = read_string(value, pos)
    generation, pos = read_int32(value, pos)
    protocol_name, pos = read_nullable_string(value, pos)
    leader_id, pos = read_nullable_string(value, pos)
    # KIP-211: the time since when the group has been empty, after which its offsets expire.
    stamped_ms = NO_TIMESTAMP_MS
    if version >= 2:
        stamped_ms, pos = read_int64(value, pos)
    count, pos = read_count(value, pos)
    members = []
    for _ in range(count):
        member, pos = _read_member(value, pos, version, protocol_name)
        members.append(member)
    record = GroupRecord(
        generation=generation,
        protocol_type=protocol_type,
        protocol_name=protocol_name,
        leader_id=leader_id,
        members=tuple(members),
    )
    return StoredGroup(record, stamped_ms)


def _read_member(
    value: bytes, pos: int, version: int, protocol_name: str | None
) -> tuple[Member, int]:
    """One MemberMetadata, and the position after it. A stored member has one protocol, the selected
    one: the others died with the rebalance in which they were offered."""
    instance_id, rebalance_timeout_ms = None, -1
    member_id, pos = read_string(value, pos)
    # Static membership (KIP-345).
    if version >= 3:
        instance_id, pos = read_nullable_string(value, pos)
    client_id, pos = read_string(value, pos)
    client_host, pos = read_string(value, pos)
    if version >= 1:
        rebalance_timeout_ms, pos = read_int32(value, pos)
    session_timeout_ms, pos = read_int32(value, pos)
    metadata, pos = _read_bytes(value, pos)
    assignment, pos = _read_bytes(value, pos)
    member = Member(
        member_id=member_id,
        instance_id=instance_id,
        client_id=client_id,
        client_host=client_host,
        session_timeout_ms=session_timeout_ms,
        # Version 0 has none: a member then has its session timeout, as with JoinGroup v0.
        rebalance_timeout_ms=session_timeout_ms if version == 0 else rebalance_timeout_ms,
        protocols=(Protocol(protocol_name or "", metadata),),
        assignment=assignment,
        state=MemberState.ASSIGNED,
    )
    return member, pos


def _write_bytes(out: bytearray, data: bytes) -> None:
    """BYTES of the protocol: a length of four bytes, then so many."""
    write_int32(out, len(data))
    out += data


def _read_bytes(value: bytes, pos: int) -> tuple[bytes, int]:
    """The reverse of `_write_bytes`. Raises CorruptData: a slice beyond the end would be shorter
    than its length, and a client would get half an assignment."""
    size, pos = read_int32(value, pos)
    end = pos + size
    if size < 0 or end > len(value):
        raise CorruptData(f"{size} bytes at byte {pos} of {len(value)}")
    return value[pos:end], end
