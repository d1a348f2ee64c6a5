"""ConsumerGroupDescribe (key 69) in the one shape that handlers see: version 1."""

from dataclasses import dataclass
from uuid import UUID

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupDescribeRequest:
    """Ask what these groups of the consumer protocol are doing."""

    group_ids: tuple[str, ...] = ()
    include_authorized_operations: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartitions:
    """Partitions of one topic."""

    topic_id: UUID | None = None
    topic_name: str = ""
    partitions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What a member has, or is to have."""

    topic_partitions: tuple[TopicPartitions, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member: what it said, what it has, and what it is to have in the end. `member_type` is 0
    for a classic member, 1 for one of the consumer protocol."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: int = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()
    subscribed_topic_regex: str | None = None
    assignment: Assignment
    target_assignment: Assignment
    member_type: int = -1  # since version 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    """One group, or its error."""

    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    group_id: str
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor_name: str = ""
    members: tuple[Member, ...] = ()
    authorized_operations: int = -2147483648


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupDescribeResponse:
    """One answer per group."""

    throttle_time_ms: int = 0
    groups: tuple[DescribedGroup, ...] = ()
