"""APIs that this broker lists and declines, with the error code of a Kafka without the feature.

Tools infer Kafka's version from the API keys that a broker lists (franz-go's kversion, and with it
kminion, kcl and Redpanda Console), and take one that lists only some of a release's keys for a
version before 4. Kafka 4 lists these keys whether or not their features are enabled; a request is
answered with an error that names the feature, and nothing is done.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, NamedTuple

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.security import ANONYMOUS
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.wire import apis
from josefine_broker.wire.schema import parse_hint

_TOKENS = "there are no delegation tokens here: log in by SASL or a certificate"
_STREAMS = "there are no groups of the streams protocol here: set group.protocol to classic"
_VOTERS = (
    "the controller makes registered brokers voters by itself: start the broker with raft.seeds"
)
_CONTROLLERS = "each controller is a broker: unregister the broker, and its vote goes with it"
LISTS = ("group_ids", "groups")
"""Lists of a request for whose entries the answer has an entry each."""


class Reason(NamedTuple):
    """The reason why a request is declined."""

    code: ErrorCode
    message: str


_NO_TOKENS = Reason(ErrorCode.delegation_token_auth_disabled, _TOKENS)
_NO_STREAMS = Reason(ErrorCode.unsupported_version, _STREAMS)

REASONS: Mapping[int, Reason] = {
    apis.CREATE_DELEGATION_TOKEN: _NO_TOKENS,
    apis.RENEW_DELEGATION_TOKEN: _NO_TOKENS,
    apis.EXPIRE_DELEGATION_TOKEN: _NO_TOKENS,
    apis.DESCRIBE_DELEGATION_TOKEN: _NO_TOKENS,
    apis.ADD_RAFT_VOTER: Reason(ErrorCode.unsupported_version, _VOTERS),
    apis.STREAMS_GROUP_HEARTBEAT: _NO_STREAMS,
    apis.STREAMS_GROUP_DESCRIBE: _NO_STREAMS,
    apis.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: _NO_STREAMS,
    apis.UNREGISTER_CONTROLLER: Reason(ErrorCode.unsupported_version, _CONTROLLERS),
}


class Declined:
    """One declined API, with the two functions that the file of an API key has."""

    __slots__ = ("_key",)

    def __init__(self, key: int) -> None:
        self._key = key

    def handle(self, ctx: Context, info: RequestInfo, request: Any) -> Any:
        code, message = REASONS[self._key]
        if code is ErrorCode.delegation_token_auth_disabled and info.principal == ANONYMOUS:
            # Only an authenticated client could have a token.
            code = ErrorCode.delegation_token_request_not_allowed
        raise KafkaError(code, message)

    def refuse(self, request: Any, error: KafkaError) -> Any:
        return failed(apis.APIS[self._key].response, request, error)


def failed(shape: type, source: Any, error: KafkaError) -> Any:
    """An answer of this shape with the error wherever it has a place: once for the whole, or for
    each group that `source`, a request or a part of one, names."""
    has_code = any(field.name == "error_code" for field in fields(shape))
    values: dict[str, Any] = {}
    for field in fields(shape):
        is_array, _, part = parse_hint(field.type)
        if field.name == "error_code":
            values[field.name] = error.code
        elif field.name == "error_message":
            values[field.name] = error.message or None
        elif is_array and part is not None:
            named = () if has_code else _named(source)
            values[field.name] = tuple(failed(part, each, error) for each in named)
        elif isinstance(source, str) and field.name == "group_id":
            values[field.name] = source
        elif isinstance(found := getattr(source, field.name, None), str | int | bytes):
            values[field.name] = found
    return shape(**values)


def _named(source: Any) -> tuple[Any, ...]:
    for name in LISTS:
        found = getattr(source, name, None)
        if found:
            return tuple(found)
    return ()
