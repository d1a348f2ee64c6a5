"""Damaged ranges of a broker's logs: which segments, since which offset, and why.

Rules: damage is noted where it is found (a read, the scrub, the cleaner, `josefine log verify`) and
forgotten when the segment is replaced or removed. A damaged segment still serves its intact
batches; a read of a damaged one fails with CORRUPT_MESSAGE and never returns its bytes. What is
done about it is decided in `engine/partition/repair`.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable

from josefine_broker.base.errors import CorruptData, ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.base.ports import Files
from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.engine.partition.repair.damage import Damage
from josefine_broker.engine.partition.repair.ports import DamagedLog
from josefine_broker.host.log.damaged_start import Suspect
from josefine_broker.host.log.log_sync import LogSync, storage_error
from josefine_broker.host.log.recovery import reindex
from josefine_broker.host.log.segment import DamagedBatchError, Segment
from josefine_broker.host.log.segments import SegmentList


def is_damage(error: OSError) -> bool:
    """Whether a failed read means that the data is gone: the file, or a sector of the disk."""
    return error.errno in (errno.EIO, errno.ENOENT, errno.ESTALE)


class DamagedLogs:
    """The logs of a broker that have damage, and counters since the start. On the broker's
    thread."""

    __slots__ = ("bytes_verified", "found", "logs")

    def __init__(self) -> None:
        self.logs: dict[TopicPartition, DamagedLog] = {}
        self.bytes_verified = 0
        """By reads and by the scrub."""
        self.found = 0


class LogDamage:
    """The damage of one log. A part of its `PartitionLog`, whose segments it shares."""

    __slots__ = (
        "_altered", "_files", "_segments", "_shown", "_sync", "every", "found", "lacks_batches",
    )  # fmt: skip

    def __init__(self, files: Files, segments: SegmentList, sync: LogSync) -> None:
        self._files = files
        self._segments = segments
        self._sync = sync
        self._shown: tuple[TopicPartition, DamagedLog] | None = None
        self._altered: list[Segment] = []
        """Segments whose checksum is not that of their intact bytes: cut although damaged, or
        opened without an index. Also when their damage is forgotten, and found again."""
        self.every = DamagedLogs()
        self.found: dict[int, Damage] = {}
        """By base offset of the segment."""
        self.lacks_batches = False
        """Whether the replay at the start passed over damaged batches: the state of the producers
        lacks them until the log is repaired."""

    def join(self, every: DamagedLogs, tp: TopicPartition, shown: DamagedLog) -> None:
        """Report damage of this log there, as `shown`; what was found until now, too."""
        self.every, self._shown = every, (tp, shown)
        if self.found:
            every.found += len(self.found)
            every.logs[tp] = shown

    def leave(self) -> None:
        """Break the reference cycle with the log, so that a deleted log is freed at once."""
        self._shown = None

    def note(
        self, segment: Segment, offset: int, reason: str, *, is_checksum_known: bool = True
    ) -> None:
        """A batch at or after `offset` is damaged. Only the first damage of a segment is new: its
        repair reads all of it."""
        base = segment.base_offset
        if base in self.found or segment.is_replaced or segment not in self._segments:
            return
        if not is_checksum_known:
            self._altered = [each for each in self._altered if each in self._segments]
            self._altered.append(segment)
        is_checksum_known = segment not in self._altered
        self.found[base] = Damage(base, segment.end_offset, offset, reason, is_checksum_known)
        if self._shown is not None:
            self.every.found += 1
            tp, shown = self._shown
            self.every.logs[tp] = shown

    def note_all(self, suspects: Iterable[Suspect]) -> None:
        """Note the segments that are damaged at a start."""
        for each in suspects:
            known = each.is_checksum_known
            self.note(each.segment, each.offset, each.reason, is_checksum_known=known)

    def passed_over(self, segment: Segment, error: CorruptData | OSError) -> None:
        """A replay could not read all of this segment."""
        self.lacks_batches = True
        self.note(segment, segment.base_offset, str(error))

    def forget(self, base_offset: int) -> None:
        """The segment was replaced by an intact one, or is gone."""
        self.found.pop(base_offset, None)
        if not self.found and self._shown is not None:
            self.every.logs.pop(self._shown[0], None)

    def end_at(self, last: Segment, end_offset: int, error: CorruptData) -> Segment:
        """A damaged segment cannot be cut batch by batch: it ends at `end_offset` from now on,
        where the next one starts, and its repair leaves out the rest. Returns the next one. Raises
        OSError."""
        self._segments.forget(last)
        if last in self._sync.sealing:
            self._sync.sealing.remove(last)
        last.end_offset = end_offset
        self.forget(last.base_offset)
        self.note(last, last.base_offset, str(error), is_checksum_known=False)
        following = Segment.create(self._files, last.stem.rpartition("/")[0], end_offset)
        following.last_leader_epoch = last.last_leader_epoch
        self._segments.add(following)
        return following

    def is_active(self, base_offset: int) -> bool:
        """Whether the segment that starts there is the one that is appended to."""
        return self._segments[-1].base_offset == base_offset

    def undamaged(self) -> list[Segment]:
        """The segments whose file exists and that are not known to be damaged."""
        return [
            each for each in self._segments if each.is_made and each.base_offset not in self.found
        ]

    def segment_to_repair(self, base_offset: int) -> Segment | None:
        """The full segment that starts there; None: it is still being synced. Raises
        KafkaError(offset_out_of_range) if the log has no such segment any more."""
        place = self._segments.place_of(base_offset)
        segment = self._segments[max(place, 0)]
        if segment.base_offset != base_offset:
            self.forget(base_offset)
            raise KafkaError(ErrorCode.offset_out_of_range, "the segment is gone")
        return None if segment in self._sync.sealing else segment

    def epoch_before(self, base_offset: int) -> int | None:
        """The leader epoch of the batch before that segment, where this log may differ from its
        leader's; None: there is none, or it does not."""
        place = self._segments.place_of(base_offset)
        if place <= 0 or not self.lacks_batches:
            return None
        return self._segments[place - 1].last_leader_epoch

    def read(
        self,
        segment: Segment,
        offset: int,
        bytes_max: int,
        end_offset: int,
        at_least_one: bool,
        config: LogConfig,
    ) -> memoryview | None:
        """As `Segment.read`; a damaged index is rebuilt once, damage is noted, and an intact batch
        next to it is still found. Raises KafkaError."""
        before = segment.reads.bytes_verified
        segment.reads.may_have_holes = config.may_have_holes
        if segment is not self._segments[-1]:
            self._segments.keep_warm(segment, self._sync.sealing)
        try:
            try:
                return segment.read(offset, bytes_max, end_offset, at_least_one)
            except CorruptData as error:
                # A wrong index names the wrong place in an intact log: only it is damaged.
                if not self._index_is_rebuilt(segment, error, config):
                    raise
            return segment.read(offset, bytes_max, end_offset, at_least_one)
        except CorruptData as error:
            return self._read_alone(segment, offset, end_offset, error)
        except OSError as error:
            if not is_damage(error):
                raise storage_error(f"{segment.stem}: read failed: {error}") from error
            return self._read_alone(segment, offset, end_offset, error)
        finally:
            self.every.bytes_verified += segment.reads.bytes_verified - before

    def _read_alone(
        self, segment: Segment, offset: int, end_offset: int, found: CorruptData | OSError
    ) -> memoryview | None:
        """The one batch with `offset`, after a read has met damage. Raises KafkaError."""
        self.note(segment, offset, str(found))
        try:
            return segment.read_alone(offset, end_offset)
        except CorruptData as error:
            raise KafkaError(ErrorCode.corrupt_message, str(found)) from error
        except OSError as error:
            if not is_damage(error):
                raise storage_error(f"{segment.stem}: read failed: {error}") from error
            raise KafkaError(ErrorCode.corrupt_message, str(found)) from error

    def _index_is_rebuilt(self, segment: Segment, error: CorruptData, config: LogConfig) -> bool:
        """Whether only the index was damaged, and is whole again. Raises OSError."""
        if isinstance(error, DamagedBatchError) or segment.base_offset in self.found:
            return False  # reading all of it again would find the same damage
        if segment is self._segments[-1] or segment in self._sync.sealing:
            return False
        try:
            reindex(self._files, segment, config)
        except CorruptData:
            return False
        return True
