"""InitializeShareGroupState (key 83, KIP-932): lets a share partition start at an offset.

The group's coordinator asks the share coordinator, with a state epoch that fences the
partition's leader until it reads the state again. Only brokers send it (CLUSTER_ACTION).
"""

from josefine_broker.api.shared.share_states import StateAnswers
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.groups.share import stored
from josefine_broker.wire.entities import initialize_share_group_state as e

_ANSWERS = StateAnswers(
    e.InitializeShareGroupStateResponse, e.InitializeStateResult, e.PartitionResult
)
refuse = _ANSWERS.refuse


def handle(ctx: Context, info: RequestInfo, request: e.InitializeShareGroupStateRequest) -> object:
    """Answered when it is committed; errors are per partition."""
    return _ANSWERS.change(
        ctx, request, lambda part: stored.initialized(part.state_epoch, part.start_offset)
    )
