"""ReadShareGroupStateSummary (key 87, KIP-932): where a share partition starts.

The group's coordinator asks the share coordinator, to describe the offsets of the group. Only
brokers send it (CLUSTER_ACTION).
"""

from collections.abc import Mapping

from josefine_broker.api.shared.share_states import answer_states, keys_of, results_of
from josefine_broker.base.errors import KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.coordinators.share_states_host import Outcome, refused
from josefine_broker.engine.groups.share import stored
from josefine_broker.engine.groups.share.values import NO_COUNT, NO_START, ShareKey
from josefine_broker.wire.entities import read_share_group_state_summary as e


def handle(ctx: Context, info: RequestInfo, request: e.ReadShareGroupStateSummaryRequest) -> object:
    """Answered when it is committed; errors are per partition."""
    return answer_states(
        ctx,
        request,
        lambda part: stored.unchanged,
        lambda outcomes: _answer(request, outcomes),
    )


def refuse(
    request: e.ReadShareGroupStateSummaryRequest, error: KafkaError
) -> e.ReadShareGroupStateSummaryResponse:
    """The answer when the whole request is refused."""
    keys = keys_of(request)
    return _answer(request, dict.fromkeys(keys, refused(error)))


def _answer(
    request: e.ReadShareGroupStateSummaryRequest, outcomes: Mapping[ShareKey, Outcome]
) -> e.ReadShareGroupStateSummaryResponse:
    return e.ReadShareGroupStateSummaryResponse(
        results=results_of(request, outcomes, e.ReadStateSummaryResult, _result)
    )


def _result(outcome: Outcome, partition: int) -> e.PartitionResult:
    state = outcome.state
    return e.PartitionResult(
        partition=partition,
        error_code=outcome.code,
        error_message=outcome.message,
        state_epoch=0 if state is None else state.state_epoch,
        leader_epoch=0 if state is None else state.leader_epoch,
        start_offset=NO_START if state is None else state.start_offset,
        delivery_complete_count=NO_COUNT if state is None else state.complete_count,
    )
