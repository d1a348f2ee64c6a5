"""Every metric of `/metrics`: name, kind, labels and meaning. The only place that has them; what is
not here cannot be exported, and docs/metrics.md, the alert rules and the Grafana dashboard are held
to it. A name is exported as `josefine_<name>`, a counter's with `_total` behind it.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    """As Prometheus has them."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Metric(NamedTuple):
    """One family."""

    name: str
    kind: Kind
    meaning: str
    labels: tuple[str, ...] = ()

    @property
    def exported(self) -> str:
        """As a query names it; of a histogram, what stands before `_bucket`, `_sum`, `_count`."""
        return f"josefine_{self.name}" + ("_total" if self.kind is Kind.COUNTER else "")


def _counters(*rows: tuple[str, str], labels: tuple[str, ...] = ()) -> list[Metric]:
    return [Metric(name, Kind.COUNTER, meaning, labels) for name, meaning in rows]


def _gauges(*rows: tuple[str, str], labels: tuple[str, ...] = ()) -> list[Metric]:
    return [Metric(name, Kind.GAUGE, meaning, labels) for name, meaning in rows]


def _histograms(*rows: tuple[str, str], labels: tuple[str, ...] = ()) -> list[Metric]:
    return [Metric(name, Kind.HISTOGRAM, meaning, labels) for name, meaning in rows]


_API, _TOPIC, _PARTITION = ("api",), ("topic",), ("topic", "partition")

