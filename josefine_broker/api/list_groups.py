"""ListGroups (key 16): the groups that have committed offsets here.

None of them has members, so all are in state Empty (KIP-518 filters by it) and of type classic.
"""

from josefine_broker.base.errors import KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.wire.entities import list_groups as e

STATE = "Empty"
TYPE = "classic"


def handle(ctx: Context, info: RequestInfo, request: e.ListGroupsRequest) -> e.ListGroupsResponse:
    """The groups that pass the filters."""
    states = {state.lower() for state in request.states_filter}
    types = {each.lower() for each in request.types_filter}
    if (states and STATE.lower() not in states) or (types and TYPE not in types):
        return e.ListGroupsResponse(groups=())
    return e.ListGroupsResponse(
        groups=tuple(
            e.ListedGroup(group_id=group_id, protocol_type="", group_state=STATE, group_type=TYPE)
            for group_id in ctx.clients.groups.group_ids
        )
    )


def refuse(request: e.ListGroupsRequest, error: KafkaError) -> e.ListGroupsResponse:
    """The answer when the whole request is refused."""
    return e.ListGroupsResponse(error_code=error.code, groups=())
