"""Notes that a limit of the machine keeps a log from taking records (`limits/lasting_limit.py`)."""

from josefine_broker.base.errors import StorageLimitError
from josefine_broker.engine.context import Context
from josefine_broker.engine.hosted import HostedPartition


def note_limit(
    ctx: Context, tp: tuple[str, int], hosted: HostedPartition, error: Exception
) -> None:
    """An append to this log, by a leader or a follower, has failed with `error`."""
    if isinstance(error, StorageLimitError):
        _note(ctx, tp, hosted.log.log_end_offset, error.message)


def note_unsynced(ctx: Context, tp: tuple[str, int], hosted: HostedPartition) -> None:
    """What was appended to this log could not be synced for a while."""
    _note(ctx, tp, hosted.log.durable_end_offset, hosted.log.unsynced)


def _note(ctx: Context, tp: tuple[str, int], end_offset: int, reason: str) -> None:
    ctx.storage.limit.refused((*tp,), end_offset, reason, ctx.clock.monotonic_ms())
