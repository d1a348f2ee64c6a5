"""Differences from Apache Kafka in ACLs, SCRAM credentials and quotas that stay; of KEPT."""

from __future__ import annotations

from tests.oracle.row import Known

ACCESS: tuple[Known, ...] = (
    Known(
        apis="CreateAcls",
        path="results[].error_code",
        ours="INVALID_REQUEST",
        theirs="NONE | UNKNOWN_SERVER_ERROR",
        ends=True,
        why="an operation that the resource does not have is refused: it would have no effect",
    ),
    Known(
        apis="CreateAcls",
        path="results[].error_code",
        ours="NONE",
        theirs="UNKNOWN_SERVER_ERROR",
        ends=True,
        why="an ACL that is not valid fails alone; in Kafka all of the request fail with it",
    ),
    Known(
        apis="DescribeAcls",
        path="error_code",
        ours="INVALID_REQUEST",
        theirs="NONE",
        why="a filter that nothing can match is refused; Kafka returns an empty list",
    ),
    Known(
        apis="AlterUserScramCredentials",
        path="results[].error_code",
        ours="UNACCEPTABLE_CREDENTIAL | DUPLICATE_RESOURCE",
        ends=True,
        why="names and salted passwords that no login could use are refused, and what is named "
        "twice before what is not there",
    ),
    Known(
        apis="AlterClientQuotas",
        path="entries[]*",
        ends=True,
        why="an entity that names a type twice is refused, as is one that is named twice",
    ),
    Known(
        apis="DescribeClientQuotas",
        path="entries[]",
        ours="absent",
        ends=True,
        why="an entity that a request names twice is refused; Kafka returns an error and sets it",
    ),
    Known(
        apis="DescribeClientQuotas",
        path="error_code",
        ours="NONE | INVALID_REQUEST",
        theirs="INVALID_REQUEST | UNSUPPORTED_VERSION",
        why="entity types without quotas here match nothing; Kafka returns another error",
    ),
)
