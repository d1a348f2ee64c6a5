"""The API table: what is listed is served, and every refusal can be said in every version."""

import re
import sys
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints
from uuid import UUID

import pytest

from josefine_broker.api.api_versions import CLIENT_METRICS
from josefine_broker.api.table import API_VERSIONS, SERVED
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.metadata.image import (
    JOSEFINE_VERSION,
    TRANSACTIONS_LEVEL,
    FeatureRange,
)
from josefine_broker.wire import apis as wire_apis
from josefine_broker.wire import codec
from josefine_broker.wire.entities import api_versions, init_producer_id
from josefine_broker.wire.produce import ProducePartition, ProduceRequest, ProduceTopic
from tests.unit.josefine_broker.api.world import World, fetch_request

EVERY_VERSION = [
    pytest.param(spec.key, version, id=f"{spec.name}-v{version}")
    for spec, _, _ in SERVED.values()
    for version in range(spec.min_version, spec.max_version + 1)
]


def test_every_key_of_the_wire_is_answered_by_the_file_named_after_it() -> None:
    """Checklist row 17."""
    files = {key: getattr(api.handle, "__module__", "") for key, api in SERVED.items()}
    own = {key: spec for key, spec in wire_apis.APIS.items() if not spec.is_declined}

    assert files.keys() == wire_apis.APIS.keys()
    assert {key: files[key].rpartition(".")[2] for key in own} == {
        key: re.sub(r"(?<!^)(?=[A-Z])", "_", spec.name).lower() for key, spec in own.items()
    }
    assert {files[key] for key in files.keys() - own.keys()} == {"josefine_broker.api.declined"}
    headers = {key: sys.modules[file].__doc__ or "" for key, file in files.items()}
    names = {key: f"{spec.name} (key {key}" for key, spec in own.items()}
    assert [key for key in own if not headers[key].startswith(names[key])] == []


def test_api_versions_lists_exactly_the_table() -> None:
    """Checklist row 17."""
    response = World().ask(18, api_versions.ApiVersionsRequest())

    listed = {a.api_key: (a.min_version, a.max_version) for a in response.api_keys}
    plain = [key for key in sorted(SERVED) if key not in CLIENT_METRICS]
    rows = {key: (SERVED[key].spec.min_version, SERVED[key].spec.max_version) for key in plain}
    assert listed == rows | {wire_apis.INIT_PRODUCER_ID: (0, 5)}, "6 where it is enabled"
    assert [a.api_key for a in response.api_keys] == plain


def test_unsupported_version_is_error_35_in_a_v0_body() -> None:
    """Checklist row 17 (KIP-511)."""
    response = API_VERSIONS.unsupported_version()

    frame = b"".join(codec.encode_response(18, 0, 7, response))

    assert frame[4:10] == b"\x00\x00\x00\x07" + b"\x00\x23"
    assert len(response.api_keys) == len(SERVED) - len(CLIENT_METRICS)


@pytest.mark.parametrize(("api_key", "version"), EVERY_VERSION)
def test_whole_request_can_be_refused_in_every_version(api_key: int, version: int) -> None:
    """Checklist rows 17 and 18: the refusal is encoded and decoded again."""
    request = empty_request(api_key, version)

    response = SERVED[api_key].refuse(request, KafkaError(ErrorCode.unknown_server_error, "broken"))

    frame = b"".join(codec.encode_response(api_key, version, 7, response))
    correlation_id, again = codec.decode_response(api_key, version, memoryview(frame)[4:])
    assert correlation_id == 7
    assert type(again) is type(response)


def test_refused_acks_zero_is_not_answered() -> None:
    request = ProduceRequest(None, 0, 1000, ())

    assert SERVED[0].refuse(request, KafkaError(ErrorCode.unknown_server_error)) is None


def empty_request(api_key: int, version: int) -> Any:
    """A request with one of everything."""
    if api_key == wire_apis.PRODUCE:
        topic_id = UUID(int=1) if version >= 13 else None
        parts = (ProducePartition(0, None),)
        return ProduceRequest(None, -1, 1, (ProduceTopic("t", topic_id, parts),))
    if api_key == wire_apis.FETCH:
        return fetch_request()
    return _filled(wire_apis.APIS[api_key].request)


def _filled(entity: Any) -> Any:
    """An instance whose lists have one element and whose numbers are 0."""
    hints = get_type_hints(entity)
    return entity(**{field.name: _value(hints[field.name]) for field in fields(entity)})


def _value(kind: Any) -> Any:
    arguments = getattr(kind, "__args__", ())
    if is_dataclass(kind):
        return _filled(kind)
    if type(None) in arguments:
        return None
    if getattr(kind, "__origin__", None) is tuple:
        return (_value(arguments[0]),)
    return {int: 0, float: 0.0, str: "t", bytes: b"", bool: False}.get(kind, kind)


def test_producer_ids_are_unique_and_survive_a_restart() -> None:
    """Checklist row 24."""
    world = World()
    request = init_producer_id.InitProducerIdRequest(transaction_timeout_ms=0)

    first = [world.ask(22, request) for _ in range(1500)]
    second = [world.restart().ask(22, request) for _ in range(2)]

    ids = [each.producer_id for each in first]
    assert len(set(ids)) == 1500
    assert {each.producer_epoch for each in first} == {0}
    assert not {each.producer_id for each in second} & set(ids)


def test_requests_for_ids_wait_for_their_block() -> None:
    world = World()
    world.raft.at_once = False
    request = init_producer_id.InitProducerIdRequest(transaction_timeout_ms=0)

    waiting = [world.ask(22, request) for _ in range(3)]
    world.raft.deliver()

    assert sorted(each.response.producer_id for each in waiting) == [0, 1, 2]


def test_id_that_does_not_come_in_time_is_an_error() -> None:
    world = World()
    world.raft.at_once = False
    request = init_producer_id.InitProducerIdRequest(transaction_timeout_ms=0)

    waiting = world.ask(22, request)
    world.advance(world.settings.metadata_timeout_ms)

    assert waiting.response.error_code == ErrorCode.request_timed_out


def test_transactional_id_is_of_no_known_version_while_a_broker_may_not_know_transactions() -> None:
    world = World(features=(FeatureRange(JOSEFINE_VERSION, 1, TRANSACTIONS_LEVEL - 1),))
    request = init_producer_id.InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=0)

    assert world.ask(22, request).error_code == ErrorCode.unsupported_version
