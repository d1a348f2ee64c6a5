"""Submission of metadata changes by this broker: passed to Raft, answered when they take effect.

Rules: a change is settled by the block that carries it, when that is applied here
(`engine/metadata_quorum/apply_committed.py`), or by its deadline; a request is answered once all
its changes are settled. The verb for a change is submit; `propose` is Raft's, for the payload that
becomes a block.
"""

from collections.abc import Callable, Sequence

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context
from josefine_broker.engine.metadata.changes import Change
from josefine_broker.engine.metadata.proposals import Proposal
from josefine_broker.engine.purgatory.promises import Promise


class _Settling(Promise):
    """A promise that survives its client's disconnect, as the change does: a lost change leaves the
    table of proposals only at the deadline."""

    __slots__ = ()

    outlives_client = True


def submit_change(ctx: Context, change: Change, deadline_ms: int) -> Proposal:
    """Pass a metadata change to Raft; `deadline_ms` is absolute and monotonic. Raises KafkaError
    when Raft refuses it."""
    proposal, payload = ctx.metadata.proposals.open(change)
    try:
        ctx.ports.raft.propose(payload, deadline_ms)
    except KafkaError as refused:
        ctx.metadata.proposals.give_up(proposal, refused)  # no block will ever close it
        raise
    return proposal


def answer_when_settled(
    ctx: Context, proposals: Sequence[Proposal], deadline_ms: int, build: Callable[[], object]
) -> object:
    """`build()` now when no proposal is open, else a token whose answer is built later."""
    still_open = [each for each in proposals if not each.settled]
    if not still_open:
        return build()

    def give_up() -> object:
        why = ctx.ports.why_no_controller()
        why = why or "the change was not committed within the request's timeout"
        error = KafkaError(ErrorCode.request_timed_out, why)
        for each in still_open:
            ctx.metadata.proposals.give_up(each, error)
        return build()

    def look() -> None:
        if all(each.settled for each in still_open):
            promise.keep(build)

    promise = _Settling(ctx.parked, deadline_ms, give_up)
    for each in still_open:
        each.on_settled = look
    return promise
