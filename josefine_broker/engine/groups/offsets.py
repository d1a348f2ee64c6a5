"""Committed offsets of consumer groups, and their records in `__consumer_offsets`.

Rules: the records are Kafka's (OffsetCommitKey v1, OffsetCommitValue v3; v1 for one with its own
expiration time), so Kafka's tools can read them. The topic is authoritative: this table equals the
result of its replay; a null value deletes. Offsets committed in a transaction are pending until its
marker, which makes them valid or drops them. Of two records of one partition the later one counts,
even if the transaction of the earlier one ends last, as in Kafka: the log cleaner keeps only the
later one. Other modules decide who may commit for a group.
"""

import struct
from collections.abc import Callable, Mapping
from functools import lru_cache
from struct import Struct
from typing import NamedTuple

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.ids import ProducerId, TopicPartition
from josefine_broker.engine.groups.text_groups import holder_in

KEY_VERSION = 1
VALUE_VERSION = 3
EXPIRING_VALUE_VERSION = 1
"""The only version with an expiration time; it has no leader epoch."""
NO_EXPIRY_MS = -1
COORDINATED_MAX = 16_384
"""Groups whose partition is cached: computing it is a fifth of the cost of a heartbeat."""

_SHORT = Struct(">h")
_INT = Struct(">i")
_SHORT_LONG = Struct(">hq")
_LONG = Struct(">q")
_PLAIN_VALUE = Struct(">hqihq")
"""Version 3 without metadata."""


class CommittedOffset(NamedTuple):
    """The next offset a group wants to read, with its consumer's metadata."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_time_ms: int
    expire_ms: int = NO_EXPIRY_MS
    """Its own expiration time (OffsetCommit 2 to 4); else the broker's retention applies."""


class _Pending(NamedTuple):
    """An offset committed in an open transaction."""

    order: int
    committed: CommittedOffset


class GroupOffsets:
    """The committed offsets of all groups this broker coordinates."""

    __slots__ = ("_groups", "_holders", "_pending", "_written")

    def __init__(self) -> None:
        self._groups: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self._holders: dict[str, dict[TopicPartition, str]] = {}
        """For groups of the text protocol: the subscription that holds each partition."""
        self._pending: dict[ProducerId, dict[tuple[str, TopicPartition], _Pending]] = {}
        """Offsets of open transactions."""
        self._written = 0
        """Number of pending records so far, which orders them."""

    @property
    def group_ids(self) -> list[str]:
        return sorted(self._groups)

    def committed(self, group_id: str) -> Mapping[TopicPartition, CommittedOffset]:
        return self._groups.get(group_id, {})

    def holders(self, group_id: str) -> Mapping[TopicPartition, str]:
        """The subscriptions of the text protocol; empty for groups of other types."""
        return self._holders.get(group_id, {})

    def store(self, group_id: str, tp: TopicPartition, committed: CommittedOffset | None) -> None:
        """Apply a record of the offsets topic; None deletes."""
        if self._pending:
            self._drop_older(group_id, tp, self._written)
        self._store(group_id, tp, committed)

    def _store(self, group_id: str, tp: TopicPartition, committed: CommittedOffset | None) -> None:
        """Set or delete one offset. A group without any is dropped, so that it is not listed for
        ever."""
        offsets = self._groups.get(group_id)
        if committed is not None:
            if committed.metadata or self._holders:
                self._note_holder(group_id, tp, holder_in(committed.metadata))
            if offsets is None:
                offsets = self._groups[group_id] = {}
            offsets[tp] = committed
            return
        self._note_holder(group_id, tp, "")
        if offsets is not None:
            offsets.pop(tp, None)
            if not offsets:
                del self._groups[group_id]

    def _note_holder(self, group_id: str, tp: TopicPartition, holder: str) -> None:
        """Note which subscription of the text protocol holds the partition; empty: none."""
        if holder:
            self._holders.setdefault(group_id, {})[tp] = holder
        elif (held := self._holders.get(group_id)) is not None:
            held.pop(tp, None)
            if not held:
                del self._holders[group_id]

    def store_pending(
        self,
        producer_id: ProducerId,
        group_id: str,
        tp: TopicPartition,
        committed: CommittedOffset,
    ) -> None:
        """Note an offset that was committed in the producer's open transaction."""
        self._written += 1
        self._pending.setdefault(producer_id, {})[group_id, tp] = _Pending(self._written, committed)

    def _drop_older(self, group_id: str, tp: TopicPartition, order: int) -> None:
        """Drop pending offsets that a later record has replaced."""
        for producer_id, pending in tuple(self._pending.items()):
            found = pending.get((group_id, tp))
            if found is not None and found.order <= order:
                del pending[group_id, tp]
                if not pending:
                    del self._pending[producer_id]

    def is_pending(self, group_id: str, tp: TopicPartition) -> bool:
        """Whether an open transaction may still change the committed offset (KIP-447)."""
        return any((group_id, tp) in pending for pending in self._pending.values())

    def settle(
        self, producer_id: ProducerId, is_there: Callable[[str], bool], *, is_commit: bool
    ) -> None:
        """Commit or drop the pending offsets of these groups: the transaction's marker is here."""
        pending = self._pending.get(producer_id, {})
        for group_id, tp in [each for each in pending if is_there(each[0])]:
            order, committed = pending.pop((group_id, tp))
            if is_commit:
                self._drop_older(group_id, tp, order)
                self._store(group_id, tp, committed)
        if not pending:
            self._pending.pop(producer_id, None)

    def adopt(self, loaded: "GroupOffsets") -> None:
        """Add the offsets of groups that were loaded."""
        self._written = max(self._written, loaded._written)
        self._groups.update(loaded._groups)
        self._holders.update(loaded._holders)
        for producer_id, pending in loaded._pending.items():
            self._pending.setdefault(producer_id, {}).update(pending)

    def forget(self, is_gone: Callable[[str], bool]) -> None:
        """Drop the groups that another broker coordinates now."""
        for group_id in [each for each in self._groups if is_gone(each)]:
            del self._groups[group_id]
            self._holders.pop(group_id, None)
        # Their new coordinator has read them from the log, and will see the marker there.
        for producer_id in tuple(self._pending):
            self.settle(producer_id, is_gone, is_commit=False)

    def replay(
        self, key: bytes | None, value: bytes | None, producer_id: ProducerId | None = None
    ) -> None:
        """Apply one record of the offsets topic, in that producer's transaction if it has one;
        records of other kinds are skipped."""
        if key is None or len(key) < 2 or _SHORT.unpack_from(key)[0] not in (0, KEY_VERSION):
            return
        group_id, tp = decode_key(key)
        committed = None if value is None else decode_value(value)
        if producer_id is None:
            self.store(group_id, tp, committed)
        elif committed is not None:
            self.store_pending(producer_id, group_id, tp, committed)


