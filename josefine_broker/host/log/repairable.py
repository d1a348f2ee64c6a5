"""The damage of an open log as the repair sees it: implements `engine.partition.repair.ports`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress

from josefine_broker.base.ports import Files
from josefine_broker.engine.partition.leader_epochs import LeaderEpochs
from josefine_broker.engine.partition.repair.damage import Damage
from josefine_broker.host.log.log import PartitionLog
from josefine_broker.host.log.segment_rebuild import SegmentRebuild

log = logging.getLogger(__name__)


class RepairableLog:
    """Implements DamagedLog. One per open log."""

    __slots__ = ("_files", "_log", "lost_power")

    def __init__(self, files: Files, log: PartitionLog, *, lost_power: bool = False) -> None:
        self.lost_power = lost_power
        self._files = files
        self._log = log

    @property
    def found(self) -> Mapping[int, Damage]:
        return self._log.damage.found

    def rebuild(
        self, base_offset: int, epochs: LeaderEpochs, equal_to: int = 0
    ) -> SegmentRebuild | None:
        """A damaged active segment is rolled first: appends continue in the next one."""
        log, damage = self._log, self._log.damage
        if damage.is_active(base_offset):
            log.roll()
        segment = damage.segment_to_repair(base_offset)
        if segment is None:
            log.seal_later()
            return None
        found = damage.found[base_offset]
        # Where batches could not be read at the start, the epochs they started are unknown.
        known = LeaderEpochs() if damage.lacks_batches else epochs
        return SegmentRebuild(
            self._files,
            log,
            segment,
            known,
            is_checksum_known=found.is_checksum_known,
            may_differ=damage.lacks_batches,
            epoch_before=damage.epoch_before(base_offset) if base_offset > equal_to else None,
        )

    @property
    def unsynced_from(self) -> int:
        return self._log.recovery_report.unsynced_from

    @property
    def lacks_batches(self) -> bool:
        return self._log.damage.lacks_batches

    def has_batches_again(self) -> None:
        self._log.damage.lacks_batches = False
        with suppress(OSError):  # without damage the next start forgets it, too
            self._log.state.forget_power_lost()

    def forget(self, base_offset: int) -> None:
        self._log.damage.forget(base_offset)


def note_lost_power(its_log: PartitionLog, *, is_recent: bool) -> bool:
    """Whether a power failure explains what is damaged in a log that was just opened: one before
    this start (`is_recent`), or an earlier one since which no start found the log whole. A kill
    during the repair does not change what the failure took, from all replicas alike."""
    state = its_log.state
    try:
        if not its_log.damage.lacks_batches:
            state.forget_power_lost()
            return is_recent
        if is_recent:
            state.note_power_lost()
    except OSError as error:  # then a person decides, if another start comes before the repair
        where = its_log.directory
        log.warning("power failure not noted", extra={"log": where, "reason": error})
    return is_recent or state.power_lost()
