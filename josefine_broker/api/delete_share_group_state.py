"""DeleteShareGroupState (key 86, KIP-932): forgets a share partition.

The group's coordinator asks the share coordinator, when the group or its offsets are
deleted. Only brokers send it (CLUSTER_ACTION).
"""

from collections.abc import Mapping

from josefine_broker.api.shared.share_states import answer_states, keys_of, results_of
from josefine_broker.base.errors import KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.coordinators.share_states_host import Outcome, refused
from josefine_broker.engine.groups.share import stored
from josefine_broker.engine.groups.share.values import ShareKey
from josefine_broker.wire.entities import delete_share_group_state as e


def handle(ctx: Context, info: RequestInfo, request: e.DeleteShareGroupStateRequest) -> object:
    """Answered when it is committed; errors are per partition."""
    return answer_states(
        ctx,
        request,
        lambda part: stored.deleted,
        lambda outcomes: _answer(request, outcomes),
    )


def refuse(
    request: e.DeleteShareGroupStateRequest, error: KafkaError
) -> e.DeleteShareGroupStateResponse:
    """The answer when the whole request is refused."""
    keys = keys_of(request)
    return _answer(request, dict.fromkeys(keys, refused(error)))


def _answer(
    request: e.DeleteShareGroupStateRequest, outcomes: Mapping[ShareKey, Outcome]
) -> e.DeleteShareGroupStateResponse:
    return e.DeleteShareGroupStateResponse(
        results=results_of(request, outcomes, e.DeleteStateResult, _result)
    )


def _result(outcome: Outcome, partition: int) -> e.PartitionResult:
    return e.PartitionResult(
        partition=partition, error_code=outcome.code, error_message=outcome.message
    )