@lru_cache(maxsize=COORDINATED_MAX)
def coordinator_partition(group_id: str, partition_count: int) -> int:
    """The partition of the offsets topic for a group: as in Kafka, the absolute value of Java's
    hashCode (0 for the one that has none)."""
    code = 0
    for (unit,) in Struct(">H").iter_unpack(group_id.encode("utf-16-be")):
        code = (31 * code + unit) & 0xFFFFFFFF
    absolute = code if code < 1 << 31 else ((1 << 32) - code) & 0x7FFFFFFF
    return absolute % partition_count


def encode_key(group_id: str, tp: TopicPartition) -> bytes:
    """OffsetCommitKey v1."""
    topic, partition = tp
    return _key_begin(group_id, topic) + _INT.pack(partition)


@lru_cache(maxsize=COORDINATED_MAX)
def _key_begin(group_id: str, topic: str) -> bytes:
    """Cached: a consumer commits the same partitions for as long as it runs."""
    return _SHORT.pack(KEY_VERSION) + _text(group_id) + _text(topic)


def encode_value(committed: CommittedOffset) -> bytes:
    """OffsetCommitValue v3, or v1 for an offset with its own expiration time."""
    offset, leader_epoch, metadata, commit_time_ms, expire_ms = committed
    # Version 2 dropped the field (KIP-211), so that such an offset is written as Kafka did then.
    if expire_ms != NO_EXPIRY_MS:
        head = _SHORT_LONG.pack(EXPIRING_VALUE_VERSION, offset)
        return head + _text(metadata) + _LONG.pack(commit_time_ms) + _LONG.pack(expire_ms)
    # The usual commit in one call: this is the hot path of every consumer.
    if not metadata:
        return _PLAIN_VALUE.pack(VALUE_VERSION, offset, leader_epoch, 0, commit_time_ms)
    head = _SHORT_LONG.pack(VALUE_VERSION, offset) + _INT.pack(leader_epoch)
    return head + _text(metadata) + _LONG.pack(commit_time_ms)


def decode_key(key: bytes) -> tuple[str, TopicPartition]:
    """(group, partition) of an OffsetCommitKey. Raises CorruptData."""
    try:
        group_id, pos = _read_text(key, 2)
        topic, pos = _read_text(key, pos)
        return group_id, TopicPartition(topic, _INT.unpack_from(key, pos)[0])
    except (struct.error, UnicodeDecodeError) as error:
        raise CorruptData(f"offset commit key {key!r}: {error}") from error


def decode_value(value: bytes) -> CommittedOffset:
    """The offset of an OffsetCommitValue v0 to v3. Raises CorruptData."""
    try:
        version, offset = _SHORT_LONG.unpack_from(value)
        if not 0 <= version <= VALUE_VERSION:
            raise CorruptData(f"offset commit value of version {version}")
        pos, leader_epoch, expire_ms = _SHORT_LONG.size, -1, NO_EXPIRY_MS
        if version == VALUE_VERSION:
            leader_epoch = _INT.unpack_from(value, pos)[0]
            pos += _INT.size
        metadata, pos = _read_text(value, pos)
        commit_time_ms = _LONG.unpack_from(value, pos)[0]
        if version == EXPIRING_VALUE_VERSION:
            expire_ms = _LONG.unpack_from(value, pos + _LONG.size)[0]
        return CommittedOffset(offset, leader_epoch, metadata, commit_time_ms, expire_ms)
    except (struct.error, UnicodeDecodeError) as error:
        raise CorruptData(f"offset commit value {value!r}: {error}") from error


def _text(text: str) -> bytes:
    """A STRING of the protocol: two bytes of length, then UTF-8."""
    data = text.encode()
    return _SHORT.pack(len(data)) + data


def _read_text(data: bytes, pos: int) -> tuple[str, int]:
    """A STRING and the position after it. Raises CorruptData: a slice beyond the end is shorter,
    and the group would be another one."""
    size = _SHORT.unpack_from(data, pos)[0]
    end = pos + 2 + size
    if size < 0 or end > len(data):
        raise CorruptData(f"text of {size} bytes at byte {pos} of {len(data)}")
    return data[pos + 2 : end].decode(), end
