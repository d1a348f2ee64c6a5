"""The leader's view of one follower: what it has, and how much may be sent to it.

PROBE finds the last block in common, one message at a time; REPLICATE sends ahead, in a window;
SNAPSHOT is for a follower that needs blocks from below our root.
"""

from collections import deque
from enum import Enum, auto

from raft.errors import InvariantBroken
from raft.ids import Height
from raft.state import Snapshot, snapshot_checksum

__all__ = ["TRANSITIONS", "Flow", "FlowEvent", "Progress", "SnapshotTransfer"]


class Flow(Enum):
    """How a follower is being supplied."""

    PROBE = auto()  # one append that tests a parent is sent, or about to be
    REPLICATE = auto()  # the parent is known; blocks are sent before earlier ones are answered
    SNAPSHOT = auto()  # it gets our snapshot in chunks


class FlowEvent(Enum):
    """The events that change the flow."""

    MET = auto()  # it acknowledged a block of our path
    REFUSED = auto()  # it lacks the offered parent, but may have a lower one
    BELOW_ROOT = auto()  # it needs blocks below our root, which only the snapshot has


TRANSITIONS: dict[tuple[Flow, FlowEvent], Flow] = {
    (Flow.PROBE, FlowEvent.MET): Flow.REPLICATE,
    (Flow.PROBE, FlowEvent.REFUSED): Flow.PROBE,
    (Flow.PROBE, FlowEvent.BELOW_ROOT): Flow.SNAPSHOT,
    (Flow.REPLICATE, FlowEvent.REFUSED): Flow.PROBE,
    (Flow.REPLICATE, FlowEvent.BELOW_ROOT): Flow.SNAPSHOT,
    (Flow.SNAPSHOT, FlowEvent.MET): Flow.REPLICATE,
    (Flow.SNAPSHOT, FlowEvent.REFUSED): Flow.PROBE,
    (Flow.SNAPSHOT, FlowEvent.BELOW_ROOT): Flow.SNAPSHOT,
}
"""An unlisted pair cannot happen: in REPLICATE a common block is known already."""


class SnapshotTransfer:
    """One snapshot on its way to one follower, in chunks. Mutable; owned by its Progress."""

    __slots__ = ("checksum", "moved_round", "offset", "snapshot")

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.checksum = snapshot_checksum(snapshot)
        """Of the whole snapshot: computed once, sent with every chunk."""
        self.offset = 0
        """The next byte to send."""
        self.moved_round = 0
        """The leader's round when the offset last moved."""

    def move_to(self, offset: int, leaders_round: int) -> None:
        """The follower asked for the chunk at `offset`."""
        self.offset = offset
        self.moved_round = leaders_round

    def is_news(self, next_offset: int, answered_round: int) -> bool:
        """Whether this answer asks for another chunk. One answer asks for one chunk, however often
        it arrives: otherwise every duplicate would double the chunks in flight. The offset goes
        back only for an answer given after it last moved: the follower lost what it had. A lost
        chunk is sent again with the next heartbeat."""
        if next_offset < self.offset:
            return answered_round > self.moved_round
        return next_offset > self.offset


class Progress:
    """Mutable; owned by the leader of one term. Heights are on that leader's own path."""

    __slots__ = (
        "answered_ms",
        "commit_sent",
        "flow",
        "inflight",
        "match",
        "matched_round",
        "next",
        "probe_out",
        "round",
        "since_round",
        "transfer",
    )

    def __init__(self, next_height: Height, now_ms: int, *, since_round: int = 0) -> None:
        self.flow = Flow.PROBE
        self.match: Height | None = None
        """Highest block it acknowledged in our term; None before the first answer."""
        self.matched_round = 0
        """The leader's round when the last acknowledgement arrived."""
        self.next: Height = next_height
        """The next block to send; a probe tests this block's parent."""
        self.inflight: deque[Height] = deque()
        self.probe_out = False
        self.commit_sent: Height = Height(-1)
        self.round = 0
        self.since_round = since_round
        """Answers to earlier rounds are from a run whose data the follower has lost."""
        self.answered_ms = now_ms
        self.transfer: SnapshotTransfer | None = None
        """The snapshot that is being sent; None in the other flows."""

    def on(self, event: FlowEvent) -> None:
        """Follow the table. Raises InvariantBroken for an event that is impossible in this flow."""
        after = TRANSITIONS.get((self.flow, event))
        if after is None:
            raise InvariantBroken(f"{event.name} cannot happen to {self.flow.name}")
        self.flow = after

    def probe_from(self, next_height: Height) -> None:
        """Probe again, from this height (never at or below what it acknowledged)."""
        self.on(FlowEvent.REFUSED)
        self.transfer = None
        self.inflight.clear()
        self.probe_out = False
        floor = 0 if self.match is None else self.match + 1
        self.next = Height(max(next_height, floor))

    def send_snapshot(self, snapshot: Snapshot) -> None:
        """Start from the first byte, also if a snapshot is being sent already."""
        self.on(FlowEvent.BELOW_ROOT)
        self.transfer = SnapshotTransfer(snapshot)
        self.probe_out = False
        self.inflight.clear()

    def acknowledge(self, last: Height, leaders_round: int = 0) -> None:
        """The follower has everything up to `last`."""
        self.matched_round = leaders_round
        if self.match is None or last > self.match:
            self.match = last
        self.next = Height(max(self.next, self.match + 1))
        while self.inflight and self.inflight[0] <= self.match:
            self.inflight.popleft()
        if self.flow is not Flow.REPLICATE:
            self.on(FlowEvent.MET)
            self.transfer = None
            self.next = Height(self.match + 1)
            self.inflight.clear()
        self.probe_out = False

    def sent(self, last: Height, commit: Height) -> None:
        """An append up to `last` is sent."""
        self.commit_sent = commit
        if self.flow is Flow.PROBE:
            self.probe_out = True
        elif last >= self.next:
            self.inflight.append(last)
            self.next = Height(last + 1)

    def may_send_blocks(self, inflight_max: int) -> bool:
        if self.flow is Flow.PROBE:
            return not self.probe_out
        return self.flow is Flow.REPLICATE and len(self.inflight) < inflight_max
