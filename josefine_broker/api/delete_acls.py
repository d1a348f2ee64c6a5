"""DeleteAcls (key 31, KIP-140): deletes the ACLs that match filters, in one change, and returns
them. Based on this broker's image: an ACL that is being created meanwhile stays."""

from josefine_broker.api.shared.acls import check_acls
from josefine_broker.base.acls import Acl
from josefine_broker.base.errors import KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.metadata.acls import filter_of
from josefine_broker.engine.metadata.changes import AlterAcls
from josefine_broker.engine.proposing import answer_when_settled, submit_change
from josefine_broker.wire.entities import delete_acls as e


def handle(ctx: Context, info: RequestInfo, request: e.DeleteAclsRequest) -> object:
    """Answered when they are no longer in effect here; errors are per filter."""
    check_acls(ctx)
    deadline_ms = ctx.clock.monotonic_ms() + ctx.settings.metadata_timeout_ms
    outcomes: list[list[Acl] | KafkaError] = []
    for wanted in request.filters:
        try:
            outcomes.append(_fitting(ctx, wanted))
        except KafkaError as error:
            outcomes.append(error.without_frames())
    gone = {acl for each in outcomes if not isinstance(each, KafkaError) for acl in each}
    change = AlterAcls(remove=tuple(sorted(gone)))
    proposals = [submit_change(ctx, change, deadline_ms)] if gone else []

    def build() -> e.DeleteAclsResponse:
        failed = next((each.error for each in proposals if each.error is not None), None)
        return e.DeleteAclsResponse(
            filter_results=tuple(
                _failed(each) if isinstance(each, KafkaError) else _result(each, failed)
                for each in outcomes
            )
        )

    return answer_when_settled(ctx, proposals, deadline_ms, build)


def refuse(request: e.DeleteAclsRequest, error: KafkaError) -> e.DeleteAclsResponse:
    """The answer when the whole request is refused."""
    return e.DeleteAclsResponse(filter_results=tuple(_failed(error) for _ in request.filters))


def _fitting(ctx: Context, wanted: e.DeleteAclsFilter) -> list[Acl]:
    fits = filter_of(
        wanted.resource_type_filter,
        wanted.resource_name_filter,
        wanted.pattern_type_filter,
        wanted.principal_filter,
        wanted.host_filter,
        wanted.operation,
        wanted.permission_type,
    )
    return sorted(acl for acl in ctx.image.acls if fits.matches(acl))


def _result(acls: list[Acl], failed: KafkaError | None) -> e.DeleteAclsFilterResult:
    if acls and failed is not None:
        return _failed(failed)
    return e.DeleteAclsFilterResult(
        matching_acls=tuple(
            e.DeleteAclsMatchingAcl(
                resource_type=acl.resource_type,
                resource_name=acl.name,
                pattern_type=acl.pattern,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
            for acl in acls
        )
    )


def _failed(error: KafkaError) -> e.DeleteAclsFilterResult:
    return e.DeleteAclsFilterResult(
        error_code=error.code, error_message=error.message or None, matching_acls=()
    )
