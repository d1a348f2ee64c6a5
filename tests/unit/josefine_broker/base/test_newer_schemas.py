"""Versions that kio does not have yet are Kafka's, and no row outlives its reason."""

import dataclasses

import pytest
from kio.schema.index import api_key_map, schema_name_map

from josefine_broker.base import newer_schemas
from josefine_broker.base.schemas import load_response_schema
from josefine_broker.wire import apis, codec
from josefine_broker.wire.entities import api_versions, delete_groups, txn_offset_commit

ROWS = sorted({*newer_schemas.REQUESTS, *newer_schemas.RESPONSES})


@pytest.mark.parametrize(("key", "version"), ROWS)
def test_a_row_is_of_a_version_that_kio_does_not_have(key: int, version: int) -> None:
    assert key not in api_key_map or version not in schema_name_map[api_key_map[key]]
    assert (key, version) in newer_schemas.REQUESTS
    assert (key, version) in newer_schemas.RESPONSES


def test_bytes_of_a_client_that_names_cluster_and_broker() -> None:
    """Apache Kafka 4.4.0 reads these bytes as written here, and answers them with its verdict."""
    request = api_versions.ApiVersionsRequest(
        client_software_name="x", client_software_version="1", cluster_id="c", node_id=7
    )

    frame = b"".join(map(bytes, codec.encode_request(apis.API_VERSIONS, 5, 1, None, request)))

    assert frame.endswith(b"\x02x\x021\x02c\x00\x00\x00\x07\x00")


def test_topics_of_a_transaction_have_ids_in_place_of_names() -> None:
    fields = txn_offset_commit.TxnOffsetCommitRequestTopic.__dataclass_fields__
    assert list(fields) == ["name", "topic_id", "partitions"]
    assert delete_groups.DeletableGroupResult(group_id="g").error_message is None


def test_fields_are_in_the_order_of_kafkas_definition() -> None:
    """One of version 0 is gone from its place, and a wider one comes after the next."""
    fields = [each.name for each in dataclasses.fields(load_response_schema(88, 1))]

    assert fields[5:10] == [
        "heartbeat_interval",
        "task_offset_interval",
        "acceptable_recovery_lag",
        "status",
        "active_tasks",
    ]
    assert fields[11:14] == [
        "warmup_tasks",
        "topology_description_required",
        "endpoint_information_epoch",
    ]
