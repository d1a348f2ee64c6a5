"""The replay of a log: the newest producer snapshot, then the batches after it.

Rules: a damaged batch must not count, because it would change the state of the producers or the
leader epochs without a trace. A verified replay checks each batch as recovery does, and that the
batches of a segment reach from its first offset to its end: a segment that is being repaired may
have a shorter file, or none, and a truncated damaged one a longer file.
"""

from collections.abc import Callable, Iterator, Sequence

from josefine_broker.base.errors import CorruptData
from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.host.log.log_state import LogState
from josefine_broker.host.log.recovery import check_offset
from josefine_broker.host.log.segment import LOG_SUFFIX, Segment
from josefine_broker.records.batch import NO_LEADER_EPOCH, BatchHeader, OnBatch, verify

__all__ = ["OnDamage", "replay"]

OnDamage = Callable[[Segment, CorruptData | OSError], None]


def replay(
    segments: Sequence[Segment],
    state: LogState,
    config: LogConfig | None,
    on_snapshot: Callable[[bytes], None] | None,
    on_batch: OnBatch,
    on_damage: OnDamage | None = None,
) -> None:
    """The newest readable producer snapshot, then each batch header after it. Includes batches
    below the log start while they exist, because an older snapshot would otherwise lack them. A
    snapshot with a gap between it and the log no longer describes these producers.

    Every batch is verified; without a `config` none is. A damaged segment raises CorruptData or
    OSError; with `on_damage` what is left of it is passed over."""
    offset = segments[0].base_offset
    # Newest first: it leaves the fewest batches to read.
    for found in reversed(state.snapshot_offsets() if on_snapshot is not None else []):
        payload = state.snapshot(found) if found >= offset else None
        if payload is None or on_snapshot is None:
            continue
        try:
            on_snapshot(payload)
        # A damaged snapshot is no loss: an older one and more batches give the same producers.
        except CorruptData:
            continue
        offset = found
        break
    for segment in segments:
        if segment.end_offset <= offset:
            continue
        try:
            for _, header, batch in (
                segment.batches() if config is None else _verified(segment, config)
            ):
                # A batch that ends before the snapshot is part of it.
                if header.last_offset >= offset:
                    on_batch(header, batch)
        except (CorruptData, OSError) as error:
            if on_damage is None:
                raise
            on_damage(segment, error)


def _verified(segment: Segment, config: LogConfig) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """The batches of a segment, up to the first that is damaged or missing. Raises CorruptData,
    OSError."""
    path, expected = f"{segment.stem}{LOG_SUFFIX}", segment.base_offset
    epoch: int = NO_LEADER_EPOCH
    for position, header, batch in segment.batches():
        verify(batch, 0, header)
        check_offset(header.base_offset, expected, config)
        if header.leader_epoch < epoch:
            raise CorruptData(f"{path}: leader epoch {header.leader_epoch} after {epoch}")
        expected, epoch = header.last_offset + 1, header.leader_epoch
        if expected > segment.end_offset:
            raise CorruptData(f"{path}: offset {header.last_offset} is past the segment's end")
        yield position, header, batch
    if expected < segment.end_offset:
        raise CorruptData(f"{path}: offsets {expected} to {segment.end_offset} are missing")
