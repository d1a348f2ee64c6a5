"""Forwarding of requests that only another broker can answer.

Rules: a request is forwarded once: a broker that gets a forwarded one and cannot answer it refuses
it; without an answer in time the client gets the error that names the other broker.
"""

from typing import Any

from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.purgatory.promises import Promise

FORWARDED_CLIENT_ID = "josefine-forwarded"
"""Client id of forwarded requests."""


def forward(
    ctx: Context, info: RequestInfo, request: Any, broker_id: int, failed: object
) -> object:
    """The other broker's answer, later; `failed` if it does not arrive."""
    ask = ctx.ports.forward
    if broker_id < 0 or ask is None or info.header.client_id == FORWARDED_CLIENT_ID:
        return failed
    deadline_ms = ctx.clock.monotonic_ms() + ctx.settings.metadata_timeout_ms
    promise = Promise(ctx.parked, deadline_ms, lambda: failed)

    def heard(answer: object | None) -> None:
        promise.keep(lambda: failed if answer is None else answer)

    ask(broker_id, info.header.api_key, request, deadline_ms, heard)
    return promise
