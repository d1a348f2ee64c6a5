"""Transactions of producers: take over transactional ids and end transactions, many at once.

Each id's request goes to its own coordinator, all concurrently; retriable errors are retried. Uses
version 2 only (KIP-890): the first batch in a partition adds it, and every end raises the epoch, so
an end may be repeated: it gets the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.client.effects import ANY_BROKER, Call, Exchange, Operation, Unanswered
from josefine_broker.client.groups import ProducerIdentity
from josefine_broker.client.operations import Outcome, ask_until, refresh
from josefine_broker.client.retry import Action, action_for
from josefine_broker.client.session import Attempts, Session
from josefine_broker.client.transaction_admin import TRANSACTION
from josefine_broker.wire import apis
from josefine_broker.wire import entities as e

AT_ONCE_MAX = 100
"""Requests in flight: their answers fit into a socket's buffer."""
NO_PRODUCER = -1
TIMEOUT_MS_MAX = 2**31 - 1
"""For a two-phase participant the broker sets the timeout."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """One kind of request that goes to the coordinators of several ids."""

    api_key: int
    build: Callable[[str], Any]
    result: Callable[[Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The identity that may end an open transaction, and that transaction."""

    ends: ProducerIdentity
    wrote: ProducerIdentity | None
    """None: no transaction was open."""


def take_ids(
    session: Session,
    ids: Iterable[str],
    timeout_ms: int,
    now_ms: int,
    deadline_ms: int,
    *,
    two_phase: bool = False,
) -> Operation[dict[str, Outcome]]:
    """Become the producer of these ids: any earlier producer is fenced, and its open transaction
    aborted. Results are `ProducerIdentity`; `timeout_ms` is the transaction timeout, `two_phase`
    requests the broker's bound instead (KIP-939)."""
    attempts = session.start(now_ms, deadline_ms, "transactional ids")
    kind = _Kind(
        apis.INIT_PRODUCER_ID,
        lambda each: e.init_producer_id.InitProducerIdRequest(
            transactional_id=each, transaction_timeout_ms=timeout_ms, enable2_pc=two_phase
        ),
        _identity,
    )
    return (yield from _ask_coordinators(session, attempts, kind, ids))


def keep_open(
    session: Session, transactional_id: str, now_ms: int, deadline_ms: int
) -> Operation[Kept]:
    """Take over the open transaction of this id (KIP-939): no producer can add to it any more.
    Raises KafkaError."""
    attempts = session.start(now_ms, deadline_ms, f"transactional id '{transactional_id}'")
    kind = _Kind(
        apis.INIT_PRODUCER_ID,
        lambda each: e.init_producer_id.InitProducerIdRequest(
            transactional_id=each,
            transaction_timeout_ms=TIMEOUT_MS_MAX,
            enable2_pc=True,
            keep_prepared_txn=True,
        ),
        _kept,
    )
    outcomes = yield from _ask_coordinators(session, attempts, kind, (transactional_id,))
    outcome = outcomes[transactional_id]
    if outcome.error is not None:
        raise outcome.error
    kept: Kept = outcome.result
    return kept


def end_transactions(
    session: Session,
    producers: Mapping[str, ProducerIdentity],
    is_commit: bool,
    now_ms: int,
    deadline_ms: int,
) -> Operation[dict[str, Outcome]]:
    """End the transaction of each id. Results are its next identity, None if the broker returns
    none (version 1)."""
    attempts = session.start(now_ms, deadline_ms, "ends of transactions")
    kind = _Kind(
        apis.END_TXN,
        lambda each: e.end_txn.EndTxnRequest(
            transactional_id=each,
            producer_id=producers[each].producer_id,
            producer_epoch=producers[each].producer_epoch,
            committed=is_commit,
        ),
        lambda told: None if told.producer_id == NO_PRODUCER else _identity(told),
    )
    return (yield from _ask_coordinators(session, attempts, kind, producers))


