"""ReadShareGroupState (key 84, KIP-932): the stored state, for the partition's leader.

Stores the leader's epoch, which fences the leaders before it. Only brokers send it
(CLUSTER_ACTION).
"""

from collections.abc import Mapping

from josefine_broker.api.shared.share_states import answer_states, keys_of, results_of
from josefine_broker.base.errors import KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.coordinators.share_states_host import Outcome, refused
from josefine_broker.engine.groups.share import stored
from josefine_broker.engine.groups.share.values import NO_START, ShareKey
from josefine_broker.wire.entities import read_share_group_state as e


def handle(ctx: Context, info: RequestInfo, request: e.ReadShareGroupStateRequest) -> object:
    """Answered when it is committed; errors are per partition."""
    return answer_states(
        ctx,
        request,
        lambda part: stored.read(part.leader_epoch),
        lambda outcomes: _answer(request, outcomes),
    )


def refuse(
    request: e.ReadShareGroupStateRequest, error: KafkaError
) -> e.ReadShareGroupStateResponse:
    """The answer when the whole request is refused."""
    keys = keys_of(request)
    return _answer(request, dict.fromkeys(keys, refused(error)))


def _answer(
    request: e.ReadShareGroupStateRequest, outcomes: Mapping[ShareKey, Outcome]
) -> e.ReadShareGroupStateResponse:
    return e.ReadShareGroupStateResponse(
        results=results_of(request, outcomes, e.ReadStateResult, _result)
    )


def _result(outcome: Outcome, partition: int) -> e.PartitionResult:
    state = outcome.state
    return e.PartitionResult(
        partition=partition,
        error_code=outcome.code,
        error_message=outcome.message,
        state_epoch=0 if state is None else state.state_epoch,
        start_offset=NO_START if state is None else state.start_offset,
        state_batches=tuple(
            e.StateBatch(
                first_offset=each.first,
                last_offset=each.last,
                delivery_state=each.state.value,
                delivery_count=each.deliveries,
            )
            for each in (() if state is None else state.batches)
        ),
    )
