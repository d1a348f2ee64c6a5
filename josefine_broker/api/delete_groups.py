"""DeleteGroups (key 42): deletes groups without members, with all their committed offsets.

Each is one deletion in its partition of `__consumer_offsets`, answered when it is on every in-sync
replica; errors are per group. The group name may be empty, as simple consumers may have none.
"""

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.coordinators.offsets_topic import append_deletion, coordinator_of
from josefine_broker.engine.coordinators.share_state_requests import delete_states
from josefine_broker.engine.replicas.committing import Appended, answer_when_committed
from josefine_broker.wire.entities import delete_groups as e


def handle(ctx: Context, info: RequestInfo, request: e.DeleteGroupsRequest) -> object:
    """Answered when all deletions are committed."""
    codes = dict.fromkeys(request.groups_names, ErrorCode.none)
    appended: list[Appended] = []
    for group_id in codes:
        try:
            appended += _delete(ctx, group_id, codes)
        except KafkaError as error:
            codes[group_id] = error.code
    timeout_ms = ctx.settings.offsets.timeout_ms
    return answer_when_committed(ctx, appended, timeout_ms, lambda: _answer(codes))


def refuse(request: e.DeleteGroupsRequest, error: KafkaError) -> e.DeleteGroupsResponse:
    """The answer when the whole request is refused."""
    return _answer(dict.fromkeys(request.groups_names, error.code))


def _delete(ctx: Context, group_id: str, codes: dict[str, ErrorCode]) -> list[Appended]:
    """Raises KafkaError."""
    coordinator_of(ctx, group_id)
    coordinator = ctx.clients.groups.coordinator
    code = coordinator.may_delete(group_id)
    if code is not ErrorCode.none:
        raise KafkaError(code)

    def settle(error: KafkaError | None) -> None:
        if error is not None:
            codes[group_id] = error.code

    committed = list(coordinator.offsets.committed(group_id))
    share = coordinator.shares.get(group_id)
    appended = append_deletion(ctx, group_id, committed, and_group=True, settle=settle)
    if share is not None:
        delete_states(ctx, share)
    return appended


def _answer(codes: dict[str, ErrorCode]) -> e.DeleteGroupsResponse:
    return e.DeleteGroupsResponse(
        results=tuple(
            e.DeletableGroupResult(group_id=group_id, error_code=code)
            for group_id, code in codes.items()
        )
    )
