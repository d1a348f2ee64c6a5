"""How a broker divides its file descriptors: connections, log files, and what is kept back.

Rules: the system's limit is shared out once, at the start, and each user keeps within its share, so
that neither many partitions lock clients out nor many clients keep a log from being opened. What is
kept back belongs to nobody: it is there when raft, a checkpoint or a directory sync needs one.
"""

from __future__ import annotations

from dataclasses import dataclass

KEPT_BACK_MAX = 256
"""For the process itself, raft's files and connections, the admin listener, replication, names
being resolved and files that are open for a moment. A small limit keeps back a quarter."""

LIMIT_MIN = 128
"""Below this a broker cannot promise to serve even a few clients."""

UNLIMITED = 1 << 20
"""What "no limit" counts as: Linux' own default bound of a process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Descriptors that each kind of use may have open at a time."""

    limit: int
    connections_wanted: int
    connections: int
    files: int
    kept_back: int

    @property
    def shortage(self) -> str:
        """What clients do not get, as a sentence for the log; empty: they get what was wanted."""
        if self.connections >= self.connections_wanted:
            return ""
        needed = KEPT_BACK_MAX + 2 * self.connections_wanted
        return (
            f"the system's limit of {self.limit} open files leaves {self.connections} client"
            f" connections of the {self.connections_wanted} in network.connections_max, and"
            f" {self.files} log files; raise it (ulimit -n, LimitNOFILE) to {needed} or more"
        )


def divide(limit: int, connections_wanted: int) -> Shares:
    """Share out `limit` descriptors (negative: none). Connections get what they want as long as
    that is no more than half of what is not kept back; log files get the rest. ValueError, as a
    sentence, for a limit with which no broker can work.
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
