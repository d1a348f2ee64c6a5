"""The replay of share groups from the records that `records.py` writes.

Rules: records of a group apply in order, the last one of each key; a group exists if its epoch
does; its state is derived from the rest. Unknown tagged fields are skipped (KIP-482).

Compaction may have removed any record but the last one of its key, so no record relies on one
before it. The pieces of a group are put together at the end. The fields of a value start at byte
2, after its version.
"""

from dataclasses import dataclass, field, replace
from uuid import UUID

from josefine_broker.base.errors import CorruptData
from josefine_broker.engine.groups.consumer.member_records import VALUE_VERSION
from josefine_broker.engine.groups.consumer.values import Part, Parts
from josefine_broker.engine.groups.share.group import ShareGroup, ShareMember
from josefine_broker.engine.groups.share.records import (
    CURRENT_KEY,
    GROUP_KEY,
    MEMBER_KEY,
    STATES_KEY,
    TARGET_EPOCH_KEY,
    TARGET_KEY,
)
from josefine_broker.engine.groups.share.states import ShareGroupState
from josefine_broker.wire.primitives import (
    MALFORMED,
    read_compact_count,
    read_compact_string,
    read_int16,
    read_int32,
    read_int64,
    read_nullable_compact_string,
    read_string,
    read_uuid,
    skip_tags,
)

_OF_MEMBERS = (MEMBER_KEY, TARGET_KEY, CURRENT_KEY)
"""Kinds of records whose key has a member id after the group id."""


@dataclass(slots=True)
class _Pieces:
    """The records of one group so far. Members, targets and assignments are separate because they
    have separate keys, of which one may come without the others."""

    epoch: int | None = None
    """None: no record of it, or a null value: the group does not exist."""
    metadata_hash: int = 0
    target_epoch: int = 0
    members: dict[str, ShareMember] = field(default_factory=dict)
    target: dict[str, Parts] = field(default_factory=dict)
    current: dict[str, tuple[int, int, Parts]] = field(default_factory=dict)
    """Member id → its epoch, the previous one, and its partitions."""
    topics: dict[UUID, int] = field(default_factory=dict)


class ShareReplay:
    """The replay of one partition: collects records in order. Mutable."""

    __slots__ = ("_groups",)

    def __init__(self) -> None:
        self._groups: dict[str, _Pieces] = {}

    def take(self, key: bytes, value: bytes | None) -> None:
        """Take one record whose key is of this kind. Raises CorruptData."""
        try:
            self._take(key, value)
        except MALFORMED as error:
            raise CorruptData(f"share group key {key!r}: {error}") from error

    def _take(self, key: bytes, value: bytes | None) -> None:
        """Take one record by the kind in its key. Raises what malformed bytes raise."""
        kind, pos = read_int16(key, 0)
        group_id, pos = read_string(key, pos)
        member_id = read_string(key, pos)[0] if kind in _OF_MEMBERS else ""
        # Refused, not skipped: a newer broker's decisions must not be lost.
        if value is not None and (version := read_int16(value, 0)[0]) != VALUE_VERSION:
            raise CorruptData(f"value of version {version} for share group key {key!r}")
        pieces = self._groups.setdefault(group_id, _Pieces())
        if kind == GROUP_KEY:
            pieces.epoch, pieces.metadata_hash = (None, 0) if value is None else _read_group(value)
        elif kind == TARGET_EPOCH_KEY:
            pieces.target_epoch = 0 if value is None else read_int32(value, 2)[0]
        elif kind == STATES_KEY:
            pieces.topics = {} if value is None else _read_topics(value)
        elif value is None:
            # A deletion without a record before it is usual: compaction keeps deletions longer.
            of_kind = {MEMBER_KEY: pieces.members, TARGET_KEY: pieces.target}
            of_kind.get(kind, pieces.current).pop(member_id, None)  # type: ignore[attr-defined]
        elif kind == MEMBER_KEY:
            pieces.members[member_id] = _read_member(member_id, value)
        elif kind == TARGET_KEY:
            pieces.target[member_id] = _read_parts(value, 2)
        else:
            # `pos + 1` skips the member's state, which is always STABLE.
            epoch, pos = read_int32(value, 2)
            previous, pos = read_int32(value, pos)
            pieces.current[member_id] = epoch, previous, _read_parts(value, pos + 1)

    def groups(self) -> dict[str, ShareGroup]:
        """The groups that exist, by id."""
        return {
            key: _group(key, pieces, pieces.epoch)
            for key, pieces in self._groups.items()
            if pieces.epoch is not None
        }


def _group(group_id: str, pieces: _Pieces, epoch: int) -> ShareGroup:
    """Put a group together. A member without a current assignment starts in the joining epoch; an
    assignment without a member is left out."""
    members = {}
    for member_id, member in pieces.members.items():
        if member_id in pieces.current:
            epochs_and_parts = pieces.current[member_id]
            member = replace(
                member,
                epoch=epochs_and_parts[0],
                previous_epoch=epochs_and_parts[1],
                assigned=epochs_and_parts[2],
            )
        members[member_id] = member
    return ShareGroup(
        group_id=group_id,
        epoch=epoch,
        metadata_hash=pieces.metadata_hash,
        target_epoch=pieces.target_epoch,
        state=ShareGroupState.STABLE if members else ShareGroupState.EMPTY,
        members=members,
        # Without those of members that left.
        target={key: each for key, each in pieces.target.items() if key in members},
        topics=pieces.topics,
    )


def _read_group(value: bytes) -> tuple[int, int]:
    """The epoch and the hash of ShareGroupMetadataValue."""
    epoch, pos = read_int32(value, 2)
    return epoch, read_int64(value, pos)[0]


def _read_member(member_id: str, value: bytes) -> ShareMember:
    """ShareGroupMemberMetadataValue."""
    rack_id, pos = read_nullable_compact_string(value, 2)
    client_id, pos = read_compact_string(value, pos)
    client_host, pos = read_compact_string(value, pos)
    count, pos = read_compact_count(value, pos)
    topics = []
    for _ in range(count):
        topic, pos = read_compact_string(value, pos)
        topics.append(topic)
    return ShareMember(
        member_id=member_id,
        rack_id=rack_id,
        client_id=client_id,
        client_host=client_host,
        topics=frozenset(topics),
    )


def _read_parts(value: bytes, pos: int) -> Parts:
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
    return frozenset(found)


def _read_topics(value: bytes) -> dict[UUID, int]:
    """The topics of ShareGroupStatePartitionMetadataValue that have state or will have it."""
    found: dict[UUID, int] = {}
    pos = 2
    for _ in range(2):  # the list of those that are being initialized, and that of the others
        topics, pos = read_compact_count(value, pos)
        for _ in range(topics):
            topic_id, pos = read_uuid(value, pos)
            _, pos = read_compact_string(value, pos)
            count, pos = read_compact_count(value, pos)
            # Partitions are 0 to count - 1, so their numbers are not read; nor is the time.
            pos = skip_tags(value, pos + 4 * count + 8)
            if topic_id is not None:
                found[topic_id] = max(count, found.get(topic_id, 0))
    return found
