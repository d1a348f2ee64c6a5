"""The faults of the simulated world, each a named probability, so that a run says what it met.

Each is on or off by the seed (a swarm): all of them at once would hide what some of them do alone.
"""

from dataclasses import dataclass, replace
from random import Random

__all__ = ["CALM", "COUNTED", "NEWEST", "STRENGTH_MAX", "SWITCHES", "Faults", "draw_faults"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Per message, write or crash, or per second of virtual time, as the name says."""

    message_drop: float = 0.0
    message_duplicate: float = 0.0
    message_delay: float = 0.0
    """This share of messages takes up to a second, and later ones overtake it."""
    message_reorder: float = 0.0
    """This share of messages may overtake those sent shortly before; a link keeps order else."""
    partition_per_second: float = 0.0
    """The nodes fall into two groups that do not hear each other."""
    one_way_per_second: float = 0.0
    """One node hears and is not heard, or the other way round."""
    heal_per_second: float = 0.5
    crash_per_second: float = 0.0
    crash_in_write_per_second: float = 0.0
    """The crash comes between two of the next few operations on the disk."""
    restart_per_second: float = 2.0
    lost_writes: float = 0.4
    """This share of crashes loses all that was not synced."""
    torn_write: float = 0.3
    """This share of crashes keeps a part of the last write; the rest spares it."""
    disk_slow: float = 0.0
    """This share of syncs takes up to half a second."""
    pause_per_second: float = 0.0
    """A process stands still for up to a second while its clock goes on."""
    clock_skew: float = 0.0
    """Clocks run up to this share too fast or too slow."""
    snapshot_per_second: float = 0.0
    member_change_per_second: float = 0.0
    transfer_per_second: float = 0.0
    gone_told: float = 0.0
    """This share of nodes hears at once that another one crashed, as from a port that refuses."""
    gone_wrongly_told_per_second: float = 0.0
    """One node is told so of a node that runs."""
    birth_broken: float = 0.0
    """This share of leaders without a committed birth is cut off or crashes on the way to it."""

    snapshot_of_all: float = 0.0
    """At this share of snapshots all that have applied as much make theirs of the same block."""
    sender_breaks_per_second: float = 0.0
    """The leader crashes, or is cut off, while it sends a snapshot."""
    more_changes_per_second: float = 0.0
    """As `member_change_per_second`: members come and go all the time."""
    change_broken: float = 0.0
    """This share of changes of members leaves its leader alone with it: cut off, or crashed."""
    change_hasty: float = 0.0
    """This share of new leaders is asked for other members before they committed anything."""
    disk_damaged_per_second: float = 0.0
    """A bit, a sector or a file of a machine that is down, which then must not start until somebody
    restores it."""


CALM = Faults()

STRENGTH_MAX = {
    "message_drop": 0.2,
    "message_duplicate": 0.2,
    "message_delay": 0.2,
    "message_reorder": 0.5,
    "partition_per_second": 0.4,
    "one_way_per_second": 0.3,
    "crash_per_second": 0.6,
    "crash_in_write_per_second": 0.4,
    "disk_slow": 0.2,
    "pause_per_second": 0.2,
    "clock_skew": 0.3,
    "snapshot_per_second": 2.0,
    "member_change_per_second": 0.8,
    "transfer_per_second": 0.3,
    "gone_told": 1.0,
    "gone_wrongly_told_per_second": 1.0,
    "birth_broken": 1.0,
    "snapshot_of_all": 1.0,
    "sender_breaks_per_second": 8.0,
    "more_changes_per_second": 4.0,
    "change_broken": 0.4,
    "change_hasty": 1.0,
    "disk_damaged_per_second": 2.0,
}

NEWEST = {"disk_damaged_per_second": 0.0}
"""Faults that came after most seeds that tests name: without them these mean what they meant."""

SWITCHES = {
    "message_drop": ("message dropped",),
    "message_duplicate": ("message duplicated",),
    "message_delay": ("message delayed",),
    "message_reorder": ("message reordered",),
    "partition_per_second": ("full partition",),
    "one_way_per_second": ("one-way partition",),
    "crash_per_second": ("crash",),
    "crash_in_write_per_second": ("crash in a write",),
    "disk_slow": ("slow disk",),
    "pause_per_second": ("process paused",),
    "clock_skew": ("clock rate skewed",),
    "snapshot_per_second": ("snapshot made",),
    "member_change_per_second": ("membership change",),
    "transfer_per_second": ("leadership transfer",),
    "gone_told": ("leader said to be gone",),
    "gone_wrongly_told_per_second": ("leader wrongly said to be gone",),
    "birth_broken": ("birth broken",),
    "snapshot_of_all": ("snapshot of another leader, same block",),
    "sender_breaks_per_second": ("sender of a snapshot broken",),
    "more_changes_per_second": ("membership change",),
    "change_broken": ("leader alone with a membership change",),
    "change_hasty": ("membership change asked of a new leader",),
    "disk_damaged_per_second": (
        "bit flipped in a chain",
        "sector torn in a chain",
        "file of a chain lost",
    ),
}
"""What is counted when a fault takes place, of each that the seed may switch on."""

COUNTED = (
    "message dropped",
    "message duplicated",
    "message delayed",
    "message reordered",
    "message lost in a partition",
    "full partition",
    "one-way partition",
    "crash",
    "crash in a write",
    "restart",
    "unsynced writes lost",
    "last write torn",
    "slow disk",
    "process paused",
    "clock rate skewed",
    "membership change",
    "fault while a membership change was under way",
    "leader alone with a membership change",
    "membership change asked of a new leader",
    "snapshot transfer",
    "fault while a snapshot was under way",
    "sender of a snapshot broken",
    "snapshot of another leader, same block",
    "leadership transfer",
    "leader said to be gone",
    "leader wrongly said to be gone",
    "birth broken",
    "birth block dead",
    "bit flipped in a chain",
    "sector torn in a chain",
    "file of a chain lost",
    "damaged disk refused",
)
"""What a run counts when it really happens; a fault that never does proves nothing."""


def draw_faults(rng: Random) -> Faults:
    """Most faults on, each at a strength of its own; some off, so that all mixtures occur."""
    drawn = {name: rng.random() * top for name, top in STRENGTH_MAX.items() if rng.random() < 0.7}
    return replace(CALM, **drawn)
