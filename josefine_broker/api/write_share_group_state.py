"""WriteShareGroupState (key 85, KIP-932): stores which records of a partition are finished.

The partition's leader asks the share coordinator; batches replace what is stored of the same
records. Only brokers send it (CLUSTER_ACTION).
"""

from josefine_broker.api.shared.share_states import StateAnswers
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.groups.share import stored
from josefine_broker.engine.groups.share.states import RecordState
from josefine_broker.engine.groups.share.values import ShareState, StateBatch
from josefine_broker.wire.entities import write_share_group_state as e

STORED = frozenset(state.value for state in RecordState if state is not RecordState.ACQUIRED)
"""The numbers of states: a lock is not stored."""


_ANSWERS = StateAnswers(e.WriteShareGroupStateResponse, e.WriteStateResult, e.PartitionResult)
refuse = _ANSWERS.refuse


def handle(ctx: Context, info: RequestInfo, request: e.WriteShareGroupStateRequest) -> object:
    """Answered when it is committed; errors are per partition."""
    return _ANSWERS.change(ctx, request, lambda part: stored.written(_state(part)))


def _state(part: e.PartitionData) -> ShareState:
    """Raises KafkaError(invalid_request) for a state of a record that is not stored."""
    for each in part.state_batches:
        if each.delivery_state not in STORED:
            message = f"{each.delivery_state} is not the number of a stored state"
            raise KafkaError(ErrorCode.invalid_request, message)
    return ShareState(
        part.state_epoch,
        part.leader_epoch,
        part.start_offset,
        tuple(
            StateBatch(
                each.first_offset,
                each.last_offset,
                RecordState(each.delivery_state),
                each.delivery_count,
            )
            for each in part.state_batches
        ),
        part.delivery_complete_count,
    )
