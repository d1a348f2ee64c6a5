"""Differences from Apache Kafka that are defects here: known, and to be fixed.

Whoever fixes one removes its row: a run fails while a row has nothing to explain.
"""

from __future__ import annotations

from tests.oracle.row import Known

OPEN: tuple[Known, ...] = (
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
        theirs="UNKNOWN_TOPIC_OR_PARTITION | UNKNOWN_TOPIC_ID | INVALID_PRODUCER_ID_MAPPING",
        why="the batch is checked before the partition and the transaction",
    ),
    Known(
        apis="Produce",
        path="responses[].partition_responses[].error_code",
        ours="CORRUPT_MESSAGE | UNSUPPORTED_FOR_MESSAGE_FORMAT | INVALID_TOPIC_EXCEPTION | NONE",
        theirs="INVALID_RECORD | UNSUPPORTED_COMPRESSION_TYPE",
        ends=True,
        why="Kafka's validation of batches",
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
        path="brokers[] | controller_id | topics[] | topics[].error_code"
        " | cluster_authorized_operations",
        theirs="absent | -1 | INVALID_REQUEST | *INVALID_REQUEST* | -2147483648",
        why="Kafka refuses topic ids before version 12",
    ),
)
