"""ReadShareGroupState (key 84, KIP-932): the stored state, for the partition's leader.

Stores the leader's epoch, which fences the leaders before it. Only brokers send it
(CLUSTER_ACTION).
"""

from josefine_broker.api.shared.share_states import StateAnswers
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.coordinators.share_states_host import Outcome
from josefine_broker.engine.groups.share import stored
from josefine_broker.engine.groups.share.values import NO_START
from josefine_broker.wire.entities import read_share_group_state as e


def _more(outcome: Outcome) -> dict[str, object]:
    state = outcome.state
    return {
        "state_epoch": 0 if state is None else state.state_epoch,
        "start_offset": NO_START if state is None else state.start_offset,
        "state_batches": tuple(
            e.StateBatch(
                first_offset=each.first,
                last_offset=each.last,
                delivery_state=each.state.value,
                delivery_count=each.deliveries,
            )
            for each in (() if state is None else state.batches)
        ),
    }


_ANSWERS = StateAnswers(e.ReadShareGroupStateResponse, e.ReadStateResult, e.PartitionResult, _more)
refuse = _ANSWERS.refuse


def handle(ctx: Context, info: RequestInfo, request: e.ReadShareGroupStateRequest) -> object:
    """Answered when it is committed; errors are per partition."""
    return _ANSWERS.change(ctx, request, lambda part: stored.read(part.leader_epoch))
