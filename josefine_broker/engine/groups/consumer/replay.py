"""The replay of consumer-protocol groups from the records that `records.py` writes.

Rules: records of a group apply in order, the last one of each key; a group exists if its epoch
does; its state is derived from the rest. Unknown tagged fields are skipped (KIP-482).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from josefine_broker.base.errors import CorruptData
from josefine_broker.engine.groups.consumer.member_records import VALUE_VERSION
from josefine_broker.engine.groups.consumer.records import (
    CLASSIC_TAG,
    CURRENT_KEY,
    GROUP_KEY,
    HASH_TAG,
    MEMBER_KEY,
    PRESENT,
    TARGET_EPOCH_KEY,
    TARGET_KEY,
)
from josefine_broker.engine.groups.consumer.states import ConsumerGroupState, ConsumerMemberState
from josefine_broker.engine.groups.consumer.values import (
    ClassicSide,
    ConsumerGroup,
    ConsumerMember,
    Part,
    Parts,
)
from josefine_broker.wire.primitives import (
    MALFORMED,
    read_compact_count,
    read_compact_string,
    read_int8,
    read_int16,
    read_int32,
    read_int64,
    read_nullable_compact_string,
    read_string,
    read_tag,
    read_uuid,
    read_varint,
    skip_tags,
)

_OF_MEMBERS = (MEMBER_KEY, TARGET_KEY, CURRENT_KEY)
"""Kinds of records whose key has a member id after the group id."""


@dataclass(slots=True)
class _Pieces:
    """The records of one group so far."""

    epoch: int | None = None
    """None: no record of it, or a null value: the group does not exist."""
    metadata_hash: int = 0
    """Of the topics that are read (KIP-1101)."""
    target_epoch: int = 0
    """The group epoch that `target` was computed for."""
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    target: dict[str, Parts] = field(default_factory=dict)
    """By member id: what each is to have in the end."""
    current: dict[str, ConsumerMember] = field(default_factory=dict)
    """By member id: what each has by now, with its epoch and state."""


class ConsumerReplay:
    """The replay of one partition: collects records in order. Mutable."""

    __slots__ = ("_groups",)

    def __init__(self) -> None:
        self._groups: dict[str, _Pieces] = {}

    def take(self, key: bytes, value: bytes | None) -> None:
        """Take one record whose key is of this kind. Raises CorruptData."""
        try:
            self._take(key, value)
        except (*MALFORMED, ValueError) as error:
            raise CorruptData(f"consumer group key {key!r}: {error}") from error

    def _take(self, key: bytes, value: bytes | None) -> None:
        """Take one record by the kind in its key. Raises what malformed bytes raise."""
        kind, pos = read_int16(key, 0)
        group_id, pos = read_string(key, pos)
        member_id = read_string(key, pos)[0] if kind in _OF_MEMBERS else ""
        # Refused, not skipped: a newer broker's decisions must not be lost.
        if value is not None and (version := read_int16(value, 0)[0]) != VALUE_VERSION:
            raise CorruptData(f"value of version {version} for consumer group key {key!r}")
        # Also for a null value: compaction may have taken the records before it.
        pieces = self._groups.setdefault(group_id, _Pieces())
        if kind == GROUP_KEY:
            # A null value deletes the group; records that follow create it again.
            pieces.epoch, pieces.metadata_hash = (
                (None, 0) if value is None else _read_epoch_value(value)
            )
        elif kind == TARGET_EPOCH_KEY:
            pieces.target_epoch = 0 if value is None else _read_epoch_value(value)[0]
        else:
            _PIECES[kind](pieces, member_id, value)

    def groups(self) -> dict[str, ConsumerGroup]:
        """The groups that exist, by id."""
        found = {key: _group(key, each) for key, each in self._groups.items()}
        return {key: each for key, each in found.items() if each is not None}


def _take_member(pieces: _Pieces, member_id: str, value: bytes | None) -> None:
    """What the member subscribes to; null: it left."""
    if value is None:
        pieces.members.pop(member_id, None)
    else:
        pieces.members[member_id] = _read_member(member_id, value)


def _take_target(pieces: _Pieces, member_id: str, value: bytes | None) -> None:
    """The assignment that the member is to reach; null: it left."""
    if value is None:
        pieces.target.pop(member_id, None)
    else:
        pieces.target[member_id] = _read_parts(value, 2)[0]


def _take_current(pieces: _Pieces, member_id: str, value: bytes | None) -> None:
    """The assignment that the member has; null: it left."""
    if value is None:
        pieces.current.pop(member_id, None)
    else:
        pieces.current[member_id] = _read_current(member_id, value)


_PIECES: Mapping[int, Callable[[_Pieces, str, bytes | None], None]] = {
    MEMBER_KEY: _take_member,
    TARGET_KEY: _take_target,
    CURRENT_KEY: _take_current,
}


def _group(group_id: str, pieces: _Pieces) -> ConsumerGroup | None:
    """The group of these records; None: it was deleted, or its first record is compacted away."""
    if pieces.epoch is None:
        return None
    members = {}
    for member_id, said in pieces.members.items():
        # A member that was written without its current assignment has none yet.
        has = pieces.current.get(member_id, said)
        members[member_id] = replace(
            said,
            epoch=has.epoch,
            previous_epoch=has.previous_epoch,
            state=has.state,
            assigned=has.assigned,
            revoking=has.revoking,
        )
    group = ConsumerGroup(
        group_id=group_id,
        epoch=pieces.epoch,
        metadata_hash=pieces.metadata_hash,
        target_epoch=pieces.target_epoch,
        members=members,
        # Without those of members that left.
        target={key: each for key, each in pieces.target.items() if key in members},
    )
    return replace(group, state=state_of(group))


def state_of(group: ConsumerGroup) -> ConsumerGroupState:
    """The state of a group, derived from its epochs and members.

    It is not in the records, because it follows from them: a stored one could contradict them.
    """
    if not group.members:
        return ConsumerGroupState.EMPTY
    # A member left: that raises the epoch, and the next heartbeat brings the assignment of it.
    if group.target_epoch != group.epoch:
        return ConsumerGroupState.ASSIGNING
    return ConsumerGroupState.STABLE if group.is_converged else ConsumerGroupState.RECONCILING


def _read_epoch_value(value: bytes) -> tuple[int, int]:
    """The epoch, and the hash if there is one."""
    # From byte 2: the version comes first, and was read already.
    epoch, pos = read_int32(value, 2)
    count, pos = read_varint(value, pos)
    metadata_hash = 0
    for _ in range(count):
        tag, size, pos = read_tag(value, pos)
        # Written by brokers with KIP-1101; without it the next heartbeat computes it again.
        if tag == HASH_TAG and size == 8:
            metadata_hash = read_int64(value, pos)[0]
        pos += size
    return epoch, metadata_hash


def _read_member(member_id: str, value: bytes) -> ConsumerMember:
    """ConsumerGroupMemberMetadataValue of Kafka (KIP-848)."""
    instance_id, pos = read_nullable_compact_string(value, 2)
    rack_id, pos = read_nullable_compact_string(value, pos)
    client_id, pos = read_compact_string(value, pos)
    client_host, pos = read_compact_string(value, pos)
    count, pos = read_compact_count(value, pos)
    topics = []
    for _ in range(count):
        topic, pos = read_compact_string(value, pos)
        topics.append(topic)
    regex, pos = read_nullable_compact_string(value, pos)
    rebalance_timeout_ms, pos = read_int32(value, pos)
    assignor, pos = read_nullable_compact_string(value, pos)
    # The one tagged field: its presence makes the member a classic one (KIP-848).
    classic = None
    count, pos = read_varint(value, pos)
    for _ in range(count):
        tag, size, pos = read_tag(value, pos)
        if tag == CLASSIC_TAG and value[pos] == PRESENT:
            classic = _read_classic_side(value, pos + 1)
        pos += size
    return ConsumerMember(
        member_id=member_id,
        instance_id=instance_id,
        rack_id=rack_id,
        client_id=client_id,
        client_host=client_host,
        topics=frozenset(topics),
        regex=regex,
        rebalance_timeout_ms=rebalance_timeout_ms,
        assignor=assignor,
        classic=classic,
    )


def _read_classic_side(value: bytes, pos: int) -> ClassicSide:
    """The member's fields of the classic protocol, in which it still speaks."""
    session_timeout_ms, pos = read_int32(value, pos)
    count, pos = read_compact_count(value, pos)
    protocols = []
    for _ in range(count):
        name, pos = read_compact_string(value, pos)
        size, pos = read_compact_count(value, pos)
        protocols.append((name, bytes(value[pos : pos + size])))
        # Each protocol is a structure of its own, with tagged fields at its end.
        pos = skip_tags(value, pos + size)
    return ClassicSide(session_timeout_ms, tuple(protocols))


def _read_parts(value: bytes, pos: int) -> tuple[Parts, int]:
    """Partitions by topic id. A null id is no topic: it is left out."""
    found: set[Part] = set()
    topics, pos = read_compact_count(value, pos)
    for _ in range(topics):
        topic_id, pos = read_uuid(value, pos)
        count, pos = read_compact_count(value, pos)
        for _ in range(count):
            index, pos = read_int32(value, pos)
            if topic_id is not None:
                found.add(Part(topic_id, index))
        pos = skip_tags(value, pos)
    return frozenset(found), pos


def _read_current(member_id: str, value: bytes) -> ConsumerMember:
    """ConsumerGroupCurrentMemberAssignmentValue of Kafka (KIP-848)."""
    epoch, pos = read_int32(value, 2)
    previous_epoch, pos = read_int32(value, pos)
    state, pos = read_int8(value, pos)
    assigned, pos = _read_parts(value, pos)
    revoking, pos = _read_parts(value, pos)
    return ConsumerMember(
        member_id=member_id,
        epoch=epoch,
        previous_epoch=previous_epoch,
        # A number of a newer Kafka raises ValueError, which `take` reports as damage.
        state=ConsumerMemberState(state),
        assigned=assigned,
        revoking=revoking,
    )
