"""The records of groups with members in `__consumer_offsets`: what those of the consumer protocol
and of share groups have in common.

Rules: the records written are the difference between the group before and after a change, so a
replay of the log gives the group; a null value deletes. Values have version 0. For each group: its
epoch and the epoch of its target; for each member: its subscription, its target and its current
assignment. Each protocol has its own kinds of records (`Kinds`).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from josefine_broker.engine.groups.consumer.values import Parts, by_topic
from josefine_broker.wire.primitives import (
    write_compact_count,
    write_int16,
    write_int32,
    write_string,
    write_uuid,
    write_varint,
)

VALUE_VERSION = 0

Entry = tuple[bytes, bytes | None]
"""Key and value of a record; None deletes the key."""


class Kinds(NamedTuple):
    """The kinds of records of one protocol: their numbers, and their values."""

    member: int
    group: int
    target_epoch: int
    target: int
    current: int
    group_value: Callable[[Any], bytes]
    """Of a group."""
    target_epoch_value: Callable[[Any], bytes]
    """Of a group."""
    said: Callable[[Any], bytes]
    """Of a member: its subscription. Equal subscriptions are equal bytes."""
    state: Callable[[Any], tuple[object, ...]]
    """What the current assignment record has of a member; equal values need no record."""
    current_value: Callable[[Any], bytes]
    """Of a member."""


def changes(kinds: Kinds, was: Any, now: Any, *, is_deleted: bool) -> list[Entry]:
    """The records that lead from `was` to `now`. A member's own record is written before the
    records that refer to it, and deleted after them.

    They are appended as one record batch, so a crash leaves all of them or none. The order is for
    other readers of the log: a replay here keeps each kind apart, and does not need it.
    """
    group_id = now.group_id
    found: list[Entry] = []
    # Deletions are in reverse order of creation: no record may refer to a deleted member.
    for member_id in was.members:
        if member_id not in now.members:
            for kind in (kinds.current, kinds.target, kinds.member):
                found.append((encode_key(kind, group_id, member_id), None))
    for member_id, member in now.members.items():
        known = was.members.get(member_id)
        if known is not member and (known is None or kinds.said(known) != kinds.said(member)):
            found.append((encode_key(kinds.member, group_id, member_id), kinds.said(member)))
    if (was.epoch, was.metadata_hash) != (now.epoch, now.metadata_hash):
        value = None if is_deleted else kinds.group_value(now)
        found.append((encode_key(kinds.group, group_id), value))
    for member_id, target in now.target.items():
        if was.target.get(member_id) != target:
            found.append((encode_key(kinds.target, group_id, member_id), _target_value(target)))
    if was.target_epoch != now.target_epoch:
        value = None if is_deleted else kinds.target_epoch_value(now)
        found.append((encode_key(kinds.target_epoch, group_id), value))
    for member_id, member in now.members.items():
        known = was.members.get(member_id)
        if known is not member and (known is None or kinds.state(known) != kinds.state(member)):
            key = encode_key(kinds.current, group_id, member_id)
            found.append((key, kinds.current_value(member)))
    return found


def encode_key(kind: int, group_id: str, member_id: str | None = None) -> bytes:
    """Keys are of fixed versions, which name the kind of record, and so have no compact strings."""
    out = bytearray()
    write_int16(out, kind)
    write_string(out, group_id)
    if member_id is not None:
        write_string(out, member_id)
    return bytes(out)


def begun() -> bytearray:
    """The start of every value: its version."""
    out = bytearray()
    write_int16(out, VALUE_VERSION)
    return out


def ended(out: bytearray) -> bytes:
    """The end of a value without tagged fields."""
    write_varint(out, 0)
    return bytes(out)


def write_parts(out: bytearray, parts: Parts) -> None:
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
    """The target assignment of a member."""
    out = begun()
    write_parts(out, target)
    return ended(out)
