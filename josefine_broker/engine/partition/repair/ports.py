"""The host's side of a repair, as protocols: the damage it has found, and the copy of a segment.

Implemented by `host/log/repairable.py` and `host/log/segment_rebuild.py`, over real files and over
those of the simulator.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.partition.leader_epochs import LeaderEpochs
from josefine_broker.engine.partition.repair.damage import Damage
from josefine_broker.records.crc import Buffer


class RebuildPort(Protocol):
    """An intact copy of one segment in the making."""

    @property
    def wanted(self) -> int:
        """The first offset that is missing in the copy."""
        ...

    @property
    def progress(self) -> tuple[bool, int]:
        """Changes with each batch of use that is supplied: also with one which shows that a batch
        of our own is wrong, so that the copy has started again."""
        ...

    @property
    def has_ours(self) -> bool:
        """Whether the damaged segment has an intact batch at `wanted`, and another replica is asked
        whether it is the right one."""
        ...

    @property
    def is_misfit(self) -> bool:
        """Whether the last batch that was supplied is intact, and does not belong there. A damaged
        one proves nothing."""
        ...

    @property
    def bytes_fetched(self) -> int: ...

    def copy(self, breathe: Callable[[], None]) -> int | None:
        """Copy intact batches of the damaged segment; the offset to fetch, None at its end. On any
        thread. Raises OSError, CorruptData."""
        ...

    def supply(self, records: Buffer) -> None:
        """Add batches of another replica. On any thread. Raises OSError, and CorruptData for a
        batch that does not belong there."""
        ...

    def keep_ours(self) -> bool:
        """Use the next batch of the damaged segment, if its own checksum is right."""
        ...

    def give_up(self) -> None:
        """Leave out the record at `wanted`."""
        ...

    def next_intact(self) -> int:
        """Where the batches of the damaged segment continue."""
        ...

    def finish(self) -> bool:
        """Make the copy durable; False: it starts again. On any thread. Raises OSError,
        CorruptData."""
        ...

    def install(self) -> bool:
        """Replace the damaged segment; False: the log changed meanwhile. Raises KafkaError."""
        ...

    def close(self) -> None:
        """Release its files."""
        ...


class DamagedLog(Protocol):
    """The damage of one log."""

    @property
    def found(self) -> Mapping[int, Damage]:
        """By base offset of the segment."""
        ...

    def rebuild(
        self, base_offset: int, epochs: LeaderEpochs, equal_to: int = 0
    ) -> RebuildPort | None:
        """Start a copy of that segment; None: not now, because it is being synced. Up to `equal_to`
        the log is known to be its leader's. Raises KafkaError."""
        ...

    @property
    def lost_power(self) -> bool:
        """Whether a power failure may have taken what was not synced, on all replicas alike."""
        ...

    @property
    def unsynced_from(self) -> int:
        """The log was found unsynced from there on at the start, and with a hole: a crash may have
        left it."""
        ...

    @property
    def lacks_batches(self) -> bool:
        """Whether damaged batches were passed over when the log was opened: the state of its
        producers lacks them."""
        ...

    def has_batches_again(self) -> None:
        """The log is whole, and was replayed."""
        ...

    def forget(self, base_offset: int) -> None: ...


class DamagePort(Protocol):
    """The damaged logs of this broker."""

    @property
    def logs(self) -> Mapping[TopicPartition, DamagedLog]: ...
