"""ReadShareGroupStateSummary (key 87, KIP-932): where a share partition starts.

The group's coordinator asks the share coordinator, to describe the offsets of the group. Only
brokers send it (CLUSTER_ACTION).
"""

from josefine_broker.api.shared.share_states import StateAnswers
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.coordinators.share_states_host import Outcome
from josefine_broker.engine.groups.share import stored
from josefine_broker.engine.groups.share.values import NO_COUNT, NO_START
from josefine_broker.wire.entities import read_share_group_state_summary as e


def _more(outcome: Outcome) -> dict[str, object]:
    state = outcome.state
    return {
        "state_epoch": 0 if state is None else state.state_epoch,
        "leader_epoch": 0 if state is None else state.leader_epoch,
        "start_offset": NO_START if state is None else state.start_offset,
        "delivery_complete_count": NO_COUNT if state is None else state.complete_count,
    }


_ANSWERS = StateAnswers(
    e.ReadShareGroupStateSummaryResponse, e.ReadStateSummaryResult, e.PartitionResult, _more
)
refuse = _ANSWERS.refuse


def handle(ctx: Context, info: RequestInfo, request: e.ReadShareGroupStateSummaryRequest) -> object:
    """Answered when it is committed; errors are per partition."""
    return _ANSWERS.change(ctx, request, lambda part: stored.unchanged)
