"""DeleteShareGroupState (key 86, KIP-932): forgets a share partition.

The group's coordinator asks the share coordinator, when the group or its offsets are
deleted. Only brokers send it (CLUSTER_ACTION).
"""

from josefine_broker.api.shared.share_states import StateAnswers
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.groups.share import stored
from josefine_broker.wire.entities import delete_share_group_state as e

_ANSWERS = StateAnswers(e.DeleteShareGroupStateResponse, e.DeleteStateResult, e.PartitionResult)
refuse = _ANSWERS.refuse


def handle(ctx: Context, info: RequestInfo, request: e.DeleteShareGroupStateRequest) -> object:
    """Answered when it is committed; errors are per partition."""
    return _ANSWERS.change(ctx, request, lambda part: stored.deleted)
