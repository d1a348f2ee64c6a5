"""The rules that must hold after every event, one file each: those of the specification by their
numbers, and those of reads and members."""

from tests.simulation.raft.invariants.answers_are_true import AnswersAreTrue
from tests.simulation.raft.invariants.changes_intersect import ChangesIntersect
from tests.simulation.raft.invariants.commits_on_one_path import CommitsOnOnePath
from tests.simulation.raft.invariants.gc_spares_the_living import GcSparesTheLiving
from tests.simulation.raft.invariants.leaders_are_complete import LeadersAreComplete
from tests.simulation.raft.invariants.members_follow_the_chain import MembersFollowTheChain
from tests.simulation.raft.invariants.one_leader_per_term import OneLeaderPerTerm
from tests.simulation.raft.invariants.one_vote_per_term import OneVotePerTerm
from tests.simulation.raft.invariants.progress_returns import ProgressReturns
from tests.simulation.raft.invariants.reads_see_writes import ReadsSeeWrites
from tests.simulation.raft.invariants.restart_keeps_promises import RestartKeepsPromises
from tests.simulation.raft.invariants.same_blocks_applied import SameBlocksApplied

ALL_INVARIANTS = (
    RestartKeepsPromises,  # first: it fills in what others look up
    ProgressReturns,  # first when a world settles: the others look at the settled one
    OneLeaderPerTerm,
    CommitsOnOnePath,
    LeadersAreComplete,
    OneVotePerTerm,
    SameBlocksApplied,
    AnswersAreTrue,
    GcSparesTheLiving,
    ReadsSeeWrites,
    MembersFollowTheChain,
    ChangesIntersect,
)
