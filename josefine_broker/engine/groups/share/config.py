"""The configuration of a share group."""

from enum import Enum
from typing import NamedTuple

from josefine_broker.engine.groups.share.values import Limits


class StartAt(Enum):
    """Where a group starts in a partition of which it has no state
    (`share.auto.offset.reset`)."""

    LATEST = "latest"  # the high watermark: records from now on
    EARLIEST = "earliest"  # the log start offset: every record that is not deleted


class DeadLetters(NamedTuple):
    """Where the dead letters of a group go (KIP-1191)."""

    topic: str
    copies_records: bool = False
    """`errors.deadletterqueue.copy.record.enable`: whether a letter has the record's key and value,
    or only names the record."""


class ShareConfig(NamedTuple):
    """What a group's share partitions do: as in its broker's file (`group.share_*`), or as was
    set on the group."""

    limits: Limits = Limits()
    start_at: StartAt = StartAt.LATEST
    is_committed_only: bool = False
    """`share.isolation.level=read_committed`: records of aborted transactions are not delivered,
    and those of open ones not before these end."""
    may_renew: bool = True
    """`share.renew.acknowledge.enable`: whether members may renew locks (KIP-1222)."""
    dead_letters: DeadLetters | None = None
    """None: there are none. A record that no member can process is only archived."""
    dead_letter_prefix: str = "dlq."
    """What the names of topics for dead letters start with."""
