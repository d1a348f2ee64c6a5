"""The client of a request, and the reduction of the request to what it may do.

A rule is a row of steps. A step takes a request and returns the permitted part of it, and a
function for its answer: if a part is refused, the refusals are added to the answer of the rest. A
step raises KafkaError if no part is left.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from josefine_broker.base.acls import CLUSTER_NAME, Operation, ResourceType
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.purgatory.purgatory import Hangup, Parked
from josefine_broker.engine.security.authorizer import Authorizer, host_of

CODES = {
    ResourceType.TOPIC: ErrorCode.topic_authorization_failed,
    ResourceType.GROUP: ErrorCode.group_authorization_failed,
    ResourceType.CLUSTER: ErrorCode.cluster_authorization_failed,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.transactional_id_authorization_failed,
}

_new = tuple.__new__

After = Callable[[Any], Any]
Refuse = Callable[[Any, KafkaError], Any]
GoOn = Callable[[Any], Any]


class Asker(NamedTuple):
    """The client of one request."""

    ctx: Context
    info: RequestInfo
    authorizer: Authorizer
    host: str

    def may(self, operation: Operation, kind: ResourceType, name: str) -> bool:
        return self.authorizer.allows(self.info.principal, self.host, operation, kind, name)

    def may_cluster(self, operation: Operation) -> bool:
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def may_topic(self, operation: Operation, topic: Any) -> bool:
        """A topic by name or by id; an unknown id is refused by the handler."""
        name = self.ctx.topic_name(topic.name, topic.topic_id)
        return name is None or self.may(operation, ResourceType.TOPIC, name)

    def denied(self, operation: Operation, kind: ResourceType) -> KafkaError:
        """The refusal for this client; counted."""
        self.authorizer.denied += 1
        message = f"{self.info.principal} may not {operation.name} this {kind.name}"
        return KafkaError(CODES[kind], message)

    def operations(self, kind: ResourceType, name: str) -> int:
        return self.authorizer.operations(self.info.principal, self.host, kind, name)


Step = Callable[[Asker, Any, Refuse], tuple[Any, After | None]]
"""(asker, request, refuse) → (permitted part of the request, function over its answer); None as the
request means that nothing is left to ask: the function makes the answer from None."""
Rule = tuple[Step, ...]


def asker_of(ctx: Context, info: RequestInfo) -> Asker | None:
    """None: every client may do everything here."""
    authorizer = ctx.clients.authorizer
    if authorizer is None:
        return None
    authorizer.follow(ctx.image.acls)
    # Like Asker(...), whose generated constructor costs twice as much.
    return _new(Asker, (ctx, info, authorizer, host_of(info.client_address)))


def authorized(
    rule: Rule, ctx: Context, info: RequestInfo, request: Any, refuse: Refuse, go_on: GoOn
) -> Any:
    """The answer to the permitted part of a request; `go_on` serves it. Raises KafkaError."""
    asker = asker_of(ctx, info)
    if asker is None:
        return go_on(request)
    afters = []
    for step in rule:
        request, after = step(asker, request, refuse)
        if after is not None:
            afters.append(after)
        if request is None:
            break
    answer = None if request is None else go_on(request)
    for after in reversed(afters):
        answer = when_answered(answer, after)
    return answer


def when_answered(answer: Any, after: After) -> Any:
    """Apply `after` to an answer, now or when it arrives."""
    if isinstance(answer, Parked):
        if answer.done:
            return when_answered(answer.response, after)
        answer.make_of(lambda response: _made(response, after))
        return answer
    if isinstance(answer, Hangup):
        return _made(answer, after)
    return after(answer)


def _made(response: Any, after: After) -> Any:
    """A later answer may be missing."""
    if response is None:
        return None
    if isinstance(response, Hangup):
        return response._replace(answer=_made(response.answer, after))
    return after(response)
