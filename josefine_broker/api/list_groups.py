"""ListGroups (key 16): the groups that this broker coordinates.

A client asks every broker. Filters: by state since version 4 (KIP-518), by type since 5 (KIP-848):
classic or consumer. While a partition of `__consumer_offsets` is being loaded the answer is an
error: a list without its groups would look complete.
"""

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.wire.entities import list_groups as e


def handle(ctx: Context, info: RequestInfo, request: e.ListGroupsRequest) -> e.ListGroupsResponse:
    """The groups that match the filters."""
    if ctx.clients.groups.loading:
        raise KafkaError(ErrorCode.coordinator_load_in_progress)
    states = {state.lower() for state in request.states_filter}
    types = {each.lower() for each in request.types_filter}
    return e.ListGroupsResponse(
        groups=tuple(
            e.ListedGroup(
                group_id=view.group_id,
                protocol_type=view.protocol_type,
                group_state=view.state.value,
                group_type=view.group_type,
            )
            for view in ctx.clients.groups.coordinator.views()
            if (not states or view.state.value.lower() in states)
            and (not types or view.group_type in types)
        )
    )


def refuse(request: e.ListGroupsRequest, error: KafkaError) -> e.ListGroupsResponse:
    """The answer when the whole request is refused."""
    return e.ListGroupsResponse(error_code=error.code, groups=())
