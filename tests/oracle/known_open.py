"""Differences from Apache Kafka that are defects here: known, and to be fixed.

Whoever fixes one removes its row: a run fails while a row has nothing to explain.
"""

from __future__ import annotations

from tests.oracle.row import Known

OPEN: tuple[Known, ...] = (
    Known(
        apis="Fetch",
        path="*",
        is_named_twice=True,
        ends=True,
        why="a partition that is named twice is answered twice; Kafka takes the last, or fails",
    ),
    Known(
        apis="ListOffsets",
        path="topics[].*",
        is_named_twice=True,
        why="a partition that is named twice is answered twice; Kafka refuses it",
    ),
    Known(
        apis="DeleteGroups, DescribeGroups",
        path="results[].error_code | groups[].error_code",
        ours="INVALID_GROUP_ID",
        theirs="GROUP_ID_NOT_FOUND | NONE",
        why="in Kafka a group with an empty name can be described and deleted",
    ),
    Known(
        apis="OffsetFetch",
        path="groups[].topics[].partitions[].error_code",
        ours="NONE",
        theirs="UNKNOWN_TOPIC_ID",
        why="Kafka refuses the zero id as unknown",
    ),
    Known(
        apis="InitProducerId",
        path="error_code",
        theirs="INVALID_REQUEST",
        ends=True,
        why="Kafka refuses a producer id without an epoch and an epoch without an id",
    ),
    Known(
        apis="Produce",
        path="responses[].partition_responses[].log_start_offset",
        ours="-1",
        why="Kafka returns the log's start also with some errors",
    ),
    Known(
        apis="Produce",
        path="responses[].partition_responses[].error_code",
        ours="UNSUPPORTED_COMPRESSION_TYPE | INVALID_REQUIRED_ACKS | INVALID_RECORD | "
        "INVALID_TOPIC_EXCEPTION | "
        "UNSUPPORTED_FOR_MESSAGE_FORMAT | CORRUPT_MESSAGE",
        theirs="UNKNOWN_TOPIC_OR_PARTITION | INVALID_PRODUCER_ID_MAPPING",
        why="the batch is checked before the partition and the transaction",
    ),
    Known(
        apis="Produce",
        path="responses[].partition_responses[].error_code",
        ours="CORRUPT_MESSAGE | UNSUPPORTED_FOR_MESSAGE_FORMAT | NONE",
        theirs="INVALID_RECORD | UNSUPPORTED_COMPRESSION_TYPE",
        ends=True,
        why="Kafka's validation of batches",
    ),
    Known(
        apis="Fetch",
        path="responses[].partitions[].aborted_transactions",
        ours="null",
        theirs="[]",
        why="Kafka returns an empty list with errors that are found before reading",
    ),
    Known(
        apis="ListOffsets",
        path="topics[].partitions[].error_code",
        ours="UNKNOWN_TOPIC_OR_PARTITION | UNKNOWN_LEADER_EPOCH",
        theirs="UNSUPPORTED_VERSION",
        why="Kafka checks special timestamps before the partition",
    ),
    Known(
        apis="Fetch",
        path="responses[].partitions[].error_code",
        ours="UNKNOWN_TOPIC_OR_PARTITION",
        theirs="UNKNOWN_TOPIC_ID",
        is_rare=True,
        why="Kafka refuses the zero id as unknown",
    ),
    Known(
        apis="Fetch",
        path="responses[].partitions[].error_code",
        ours="FENCED_LEADER_EPOCH",
        theirs="OFFSET_OUT_OF_RANGE",
        is_rare=True,
        why="a negative leader epoch is none in Kafka, not only -1",
    ),
    Known(
        apis="CreateTopics",
        path="topics[].configs*",
        why="the set of topic configurations is not Kafka's in every name yet",
    ),
    Known(
        apis="DescribeConfigs",
        path="results[].configs*",
        why="the set of configurations is not Kafka's in every name yet",
    ),
    Known(
        apis="AlterConfigs, IncrementalAlterConfigs, DescribeConfigs",
        ends=True,
        path="responses[].error_code | results[].error_code",
        why="the order in which names, resources and values of configurations are checked",
    ),
    Known(
        apis="Metadata",
        path="brokers[] | controller_id | topics[] | topics[].error_code",
        theirs="absent | -1 | INVALID_REQUEST | *INVALID_REQUEST*",
        why="Kafka refuses topic ids before version 12",
    ),
    Known(
        apis="OffsetCommit",
        path="topics[].partitions[].error_code",
        ours="UNKNOWN_TOPIC_OR_PARTITION",
        theirs="UNKNOWN_TOPIC_ID",
        is_rare=True,
        why="Kafka refuses the zero id as unknown",
    ),
)
