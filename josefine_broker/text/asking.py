"""How a command waits: it is a generator that yields parked requests and is resumed with their
answers. So it is driven by whoever hosts it, and tested without a socket.
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
"""Between two looks for a leader, or for a block that is on its way here."""


def begin(front: Front, broker_id: int, api_key: int, request: Any, deadline_ms: int) -> Any:
    """Ask a handler, of this broker or another: its answer, or the Parked that will have it.

    An answer is None where there is none, and nobody knows what became of the request.
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

    # The other broker takes the request for this one's, which may do everything.
    info, refuse = _info(api_key), SERVED[api_key].refuse
    try:
        return authorized(RULES[api_key], ctx, info, request, refuse, pass_on)
    except KafkaError as error:
        return refuse(request, error)


def ask_here(front: Front, api_key: int, request: Any) -> Any:
    """This broker's handler, as a client of the newest version would ask it."""
    _, handle, refuse = SERVED[api_key]
    try:
        return handle(front.ctx, _info(api_key), request)
    except KafkaError as error:
        return refuse(request, error)


def _info(api_key: int) -> RequestInfo:
    """Nobody says who they are here."""
    header = RequestHeader(api_key, SERVED[api_key].spec.max_version, 0, CLIENT_ID, 0)
    return RequestInfo(header, ANONYMOUS, "text", TEXT_LISTENER)


def may(front: Front, operation: Operation, kind: ResourceType, name: str) -> bool:
    """Whether whoever says lines here may do that."""
    asker = asker_of(front.ctx, _info(apis.FETCH))
    return asker is None or asker.may(operation, kind, name)


def check(front: Front, operation: Operation, kind: ResourceType, name: str) -> None:
    """Raises TextError."""
    if not may(front, operation, kind, name):
        what = f"{operation.name} {kind.name.lower()} '{shown(name)}'"
        raise TextError(error(f"{ANONYMOUS} may not {what}"))


def finish(begun: Any) -> Work[Any]:
    """The answer of what `begin` gave."""
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
    """A moment, until it is worth a look again; whether there was time for it."""
    ctx = front.ctx
    now_ms = ctx.clock.monotonic_ms()
    if now_ms >= deadline_ms:
        return False
    yield Promise(ctx.parked, min(now_ms + RETRY_MS, deadline_ms), lambda: None)
    return True


def deadline_of(front: Front) -> int:
    """When a command that begins now is given up; monotonic."""
    return front.ctx.clock.monotonic_ms() + front.settings.timeout_ms
