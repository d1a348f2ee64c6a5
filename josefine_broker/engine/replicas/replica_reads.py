"""Reads from other replicas that are no replication: of a repair, and of a leader in doubt.

A batch is read by Fetch, without waiting, as a consumer reads it that may see all of a log: every
replica answers, whatever its role is, and the read counts as nobody's progress.
"""

from __future__ import annotations

from collections.abc import Callable

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.context import Context
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.partition.fetch_session import FINAL_EPOCH
from josefine_broker.engine.partition.partition import DEBUG_REPLICA_ID
from josefine_broker.records.batch import NO_LEADER_EPOCH
from josefine_broker.wire.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

FETCH = 1
FETCH_BYTES = 1024 * 1024
"""Bytes asked for at once."""
ANSWER_MS = 3_000
"""After this a replica that does not answer counts as silent."""

Resume = Callable[[Context, TopicPartition, HostedPartition], None]
"""Lets a replica take its role that had to wait for something."""

DAMAGED = (ErrorCode.corrupt_message.value, ErrorCode.offset_out_of_range.value)
"""The replica does not have the batch intact. After any other error (it starts, or has lost its
role) it may still have it."""


def request_of(hosted: HostedPartition, index: int, offset: int) -> FetchRequest:
    """Read from `offset`, without a session, and without waiting."""
    part = FetchPartition(index, NO_LEADER_EPOCH, offset, NO_LEADER_EPOCH, -1, FETCH_BYTES)
    return FetchRequest(
        replica_id=DEBUG_REPLICA_ID,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=FETCH_BYTES,
        isolation_level=0,
        session_id=0,
        session_epoch=FINAL_EPOCH,
        topics=(FetchTopic("", hosted.topic_id, (part,)),),
    )


def is_answered(answer: FetchResponse | None) -> bool:
    """Whether the replica looked for the batch."""
    if answer is None or answer.error_code or not answer.topics:
        return False
    return answer.topics[0].partitions[0].error_code in (0, *DAMAGED)
