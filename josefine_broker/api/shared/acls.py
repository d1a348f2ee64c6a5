"""What the handlers of ACLs share."""

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context


def check_acls(ctx: Context) -> None:
    """Raises KafkaError where this broker asks for no ACLs: they would protect nothing."""
    if ctx.clients.authorizer is None:
        raise KafkaError(
            ErrorCode.security_disabled, "everybody may do everything here: set acls.enabled"
        )
