"""HTTP client for a schema registry, with the user of its address."""

from __future__ import annotations

import base64
import http.client
import time
import urllib.error
import urllib.request
from typing import Any

from josefine_arrow.formats.confluent.schema_registry import (
    AVRO,
    Address,
    Answer,
    Registry,
    address_of,
)

TIMEOUT_S = 10.0
BODY_BYTES_MAX = 16 << 20


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """No redirects: the client would send the password to another server."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirects)


def ask(registry: Address, path: str) -> Answer:
    """One request. Raises OSError."""
    request = urllib.request.Request(registry.url + path, headers={"Accept": "application/json"})
    if registry.user:
        token = base64.b64encode(registry.user.encode()).decode()
        request.add_header("Authorization", f"Basic {token}")
    try:
        return _answer(request)
    except http.client.HTTPException as error:
        raise OSError(f"no HTTP ({type(error).__name__})") from error


def _answer(request: urllib.request.Request) -> Answer:
    try:
        with _OPENER.open(request, timeout=TIMEOUT_S) as answer:
            return Answer(answer.status, answer.read(BODY_BYTES_MAX))
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, error.read(BODY_BYTES_MAX))


_registries: dict[tuple[str, str, bool], Registry] = {}
"""One cache per process: Spark reuses a Python worker for many batches."""


def registry_at(text: str, wanted: str = AVRO, *, with_imports: bool = False) -> Registry:
    """The cached client of this process for an address of a file; see `address_of`, `Registry`."""
    key = (text, wanted, with_imports)
    if key not in _registries:
        _registries[key] = Registry(
            address_of(text), ask, time.sleep, time.monotonic, wanted, with_imports=with_imports
        )
    return _registries[key]
