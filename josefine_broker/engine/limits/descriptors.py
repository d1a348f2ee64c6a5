"""The division of a broker's file descriptors between connections, log files and a reserve.

Rules: the system's limit is divided once at the start, and each use keeps to its share, so that
neither many partitions lock out clients nor many clients prevent a log from being opened. The
reserve is free for raft, a checkpoint or a directory sync.
"""

from __future__ import annotations

from dataclasses import dataclass

KEPT_BACK_MAX = 256
"""The reserve: for the process itself, raft's files and connections, the admin listener,
replication, name resolution and files that are open briefly. A small limit reserves a quarter."""

LIMIT_MIN = 128
"""Below this a broker cannot serve even a few clients."""

UNLIMITED = 1 << 20
"""The value used for "no limit": Linux' own default limit per process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """The number of descriptors that each kind of use may have open."""

    limit: int
    connections_wanted: int
    connections: int
    files: int
    kept_back: int

    @property
    def shortage(self) -> str:
        """What clients do not get, as a sentence for the log; empty: all that was configured."""
        if self.connections >= self.connections_wanted:
            return ""
        needed = KEPT_BACK_MAX + 2 * self.connections_wanted
        return (
            f"the system's limit of {self.limit} open files leaves {self.connections} client"
            f" connections of the {self.connections_wanted} in network.connections_max, and"
            f" {self.files} log files; raise it (ulimit -n, LimitNOFILE) to {needed} or more"
        )


def divide(limit: int, connections_wanted: int) -> Shares:
    """Divide `limit` descriptors (negative: unlimited). Connections get what they want up to half
    of what is not reserved; log files get the rest. Raises ValueError, with a sentence, for a limit
    that is too low for a broker.
    """
    if limit < 0:
        limit = UNLIMITED
    if limit < LIMIT_MIN:
        raise ValueError(
            f"the system allows this process {limit} open files (ulimit -n); a broker needs"
            f" {LIMIT_MIN} at the very least"
        )
    kept_back = min(KEPT_BACK_MAX, limit // 4)
    free = limit - kept_back
    connections = min(connections_wanted, free // 2)
    return Shares(
        limit=limit,
        connections_wanted=connections_wanted,
        connections=connections,
        files=free - connections,
        kept_back=kept_back,
    )
