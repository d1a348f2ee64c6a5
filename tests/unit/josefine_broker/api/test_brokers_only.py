"""What only brokers ask of each other: through listeners where no broker comes it is refused,
whatever ACLs there are, and none.
"""

from __future__ import annotations

from typing import Any

import pytest

from josefine_broker.base.acls import Operation
from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.purgatory.purgatory import Parked
from josefine_broker.engine.security.authorizer import Authorizer
from josefine_broker.wire import apis
from josefine_broker.wire import entities as e
from tests.unit.josefine_broker.api.replicas import Replicas, result_of
from tests.unit.josefine_broker.api.test_access import CASES, ROOT, Case, guarded_world, refusals
from tests.unit.josefine_broker.api.world import LISTENER, fetch_request

CLIENTS = "CLIENTS"
"""A listener where clients log in, and no broker does."""
REFUSED = ErrorCode.cluster_authorization_failed


@pytest.fixture
def listener_replicas() -> Replicas:
    """Brokers 1 to 3, of which 1 leads, and clients have a listener of their own."""
    cluster = Replicas(3)
    for ctx in cluster.ctx.values():
        ctx.clients.listeners_apart = frozenset((CLIENTS,))
    cluster.create()
    cluster.run()
    return cluster


def pretend(cluster: Replicas, follower: int, listener: str) -> ErrorCode:
    """Tell the leader that this follower has everything, in its present incarnation."""
    request = fetch_request(cluster.log_end(1), replica_id=follower, max_wait_ms=0)
    epoch = cluster.image.brokers[follower].epoch
    request = request._replace(replica_epoch=epoch)
    answer = cluster.ask(1, apis.FETCH, request, 12, listener)
    return ErrorCode.none if isinstance(answer, Parked) else ErrorCode(answer.error_code)


def test_stranger_cannot_say_that_followers_have_what_they_have_not(
    listener_replicas: Replicas,
) -> None:
    """With acks=all a record was acknowledged that no other broker had."""
    produced = listener_replicas.produce(1, b"precious", timeout_ms=60_000)
    assert isinstance(produced, Parked)

    assert [pretend(listener_replicas, each, CLIENTS) for each in (2, 3)] == [REFUSED, REFUSED]
    assert (listener_replicas.high_watermark(1), produced.done) == (0, False)

    assert [pretend(listener_replicas, each, LISTENER) for each in (2, 3)] == [ErrorCode.none] * 2
    assert (listener_replicas.high_watermark(1), result_of(produced).error_code) == (1, 0)


def test_stranger_reads_nothing_above_the_high_watermark_as_a_follower(
    listener_replicas: Replicas,
) -> None:
    listener_replicas.produce(1, b"not committed", timeout_ms=60_000)
    request = fetch_request(0, replica_id=2, max_wait_ms=0)
    request = request._replace(replica_epoch=listener_replicas.image.brokers[2].epoch)

    refused = listener_replicas.ask(1, apis.FETCH, request, 12, CLIENTS)

    assert (refused.error_code, refused.topics) == (REFUSED.value, ())
    (told,) = listener_replicas.ask(1, apis.FETCH, request, 12).topics[0].partitions
    assert told.records


def test_stranger_writes_no_marker(listener_replicas: Replicas) -> None:
    marker = e.write_txn_markers.WritableTxnMarker(
        producer_id=7,
        producer_epoch=0,
        transaction_result=True,
        topics=(e.write_txn_markers.WritableTxnMarkerTopic(name="orders", partition_indexes=(0,)),),
        coordinator_epoch=0,
    )
    request = e.write_txn_markers.WriteTxnMarkersRequest(markers=(marker,))

    answer = listener_replicas.ask(1, apis.WRITE_TXN_MARKERS, request, listener=CLIENTS)

    (part,) = answer.markers[0].topics[0].partitions
    assert (part.error_code, listener_replicas.log_end(1)) == (REFUSED, 0)
    listener_replicas.ask(1, apis.WRITE_TXN_MARKERS, request)
    assert listener_replicas.log_end(1) == 1


def asked(case: Case, listener: str, *, acls: bool) -> Any:
    world = guarded_world()
    world.ctx.clients.listeners_apart = frozenset((CLIENTS,))
    if not acls:
        world.ctx.clients.authorizer = None
    request = case.request
    if case.key == apis.PRODUCE and case.version >= 13:
        topic_id = world.ctx.image.topics["t"].topic_id
        request = request._replace(topics=(request.topics[0]._replace(topic_id=topic_id),))
    answer = world.ask(case.key, request, version=case.version, principal=ROOT, listener=listener)
    if isinstance(answer, Parked):
        world.advance(60_000)
        answer = answer.response
    return answer


@pytest.mark.parametrize("acls", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_of_every_key_what_needs_cluster_action_is_refused_where_no_broker_comes(
    case: Case, acls: bool
) -> None:
    """A new key among brokers is found before it is served to strangers; super users are none."""
    is_brokers = any(operation is Operation.CLUSTER_ACTION for operation, _ in case.needs)

    assert (REFUSED in refusals(asked(case, CLIENTS, acls=acls))) is is_brokers
    assert refusals(asked(case, LISTENER, acls=acls)) == set()


def test_what_acls_ask_is_asked_of_brokers_too() -> None:
    world = guarded_world()
    world.ctx.clients.authorizer = Authorizer(frozenset())
    request = fetch_request(replica_id=2)

    answer = world.ask(apis.FETCH, replace_topic(request), version=12, principal=ROOT)

    assert answer.error_code == REFUSED.value


def replace_topic(request: Any) -> Any:
    return request._replace(topics=(request.topics[0]._replace(name="t"),))
