"""Wrong lines, one per rule of the cluster that matters: what test_mutants.py breaks it with. Those
of consumer groups are in group_mutants.py.

A mutant names the kind of life that its rule matters in, where that is rare among all lives.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from josefine_broker.engine.cluster import admission
from josefine_broker.engine.cluster.enrolment import Enrolment
from josefine_broker.engine.cluster.joining import Asking
from josefine_broker.engine.cluster.peers import Peers
from josefine_broker.engine.controller import membership
from josefine_broker.engine.metadata import apply, leader_election, reassignment, registration
from josefine_broker.engine.metadata_quorum.quorum import Quorum
from josefine_broker.engine.partition.partition import Partition
from josefine_broker.engine.partition.producers import ProducerState
from josefine_broker.engine.partition.refusals import EarlyRefusals, Refusals
from josefine_broker.engine.partition.replication import Followers
from josefine_broker.engine.purgatory.purgatory import ParkedRequests
from josefine_broker.engine.replicas import committing, following
from josefine_broker.host.log import recovered_epochs
from josefine_broker.host.log.log import PartitionLog
from josefine_broker.host.log.log_sync import LogSync
from josefine_broker.host.replica_manager import Hosting

__all__ = ["MUTANTS", "Mutant"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One wrong line."""

    breaks: str
    function: Callable[..., Any]
    old: str
    new: str
    faults: dict[str, float]
    """Strengths that these lives have besides what chance gives them."""
    brokers: int = 3
    seed: int = 0
    """Where the search begins: a seed that noticed, when it was last looked for."""


STOPS = {"kill_per_second": 0.5, "pause_per_second": 0.4, "partition_per_second": 0.4}
ELECTIONS = {
    "kill_per_second": 0.8,
    "pause_per_second": 0.8,
    "restart_per_second": 3.0,
    "connection_slow": 0.3,
    "connection_break_per_second": 2.0,
}
DIVIDED = {
    "partition_per_second": 1.2,
    "one_way_per_second": 0.6,
    "heal_per_second": 1.5,
    "pause_per_second": 0.5,
}
OUTAGES = {"power_loss_per_second": 1.2, "restart_per_second": 3.0, "reckless": 0.0}
LATE = {
    "raft_delay": 0.3,
    "raft_drop": 0.3,
    "connection_slow": 0.3,
    "kill_per_second": 1.0,
    "restart_per_second": 3.0,
    "pause_per_second": 0.5,
}
POWER = {"power_loss_per_second": 0.7, "disk_slow": 0.2, "reckless": 0.0}
PAUSES = {"pause_per_second": 1.5, "shutdown_per_second": 0.5, "restart_per_second": 0.7}
FAILING_SYNCS = {
    "sync_fails_per_second": 1.0,
    "power_loss_per_second": 1.0,
    "restart_per_second": 3.0,
    "file_fails_per_second": 0.0,
    "reckless": 0.0,
}
DAMAGE = {
    "kill_all_per_second": 0.3,
    "kill_per_second": 0.5,
    "log_flip_per_second": 3.0,
    "log_lost_per_second": 3.0,
    "power_loss_per_second": 0.0,
    "power_loss_of_all_per_second": 0.0,
}
FILES_LOST = {
    **DIVIDED,
    **STOPS,
    "kill_per_second": 0.8,
    "shutdown_per_second": 0.6,
    "log_torn_per_second": 2.1,
    "file_flip_per_second": 2.8,
    "file_torn_per_second": 5.5,
    "file_lost_per_second": 20.0,
}
MEMBERS = {"member_per_second": 4.0, "upgraded": 0.0}
MOVES = {
    **MEMBERS,
    "slow_link_per_second": 2.0,
    "connection_slow": 0.5,
    "raft_drop": 0.0,
    "raft_delay": 0.0,
    "kill_per_second": 0.0,
    "kill_all_per_second": 0.0,
    "pause_per_second": 0.0,
    "shutdown_per_second": 0.0,
    "partition_per_second": 0.0,
    "one_way_per_second": 0.0,
    "power_loss_per_second": 0.0,
    "power_loss_of_all_per_second": 0.0,
}
"""Brokers stay up and reach each other, late: so reassignments end, and a replica that went is back
while a fetch of its life before is still under way. Where brokers are killed, few get that far."""
ALL_POWER = {"power_loss_of_all_per_second": 0.3, "reckless": 0.0}


def get(property_: Any) -> Callable[..., Any]:
    """The function behind a property."""
    return property_.fget  # type: ignore[no-any-return]


