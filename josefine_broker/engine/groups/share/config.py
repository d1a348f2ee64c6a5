"""The configuration of a share group."""

from enum import Enum
from typing import NamedTuple

from josefine_broker.engine.groups.share.values import Limits


class StartAt(Enum):
    """Where a group starts in a partition of which it has no state
    (`share.auto.offset.reset`)."""

    LATEST = "latest"
    EARLIEST = "earliest"


class ShareConfig(NamedTuple):
    """What a group's share partitions do."""

    limits: Limits = Limits()
    start_at: StartAt = StartAt.LATEST
    is_committed_only: bool = False
    """`share.isolation.level=read_committed`: records of aborted transactions are not delivered."""
