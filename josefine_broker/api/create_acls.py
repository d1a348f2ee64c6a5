"""CreateAcls (key 30, KIP-140): adds rules that allow or deny operations. One change for all valid
ones; an existing ACL is no error."""

from josefine_broker.api.shared.acls import check_acls
from josefine_broker.base.acls import Acl
from josefine_broker.base.errors import KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.metadata.acls import acl_of, filter_of
from josefine_broker.engine.metadata.changes import AlterAcls
from josefine_broker.engine.proposing import answer_when_settled, submit_change
from josefine_broker.wire.entities import create_acls as e


def handle(ctx: Context, info: RequestInfo, request: e.CreateAclsRequest) -> object:
    """Answered when they are in effect here; errors are per ACL."""
    check_acls(ctx)
    deadline_ms = ctx.clock.monotonic_ms() + ctx.settings.metadata_timeout_ms
    outcomes: list[Acl | KafkaError] = []
    for wanted in request.creations:
        try:
            outcomes.append(_acl(wanted))
        except KafkaError as error:
            outcomes.append(error.without_frames())
    new = tuple(sorted({each for each in outcomes if isinstance(each, Acl)} - ctx.image.acls))
    proposals = [submit_change(ctx, AlterAcls(add=new), deadline_ms)] if new else []

    def build() -> e.CreateAclsResponse:
        failed = next((each.error for each in proposals if each.error is not None), None)
        return e.CreateAclsResponse(
            results=tuple(_result(failed if isinstance(each, Acl) else each) for each in outcomes)
        )

    return answer_when_settled(ctx, proposals, deadline_ms, build)


def refuse(request: e.CreateAclsRequest, error: KafkaError) -> e.CreateAclsResponse:
    """The answer when the whole request is refused."""
    return e.CreateAclsResponse(results=tuple(_result(error) for _ in request.creations))


def _acl(wanted: e.AclCreation) -> Acl:
    return acl_of(
        filter_of(
            wanted.resource_type,
            wanted.resource_name,
            wanted.resource_pattern_type,
            wanted.principal,
            wanted.host,
            wanted.operation,
            wanted.permission_type,
        )
    )


def _result(error: KafkaError | None) -> e.AclCreationResult:
    if error is None:
        return e.AclCreationResult()
    return e.AclCreationResult(error_code=error.code, error_message=error.message or None)
