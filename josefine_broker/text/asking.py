"""The waits of a command: it is a generator that yields parked requests and is resumed with their
answers. So its host drives it, and tests need no socket.
"""

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

from josefine_broker.api.access import RULES
from josefine_broker.api.rules.asker import asker_of, authorized
from josefine_broker.api.table import SERVED
from josefine_broker.base.acls import Operation, ResourceType
from josefine_broker.base.errors import KafkaError
from josefine_broker.base.security import ANONYMOUS
from josefine_broker.engine.context import RequestInfo
from josefine_broker.engine.purgatory.promises import Promise
from josefine_broker.engine.purgatory.purgatory import Hangup, Parked
from josefine_broker.text.errors import TextError, error, shown
from josefine_broker.text.front import TEXT_LISTENER, Front
from josefine_broker.wire import apis
from josefine_broker.wire.codec import RequestHeader

T = TypeVar("T")
Work: TypeAlias = Generator[Parked, Any, T]

CLIENT_ID = "josefine-text"
RETRY_MS = 50
"""Time between two checks for a leader, or for a block that this broker lacks."""


def begin(front: Front, broker_id: int, api_key: int, request: Any, deadline_ms: int) -> Any:
    """Call a handler, of this broker or another: its answer, or the Parked that will have it.

    The answer is None if there is none; then the result of the request is unknown.
    """
    ctx = front.ctx
    if broker_id == ctx.broker_id:
        return ask_here(front, api_key, request)

    def pass_on(asked: Any) -> Any:
        promise = Promise(ctx.parked, deadline_ms, lambda: None)
        forward = ctx.ports.forward
        if forward is None:
            promise.keep(lambda: None)
        else:
            forward(
                broker_id, api_key, asked, deadline_ms, lambda answer: promise.keep(lambda: answer)
            )
        return promise

    # The other broker treats the request as this broker's, which may do everything.
    info, refuse = _info(api_key), SERVED[api_key].refuse
    try:
        return authorized(RULES[api_key], ctx, info, request, refuse, pass_on)
    except KafkaError as error:
        return refuse(request, error)


def ask_here(front: Front, api_key: int, request: Any) -> Any:
    """Call this broker's handler like a client of the newest version."""
    _, handle, refuse = SERVED[api_key]
    try:
        return handle(front.ctx, _info(api_key), request)
    except KafkaError as error:
        return refuse(request, error)


def _info(api_key: int) -> RequestInfo:
    """The request info of a text client, which has no name."""
    header = RequestHeader(api_key, SERVED[api_key].spec.max_version, 0, CLIENT_ID, 0)
    return RequestInfo(header, ANONYMOUS, "text", TEXT_LISTENER)


def may(front: Front, operation: Operation, kind: ResourceType, name: str) -> bool:
    """Whether text clients may do this here."""
    asker = asker_of(front.ctx, _info(apis.FETCH))
    return asker is None or asker.may(operation, kind, name)


def check(front: Front, operation: Operation, kind: ResourceType, name: str) -> None:
    """Raises TextError."""
    if not may(front, operation, kind, name):
        what = f"{operation.name} {kind.name.lower()} '{shown(name)}'"
        raise TextError(error(f"{ANONYMOUS} may not {what}"))


def finish(begun: Any) -> Work[Any]:
    """The answer of the result of `begin`."""
    answer = (yield begun) if isinstance(begun, Parked) else begun
    return None if isinstance(answer, Hangup) else answer


def ask(front: Front, broker_id: int, api_key: int, request: Any, deadline_ms: int) -> Work[Any]:
    """`begin` and `finish`."""
    return (yield from finish(begin(front, broker_id, api_key, request, deadline_ms)))


def say(front: Front, broker_id: int, line: str, deadline_ms: int) -> Work[str | None]:
    """Another broker's reply to a line; None: there is none."""
    promise = Promise(front.ctx.parked, deadline_ms, lambda: None)
    if front.say is None:
        promise.keep(lambda: None)
    else:
        front.say(broker_id, line, deadline_ms, lambda reply: promise.keep(lambda: reply))
    reply: str | None = yield promise
    return reply


def pause(front: Front, deadline_ms: int) -> Work[bool]:
    """Wait a moment before the next check; False if the deadline leaves no time."""
    ctx = front.ctx
    now_ms = ctx.clock.monotonic_ms()
    if now_ms >= deadline_ms:
        return False
    yield Promise(ctx.parked, min(now_ms + RETRY_MS, deadline_ms), lambda: None)
    return True


def deadline_of(front: Front) -> int:
    """The deadline of a command that starts now; monotonic."""
    return front.ctx.clock.monotonic_ms() + front.settings.timeout_ms
