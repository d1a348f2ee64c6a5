"""DeleteGroups (key 42): deletes groups without members, with all their committed offsets.

Each is one deletion in its partition of `__consumer_offsets`, answered when it is on every in-sync
replica; errors are per group, with their texts since version 3. The group name may be empty, as
simple consumers may have none.
"""

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.coordinators.offsets_topic import append_deletion, coordinator_of
from josefine_broker.engine.coordinators.share_state_requests import delete_states
from josefine_broker.engine.replicas.committing import Appended, answer_when_committed
from josefine_broker.wire.entities import delete_groups as e

WHY_NOT = {
    ErrorCode.group_id_not_found: "there is no such group",
    ErrorCode.non_empty_group: "the group has members",
}
_Errors = dict[str, KafkaError | None]
"""By group; None: it is deleted."""


def handle(ctx: Context, info: RequestInfo, request: e.DeleteGroupsRequest) -> object:
    """Answered when all deletions are committed."""
    errors: _Errors = dict.fromkeys(request.groups_names)
    appended: list[Appended] = []
    for group_id in errors:
        try:
            appended += _delete(ctx, group_id, errors)
        except KafkaError as error:
            errors[group_id] = error.without_frames()
    timeout_ms = ctx.settings.offsets.timeout_ms
    return answer_when_committed(ctx, appended, timeout_ms, lambda: _answer(errors))


def refuse(request: e.DeleteGroupsRequest, error: KafkaError) -> e.DeleteGroupsResponse:
    """The answer when the whole request is refused."""
    return _answer(dict.fromkeys(request.groups_names, error))


def _delete(ctx: Context, group_id: str, errors: _Errors) -> list[Appended]:
    """Raises KafkaError."""
    coordinator_of(ctx, group_id)
    coordinator = ctx.clients.groups.coordinator
    code = coordinator.may_delete(group_id)
    if code is not ErrorCode.none:
        raise KafkaError(code, WHY_NOT.get(code, ""))

    def settle(error: KafkaError | None) -> None:
        if error is not None:
            errors[group_id] = error.without_frames()

    committed = list(coordinator.offsets.committed(group_id))
    share = coordinator.shares.get(group_id)
    appended = append_deletion(ctx, group_id, committed, and_group=True, settle=settle)
    if share is not None:
        delete_states(ctx, share)
    return appended


def _answer(errors: _Errors) -> e.DeleteGroupsResponse:
    return e.DeleteGroupsResponse(
        results=tuple(
            e.DeletableGroupResult(group_id=group_id)
            if error is None
            else e.DeletableGroupResult(
                group_id=group_id, error_code=error.code, error_message=error.message or None
            )
            for group_id, error in errors.items()
        )
    )
