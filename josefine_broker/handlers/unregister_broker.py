"""UnregisterBroker (key 64, KIP-631): a broker left for good. Refused while it holds replicas.

What this broker's image refuses costs no block; the image that the block meets has the last word.
"""

from josefine_broker.base.errors import KafkaError
from josefine_broker.core.apply import check_unregister
from josefine_broker.core.changes import UnregisterBroker
from josefine_broker.handlers.context import Context, RequestInfo
from josefine_broker.wire.entities import unregister_broker as e


def handle(ctx: Context, info: RequestInfo, request: e.UnregisterBrokerRequest) -> object:
    """Forget the broker; the controller then takes it out of Raft too."""
    check_unregister(ctx.image, request.broker_id)
    deadline_ms = ctx.clock.monotonic_ms() + ctx.settings.metadata_timeout_ms
    proposal = ctx.propose(UnregisterBroker(broker_id=request.broker_id), deadline_ms)

    def build() -> e.UnregisterBrokerResponse:
        if proposal.error is not None:
            return refuse(request, proposal.error)
        return e.UnregisterBrokerResponse()

    return ctx.answer_when_settled([proposal], deadline_ms, build)


def refuse(request: e.UnregisterBrokerRequest, error: KafkaError) -> e.UnregisterBrokerResponse:
    """The answer when the whole request is refused."""
    return e.UnregisterBrokerResponse(error_code=error.code, error_message=error.message or None)
