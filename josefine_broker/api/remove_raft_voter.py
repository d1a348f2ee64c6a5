"""RemoveRaftVoter (key 81, KIP-853): takes the vote from a broker that lost its data.

It keeps its id and its replicas: the controller makes it an observer at once, and a voter again
when it has copied the chain. Only the controller answers, because it leads Raft. The client knows
that the vote is gone when a repeated request does not find the voter.
"""

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.controller.membership import why_not_removed
from josefine_broker.wire.entities import remove_raft_voter as e


def handle(ctx: Context, info: RequestInfo, request: e.RemoveRaftVoterRequest) -> object:
    """Start the change of members; if Raft refuses, an earlier change is in progress."""
    cluster, quorum = ctx.cluster, ctx.ports.quorum
    if cluster.controller_term is None or quorum is None:
        why = ctx.ports.why_no_controller() or f"the controller is broker {cluster.controller_id}"
        raise KafkaError(ErrorCode.not_controller, why)
    voter_id = request.voter_id
    voters = {each.broker_id for each in quorum.describe().voters}
    if request.cluster_id not in (None, "", ctx.image.cluster_id):
        raise KafkaError(
            ErrorCode.inconsistent_cluster_id,
            f"this is cluster {ctx.image.cluster_id}, not {request.cluster_id}",
        )
    if voter_id not in voters:
        raise KafkaError(ErrorCode.voter_not_found, f"broker {voter_id} does not vote")
    why = why_not_removed(ctx.image, voters, voter_id)
    if why:
        raise KafkaError(ErrorCode.invalid_request, why)
    if not quorum.remove_voter(voter_id):
        raise KafkaError(ErrorCode.request_timed_out, "another change of the voters is under way")
    return e.RemoveRaftVoterResponse()


def refuse(request: e.RemoveRaftVoterRequest, error: KafkaError) -> e.RemoveRaftVoterResponse:
    """The answer when the whole request is refused."""
    return e.RemoveRaftVoterResponse(error_code=error.code, error_message=error.message or None)
