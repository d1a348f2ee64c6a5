"""DescribeAcls (key 29, KIP-140): the ACLs that match a filter, grouped by resource pattern."""

from josefine_broker.api.shared.acls import check_acls
from josefine_broker.base.acls import Acl
from josefine_broker.base.errors import KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.metadata.acls import filter_of
from josefine_broker.wire.entities import describe_acls as e


def handle(ctx: Context, info: RequestInfo, request: e.DescribeAclsRequest) -> object:
    """The ACLs in this broker's image."""
    check_acls(ctx)
    wanted = filter_of(
        request.resource_type_filter,
        request.resource_name_filter,
        request.pattern_type_filter,
        request.principal_filter,
        request.host_filter,
        request.operation,
        request.permission_type,
    )
    found: dict[tuple[int, str, int], list[Acl]] = {}
    for acl in sorted(ctx.image.acls):
        if wanted.matches(acl):
            found.setdefault(acl[:3], []).append(acl)
    return e.DescribeAclsResponse(
        resources=tuple(
            e.DescribeAclsResource(
                resource_type=kind,
                resource_name=name,
                pattern_type=pattern,
                acls=tuple(map(_described, acls)),
            )
            for (kind, name, pattern), acls in found.items()
        )
    )


def refuse(request: e.DescribeAclsRequest, error: KafkaError) -> e.DescribeAclsResponse:
    """The answer when the whole request is refused."""
    return e.DescribeAclsResponse(
        error_code=error.code, error_message=error.message or None, resources=()
    )


def _described(acl: Acl) -> e.AclDescription:
    return e.AclDescription(
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
