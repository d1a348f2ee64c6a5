"""Kafka's error codes that a broker answers with, each with its cause here and its fix.

A code that the broker's code names and this table lacks fails the page's test.
"""

import re
from collections.abc import Mapping
from pathlib import Path

BROKER = Path(__file__).resolve().parents[2] / "josefine_broker"
CODE = re.compile(r"\bErrorCode\.([a-z_]+)\b")
WRITTEN = ("api", "engine", "host", "base", "wire")
"""Folders whose code chooses the code of an answer."""

MOVED = "Nothing: clients look the leader up again. If it stays, `josefine cluster status`."
REJOIN = "Nothing: clients join again."
ACL = "Add the rule: `josefine acls add --user USER --operation OPERATION ...`."

CAUSES: Mapping[str, tuple[str, str]] = {
    "broker_id_not_registered": ("No broker has this number.", "`josefine cluster brokers`"),
    "broker_not_available": ("The broker is registered and not reachable.", "Start it."),
    "cluster_authorization_failed": ("The user may not do this to the cluster.", ACL),
    "concurrent_transactions": (
        "The producer's previous transaction is still being ended.",
        "Nothing: producers retry. One that hangs: `josefine transactions find-hanging`.",
    ),
    "coordinator_load_in_progress": (
        "The coordinator reads its log after a start or a move.",
        "Nothing: clients retry. If it stays, `/health` names the partition.",
    ),
    "coordinator_not_available": (
        "The partition of the group or transactional id has no leader yet.",
        "Nothing: clients retry. If it stays, `josefine cluster status`.",
    ),
    "corrupt_message": (
        "The batch's checksum or structure is wrong.",
        "Look for a proxy or client that changes bytes; the broker's log has the reason.",
    ),
    "delegation_token_auth_disabled": (
        "Delegation tokens are not served.", "Use SCRAM or OAUTHBEARER.",
    ),
    "delegation_token_request_not_allowed": (
        "Delegation tokens are not served.", "Use SCRAM or OAUTHBEARER.",
    ),
    "duplicate_resource": ("The request names one resource twice.", "Name it once."),
    "election_not_needed": ("The preferred replica leads already.", "Nothing."),
    "eligible_leaders_not_available": (
        "No replica may lead without a loss of records.",
        "Start the broker with the records, or `josefine cluster elect TOPIC:N --unclean`.",
    ),
    "fenced_instance_id": (
        "Another member joined with the same `group.instance.id`.",
        "Give each consumer its own instance id.",
    ),
    "fenced_leader_epoch": ("The client knows an older leader.", MOVED),
    "fenced_member_epoch": ("The member's epoch is old: it was away too long.", REJOIN),
    "fenced_state_epoch": (
        "The offsets of a share group were altered.", "Nothing: brokers read them again.",
    ),
    "fetch_session_id_not_found": ("The fetch session was evicted.", "Nothing: clients open one."),
    "fetch_session_topic_id_error": ("Session and request name topics differently.", "Nothing."),
    "group_authorization_failed": ("The user may not use this group.", ACL),
    "group_id_not_found": (
        "The group does not exist, or the broker's log of it is gone.",
        "`josefine groups list`; a consumer creates a group when it joins.",
    ),
    "group_max_size_reached": (
        "The group has as many members as `group.max_size` allows.",
        "Raise the limit, or start fewer consumers.",
    ),
    "group_subscribed_to_topic": (
        "Members of the group read the topic whose offsets are to be deleted.",
        "Stop them first.",
    ),
    "illegal_generation": ("The group has a newer generation.", REJOIN),
    "illegal_sasl_state": (
        "The client sent a request before, or in the middle of, its login.",
        "Set `security.protocol` to the listener's: `SASL_PLAINTEXT` or `SASL_SSL`.",
    ),
    "inconsistent_cluster_id": (
        "A broker's data directory is of another cluster.",
        "Start it with an empty directory, or with the seeds of its own cluster.",
    ),
    "inconsistent_group_protocol": (
        "The members have no assignment strategy or protocol type in common.",
        "Give all members of the group the same `partition.assignment.strategy`.",
    ),
    "inconsistent_topic_id": ("The topic was created again.", "Nothing: clients retry."),
    "invalid_commit_offset_size": (
        "A record of the group's offsets would be too large.", "Commit less metadata.",
    ),
    "invalid_config": (
        "The name or value of a configuration is not valid; the message has the reason.",
        "`josefine topics describe TOPIC --all-configs` has the names.",
    ),
    "invalid_fetch_session_epoch": ("The session is out of order.", "Nothing: clients open one."),
    "invalid_group_id": ("The group's name is empty or not valid.", "Set `group.id`."),
    "invalid_partitions": (
        "The number of partitions is below 1, too large, or smaller than before.",
        "A topic's partitions only grow.",
    ),
    "invalid_producer_epoch": (
        "A newer producer with the same transactional id took over.",
        "Run one producer for each transactional id.",
    ),
    "invalid_producer_id_mapping": (
        "The transactional id has another producer id, or expired.",
        "Create the producer again (`initTransactions`).",
    ),
    "invalid_record": (
        "A record breaks a rule: no key in a compacted topic, or a malformed batch.",
        "Give each record a key; the message names the rule and the record.",
    ),
    "invalid_record_state": ("A member answered for a record that it does not have (any more).",
        "Process within the lock (`group.share_record_lock_duration_ms`), or renew it."),
    "invalid_regular_expression": (
        "The expression of a subscription is not one of RE2.", "Correct the pattern.",
    ),
    "invalid_replica_assignment": (
        "The list of replicas names a broker twice, an unknown one, or is empty.",
        "`josefine cluster brokers` has the numbers.",
    ),
    "invalid_replication_factor": (
        "There are fewer brokers than copies were asked for.",
        "Start more brokers, or ask for fewer copies.",
    ),
    "invalid_request": ("The request contradicts itself; the message has the reason.", ""),
    "invalid_required_acks": ("acks is not -1, 0 or 1.", "Set `acks` to `all`, `1` or `0`."),
    "invalid_session_timeout": (
        "The session timeout is outside of the broker's bounds.",
        "Set `session.timeout.ms` between `group.min_session_timeout_ms` and `max`.",
    ),
    "invalid_share_session_epoch": (
        "The share session is out of order.", "Nothing: clients open one.",
    ),
    "invalid_timestamp": (
        "A record's time is too far from the broker's clock.",
        "Correct the producer's clock, or the topic's `message.timestamp.*` settings.",
    ),
    "invalid_topic_exception": (
        "The topic's name is not valid, or it is an internal topic.",
        "Use letters, digits, `.`, `_` and `-`, 249 characters at most.",
    ),
    "invalid_transaction_timeout": (
        "The producer asks for a longer timeout than the broker allows.",
        "Lower `transaction.timeout.ms`.",
    ),
    "invalid_txn_state": (
        "The producer's call does not fit the state of its transaction.",
        "Begin, send, then commit or abort once.",
    ),
    "invalid_update_version": ("The state changed in between.", "Nothing: the broker retries."),
    "kafka_storage_error": (
        "The partition's log cannot be read or written.",
        "`/health` names the log and the cause; see the cluster guide, damaged logs.",
    ),
    "leader_not_available": ("The partition has no leader at the moment.", MOVED),
    "log_dir_not_found": ("The broker has no such log directory.", "`josefine log-dirs`"),
    "member_id_required": ("The first of a member's two join requests.", "Nothing."),
    "message_too_large": (
        "The batch is larger than `max.message.bytes`.",
        "Raise it for the topic, or lower the producer's `max.request.size`.",
    ),
    "mismatched_endpoint_type": ("A controller was asked as a broker.", "Use a broker's address."),
    "network_exception": ("The other broker did not answer.", "`josefine cluster status`"),
    "no_reassignment_in_progress": ("The partition is not on the move.", "Nothing."),
    "non_empty_group": (
        "The group has members.", "Stop its consumers, then repeat the command.",
    ),
    "not_controller": ("Another broker is the controller.", "Nothing: clients look it up again."),
    "not_coordinator": ("Another broker coordinates the group or id.", "Nothing: clients retry."),
    "not_enough_replicas": (
        "Fewer replicas are in sync than `min.insync.replicas`, or the disk is full.",
        "Start the missing brokers: `josefine cluster partitions --under-replicated`.",
    ),
    "not_enough_replicas_after_append": (
        "Replicas left the in-sync set while the record waited.",
        "Start the missing brokers. The record may be stored: an idempotent producer retries.",
    ),
    "not_leader_or_follower": ("The partition moved to another broker.", MOVED),
    "offset_metadata_too_large": ("The commit's text is too long.", "Commit less metadata."),
    "offset_not_available": ("The new leader does not know its high watermark yet.", "Nothing."),
    "offset_out_of_range": (
        "Retention deleted the offset, or it is beyond the end.",
        "Set `auto.offset.reset`, or `josefine groups reset-offsets`.",
    ),
    "operation_not_attempted": ("Another part of the same request failed.", "Correct that part."),
    "out_of_order_sequence_number": (
        "A batch of an idempotent producer is missing before this one.",
        "Create the producer again; librdkafka and Java do so by themselves.",
    ),
    "policy_violation": ("A rule of the broker forbids it; the message names it.", ""),
    "preferred_leader_not_available": ("The preferred replica lags.", "Start its broker."),
    "producer_fenced": (
        "A newer producer with the same transactional id took over.",
        "Run one producer for each transactional id.",
    ),
    "rebalance_in_progress": ("The group is assigning partitions.", REJOIN),
    "replica_not_available": ("The broker has no replica of the partition.", MOVED),
    "request_timed_out": (
        "The request's own time ran out before the replicas or the controller answered.",
        "Look for slow disks or lost brokers: `josefine cluster watch`.",
    ),
    "rebootstrap_required": (
        "The client reached another broker or cluster than the one that it names (KIP-1242).",
        "Nothing: it starts over at its bootstrap servers. If it lasts, an address in front of the "
        "brokers leads to another one.",
    ),
    "resource_not_found": ("The user, ACL or quota does not exist.", "List them first."),
    "sasl_authentication_failed": (
        "The user or password is wrong, or the token is not valid.",
        "`josefine users list` on a listener where you may; then set the password again.",
    ),
    "security_disabled": ("ACLs are off.", "Set `acls.enabled: true`."),
    "share_session_limit_reached": (
        "The broker has 2,000 share sessions.", "Spread members over more brokers.",
    ),
    "share_session_not_found": (
        "The share session was closed or evicted.", "Nothing: clients open one.",
    ),
    "stale_broker_epoch": ("The broker registered again.", "Nothing: the broker retries."),
    "stale_member_epoch": ("The member's epoch is old.", "Nothing: clients retry."),
    "telemetry_too_large": (
        'A client pushed more metrics than `telemetry.client_push_bytes_max`.',
        'Raise the limit, or ask for fewer.',
    ),
    "throttling_quota_exceeded": (
        "A client pushed its metrics earlier than `telemetry.client_push_interval_ms`.",
        "Nothing: clients wait.",
    ),
    "topic_already_exists": ("There is a topic of this name.", "`--if-not-exists`"),
    "topic_authorization_failed": ("The user may not do this to the topic.", ACL),
    "transaction_abortable": ("The transaction can only be aborted.", "Abort it and begin again."),
    "transaction_coordinator_fenced": ("Another coordinator took over.", "Nothing."),
    "transactional_id_authorization_failed": ("The user may not use this id.", ACL),
    "transactional_id_not_found": (
        "No transaction of this id is known.", "`josefine transactions list`",
    ),
    "unacceptable_credential": (
        "The password or its iterations are not acceptable.",
        "At least 4,096 iterations, and a password that is not empty.",
    ),
    "unknown_leader_epoch": ("The client knows a newer leader than this broker.", MOVED),
    "unknown_member_id": ("The member's session ran out, or the group was deleted.", REJOIN),
    "unknown_server_error": (
        "A defect of the broker; its log has the stack trace.", "Report it with the log.",
    ),
    "unknown_subscription_id": (
        "The client's metrics subscription is another broker's, or an old one.",
        'Nothing: clients ask for the new one.',
    ),
    "unknown_topic_id": ("The topic was deleted, or its creation is not known here yet.", MOVED),
    "unknown_topic_or_partition": (
        "The topic or partition does not exist, or the user may not see it.",
        "`josefine topics list`; `josefine topics create NAME`.",
    ),
    "unreleased_instance_id": (
        "A static member of this name has not left.", "Wait for its session, or stop it.",
    ),
    "unstable_offset_commit": (
        "A transaction with offsets of this partition is open.", "Nothing: clients retry.",
    ),
    "unsupported_assignor": (
        "The broker has no such assignor.", "Use `uniform` or `range` for `group.remote.assignor`.",
    ),
    "unsupported_compression_type": (
        "The request's version is too old for zstd.", "Use a newer client or another codec.",
    ),
    "unsupported_endpoint_type": ("The endpoint's type is unknown.", "Use a newer client."),
    "unsupported_for_message_format": ("The batch has an old format.", "Use a newer client."),
    "unsupported_sasl_mechanism": (
        "The listener does not serve this mechanism.",
        "Choose one of those that the broker's answer names.",
    ),
    "unsupported_version": (
        "The API or version is not served.", "COMPATIBILITY.md has each, with the reason.",
    ),
    "voter_not_found": ("The broker does not vote.", "`josefine cluster status`"),
}  # fmt: skip
"""Code → why the broker answers with it, and what to do."""


def answered() -> set[str]:
    """The codes that the broker's code names, without the one for success."""
    texts = (path.read_text() for part in WRITTEN for path in (BROKER / part).rglob("*.py"))
    return {name for text in texts for name in CODE.findall(text)} - {"none"}
