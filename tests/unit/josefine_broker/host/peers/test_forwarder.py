"""A request passed on to another broker over real sockets, and every way that can fail."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from josefine_broker.api.shared.forwarding import FORWARDED_CLIENT_ID
from josefine_broker.base.errors import ErrorCode
from josefine_broker.client.cluster import Address
from josefine_broker.client.io_asyncio_protocol import ProtocolConnection
from josefine_broker.engine.ports import QuorumMember, QuorumView
from josefine_broker.host.clock import RealClock
from josefine_broker.host.peers.forwarder import Forwarder
from josefine_broker.wire.entities import describe_quorum as e
from tests.unit.josefine_broker.host.peers.test_replicator import Net, net

DESCRIBE_QUORUM = 55
ANSWER_TIMEOUT_S = 5
"""Half the time that a broker waits for another: a failure is told before that."""


class Quorum:
    """Broker 1 leads, and alone knows how far broker 2 is."""

    def __init__(self, broker_id: int, leader_id: int = 1) -> None:
        end = 7 if broker_id == leader_id else -1
        members = (QuorumMember(1, 7), QuorumMember(2, end))
        self.view = QuorumView(leader_id, 3, 7, members)

    def describe(self) -> QuorumView:
        return self.view


def give_forwarder(
    cluster: Net, stack: AsyncExitStack, broker_id: int, leader_id: int = 1
) -> Forwarder:
    def address_of(other: int) -> Address | None:
        port = cluster.ports.get(other)
        return None if port is None else Address("127.0.0.1", port)

    forwarder = Forwarder(address_of, FORWARDED_CLIENT_ID, RealClock())
    stack.push_async_callback(forwarder.stop)
    ctx = cluster.ctx[broker_id]
    ctx.ports.quorum, ctx.ports.forward = Quorum(broker_id, leader_id), forwarder.ask
    return forwarder


async def asked(cluster: Net, broker_id: int) -> e.PartitionData:
    """What a client of this broker is told of the quorum."""
    address = Address("127.0.0.1", cluster.ports[broker_id])
    connection = await ProtocolConnection.open(address, "admin")
    part = e.PartitionRequest(partition_index=0)
    topic = e.TopicRequest(topic_name="__cluster_metadata", partitions=(part,))
    answer = connection.send(DESCRIBE_QUORUM, e.DescribeQuorumRequest(topics=(topic,)))
    assert answer is not None
    try:
        response: Any = await asyncio.wait_for(answer, ANSWER_TIMEOUT_S)
    finally:
        connection.close()
    found: e.PartitionData = response.topics[0].partitions[0]
    return found


def ends(partition: e.PartitionData) -> list[int]:
    return [each.log_end_offset for each in partition.current_voters]


async def forwarding() -> None:
    async with net() as cluster, AsyncExitStack() as stack:
        for broker_id in (1, 2):
            give_forwarder(cluster, stack, broker_id)

        assert ends(await asked(cluster, 1)) == [8, 8]
        assert ends(await asked(cluster, 2)) == [8, 8]

        await cluster.take_down(1)
        lost = await asked(cluster, 2)
        assert (lost.error_code, lost.leader_id) == (ErrorCode.not_leader_or_follower, 1)


def test_follower_answers_what_the_leader_says_and_without_it_who_leads() -> None:
    asyncio.run(forwarding())


async def one_after_the_other() -> None:
    async with net() as cluster, AsyncExitStack() as stack:
        give_forwarder(cluster, stack, 1)
        forwarder = give_forwarder(cluster, stack, 2)
        kept = []

        for _ in range(3):
            assert ends(await asked(cluster, 2)) == [8, 8]
            kept += [each for idle in forwarder._idle.values() for each in idle]

        assert len(kept) == 3
        assert len(set(kept)) == 1
        await cluster.take_down(1)
        assert (await asked(cluster, 2)).error_code is ErrorCode.not_leader_or_follower
        assert kept[0].is_usable is False


def test_connection_is_kept_for_the_next_request_while_it_is_good() -> None:
    asyncio.run(one_after_the_other())


async def two_that_disagree() -> None:
    async with net() as cluster, AsyncExitStack() as stack:
        give_forwarder(cluster, stack, 1, leader_id=2)
        give_forwarder(cluster, stack, 2, leader_id=1)

        told = await asked(cluster, 1)

        assert (told.error_code, told.leader_id) == (ErrorCode.not_leader_or_follower, 1)


def test_brokers_that_take_each_other_for_the_leader_pass_a_request_on_once() -> None:
    asyncio.run(two_that_disagree())


async def unknown_address() -> None:
    async with net() as cluster, AsyncExitStack() as stack:
        give_forwarder(cluster, stack, 1, leader_id=9)

        told = await asked(cluster, 1)

        assert (told.error_code, told.leader_id) == (ErrorCode.not_leader_or_follower, 9)


def test_leader_without_an_address_is_named_all_the_same() -> None:
    asyncio.run(unknown_address())
