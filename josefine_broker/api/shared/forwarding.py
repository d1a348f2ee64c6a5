"""Requests that only another broker can answer, passed on to it for the client.

Rules: a request is passed on once: who gets a forwarded one and cannot answer it either says so;
without an answer in time the client gets the one that would have sent it there itself.
"""

from typing import Any

from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.purgatory.promises import Promise

FORWARDED_CLIENT_ID = "josefine-forwarded"
"""Who sends a forwarded request."""


def forward(
    ctx: Context, info: RequestInfo, request: Any, broker_id: int, failed: object
) -> object:
    """That broker's answer, later; `failed` when it cannot be had."""
    ask = ctx.ports.forward
    if broker_id < 0 or ask is None or info.header.client_id == FORWARDED_CLIENT_ID:
        return failed
    deadline_ms = ctx.clock.monotonic_ms() + ctx.settings.metadata_timeout_ms
    promise = Promise(ctx.parked, deadline_ms, lambda: failed)

    def heard(answer: object | None) -> None:
        promise.keep(lambda: failed if answer is None else answer)

    ask(broker_id, info.header.api_key, request, deadline_ms, heard)
    return promise
