"""DeleteTopics (key 20): by name or, since v6, by id (KIP-516). One proposal per topic, by its id.

Internal topics are refused: deleting the offsets topic would delete every group's offsets.
"""

from collections import Counter
from uuid import UUID

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.metadata.changes import DeleteTopic
from josefine_broker.engine.metadata.image import TopicEntry
from josefine_broker.engine.metadata.proposals import Proposal
from josefine_broker.engine.proposing import answer_when_settled, submit_change
from josefine_broker.wire.entities import delete_topics as e

_Outcome = tuple[str | None, UUID | None, KafkaError | Proposal]


def handle(ctx: Context, info: RequestInfo, request: e.DeleteTopicsRequest) -> object:
    """Delete each named topic; errors are per topic, one for a topic named twice."""
    deadline_ms = ctx.clock.monotonic_ms() + request.timeout_ms
    outcomes: list[_Outcome] = []
    times = Counter((each.name, each.topic_id) for each in request.topics)
    names = [name for name, topic_id in times if name is not None and topic_id is None]
    by_name = {ctx.image.topics[name].topic_id for name in names if name in ctx.image.topics}
    for (name, topic_id), count in times.items():
        if name is None and topic_id in by_name:
            continue  # the entry with its name has the error
        wanted = e.DeleteTopicState(name=name, topic_id=topic_id)
        try:
            if count > 1:
                raise KafkaError(ErrorCode.invalid_request, "the topic is named more than once")
            topic = _find(ctx, wanted)
            if wanted.name is not None and times[None, topic.topic_id]:
                raise KafkaError(ErrorCode.invalid_request, "the topic is named by its id, too")
            proposal = submit_change(ctx, DeleteTopic(topic_id=topic.topic_id), deadline_ms)
            outcomes.append((topic.name, topic.topic_id, proposal))
        except KafkaError as error:
            outcomes.append((wanted.name, wanted.topic_id, error.without_frames()))

    def build() -> e.DeleteTopicsResponse:
        return e.DeleteTopicsResponse(responses=tuple(_result(*outcome) for outcome in outcomes))

    proposals = [each for _, _, each in outcomes if isinstance(each, Proposal)]
    return answer_when_settled(ctx, proposals, deadline_ms, build)


def refuse(request: e.DeleteTopicsRequest, error: KafkaError) -> e.DeleteTopicsResponse:
    """The answer when the whole request is refused."""
    responses = tuple(_result(each.name, each.topic_id, error) for each in request.topics)
    return e.DeleteTopicsResponse(responses=responses)


def _find(ctx: Context, wanted: e.DeleteTopicState) -> TopicEntry:
    if wanted.topic_id is not None:
        if wanted.name is not None:
            raise KafkaError(ErrorCode.invalid_request, "a topic by name and by id at once")
        topic = ctx.image.topic_by_id(wanted.topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.unknown_topic_id, f"no topic with id {wanted.topic_id}")
    elif wanted.name is not None:
        topic = ctx.image.topics.get(wanted.name)
        if topic is None:
            raise KafkaError(ErrorCode.unknown_topic_or_partition, f"no topic '{wanted.name}'")
    else:
        raise KafkaError(ErrorCode.invalid_request, "a topic by neither name nor id")
    if topic.is_internal:
        raise KafkaError(ErrorCode.invalid_request, f"'{topic.name}' is the broker's own topic")
    return topic


def _result(
    name: str | None, topic_id: UUID | None, outcome: KafkaError | Proposal
) -> e.DeletableTopicResult:
    error = outcome.error if isinstance(outcome, Proposal) else outcome
    if error is None:
        return e.DeletableTopicResult(name=name, topic_id=topic_id)
    return e.DeletableTopicResult(
        name=name, topic_id=topic_id, error_code=error.code, error_message=error.message or None
    )
