"""ElectLeaders (key 43, KIP-460): restores preferred leaders, or elects any where none is left.

Only the controller answers it, because a decision carries its term; clients find it by
NOT_CONTROLLER. Elections are decided from this image, and answered from the image after the block:
a partition that changed in between keeps its new state, and the client may retry.
"""

from collections.abc import Iterator, Mapping

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.controller.controller import DECISION_PARTITIONS_MAX
from josefine_broker.engine.metadata.changes import Decision, PartitionState
from josefine_broker.engine.metadata.image import TopicEntry
from josefine_broker.engine.metadata.leader_election import (
    ElectionRules,
    ElectionType,
    Liveness,
    elect,
)
from josefine_broker.engine.metadata.proposals import Proposal
from josefine_broker.engine.metadata.topic_config import resolve
from josefine_broker.engine.proposing import answer_when_settled, submit_change
from josefine_broker.wire.entities import elect_leaders as e

_Outcome = PartitionState | KafkaError
_Outcomes = dict[str, dict[int, _Outcome]]


def handle(ctx: Context, info: RequestInfo, request: e.ElectLeadersRequest) -> object:
    """Elect leaders where needed and possible; errors are per partition."""
    cluster = ctx.cluster
    term = cluster.controller_term
    if term is None:
        why = ctx.ports.why_no_controller() or f"the controller is broker {cluster.controller_id}"
        raise KafkaError(ErrorCode.not_controller, why)
    try:
        election = ElectionType(request.election_type)
    except ValueError as error:
        raise KafkaError(
            ErrorCode.invalid_request, f"no elections of type {request.election_type}"
        ) from error
    outcomes = _outcomes(ctx, request, election)
    states = [
        each
        for partitions in outcomes.values()
        for each in partitions.values()
        if isinstance(each, PartitionState)
    ]
    deadline_ms = ctx.clock.monotonic_ms() + request.timeout_ms
    # A decision is one block of the chain: the election of a large cluster takes several.
    proposals = [
        submit_change(
            ctx,
            Decision(
                controller_term=term,
                reason=f"{election.name.lower()} leaders asked for",
                partitions=tuple(states[at : at + DECISION_PARTITIONS_MAX]),
            ),
            deadline_ms,
        )
        for at in range(0, len(states), DECISION_PARTITIONS_MAX)
    ]

    def build() -> e.ElectLeadersResponse:
        return _answer(ctx, request, outcomes, proposals)

    return answer_when_settled(ctx, proposals, deadline_ms, build)


def refuse(request: e.ElectLeadersRequest, error: KafkaError) -> e.ElectLeadersResponse:
    """The answer when the whole request is refused; version 0 has errors per partition only."""
    named = {
        topic.topic: dict.fromkeys(topic.partitions, error)
        for topic in request.topic_partitions or ()
    }
    return e.ElectLeadersResponse(
        error_code=error.code,
        replica_election_results=tuple(_results(name, each) for name, each in named.items()),
    )


def _outcomes(ctx: Context, request: e.ElectLeadersRequest, election: ElectionType) -> _Outcomes:
    outcomes: _Outcomes = {}
    brokers = Liveness.of(ctx.image.brokers)
    for name, partitions in _asked(ctx, request):
        topic = ctx.image.topics.get(name)
        rules = ElectionRules() if topic is None else _rules(ctx, topic)
        of_topic = outcomes.setdefault(name, {})
        for index in partitions:
            try:
                of_topic[index] = _elected(topic, index, election, brokers, rules)
            except KafkaError as error:
                of_topic[index] = error.without_frames()
    return outcomes


def _asked(ctx: Context, request: e.ElectLeadersRequest) -> Iterator[tuple[str, tuple[int, ...]]]:
    if request.topic_partitions is not None:
        for topic in request.topic_partitions:
            yield topic.topic, topic.partitions
        return
    for name in sorted(ctx.image.topics):
        yield name, tuple(range(len(ctx.image.topics[name].partitions)))


def _rules(ctx: Context, topic: TopicEntry) -> ElectionRules:
    settings = resolve(topic.config, ctx.settings.defaults_of(topic.name))
    return ElectionRules(min_insync_replicas=settings.min_insync_replicas)


def _elected(
    topic: TopicEntry | None,
    index: int,
    election: ElectionType,
    brokers: Liveness,
    rules: ElectionRules,
) -> PartitionState:
    if topic is None or not 0 <= index < len(topic.partitions):
        raise KafkaError(ErrorCode.unknown_topic_or_partition, "no such partition")
    entry = topic.partitions[index]
    after = elect(entry, brokers, rules, election)
    return PartitionState.of(topic.topic_id, index, entry, after)


def _answer(
    ctx: Context,
    request: e.ElectLeadersRequest,
    outcomes: _Outcomes,
    proposals: list[Proposal],
) -> e.ElectLeadersResponse:
    failed = next((each.error for each in proposals if each.error is not None), None)
    if failed is not None and failed.code is ErrorCode.not_controller:
        return refuse(request, failed)
    told: dict[str, dict[int, KafkaError | None]] = {}
    for name, partitions in outcomes.items():
        for index, outcome in partitions.items():
            error = outcome if isinstance(outcome, KafkaError) else _came_to(ctx, outcome, failed)
            not_needed = error is not None and error.code is ErrorCode.election_not_needed
            if request.topic_partitions is None and not_needed:
                continue  # as Kafka: all partitions means those that need one
            told.setdefault(name, {})[index] = error
    return e.ElectLeadersResponse(
        replica_election_results=tuple(_results(name, each) for name, each in told.items())
    )


def _came_to(ctx: Context, state: PartitionState, failed: KafkaError | None) -> KafkaError | None:
    topic = ctx.image.topic_by_id(state.topic_id)
    entry = None if topic is None else topic.partitions[state.partition]
    if entry is not None and entry.leader == state.leader:
        return None
    return failed or KafkaError(
        ErrorCode.leader_not_available, "the partition changed meanwhile: ask again"
    )


def _results(name: str, errors: Mapping[int, KafkaError | None]) -> e.ReplicaElectionResult:
    return e.ReplicaElectionResult(
        topic=name,
        partition_result=tuple(
            e.PartitionResult(partition_id=index)
            if error is None
            else e.PartitionResult(
                partition_id=index, error_code=error.code, error_message=error.message or None
            )
            for index, error in errors.items()
        ),
    )
