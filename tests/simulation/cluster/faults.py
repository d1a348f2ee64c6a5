"""The faults of the simulated cluster, each a named probability, so that a run says what it met.

Each is on or off by the seed (a swarm): all of them at once would hide what some of them do alone.
"""

from dataclasses import dataclass, replace
from random import Random

__all__ = [
    "CALM",
    "COUNTED",
    "COUNTED_OF_TRANSACTIONS",
    "NEWEST",
    "NEW_SINCE",
    "STRENGTH_MAX",
    "SWITCHES",
    "Faults",
    "draw_faults",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Per message or disk job, or per second of virtual time, as the name says."""

    client_impatient: float = 0.0
    """This share of clients' requests is given up after some 30 ms, with all that is under way on
    that connection, and made again."""
    raft_drop: float = 0.0
    """Raft's messages and the brokers' heartbeats; Kafka's connections lose nothing but
    themselves."""
    raft_duplicate: float = 0.0
    raft_delay: float = 0.0
    """This share takes up to half a second, and later ones overtake it."""
    connection_slow: float = 0.0
    """This share of requests and answers takes up to 600 ms; those behind it wait."""
    slow_link_per_second: float = 0.0
    """All that one broker sends to another takes up to a second more, for up to three seconds; the
    other way is as fast as ever."""
    connection_break_per_second: float = 0.0
    partition_per_second: float = 0.0
    """The brokers, and the clients with them, fall into two groups that do not hear each other."""
    one_way_per_second: float = 0.0
    """One broker hears and is not heard, or the other way round."""
    heal_per_second: float = 0.7
    kill_per_second: float = 0.0
    """kill -9: the page cache stays."""
    power_loss_per_second: float = 0.0
    """Unsynced writes are lost, torn or garbage."""
    power_loss_of_all_per_second: float = 0.0
    """The power of the whole room: every broker at once."""
    shutdown_per_second: float = 0.0
    """A controlled shutdown, and a start after it."""
    restart_per_second: float = 1.5
    pause_per_second: float = 0.0
    """SIGSTOP: a broker stands still for up to three seconds while its clock goes on."""
    disk_slow: float = 0.0
    """This share of syncs takes up to 400 ms; one in a handler stops the broker for as long."""
    disk_full_per_second: float = 0.0
    """The log disk takes no byte for up to two seconds."""
    sync_fails_per_second: float = 0.0
    """For a quarter of a second every sync fails; a log that met it is not written any more, and
    half a second later somebody restarts the broker."""
    file_fails_per_second: float = 0.0
    """For a quarter of a second one file of a log takes neither write nor sync."""
    kind_fails_per_second: float = 0.0
    """For up to a second no file of one kind takes a write or a sync, see `file_kinds.py`."""
    chain_fails_per_second: float = 0.0
    """For up to half a second Raft's segments, its snapshots or their directory take none: the
    process ends."""
    metadata_disk_full_per_second: float = 0.0
    """Raft's disk takes no byte for up to two seconds."""
    clock_jump_per_second: float = 0.0
    """A wall clock is set forward or back by up to an hour."""
    clock_skew: float = 0.0
    """Monotonic clocks run up to this share too fast or too slow; wall clocks are apart."""
    kill_all_per_second: float = 0.0
    """kill -9 of every broker at once."""
    log_flip_per_second: float = 0.0
    """One bit flips in the newest segment of one replica's log while its broker is down, where
    enough others have its records."""
    log_lost_per_second: float = 0.0
    """One partition's directory is gone from a broker that is down, on the same condition."""
    log_torn_per_second: float = 0.0
    """As `log_flip_per_second`, of a sector: zeros, or garbage."""
    file_flip_per_second: float = 0.0
    """One bit flips in a file beside the logs of a broker that is down, see `file_kinds.py`."""
    file_torn_per_second: float = 0.0
    """The same, of a sector."""
    file_lost_per_second: float = 0.0
    """Such a file is gone."""
    chain_damaged_per_second: float = 0.0
    """A bit, a sector or a file of Raft's, of a broker that is down, which then must not start
    until somebody restores it."""
    rot_per_second: float = 0.0
    """The log of a broker that runs: a bit flips, a write is lost or goes to the wrong place, a
    sector cannot be read any more. In lives of their own, see `rot.py`."""
    no_handles_per_second: float = 0.0
    """For up to two seconds a broker can open no file. These three are in runs of their own, see
    `limits.py`."""
    over_quota_per_second: float = 0.0
    """For up to two seconds the quota of a broker's data directory is exhausted."""
    stale_listing_per_second: float = 0.0
    """A listing of a log's directory misses a segment, or shows one that is gone, when its broker
    starts."""
    reckless: float = 0.0
    """This share of power losses does not spare partitions that then may lose records: more
    replicas without power than `min.insync.replicas` covers, and nothing synced."""
    unclean_allowed: float = 0.0
    """In this share of lives unclean elections are allowed: by topics, or by default."""
    birth_broken: float = 0.0
    """In this share of lives the first leader of Raft is killed when it has the block that names
    the cluster on disk, and has sent it to nobody."""
    member_per_second: float = 0.0
    """A broker is added, begins to leave for good, or loses its data directory: `members.py`."""
    upgraded: float = 0.0
    """In this share of lives brokers begin with older code, and get newer one at a restart."""
    groups: float = 0.0
    """In this share of lives there are consumer groups, whose members come, go and stand still."""
    consumer_groups: float = 0.0
    """In this share of lives with consumer groups one is of the consumer protocol (KIP-848)."""
    migrating: float = 0.0
    """In this share of lives with a group of the consumer protocol it has classic members, too."""
    shares: float = 0.0
    """In this share of lives there is a share group (KIP-932). Only where it is asked for."""
    dead_letters: float = 0.0
    """Whether that group has dead letters (KIP-1191), if the cluster is as new. Only where it is
    asked for."""
    mirror: float = 0.0
    """Whether a topic is the mirror of a source elsewhere. Only where it is asked for."""
    transactions: float = 0.0
    """In this share of lives there are transactional producers, and readers of their transfers."""
    unbounded: float = 0.0
    """In this share of lives one producer has more requests in flight than a broker works on."""
    spreading: float = 0.0
    """In this share of lives two producers send batches for several partitions in each request,
    and a consumer has a fetch session."""
    two_phase: float = 0.0
    """In this share of lives with transactions one producer takes part in a two-phase commit."""
    stranger_per_second: float = 0.0
    """Somebody sends a frame to a raft listener that it may not send: no member, or a member in the
    name of another. It must be refused, and change nothing."""


CALM = Faults()

STRENGTH_MAX = {
    "raft_drop": 0.15,
    "raft_duplicate": 0.15,
    "raft_delay": 0.1,
    "connection_slow": 0.1,
    "connection_break_per_second": 1.0,
    "partition_per_second": 0.3,
    "one_way_per_second": 0.25,
    "kill_per_second": 0.5,
    "power_loss_per_second": 0.5,
    "power_loss_of_all_per_second": 0.1,
    "shutdown_per_second": 0.2,
    "pause_per_second": 0.3,
    "disk_slow": 0.15,
    "disk_full_per_second": 0.15,
    "sync_fails_per_second": 0.1,
    "clock_jump_per_second": 0.2,
    "clock_skew": 0.2,
    "reckless": 0.3,
    "birth_broken": 0.4,
    "stranger_per_second": 3.0,
    "file_fails_per_second": 0.3,
    "metadata_disk_full_per_second": 0.15,
    "kill_all_per_second": 0.2,
    "log_flip_per_second": 3.0,
    "log_lost_per_second": 3.0,
    "log_torn_per_second": 3.0,
    "file_flip_per_second": 8.0,
    "file_torn_per_second": 8.0,
    "file_lost_per_second": 8.0,
    "chain_damaged_per_second": 4.0,
    "kind_fails_per_second": 0.5,
    "chain_fails_per_second": 0.15,
    "slow_link_per_second": 1.0,
    "member_per_second": 3.0,
    "upgraded": 0.8,
    "client_impatient": 0.3,
    "unclean_allowed": 1.0,
    "groups": 1.0,
    "transactions": 1.0,
    "consumer_groups": 1.0,
    "two_phase": 1.0,
    "migrating": 1.0,
    "unbounded": 1.0,
    "spreading": 1.0,
}

NEWEST = {
    "spreading": 0.0,
    "unbounded": 0.0,
    "migrating": 0.0,
    "two_phase": 0.0,
    "consumer_groups": 0.0,
    "transactions": 0.0,
    "groups": 0.0,
    "kind_fails_per_second": 0.0,
    "chain_fails_per_second": 0.0,
    "slow_link_per_second": 0.0,
    "client_impatient": 0.0,
    "unclean_allowed": 0.0,
}
"""Faults that came after the seeds that tests name: without them these mean what they meant,"""
NEW_SINCE = {
    "log_torn_per_second": 0.0,
    "file_flip_per_second": 0.0,
    "file_torn_per_second": 0.0,
    "file_lost_per_second": 0.0,
    "chain_damaged_per_second": 0.0,
    **NEWEST,
    "member_per_second": 0.0,
    "upgraded": 0.0,
}
"""and those that came after the older ones."""

NO_DAMAGE = {
    "log_flip_per_second": 0.0,
    "log_lost_per_second": 0.0,
    "log_torn_per_second": 0.0,
    "file_flip_per_second": 0.0,
    "file_torn_per_second": 0.0,
    "file_lost_per_second": 0.0,
}

SWITCHES = {
    "raft_drop": ("raft message dropped",),
    "raft_duplicate": ("raft message duplicated",),
    "raft_delay": ("raft message delayed",),
    "connection_slow": ("slow connection",),
    "connection_break_per_second": ("connection broken",),
    "partition_per_second": ("full partition",),
    "one_way_per_second": ("one-way partition",),
    "kill_per_second": ("kill -9",),
    "power_loss_per_second": ("power loss",),
    "power_loss_of_all_per_second": ("power loss of all",),
    "shutdown_per_second": ("controlled shutdown", "shutdown on a full disk"),
    "pause_per_second": ("process paused",),
    "disk_slow": ("slow disk",),
    "disk_full_per_second": ("disk full",),
    "sync_fails_per_second": ("syncs fail",),
    "clock_jump_per_second": ("wall clock jumped",),
    "clock_skew": ("clock rate skewed",),
    "reckless": ("power loss not covered",),
    "birth_broken": ("birth broken",),
    "stranger_per_second": ("stranger's frame refused",),
    "file_fails_per_second": ("file fails",),
    "metadata_disk_full_per_second": ("metadata disk full",),
    "kill_all_per_second": ("kill -9 of all",),
    "log_flip_per_second": ("bit flipped in a log",),
    "log_lost_per_second": ("partition directory lost",),
    "log_torn_per_second": ("sector torn in a log",),
    "file_flip_per_second": ("bit flipped in a file",),
    "file_torn_per_second": ("sector torn in a file",),
    "file_lost_per_second": ("file lost",),
    "chain_damaged_per_second": (
        "bit flipped in a chain",
        "sector torn in a chain",
        "file of a chain lost",
    ),
    "kind_fails_per_second": ("writes of a kind fail",),
    "chain_fails_per_second": ("writes fail: chain",),
    "slow_link_per_second": ("slow link",),
    "member_per_second": ("broker added", "broker removed", "data directory lost"),
    "upgraded": ("level raised",),
    "client_impatient": ("impatient request",),
    "unclean_allowed": ("unclean election",),
    "groups": ("assignment told",),
    "transactions": ("transaction told commit",),
    "consumer_groups": ("consumer assignment told",),
    "two_phase": ("participant prepared",),
    "migrating": ("classic member let in by a consumer group",),
    "unbounded": ("more requests in flight than a broker works on",),
    "spreading": ("plain request for several partitions",),
}
"""What is counted when a fault takes place, of each that the seed may switch on."""

COUNTED = (
    "raft message dropped",
    "raft message duplicated",
    "raft message delayed",
    "message lost in a partition",
    "frame held up in a partition",
    "slow connection",
    "slow link",
    "message on a slow link",
    "impatient request",
    "answer too late for its client",
    "connection broken",
    "full partition",
    "one-way partition",
    "kill -9",
    "power loss",
    "power loss of all",
    "kill -9 of all",
    "bit flipped in a log",
    "partition directory lost",
    "sector torn in a log",
    "bit flipped in a file",
    "sector torn in a file",
    "file lost",
    "index damaged",
    "index lost",
    "leader epochs damaged",
    "leader epochs lost",
    "producer snapshot damaged",
    "producer snapshot lost",
    "synced mark damaged",
    "synced mark lost",
    "identity damaged",
    "identity lost",
    "high watermarks damaged",
    "high watermarks lost",
    "marker damaged",
    "marker lost",
    "bit flipped in a chain",
    "sector torn in a chain",
    "file of a chain lost",
    "chain refused",
    "log unreadable",
    "log unsynced",
    "log missing",
    "controlled shutdown",
    "restart",
    "restart, unclean",
    "restart, clean",
    "process paused",
    "slow disk",
    "disk full",
    "syncs fail",
    "file fails",
    "writes of a kind fail",
    "writes fail: directory",
    "writes fail: chain",
    "metadata disk full",
    "metadata found no room",
    "log not written any more",
    "producer told kafka_storage_error",
    "clock rate skewed",
    "wall clock jumped",
    "birth broken",
    "stranger's frame refused",
    "controller changed",
    "change proposed again",
    "raft leadership handed over",
    "broker added",
    "broker removed",
    "data directory lost",
    "voter without its data refused",
    "vote taken away",
    "level raised",
    "unclean election",
    "committed batch lost by an unclean election",
    "acknowledgement lost by an unclean election",
    "leader elected",
    "replica left an ISR",
    "replica joined an ISR",
    "replica truncated",
    "snapshot made",
    "snapshot installed",
    "reassignment",
    "topic created",
    "topic deleted",
    "topic altered",
    "records deleted",
    "leader of an older epoch ignored",
    "leader taken from a refusal",
    "group stored",
    "assignment told",
    "offset commit acknowledged",
    "committed offset told",
    "member left",
    "member crashed",
    "member stood still",
    "member told nothing",
    "member told rebalance_in_progress",
    "member told unknown_member_id",
    "member told not_coordinator",
    "group settled",
    "pipeline went to another leader",
    "pipelined batch sent behind another",
    "pipelined batch sent again",
    "pipelined batch sent again behind a refused one",
    "pipelined batch held back behind a refused one",
    "acknowledgement behind one that came too late",
    "acknowledgement behind a refused one that was stored before",
    "more requests in flight than a broker works on",
    "request served from the backlog after an answer",
    "plain request",
    "plain request waited for replicas",
    "plain request refused after its append",
    "plain requests of one turn",
    "plain request for several partitions",
    "plain request for several partitions left out",
    "plain request for several partitions waited",
    "plain request waited for several partitions",
    "plain request for several partitions refused",
    "plain requests for the same partitions",
    "plain fetch of a follower",
    "fetch of a follower that has everything",
    "follower answered with what was just appended",
    "answered from within the event",
    "follower asked for the next batch at once",
    "incremental fetch answered",
    "partition forgotten by a session",
    "batch read in a session",
    "plain fetch of a consumer",
    "plain fetch of a consumer waited",
    "plain answer to a follower",
    "plain heartbeat",
    "plain offset commit",
)
"""What a run counts when it really happens; a fault that never does proves nothing."""

COUNTED_OF_CONSUMERS = (
    "consumer assignment told",
    "plain heartbeat of a consumer group",
    "consumer member left",
    "consumer member crashed",
    "consumer member stood still",
    "consumer member gave up slowly",
    "consumer member counted itself out",
    "consumer member told nothing",
    "consumer member told unknown_member_id",
    "consumer member told not_coordinator",
)
"""The same, of lives that all have a group of the consumer protocol."""

COUNTED_OF_TRANSACTIONS = (
    "producer given an epoch, version 1",
    "producer given an epoch, version 2",
    "end and batch that came late, version 2",
    "batch that came late, version 1",
    "late batch told transaction_abortable",
    "transaction told commit",
    "transaction told abort",
    "transaction marker committed",
    "transactions read",
    "stable end told",
    "transactional producer died for good",
    "transactional producer crashed",
    "transactional producer stood still",
    "transactional producer followed by its next process",
    "transactional producer told invalid_producer_epoch",
    "transactional producer told concurrent_transactions",
    "transactions settled",
    "transaction begun by the record that completes the last",
    "participant prepared",
    "participant crashed",
    "participant came back to a transaction kept prepared",
    "participant came back to a transaction kept open",
    "decided outside to commit",
    "decided outside to abort",
    "prepared transaction committed everywhere",
    "prepared transaction aborted everywhere",
)
"""The same, of lives that all have transactions."""


def draw_faults(rng: Random) -> Faults:
    """Some faults on, each at a strength of its own; so that all mixtures occur."""
    share = rng.choice((0.3, 0.6, 0.9))
    drawn = {name: rng.random() * top for name, top in STRENGTH_MAX.items() if rng.random() < share}
    return replace(CALM, **drawn)
