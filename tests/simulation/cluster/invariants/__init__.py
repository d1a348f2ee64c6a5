"""The rules of the cluster: one file each, numbered."""

from tests.simulation.cluster.invariants.acknowledged_is_kept import AcknowledgedIsKept
from tests.simulation.cluster.invariants.cluster_converges import ClusterConverges
from tests.simulation.cluster.invariants.committed_stays import CommittedStays
from tests.simulation.cluster.invariants.decisions_are_kept import DecisionsAreKept
from tests.simulation.cluster.invariants.fenced_commit_nothing import FencedCommitNothing
from tests.simulation.cluster.invariants.fenced_write_nothing import FencedWriteNothing
from tests.simulation.cluster.invariants.finished_stays import FinishedStays
from tests.simulation.cluster.invariants.forgotten_votes_do_not_count import (
    ForgottenVotesDoNotCount,
)
from tests.simulation.cluster.invariants.groups_settle import GroupsSettle
from tests.simulation.cluster.invariants.high_watermark_grows import HighWatermarkGrows
from tests.simulation.cluster.invariants.holders_are_single import HoldersAreSingle
from tests.simulation.cluster.invariants.images_are_equal import ImagesAreEqual
from tests.simulation.cluster.invariants.isr_is_complete import IsrIsComplete
from tests.simulation.cluster.invariants.letters_are_whole import LettersAreWhole
from tests.simulation.cluster.invariants.mirror_is_equal import MirrorIsEqual
from tests.simulation.cluster.invariants.offsets_are_kept import OffsetsAreKept
from tests.simulation.cluster.invariants.one_leader_per_epoch import OneLeaderPerEpoch
from tests.simulation.cluster.invariants.owners_are_single import OwnersAreSingle
from tests.simulation.cluster.invariants.sequences_are_whole import SequencesAreWhole
from tests.simulation.cluster.invariants.shares_are_single import SharesAreSingle
from tests.simulation.cluster.invariants.shares_settle import SharesSettle
from tests.simulation.cluster.invariants.stable_end_grows import StableEndGrows
from tests.simulation.cluster.invariants.stale_changes_fail import StaleChangesFail
from tests.simulation.cluster.invariants.transactions_settle import TransactionsSettle
from tests.simulation.cluster.invariants.transfers_are_whole import TransfersAreWhole
from tests.simulation.cluster.invariants.unclean_is_last import UncleanIsLast

ALL_INVARIANTS = (
    ClusterConverges,  # first when a world settles: the others look at the settled one
    AcknowledgedIsKept,
    CommittedStays,
    HighWatermarkGrows,
    OneLeaderPerEpoch,
    IsrIsComplete,
    ImagesAreEqual,
    SequencesAreWhole,
    StaleChangesFail,
    UncleanIsLast,
    ForgottenVotesDoNotCount,
    OwnersAreSingle,
    OffsetsAreKept,
    FencedCommitNothing,
    GroupsSettle,
    TransfersAreWhole,
    FencedWriteNothing,
    StableEndGrows,
    TransactionsSettle,
    HoldersAreSingle,
    DecisionsAreKept,
    SharesAreSingle,
    FinishedStays,
    SharesSettle,
    MirrorIsEqual,
    LettersAreWhole,  # after it: then every record is accepted, or has its dead letter
)