STRANGERS = {"stranger_per_second": 9.0}
MUTANTS = [
    Mutant(
        breaks="a frame speaks for the broker that greeted, and for no other",
        function=admission.why_not,
        old="speaks_for not in (None, peer)",
        new="False",
        faults=STRANGERS,
    ),
    Mutant(
        breaks="who is no member and was not invited is not listened to",
        function=admission.Roster.standing,
        old="return Standing.STRANGER\n",
        new="return Standing.INVITED\n",
        faults=STRANGERS,
    ),
    Mutant(
        breaks="acks=all waits for the high watermark",
        function=committing.Appended.decide,
        old="partition.high_watermark >= self.end_offset",
        new="True",
        faults={},
    ),
    Mutant(
        breaks="an answer does not run within whatever completed the request",
        function=ParkedRequests.note_completed,
        old="self._completed.append(parked)",
        new="parked.on_done(parked)",
        faults={"unbounded": 1.0},
    ),
    Mutant(
        breaks="the high watermark is where the slowest ISR member is",
        function=Followers.committed_end,
        old="if follower.end_offset < end:",
        new="if False:",
        faults={},
    ),
    Mutant(
        breaks="a leader tells a follower where their logs part",
        function=Partition.diverging,
        old="if epoch < fetched_epoch or end_offset < fetch_offset:",
        new="if False:",
        faults=STOPS,
        seed=2,
    ),
    Mutant(
        breaks="a follower cuts what the leader does not have",
        function=following._truncate,
        old="its_log.truncate_to(target)",
        new="pass",
        faults=STOPS,
        seed=2,
    ),
    Mutant(
        breaks="a leader comes from the ISR",
        function=leader_election.settle,
        old="brokers.live & trusted.intersection(isr)",
        new="brokers.live",
        faults=STOPS,
        seed=2,
    ),
    Mutant(
        breaks="who may have lost records leaves the ISR before an election",
        function=leader_election.trusted,
        old="if not entry.doubts:",
        new="if True:",
        faults=OUTAGES,
        seed=104,
    ),
    Mutant(
        breaks="a log that is not there although it had records is missing",
        function=Hosting.prepare,
        old="logs.setdefault(key, gone)",
        new="pass",
        faults=DAMAGE,
    ),
    Mutant(
        breaks="leader epochs whose checkpoint is lost are read from all the batches",
        function=recovered_epochs.recovered_epochs,
        old="if stored is None and not (seen and seen[0][1] <= partition_log.log_start_offset):",
        new="if False:",
        faults=FILES_LOST,
        seed=82,
    ),
    Mutant(
        breaks="an ISR change holds for the partition epoch it was made for",
        function=apply._isr_fits,
        old=" != (entry.leader_epoch, entry.partition_epoch)",
        new=" > (entry.leader_epoch, entry.partition_epoch)",
        faults=LATE,
        seed=9,
    ),
    Mutant(
        breaks="a decision holds for the partition epoch it was made for",
        function=apply._decision_fits,
        old="state.partition_epoch != entry.partition_epoch",
        new="False",
        faults=LATE,
    ),
    Mutant(
        breaks="a controller of an older term decides nothing",
        function=apply._decision,
        old="change.controller_term != at.term",
        new="False",
        faults=DIVIDED,
        seed=62,
    ),
    Mutant(
        breaks="below min.insync.replicas the high watermark stands still",
        function=Partition.advance_high_watermark,
        old="if followers is None or self.is_under_min_isr:",
        new="if followers is None:",
        faults=OUTAGES | PAUSES,
        seed=151,
    ),
    Mutant(
        breaks="consumers read below the high watermark",
        function=Partition.readable_end,
        old="return self.high_watermark",
        new="return log_end_offset",
        faults={},
    ),
    Mutant(
        breaks="a new leader does not tell where the log ends before it knows",
        function=get(Partition.knows_high_watermark),
        old="self.high_watermark >= self.epoch_start_offset",
        new="True",
        faults=ELECTIONS,
        seed=81,
    ),
    Mutant(
        breaks="who joins an ISR has all that is committed",
        function=Followers.wanted_isr,
        old="if self._followers[broker_id].end_offset >= needed",
        new="if True",
        faults=STOPS,
        seed=134,
    ),
    Mutant(
        breaks="who is about to join an ISR holds the high watermark",
        function=Followers._settle_waits,
        old="(set(self.isr) | self.pending | self.joining)",
        new="set(self.isr)",
        faults=STOPS,
        seed=51,
    ),
    Mutant(
        breaks="a registration ends the leaderships of the process before",
        function=registration.register,
        old="return _end_leaderships(image, broker_id, claims or LogClaims())",
        new="return image",
        faults=STOPS,
        seed=2,
    ),
    Mutant(
        breaks="a repeated batch is not stored again",
        function=Partition.check_append,
        old="return self.producers.check(header)",
        new="return None",
        faults=STOPS,
    ),
    Mutant(
        breaks="a plain batch is the next one of its producer",
        function=ProducerState.continues,
        old="if first_sequence != expected.get(producer_id, entry.next_sequence):",
        new="if False:",
        faults=STOPS,
    ),
    Mutant(
        breaks="behind a refused batch every later one of its producer is refused",
        function=Refusals.holding_back,
        old="if refused is None:",
        new="if True:",
        faults=ELECTIONS,
        seed=19,
    ),
    Mutant(
        breaks="a refused batch that is here leaves those that were refused behind it",
        function=Refusals._note,
        old="newest = known.newest = _later(known.newest, sequence)",
        new="pass",
        faults=LATE | ELECTIONS,
        seed=26,
    ),
    Mutant(
        breaks="a batch that came before its partition holds back those behind it",
        function=EarlyRefusals.note,
        old="refusals.note(header, ErrorCode.not_leader_or_follower)",
        new="pass",
        faults=LATE,
        seed=218,
    ),
    Mutant(
        breaks="where a topic asks for it, records count once they are synced",
        function=get(PartitionLog.durable_end_offset),
        old="self._sync.durable_end if self.config.flush_messages == 1 else self.log_end_offset",
        new="self.log_end_offset",
        faults=ALL_POWER,
        seed=60,
    ),
    Mutant(
        breaks="a sync by a syncer covers what was there when it began",
        function=LogSync._end_file_sync,
        old="max(self.durable_end, sync.end_offset)",
        new="self._segments[-1].end_offset",
        faults=ALL_POWER,
        seed=0,
    ),
    Mutant(
        breaks="a follower acknowledges what it has synced",
        function=following._follow,
        old="if durable_end < its_log.log_end_offset:",
        new="if False:",
        faults=ALL_POWER,
        seed=135,
    ),
    Mutant(
        breaks="eligible leader replicas are remembered",
        function=leader_election.eligible,
        old="if len(isr) >= min(min_insync_replicas, len(entry.replicas)):",
        new="if True:",
        faults=OUTAGES | PAUSES,
        brokers=5,
        seed=98,
    ),
    Mutant(
        breaks="the producers' state follows a truncation",
        function=following._after_cut,
        old="if producers.reaches(hosted.log.log_end_offset):",
        new="if False:",
        faults=DIVIDED | STOPS,
        seed=72,
    ),
    Mutant(
        breaks="a leader epoch ends when a replica goes",
        function=reassignment.drops_replicas,
        old="return not set(before.replicas) <= set(after.replicas)",
        new="return False",
        faults=MOVES,
        seed=82,
    ),
    Mutant(
        breaks="who dials says where it is",
        function=Peers.greeted,
        old="if not was_dialed and peer.address and self.knows(peer.node_id):",
        new="if False:",
        faults=MEMBERS,
        seed=3,
    ),
    Mutant(
        breaks="a greeting of a member invites those that it names",
        function=admission.vouched_by,
        old="after = before | frozenset(names)",
        new="return before",
        faults=MEMBERS,
    ),
    Mutant(
        breaks="whoever asks around asks those that it is told of",
        function=Asking._learn,
        old="if node != self._own_id:",
        new="if False:",
        faults=MEMBERS,
    ),
    Mutant(
        breaks="a learner that has caught up may vote",
        function=Quorum._caught_up,
        old="least = self.node.chain.head.height - NEAR_HEAD_BLOCKS",
        new="return frozenset()",
        faults=MEMBERS,
    ),
    Mutant(
        breaks="an unregistered broker leaves Raft",
        function=membership.next_member_change,
        old="if set(voters) != {broker_id}:",
        new="if False:",
        faults=MEMBERS,
        seed=89,
    ),
    Mutant(
        breaks="a voter without data is not let in",
        function=Peers.why_not,
        old="if known is not None and is_voter and not peer.cluster_id:",
        new="if False:",
        faults=MEMBERS,
    ),
    Mutant(
        breaks="a removed process stops",
        function=Enrolment._check_dismissed,
        old='raise DismissedError(f"broker {broker_id} was removed from the cluster")',
        new="pass",
        faults=MEMBERS,
    ),
    Mutant(
        breaks="a process that missed its removal is told, and stops",
        function=Peers.must_stop,
        old="height >= own.epoch",
        new="False",
        faults=MEMBERS,
        seed=2,
    ),
]
