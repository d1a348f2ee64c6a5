"""The rules that must hold after every event: one file each. Number 8, that a restarted node has
exactly what it had promised, is checked where a machine starts (machine.py); number 9, progress
once faults stop, where a world settles (world.py)."""

from tests.simulation.raft.invariants.answers_are_true import AnswersAreTrue
from tests.simulation.raft.invariants.commits_on_one_path import CommitsOnOnePath
from tests.simulation.raft.invariants.gc_spares_the_living import GcSparesTheLiving
from tests.simulation.raft.invariants.leaders_are_complete import LeadersAreComplete
from tests.simulation.raft.invariants.one_leader_per_term import OneLeaderPerTerm
from tests.simulation.raft.invariants.one_vote_per_term import OneVotePerTerm
from tests.simulation.raft.invariants.same_blocks_applied import SameBlocksApplied

ALL_INVARIANTS = (
    OneLeaderPerTerm,
    CommitsOnOnePath,
    LeadersAreComplete,
    OneVotePerTerm,
    SameBlocksApplied,
    AnswersAreTrue,
    GcSparesTheLiving,
)
