"""Who asks, and how a request is narrowed to what they may.

A rule is a row of steps. A step looks at a request and says what is left of it, and what is to
become of its answer: where some of a request is refused, the refusals join the answer of the rest.
A step raises KafkaError where nothing is left.
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
    """One request's client."""

    ctx: Context
    info: RequestInfo
    authorizer: Authorizer
    host: str

    def may(self, operation: Operation, kind: ResourceType, name: str) -> bool:
        return self.authorizer.allows(self.info.principal, self.host, operation, kind, name)

    def may_cluster(self, operation: Operation) -> bool:
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def may_topic(self, operation: Operation, topic: Any) -> bool:
        """Of a topic by name or by id; an id that there is not is the handler's to refuse."""
        name = self.ctx.topic_name(topic.name, topic.topic_id)
        return name is None or self.may(operation, ResourceType.TOPIC, name)

    def denied(self, operation: Operation, kind: ResourceType) -> KafkaError:
        """To be told to this client; counted."""
        self.authorizer.denied += 1
        message = f"{self.info.principal} may not {operation.name} this {kind.name}"
        return KafkaError(CODES[kind], message)

    def operations(self, kind: ResourceType, name: str) -> int:
        return self.authorizer.operations(self.info.principal, self.host, kind, name)


Step = Callable[[Asker, Any, Refuse], tuple[Any, After | None]]
"""(asker, request, refuse) → (what is left of the request, what becomes of its answer); None is
left where nothing is to be asked: what becomes of None is then the answer."""
Rule = tuple[Step, ...]


def asker_of(ctx: Context, info: RequestInfo) -> Asker | None:
    """None: everybody may do everything here."""
    authorizer = ctx.clients.authorizer
    if authorizer is None:
        return None
    authorizer.follow(ctx.image.acls)
    # As Asker(...), whose generated constructor costs twice as much.
    return _new(Asker, (ctx, info, authorizer, host_of(info.client_address)))


def authorized(
    rule: Rule, ctx: Context, info: RequestInfo, request: Any, refuse: Refuse, go_on: GoOn
) -> Any:
    """The answer to as much of a request as its client may ask; `go_on` asks. Raises KafkaError."""
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
    """What `after` makes of an answer, now or when it is there."""
    if isinstance(answer, Parked):
        if answer.done:
            return when_answered(answer.response, after)
        answer.make_of(lambda response: _made(response, after))
        return answer
    if isinstance(answer, Hangup):
        return _made(answer, after)
    return after(answer)


def _made(response: Any, after: After) -> Any:
    """Of an answer that came later there may be none."""
    if response is None:
        return None
    if isinstance(response, Hangup):
        return response._replace(answer=_made(response.answer, after))
    return after(response)
