"""UnregisterBroker (key 64, KIP-631): removes a broker for good. Refused while it has replicas.

A refusal by this broker's image costs no block; the image at the block decides finally.
"""

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.metadata.changes import UnregisterBroker
from josefine_broker.engine.metadata.registration import check_unregister
from josefine_broker.engine.proposing import answer_when_settled, submit_change
from josefine_broker.wire.entities import unregister_broker as e


def handle(ctx: Context, info: RequestInfo, request: e.UnregisterBrokerRequest) -> object:
    """Remove the broker; the controller then removes it from Raft too."""
    check_unregister(ctx.image, request.broker_id)
    _check_voters(ctx, request.broker_id)
    deadline_ms = ctx.clock.monotonic_ms() + ctx.settings.metadata_timeout_ms
    proposal = submit_change(ctx, UnregisterBroker(broker_id=request.broker_id), deadline_ms)

    def build() -> e.UnregisterBrokerResponse:
        if proposal.error is not None:
            return refuse(request, proposal.error)
        return e.UnregisterBrokerResponse()

    return answer_when_settled(ctx, [proposal], deadline_ms, build)


def _check_voters(ctx: Context, broker_id: int) -> None:
    """Raft must keep its last voter: without it no decision is possible."""
    quorum = ctx.ports.quorum
    voters = () if quorum is None else quorum.describe().voters
    if [each.broker_id for each in voters] == [broker_id]:
        raise KafkaError(
            ErrorCode.invalid_request,
            f"broker {broker_id} is the only voter of the cluster: without it nothing can be "
            "decided; a third broker that joins makes three voters",
        )


def refuse(request: e.UnregisterBrokerRequest, error: KafkaError) -> e.UnregisterBrokerResponse:
    """The answer when the whole request is refused."""
    return e.UnregisterBrokerResponse(error_code=error.code, error_message=error.message or None)
