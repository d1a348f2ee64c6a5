"""Requests that only another broker can answer, passed on to it for the client.

Rules: a request is passed on once: who gets a forwarded one and cannot answer it either says so;
without an answer in time the client gets the one that would have sent it there itself.
"""

from collections.abc import Hashable
from typing import Any

from josefine_broker.core.parked import Parked
from josefine_broker.handlers.context import Context, RequestInfo

FORWARDED_CLIENT_ID = "josefine-forwarded"
"""Who sends a forwarded request."""


def forward(
    ctx: Context, info: RequestInfo, request: Any, broker_id: int, failed: object
) -> object:
    """That broker's answer, later; `failed` when it cannot be had."""
    if broker_id < 0 or ctx.forward is None or info.header.client_id == FORWARDED_CLIENT_ID:
        return failed
    deadline_ms = ctx.clock.monotonic_ms() + ctx.settings.metadata_timeout_ms
    token = AwaitForwarded(deadline_ms, failed)
    key = object()
    ctx.parked.park(token, (key,))

    def heard(answer: object | None) -> None:
        token.answer = failed if answer is None else answer
        ctx.parked.wake(key, ctx.clock.monotonic_ms())  # unless it waits no longer

    ctx.forward(broker_id, info.header.api_key, request, deadline_ms, heard)
    return token


class AwaitForwarded(Parked):
    """Parked until another broker has answered."""

    __slots__ = ("answer",)

    def __init__(self, deadline_ms: int, failed: object) -> None:
        super().__init__(deadline_ms)
        self.answer = failed

    def try_complete(self, key: Hashable, now_ms: int) -> bool:
        self.complete(self.answer)
        return True

    def expire(self, now_ms: int) -> None:
        self.complete(self.answer)
