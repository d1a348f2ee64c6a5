"""Answers that belong to no handler alone: whole-request refusals, and an unknown ApiVersions."""

from typing import Any

from josefine_broker.base.errors import KafkaError
from josefine_broker.handlers.table import API_VERSIONS, BY_KEY
from josefine_broker.wire.entities.api_versions import ApiVersionsResponse


def error_response(api_key: int, api_version: int, request: Any, error: KafkaError) -> Any:
    """The response entity that tells `error`; None when no answer is owed (acks=0)."""
    return BY_KEY[api_key].refuse(request, error)


def unsupported_version() -> ApiVersionsResponse:
    """The answer to an ApiVersions version nobody here knows, to be encoded as v0 (KIP-511)."""
    return API_VERSIONS.unsupported_version()
