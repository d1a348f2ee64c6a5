"""SaslAuthenticate (key 36) where no authentication is expected, like SaslHandshake."""

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.wire.entities import sasl_authenticate as e


def handle(
    ctx: Context, info: RequestInfo, request: e.SaslAuthenticateRequest
) -> e.SaslAuthenticateResponse:
    """No token is expected."""
    return e.SaslAuthenticateResponse(
        error_code=ErrorCode.illegal_sasl_state,
        error_message="no authentication is awaited on this connection",
    )


def refuse(request: e.SaslAuthenticateRequest, error: KafkaError) -> e.SaslAuthenticateResponse:
    """The answer when the whole request is refused."""
    return e.SaslAuthenticateResponse(error_code=error.code, error_message=error.message or None)
