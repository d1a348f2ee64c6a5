"""The answer of any API when its whole request is refused: each handler file says its own."""

from typing import Any

from josefine_broker.base.errors import KafkaError
from josefine_broker.handlers.table import BY_KEY


def error_response(api_key: int, api_version: int, request: Any, error: KafkaError) -> Any:
    """The response entity that tells `error`; None when no answer is owed (acks=0)."""
    return BY_KEY[api_key].refuse(request, error)
