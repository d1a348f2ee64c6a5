"""What the versions that came with Apache Kafka 4.4 change in the answers."""

from __future__ import annotations

from uuid import UUID

import pytest

from josefine_broker.base.errors import ErrorCode
from josefine_broker.wire import apis
from josefine_broker.wire import entities as e
from tests.unit.josefine_broker.api.transaction_clients import GROUP, Client, transaction_world
from tests.unit.josefine_broker.api.world import World

HERE = ("the cluster", "this broker")


@pytest.mark.parametrize(
    ("cluster", "node", "code"),
    [
        (None, -1, ErrorCode.none),
        ("same", "same", ErrorCode.none),
        ("same", 99, ErrorCode.rebootstrap_required),
        ("same", -2, ErrorCode.rebootstrap_required),
        ("other", "same", ErrorCode.rebootstrap_required),
        ("", "same", ErrorCode.rebootstrap_required),
        ("same", -1, ErrorCode.invalid_request),
        ("other", -1, ErrorCode.invalid_request),
        (None, "same", ErrorCode.invalid_request),
    ],
)
def test_client_that_reached_another_broker_than_it_means_starts_over(
    cluster: str | None, node: int | str, code: ErrorCode
) -> None:
    """KIP-1242; Apache Kafka 4.4.0 answers these nine in the same way."""
    world = World()
    request = e.api_versions.ApiVersionsRequest(
        cluster_id=world.ctx.image.cluster_id if cluster == "same" else cluster,
        node_id=world.ctx.broker_id if isinstance(node, str) else node,
    )

    assert world.ask(apis.API_VERSIONS, request).error_code is code


def committed(client: Client, **topic: object) -> ErrorCode:
    part = e.txn_offset_commit.TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=7
    )
    request = e.txn_offset_commit.TxnOffsetCommitRequest(
        transactional_id=client.transactional_id,
        group_id=GROUP,
        producer_id=client.producer_id,
        producer_epoch=client.epoch,
        topics=(e.txn_offset_commit.TxnOffsetCommitRequestTopic(partitions=(part,), **topic),),
    )
    (answer,) = client.ask(apis.TXN_OFFSET_COMMIT, request).topics
    assert (answer.name, answer.topic_id) == (topic.get("name", ""), topic.get("topic_id"))
    code: ErrorCode = answer.partitions[0].error_code
    return code


def test_offsets_of_a_transaction_are_committed_by_the_id_of_their_topic() -> None:
    """KIP-1319."""
    world = transaction_world()
    client = Client(world.ask)
    client.init()
    client.add_offsets()
    client.versions = client.versions | {apis.TXN_OFFSET_COMMIT: 6}

    assert committed(client, topic_id=UUID(int=5)) is ErrorCode.unknown_topic_id
    assert committed(client) is ErrorCode.unknown_topic_id
    topic_id = world.ctx.image.topics["orders"].topic_id
    assert committed(client, topic_id=topic_id) is ErrorCode.none
    assert client.end() is ErrorCode.none
    assert client.committed(stable=True) == 7


def test_group_that_cannot_be_deleted_has_the_reason() -> None:
    world = transaction_world()
    request = e.delete_groups.DeleteGroupsRequest(groups_names=(GROUP,))

    (result,) = world.ask(apis.DELETE_GROUPS, request).results

    assert result.error_code is ErrorCode.group_id_not_found
    assert result.error_message == "there is no such group"
