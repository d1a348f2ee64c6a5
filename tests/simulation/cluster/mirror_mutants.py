"""Wrong lines in the append of a mirror's batches: see mutants.py."""

from josefine_broker.engine.replicas import mirrored
from tests.simulation.cluster.mutants import Mutant

__all__ = ["MIRROR_MUTANTS"]

MIRROR = {
    "mirror": 1.0,
    "kill_per_second": 0.8,
    "pause_per_second": 0.8,
    "restart_per_second": 3.0,
    "connection_break_per_second": 2.0,
}

MIRROR_MUTANTS = (
    Mutant(
        breaks="a mirror's batch starts where the log ends",
        function=mirrored._survey,
        old="if header.base_offset == end:",
        new="if header.base_offset >= end:",
        faults=MIRROR,
        seed=30,
    ),
    Mutant(
        breaks="a mirror's batch that is there already is stored once",
        function=mirrored._survey,
        old="if header.base_offset == end:",
        new="if header.base_offset == end or header.last_offset < end:",
        faults=MIRROR,
    ),
)
