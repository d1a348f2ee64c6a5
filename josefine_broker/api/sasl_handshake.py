"""SaslHandshake (key 17) where no authentication is expected: on a listener without SASL, and on an
authenticated connection. Before authentication host/net/sasl_gate.py answers it."""

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.wire.entities import sasl_handshake as e


def handle(
    ctx: Context, info: RequestInfo, request: e.SaslHandshakeRequest
) -> e.SaslHandshakeResponse:
    """No mechanism is expected."""
    return e.SaslHandshakeResponse(error_code=ErrorCode.illegal_sasl_state)


def refuse(request: e.SaslHandshakeRequest, error: KafkaError) -> e.SaslHandshakeResponse:
    """The answer when the whole request is refused."""
    return e.SaslHandshakeResponse(error_code=error.code)