SECTIONS: dict[str, list[Metric]] = {
    "Requests": [
        *_histograms(
            ("request_seconds", "From frame to answer, waiting included."),
            labels=_API,
        ),
        *_counters(
            ("request_errors", "Requests refused as a whole."),
            ("request_local_seconds", "Time that the broker's thread worked on requests."),
            (
                "request_waiting_seconds",
                "Time that requests waited for others: replicas, new data, members, blocks.",
            ),
            labels=_API,
        ),
        *_gauges(
            ("parked_requests", "Requests that wait."),
            ("requests_queued", "Requests that were read, and not begun yet."),
        ),
        *_counters(
            ("loop_late_seconds", "By how much timers of the event loop rang late, all in all."),
            ("loop_wakes", "Timers that rang; late seconds by these is the thread's queue time."),
        ),
    ],
    "Connections": [
        *_gauges(
            ("connections", "Open client connections."),
            ("request_memory_bytes", "Memory of large requests that are being received."),
            ("request_memory_waiting", "Connections not read for want of such memory."),
        ),
        *_counters(
            ("accept_pauses", "So often there was no file descriptor for a new client."),
            ("connection_admin_refused", "Pages refused: a wrong password, a token that is none."),
            (
                "connection_authentication_delayed",
                "Proofs that waited, or were refused unseen, for wrong ones of their address.",
            ),
            ("connection_bytes_in", "Bytes of clients."),
            ("connection_bytes_out", "Bytes of answers to clients."),
            ("connection_opened", "Clients let in."),
            ("connection_closed_authentication", "Closed: SASL failed, or took too long."),
            ("connection_closed_idle", "Closed: sent nothing for network.idle_timeout_ms."),
            ("connection_closed_malformed", "Closed: sent what is no request."),
            ("connection_closed_session", "Closed: a session ended without re-authentication."),
            (
                "connection_closed_slow",
                "Closed: a slow client, whose large request had memory for which others waited.",
            ),
            ("connection_closed_tls", "Closed: the TLS handshake failed."),
            ("connection_closed_unsupported", "Closed: a key or version that is not served."),
            ("connection_gave_way", "Closed: idle, for a newcomer when all places were taken."),
            ("connection_handler_failures", "Requests at which the broker itself failed."),
            ("connection_reauthentications", "Proofs of clients that were known already."),
            ("connection_refused_full", "Refused: network.connections_max."),
            ("connection_refused_address", "Refused: network.connections_per_address_max."),
        ),
    ],
    "Quotas": [
        *_counters(
            ("quota_throttled", "Answers behind which a client was not read for a while."),
            ("quota_throttled_seconds", "How long that was, all in all."),
            labels=("quota",),
        ),
    ],
    "Topics": [
        *_counters(
            ("topic_bytes_in", "Bytes that producers wrote to partitions led here."),
            ("topic_records_in", "Records that producers wrote to partitions led here."),
            ("topic_bytes_out", "Bytes of records in fetch answers, followers' among them."),
            labels=_TOPIC,
        ),
        *_counters(
            ("produced_batches", "Batches of producers, appended."),
            ("produced_records", "Records of producers, appended."),
            ("produced_bytes", "Bytes of producers' batches, appended."),
            ("fetched_bytes", "Bytes of records in fetch answers, followers' among them."),
            ("duplicate_batches", "Batches of idempotent producers that were there already."),
            ("refused_batches", "Batches refused, each partition's."),
        ),
        *_gauges(
            ("log_size_bytes", "Size of a partition's log."),
            ("log_end_offset", "Offset of the next record of a partition."),
            ("log_start_offset", "First offset of a partition that is kept."),
            labels=_PARTITION,
        ),
        *_gauges(
            ("topics", "Topics of the cluster."),
            ("logs", "Open partition logs."),
            (
                "logs_offline",
                "Partitions here whose log cannot be opened, or is not written any more.",
            ),
        ),
    ],
    "Replication": [
        *_gauges(
            ("partitions_led", "Partitions that this broker leads."),
            (
                "partitions_under_replicated",
                "Partitions led here with fewer replicas in sync than there are.",
            ),
            (
                "partitions_under_min_isr",
                "Partitions led here with fewer replicas in sync than min.insync.replicas:"
                " acks=all is refused.",
            ),
            ("partitions_offline", "Partitions of the cluster without a leader."),
            (
                "replicas_halted",
                "Replicas here that do not follow, for their leader lacks what was confirmed.",
            ),
        ),
        *_gauges(
            (
                "replica_lag_records",
                "Committed records of its leader that a replica here still lacks.",
            ),
            labels=_PARTITION,
        ),
        *_counters(
            ("replicated_batches", "Batches copied from leaders."),
            ("replicated_bytes", "Bytes copied from leaders."),
            ("replication_errors", "Fetches from leaders that failed."),
            ("truncations", "Times that a replica's log was cut back to its leader's."),
            ("truncations_refused", "Times that it was not, for confirmed records would go."),
            ("isr_proposals", "Changes of in-sync sets that this broker proposed."),
            ("isr_shrinks", "Times that a replica left the in-sync set of a partition led here."),
            ("isr_expands", "Times that one came back."),
        ),
    ],
    "Cluster and Raft": [
        *_gauges(
            ("brokers_registered", "Brokers of the cluster."),
            ("brokers_fenced", "Brokers that the controller does not hear, or that stop."),
            ("raft_term", "Raft term."),
            ("raft_commit_height", "Height of the last committed block."),
            ("raft_applied_height", "Height of the last block in the image."),
            ("raft_is_leader", "1 while this broker leads Raft, and so is the controller."),
            ("raft_has_leader", "1 while this broker knows of a Raft leader."),
            ("raft_peers_connected", "Brokers that this one has dialed."),
        ),
        *_counters(
            ("raft_terms_seen", "Elections this broker took part in."),
            ("raft_dead_blocks", "Blocks that a lost branch took away."),
            ("raft_dials_failed", "Peers that could not be reached."),
            ("raft_peers_refused", "Greetings refused, on either side."),
            ("raft_frames_refused", "Frames that a peer may not send, or that cannot be true."),
            (
                "raft_handshakes_failed",
                "Connections of brokers' Raft, on either side, without a certificate that counts.",
            ),
            (
                "raft_silent_closed",
                "Connections to the raft listener that did not introduce themselves in time.",
            ),
            ("raft_frames_dropped", "Frames dropped for a slow peer."),
            ("raft_bytes_in", "Bytes that the raft listener received."),
            ("raft_bytes_out", "Bytes that the raft listener sent."),
            ("controller_decisions", "Decisions this broker proposed as controller."),
        ),
    ],
    "Groups and transactions": [
        *_gauges(("groups", "Consumer groups that this broker coordinates.")),
        *_gauges(("groups_in_state", "Consumer groups by state."), labels=("state",)),
        *_gauges(("group_members", "Members of a group."), labels=("group",)),
        *_gauges(
            ("group_committed_offset", "Offset that a group will read next."),
            ("group_lag_records", "Committed records that a group has not read."),
            labels=("group", "topic", "partition"),
        ),
        *_gauges(
            ("group_series_omitted", "Series of single groups for which there was no room."),
            (
                "transactions_open",
                "Transactions coordinated here that have not ended.",
            ),
        ),
        *_counters(
            ("group_rebalances", "Rebalances that began."),
            ("group_members_lost", "Members whose session ran out."),
            ("group_offsets_committed", "Committed offsets, each partition's."),
        ),
    ],
    "Disk": [
        *_gauges(
            ("disk_free_bytes", "Space that the broker may still use in broker.data_dir."),
            ("disk_total_bytes", "Size of that file system."),
            ("disk_reserve_bytes", "broker.disk_free_bytes_min: below it nothing is appended."),
        ),
        *_histograms(
            ("fsync_seconds", "Duration of a sync of a partition's log."),
            ("raft_store_seconds", "Duration of a write of Raft's blocks, its sync included."),
        ),
        *_counters(
            ("recovery_logs_cut", "Logs that this start had to cut, records may be lost."),
            (
                "recovery_bytes_cut",
                "Bytes that this start cut from logs, unfinished last writes among them.",
            ),
        ),
    ],
    "Log cleaner": [
        *_counters(
            ("cleaner_passes", "Passes of the log cleaner that came as far as they had room."),
            ("cleaner_passes_failed", "Passes that the disk, or a change of the log, ended."),
            ("cleaner_bytes_read", "Bytes that passes read; what is dirty is read twice."),
            ("cleaner_bytes_written", "Bytes of cleaned segments."),
            ("cleaner_bytes_removed", "Bytes by which logs became shorter."),
            ("cleaner_records_read", "Records that passes judged."),
            ("cleaner_records_removed", "Records replaced by a later one, and old tombstones."),
            ("cleaner_tombstones_removed", "Tombstones among them."),
            ("cleaner_records_without_key", "Records kept for want of a key, each time again."),
            ("cleaner_batches_left_alone", "Batches that no pass can judge, each time again."),
            ("cleaner_seconds", "Time that passes took."),
        ),
        *_gauges(
            ("cleaner_map_bytes", "Memory of the keys of the last pass."),
            ("cleaner_ratio_max", "Dirty part of the dirtiest log, at the last look."),
            ("cleaner_due", "Logs that were to be cleaned then."),
            ("cleaner_logs_damaged", "Logs not cleaned, for they are not what was written."),
        ),
    ],
    "TLS, where it is configured": [
        *_gauges(
            ("tls_certificate_expires_seconds", "When the broker's certificate ends, Unix time."),
            (
                "raft_tls_certificate_expires_seconds",
                "When its certificate among brokers' Raft ends, Unix time.",
            ),
        ),
        *_counters(
            ("tls_reload_failures", "Times that changed TLS files could not be used."),
            ("raft_tls_reload_failures", "The same for the files of brokers' Raft."),
        ),
        *_gauges(
            (
                "listener_certificate_expires_seconds",
                "When that of a listener in tls.by_listener ends, Unix time.",
            ),
            labels=("listener",),
        ),
        *_counters(
            ("listener_tls_reload_failures", "Times that its changed files could not be used."),
            labels=("listener",),
        ),
    ],
    "Tokens, where OAUTHBEARER is served": [
        *_gauges(("jwks_keys", "Keys by which tokens are checked; 0: none comes in.")),
        *_counters(("jwks_reload_failures", "Times that they could not be had, or not be used.")),
    ],
    "ACLs, where they are enabled": [
        *_counters(("authorization_denied", "Requests refused, some or all, for want of an ACL.")),
    ],
    "Traces, where telemetry.traces is set": [
        *_counters(
            ("traces_sent", "Spans that the collector took."),
            ("traces_dropped", "Spans that found no place in telemetry.queue_max."),
            ("traces_refused", "Spans that the collector did not take, or that did not reach it."),
        ),
    ],
    "Process": [
        *_gauges(("build_info", "Always 1; the label says which code runs."), labels=("version",)),
        *_gauges(
            ("process_start_seconds", "When this process began, Unix time."),
            ("process_resident_bytes", "Resident memory."),
            ("process_resident_bytes_max", "Largest resident memory so far."),
            ("process_open_fds", "Open file descriptors."),
            ("process_max_fds", "How many there may be."),
        ),
        *_counters(("process_cpu_seconds", "User and system time.")),
    ],
}
"""Heading of docs/metrics.md → its metrics."""

METRICS: dict[str, Metric] = {
    metric.name: metric for metrics in SECTIONS.values() for metric in metrics
}
