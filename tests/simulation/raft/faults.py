"""The faults of the simulated world, each a named probability, so that a run says what it met."""

from dataclasses import dataclass, fields, replace
from random import Random

__all__ = ["CALM", "Faults", "draw_faults"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Per message, per write, or per second of virtual time, as the name says."""

    message_drop: float = 0.0
    message_duplicate: float = 0.0
    message_delay: float = 0.0
    """This share of messages takes up to a second: they are reordered."""
    disk_slow: float = 0.0
    """This share of syncs takes up to half a second."""
    cut_per_second: float = 0.0
    """One node loses all its links."""
    one_way_per_second: float = 0.0
    """One node hears and is not heard, or the other way round."""
    heal_per_second: float = 0.5
    crash_per_second: float = 0.0
    """A crash loses what was not synced, tears the last write, or spares it."""
    restart_per_second: float = 2.0
    clock_skew: float = 0.0
    """Clocks run up to this share too fast or too slow."""
    snapshot_per_second: float = 0.0
    member_change_per_second: float = 0.0
    transfer_per_second: float = 0.0


CALM = Faults()


def draw_faults(rng: Random) -> Faults:
    """Most faults on, each at a strength of its own; some off, so that all mixtures occur."""
    most = {
        "message_drop": 0.2,
        "message_duplicate": 0.2,
        "message_delay": 0.2,
        "disk_slow": 0.2,
        "cut_per_second": 0.3,
        "one_way_per_second": 0.3,
        "crash_per_second": 0.7,
        "clock_skew": 0.3,
        "snapshot_per_second": 1.0,
        "member_change_per_second": 0.5,
        "transfer_per_second": 0.3,
    }
    assert most.keys() <= {field.name for field in fields(Faults)}
    drawn = {name: rng.random() * top for name, top in most.items() if rng.random() < 0.7}
    return replace(CALM, **drawn)
