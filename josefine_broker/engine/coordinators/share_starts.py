"""Where a share group starts in a partition of which it has no state (`share.auto.offset.reset`).

Rules: an offset is chosen by a leader that knows its high watermark: one that was just elected
would choose one that is too low, and records from before the group would be delivered. A group that
starts by a duration starts at the first record that is not older, and without one at the end; a
lookup that fails is no such record, and is repeated.
"""

from collections.abc import Callable

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context
from josefine_broker.engine.groups.share.config import ShareConfig, StartAt
from josefine_broker.engine.hosted import HostedPartition

Found = tuple[tuple[int, int, int] | None]
"""The result of a lookup, in a tuple: None alone means that it failed."""


def find_start(
    ctx: Context,
    hosted: HostedPartition,
    config: ShareConfig,
    is_wanted: Callable[[], bool],
    heard: Callable[[int | KafkaError], None],
) -> None:
    """`heard` gets the offset, or why there is none yet; now or later."""
    if not hosted.partition.knows_high_watermark:
        heard(KafkaError(ErrorCode.not_leader_or_follower, "a new leader, not ready yet"))
    elif config.start_at is StartAt.EARLIEST:
        heard(hosted.log.log_start_offset)
    elif config.start_at is StartAt.LATEST:
        heard(hosted.partition.high_watermark)
    else:
        _search(ctx, hosted, ctx.clock.now_ms() - config.start_back_ms, is_wanted, heard)


def _search(
    ctx: Context,
    hosted: HostedPartition,
    timestamp_ms: int,
    is_wanted: Callable[[], bool],
    heard: Callable[[int | KafkaError], None],
) -> None:
    """By the indexes and records of the log, which are read outside the broker's thread."""

    def run(breathe: Callable[[], None]) -> Found | KafkaError:
        try:
            return (None if search is None else search.run(breathe),)
        except KafkaError as error:
            return error

    def done(result: Found | KafkaError | None) -> None:
        # Never the end: a group would skip every record that is young enough.
        if result is None:
            heard(KafkaError(ErrorCode.offset_not_available, "the lookup failed"))
        elif isinstance(result, KafkaError):
            heard(result)
        else:
            (found,) = result
            start = end if found is None else found[0]
            heard(min(start, hosted.partition.high_watermark))

    # The end of what is searched: what comes meanwhile is young enough, and must not be skipped.
    end = hosted.log.log_end_offset
    try:
        search = hosted.log.timestamp_search(max(0, timestamp_ms))
        ctx.ports.work(run, is_wanted, done)
    except KafkaError as error:
        heard(error)
