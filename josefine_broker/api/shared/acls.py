"""Code shared by the handlers of ACLs."""

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context


def check_acls(ctx: Context) -> None:
    """Raises KafkaError if this broker does not enforce ACLs: they would protect nothing."""
    if ctx.clients.authorizer is None:
        raise KafkaError(
            ErrorCode.security_disabled, "everybody may do everything here: set acls.enabled"
        )
