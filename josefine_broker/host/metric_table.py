"""Every metric of `/metrics`: name, kind, labels and meaning. The only definition: a metric that is
not here cannot be exported: docs/reference/metrics.md, the alert rules and the dashboard are
tested against it. A name is exported as `josefine_<name>`, a counter's with the suffix `_total`.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    """The kinds of Prometheus."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Metric(NamedTuple):
    """One metric family."""

    name: str
    kind: Kind
    meaning: str
    labels: tuple[str, ...] = ()

    @property
    def exported(self) -> str:
        """The name in queries; of a histogram, the part before `_bucket`, `_sum`, `_count`."""
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
            ("request_seconds", "Time from frame to answer, including waits."),
            labels=_API,
        ),
        *_counters(
            ("request_errors", "Requests refused as a whole."),
            ("request_local_seconds", "Time the broker's thread spent on requests."),
            (
                "request_waiting_seconds",
                "Time requests waited for replicas, new data, members or blocks.",
            ),
            labels=_API,
        ),
        *_gauges(
            ("parked_requests", "Requests that wait for something."),
            ("requests_queued", "Requests that were read but not started yet."),
        ),
        *_counters(
            ("loop_late_seconds", "Total lateness of the event loop's timers."),
            (
                "loop_wakes",
                "Timer firings; late seconds divided by these is the thread's queue time.",
            ),
        ),
    ],
    "Connections": [
        *_gauges(
            ("connections", "Open client connections."),
            ("request_memory_bytes", "Memory of large requests being received."),
            ("request_memory_waiting", "Connections not read because that memory is used up."),
        ),
        *_counters(
            ("accept_pauses", "Times that no file descriptor was left for a new client."),
            ("connection_admin_refused", "Pages refused: wrong password or invalid token."),
            (
                "connection_authentication_delayed",
                "Logins delayed, or refused unchecked, after failed ones from the same address.",
            ),
            ("connection_bytes_in", "Bytes received from clients."),
            ("connection_bytes_out", "Bytes sent to clients."),
            ("connection_opened", "Connections accepted."),
            ("connection_closed_authentication", "Closed: SASL failed, or took too long."),
            ("connection_closed_idle", "Closed: sent nothing for network.idle_timeout_ms."),
            ("connection_closed_malformed", "Closed: sent an invalid request."),
            ("connection_closed_session", "Closed: the session ended without re-authentication."),
            (
                "connection_closed_slow",
                "Closed: a slow client whose large request held memory that others waited for.",
            ),
            ("connection_closed_tls", "Closed: the TLS handshake failed."),
            ("connection_closed_unsupported", "Closed: a key or version that is not served."),
            (
                "connection_gave_way",
                "Closed: idle, to make room for a new connection at the limit.",
            ),
            ("connection_handler_failures", "Requests that failed by an error of the broker."),
            ("connection_reauthentications", "Re-authentications of connected clients."),
            ("connection_refused_full", "Refused: network.connections_max."),
            ("connection_refused_address", "Refused: network.connections_per_address_max."),
        ),
    ],
    "Quotas": [
        *_counters(
            ("quota_throttled", "Answers after which the client was throttled."),
            ("quota_throttled_seconds", "Total throttle time."),
            labels=("quota",),
        ),
    ],
    "Topics": [
        *_counters(
            ("topic_bytes_in", "Bytes produced to partitions led here."),
            ("topic_records_in", "Records produced to partitions led here."),
            ("topic_bytes_out", "Bytes of records in fetch answers, followers' among them."),
            labels=_TOPIC,
        ),
        *_counters(
            ("produced_batches", "Produced batches appended."),
            ("produced_records", "Produced records appended."),
            ("produced_bytes", "Bytes of produced batches appended."),
            ("fetched_bytes", "Bytes of records in fetch answers, followers' among them."),
            ("duplicate_batches", "Duplicate batches of idempotent producers."),
            ("refused_batches", "Batches refused, counted per partition."),
        ),
        *_gauges(
            ("log_size_bytes", "Size of a partition's log."),
            ("log_end_offset", "Offset of the next record of a partition."),
            ("log_start_offset", "First available offset of a partition."),
            labels=_PARTITION,
        ),
        *_gauges(
            ("topics", "Topics of the cluster."),
            ("logs", "Open partition logs."),
            (
                "logs_offline",
                "Partitions here whose log cannot be opened or written.",
            ),
        ),
    ],
    "Replication": [
        *_gauges(
            ("partitions_led", "Partitions that this broker leads."),
            (
                "partitions_under_replicated",
                "Partitions led here with replicas out of sync.",
            ),
            (
                "partitions_under_min_isr",
                "Partitions led here with fewer replicas in sync than min.insync.replicas:"
                " acks=all is refused.",
            ),
            ("partitions_offline", "Partitions of the cluster without a leader."),
            (
                "replicas_halted",
                "Replicas here that do not follow because their leader lacks confirmed records.",
            ),
        ),
        *_gauges(
            (
                "replica_lag_records",
                "Committed records of the leader that a replica here lacks.",
            ),
            labels=_PARTITION,
        ),
        *_counters(
            ("replicated_batches", "Batches copied from leaders."),
            ("replicated_bytes", "Bytes copied from leaders."),
            ("replication_errors", "Fetches from leaders that failed."),
            ("truncations", "Times that a replica's log was truncated to its leader's."),
            ("truncations_refused", "Truncations refused because confirmed records would be lost."),
            ("isr_proposals", "ISR changes that this broker proposed."),
            ("isr_shrinks", "Times that a replica left the ISR of a partition led here."),
            ("isr_expands", "Times that a replica joined the ISR of a partition led here."),
        ),
    ],
    "Cluster and Raft": [
        *_gauges(
            ("brokers_registered", "Registered brokers of the cluster."),
            ("brokers_fenced", "Brokers without heartbeats, or shutting down."),
            ("raft_term", "Raft term."),
            ("raft_commit_height", "Height of the last committed block."),
            ("raft_applied_height", "Height of the last block applied to the metadata image."),
            ("raft_is_leader", "1 while this broker is the Raft leader, and so the controller."),
            ("raft_has_leader", "1 while this broker knows of a Raft leader."),
            ("raft_peers_connected", "Brokers that this one is connected to."),
        ),
        *_counters(
            ("raft_terms_seen", "Elections this broker took part in."),
            ("raft_dead_blocks", "Blocks removed with dead branches."),
            ("raft_dials_failed", "Peers that could not be reached."),
            ("raft_peers_refused", "Raft greetings refused, on either side."),
            ("raft_frames_refused", "Frames refused as invalid or implausible."),
            (
                "raft_handshakes_failed",
                "Raft connections refused, on either side, for lack of a valid certificate.",
            ),
            (
                "raft_silent_closed",
                "Connections to the raft listener without a greeting in time.",
            ),
            ("raft_frames_dropped", "Frames dropped for a slow peer."),
            ("raft_bytes_in", "Bytes that the raft listener received."),
            ("raft_bytes_out", "Bytes that the raft listener sent."),
            ("controller_decisions", "Decisions that this broker proposed as controller."),
        ),
    ],
    "Groups and transactions": [
        *_gauges(("groups", "Consumer groups that this broker coordinates.")),
        *_gauges(("groups_in_state", "Consumer groups by state."), labels=("state",)),
        *_gauges(("group_members", "Members of a group."), labels=("group",)),
        *_gauges(
            ("group_committed_offset", "Offset that a group will read next."),
            ("group_lag_records", "Committed records that a group has not read yet."),
            labels=("group", "topic", "partition"),
        ),
        *_gauges(
            ("group_series_omitted", "Group series omitted above the limit."),
            (
                "transactions_open",
                "Open transactions coordinated here.",
            ),
        ),
        *_gauges(
            ("share_sessions", "Share sessions: members of share groups that fetch here."),
            ("share_partitions", "Partitions led here that share groups use."),
            ("share_states", "Stored states of share partitions coordinated here."),
        ),
        *_gauges(
            ("share_records_in_flight", "Records that members of a share group have now."),
            ("share_records_archiving", "Records whose dead letters are not written yet."),
            labels=("group", "topic", "partition"),
        ),
        *_counters(
            ("share_records_acquired", "Records that members of a share group got."),
            ("share_dead_letters", "Records whose dead letters were written (KIP-1191)."),
            ("share_dead_letters_lost", "Records archived without their dead letter."),
            ("share_lock_timeouts", "Records whose lock ended before their member answered."),
            labels=("group",),
        ),
        *_counters(
            (
                "share_record_acknowledgements",
                "Records that members answered for: accept, release, reject, renew or gap.",
            ),
            labels=("group", "ack_type"),
        ),
        *_counters(
            ("group_rebalances", "Rebalances started."),
            ("group_members_lost", "Members whose session expired."),
            ("group_offsets_committed", "Committed offsets, counted per partition."),
        ),
    ],
    "Clients' own metrics (KIP-714)": [
        *_gauges(
            (
                "client_metric",
                "A number that a client pushed; `metric` is its name and `of` its attributes.",
            ),
            labels=("metric", "client_id", "client_instance_id", "of"),
        ),
        *_gauges(("client_metric_series_omitted", "Client series omitted above the limit.")),
        *_counters(
            ("client_metrics_pushes", "Pushes of clients that were taken."),
            ("client_metrics_pushes_refused", "Requests for or with metrics that were refused."),
        ),
    ],
    "Disk": [
        *_gauges(
            ("disk_free_bytes", "Space that the broker may still use in broker.data_dir."),
            ("disk_total_bytes", "Size of that file system."),
            ("disk_reserve_bytes", "broker.disk_free_bytes_min: below it nothing is appended."),
        ),
        *_histograms(
            ("fsync_seconds", "Duration of the sync of a partition's log."),
            ("raft_store_seconds", "Duration of a write of Raft blocks, including its sync."),
        ),
        *_counters(
            ("recovery_logs_cut", "Logs that this start had to cut; records may be lost."),
            (
                "recovery_bytes_cut",
                "Bytes that this start cut from logs, including unfinished last writes.",
            ),
        ),
    ],
    "Log cleaner": [
        *_counters(
            ("cleaner_passes", "Completed passes of the log cleaner."),
            ("cleaner_passes_failed", "Passes ended by the disk or by a change of the log."),
            ("cleaner_bytes_read", "Bytes that passes read; the dirty part is read twice."),
            ("cleaner_bytes_written", "Bytes of cleaned segments."),
            ("cleaner_bytes_removed", "Bytes removed from logs."),
            ("cleaner_records_read", "Records examined by passes."),
            ("cleaner_records_removed", "Records replaced by a later one, and old tombstones."),
            ("cleaner_tombstones_removed", "Tombstones among the removed records."),
            (
                "cleaner_records_without_key",
                "Records kept because they have no key, counted in each pass.",
            ),
            (
                "cleaner_batches_left_alone",
                "Batches that no pass can examine, counted in each pass.",
            ),
            ("cleaner_seconds", "Time that passes took."),
        ),
        *_gauges(
            ("cleaner_map_bytes", "Memory of the keys of the last pass."),
            ("cleaner_ratio_max", "Dirty ratio of the dirtiest log at the last check."),
            ("cleaner_due", "Logs due for cleaning at the last check."),
            ("cleaner_logs_damaged", "Logs not cleaned because they are damaged."),
        ),
    ],
    "Verification and repair of logs": [
        *_counters(
            ("log_bytes_verified", "Log bytes compared with their checksums, by reads and scrub."),
            ("log_damage_found", "Damaged segments that were found."),
            ("log_damage_repaired", "Damaged segments that intact copies have replaced."),
            ("log_repairs_failed", "Attempts to repair a segment that failed and are repeated."),
            ("log_repair_bytes_fetched", "Bytes that repairs fetched from other replicas."),
        ),
        *_gauges(
            ("log_damaged_segments", "Segments known to be damaged now."),
            ("log_ranges_lost", "Offset ranges that no replica has intact."),
            ("log_unverified_seconds", "Age of the oldest verification by the scrub."),
        ),
    ],
    "Archived topics": [
        *_gauges(
            ("archive_waiting_partitions", "Led partitions whose retention waits for the archive."),
            ("archive_waiting_bytes", "Bytes here that retention deletes once they are archived."),
        ),
    ],
    "TLS, where it is configured": [
        *_gauges(
            ("tls_certificate_expires_seconds", "When the broker's certificate ends, Unix time."),
            (
                "raft_tls_certificate_expires_seconds",
                "When the broker's Raft certificate ends, Unix time.",
            ),
        ),
        *_counters(
            ("tls_reload_failures", "Times that changed TLS files could not be used."),
            ("raft_tls_reload_failures", "Times that changed Raft TLS files could not be used."),
        ),
        *_gauges(
            (
                "listener_certificate_expires_seconds",
                "When the certificate of a listener in tls.by_listener ends, Unix time.",
            ),
            labels=("listener",),
        ),
        *_counters(
            (
                "listener_tls_reload_failures",
                "Times that a listener's changed TLS files could not be used.",
            ),
            labels=("listener",),
        ),
    ],
    "Tokens, where OAUTHBEARER is served": [
        *_gauges(
            ("jwks_keys", "Keys that tokens are checked with; with 0 every token is refused.")
        ),
        *_counters(("jwks_reload_failures", "Times that the keys could not be loaded or used.")),
    ],
    "ACLs, where they are enabled": [
        *_counters(
            ("authorization_denied", "Requests refused, in part or whole, for lack of an ACL.")
        ),
    ],
    "Traces, where telemetry.traces is set": [
        *_counters(
            ("traces_sent", "Spans accepted by the collector."),
            ("traces_dropped", "Spans dropped above telemetry.queue_max."),
            ("traces_refused", "Spans that the collector refused or that did not reach it."),
        ),
    ],
    "Process": [
        *_gauges(
            ("build_info", "Always 1; the label has the running version."), labels=("version",)
        ),
        *_gauges(
            ("process_start_seconds", "When this process started, Unix time."),
            ("process_resident_bytes", "Resident memory."),
            ("process_resident_bytes_max", "Largest resident memory so far."),
            ("process_open_fds", "Open file descriptors."),
            ("process_max_fds", "Limit of open file descriptors."),
        ),
        *_counters(("process_cpu_seconds", "User and system time.")),
    ],
}
"""Heading of docs/reference/metrics.md → its metrics."""

METRICS: dict[str, Metric] = {
    metric.name: metric for metrics in SECTIONS.values() for metric in metrics
}