def are_open(
    session: Session,
    producers: Mapping[str, ProducerIdentity],
    now_ms: int,
    deadline_ms: int,
) -> Operation[dict[str, bool]]:
    """For each id whether this producer's transaction is open: started, and not ended by anyone."""
    attempts = session.start(now_ms, deadline_ms, "states of transactions")
    kind = _Kind(
        apis.DESCRIBE_TRANSACTIONS,
        lambda each: e.describe_transactions.DescribeTransactionsRequest(transactional_ids=(each,)),
        lambda told: (
            told.transaction_states[0].transaction_state,
            ProducerIdentity(
                told.transaction_states[0].producer_id, told.transaction_states[0].producer_epoch
            ),
        ),
    )
    outcomes = yield from _ask_coordinators(session, attempts, kind, producers)
    return {each: outcomes[each].result == ("Ongoing", producers[each]) for each in producers}


def _identity(told: Any) -> ProducerIdentity:
    return ProducerIdentity(told.producer_id, told.producer_epoch)


def _kept(told: Any) -> Kept:
    wrote = ProducerIdentity(told.ongoing_txn_producer_id, told.ongoing_txn_producer_epoch)
    return Kept(ends=_identity(told), wrote=None if wrote.producer_id == NO_PRODUCER else wrote)


def _ask_coordinators(
    session: Session, attempts: Attempts, kind: _Kind, ids: Iterable[str]
) -> Operation[dict[str, Outcome]]:
    """Raises KafkaError when the deadline comes first; final errors are in the ids' outcomes."""
    pending = dict.fromkeys(ids)
    outcomes: dict[str, Outcome] = {}
    nodes: dict[str, int] = {}
    while pending:
        asked = list(islice(pending, AT_ONCE_MAX))
        yield from _locate(session, attempts, nodes, [each for each in asked if each not in nodes])
        calls = tuple(
            Call(node=nodes[each], api_key=kind.api_key, request=kind.build(each)) for each in asked
        )
        resumed = yield Exchange(calls=calls, deadline_ms=attempts.deadline_ms)
        passing = None
        for each, reply in zip(asked, resumed.replies, strict=True):
            error = _error_of(each, reply)
            action = Action.SUCCEED if error is None else action_for(error.code)
            if action in (Action.SUCCEED, Action.FAIL):
                result = kind.result(reply) if error is None else None
                outcomes[each] = Outcome(result, error)
                del pending[each]
                continue
            passing = error
            if action is not Action.RETRY:
                del nodes[each]
        if passing is not None:
            yield attempts.after(passing, resumed.now_ms)
    return outcomes


def _error_of(transactional_id: str, reply: Any) -> KafkaError | None:
    if isinstance(reply, Unanswered):
        return reply.error
    states = getattr(reply, "transaction_states", None)
    code: ErrorCode = reply.error_code if states is None else states[0].error_code
    if code is ErrorCode.none:
        return None
    reason = code.name.replace("_", " ")
    return KafkaError(code, f"transactional id '{transactional_id}': {reason}")


def _locate(
    session: Session, attempts: Attempts, nodes: dict[str, int], ids: Sequence[str]
) -> Operation[None]:
    """Look up the coordinators of these ids into `nodes`; the metadata then have their
    addresses."""
    if not ids:
        return
    request = e.find_coordinator.FindCoordinatorRequest(
        key_type=TRANSACTION, coordinator_keys=tuple(ids)
    )
    call = Call(node=ANY_BROKER, api_key=apis.FIND_COORDINATOR, request=request)
    response, _ = yield from ask_until(attempts, call, _unlocated)
    nodes.update({each.key: each.node_id for each in response.coordinators})
    if not session.cluster.brokers.keys() >= set(nodes.values()):
        yield from refresh(session, attempts, ())


def _unlocated(response: e.find_coordinator.FindCoordinatorResponse) -> KafkaError | None:
    for found in response.coordinators:
        if found.error_code is not ErrorCode.none:
            reason = found.error_message or found.error_code.name.replace("_", " ")
            return KafkaError(
                found.error_code, f"no coordinator for transactional id '{found.key}': {reason}"
            )
    return None
