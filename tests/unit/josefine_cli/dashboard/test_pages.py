"""Pages of what brokers answer to a client: parts that are refused, requests that are not valid,
values in the registry's frame."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from josefine_broker.base.acls import ResourceType
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.client.io_blocking import BlockingClient
from josefine_cli.dashboard.access_page import EVERY_RULE
from josefine_cli.dashboard.framed_values import registry_decoder
from josefine_cli.dashboard.offset_reset import reset_offsets, reset_plan
from josefine_cli.dashboard.topic_page import part
from tests.support.schema_registry import serving

NOWHERE = "127.0.0.1:1"
"""No broker is there: what is refused before a request never notices."""


def test_a_part_that_is_refused_is_its_reason() -> None:
    def refused() -> None:
        raise KafkaError(ErrorCode.cluster_authorization_failed, "DESCRIBE is needed")

    assert part(lambda: [1]) == [1]
    assert part(refused) == {"error": str(KafkaError(ErrorCode.cluster_authorization_failed,
                                                     "DESCRIBE is needed"))}  # fmt: skip


def test_every_rule_is_asked_for() -> None:
    assert EVERY_RULE.resource_type is ResourceType.ANY
    assert (EVERY_RULE.name, EVERY_RULE.principal, EVERY_RULE.host) == (None, None, None)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"to": "latest"}, "group: expected a text"),
        ({"group": ["g"], "to": "latest"}, "group: expected a text"),
        ({"group": "g", "to": ""}, "to: expected a text"),
        ({"group": "g", "to": "latest", "topic": 1}, "topic: expected a text"),
        ({"group": "g", "to": "later"}, "to 'later' is not valid"),
        ({"group": "g", "to": "latest", "topic": "a:b"}, "topic 'a:b' is not like"),
    ],
)
def test_reset_that_is_not_valid_is_one_sentence(body: Mapping[str, Any], said: str) -> None:
    with BlockingClient(NOWHERE) as client:
        for request in (reset_plan, reset_offsets):
            with pytest.raises(ValueError, match=said):
                request(client, body)


ONE_LONG = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}'


def test_framed_avro_is_read_by_its_schema_also_where_its_bytes_would_be_json() -> None:
    with serving({7: ONE_LONG}) as registry:
        decode = registry_decoder(registry.url())

        assert decode(b"\0\0\0\0\7\x02") == ('{"a":1}', None)
        assert decode(b"\0\0\0\0\0072") == ('{"a":25}', None)
        text, why = decode(b"\0\0\0\0\x08\x02")
    assert text is None
    assert "8" in (why or "")


def test_framed_json_is_read_without_a_schema_and_other_values_are_left_alone() -> None:
    decode = registry_decoder("http://127.0.0.1:1")

    assert decode(b'\0\0\0\0\7{"a": 1}') == ('{"a": 1}', None)
    assert decode(b'{"a": 1}') == (None, None)
    assert decode(b"\0ab") == (None, None)


def test_value_whose_registry_is_away_has_the_reason() -> None:
    text, why = registry_decoder("http://127.0.0.1:1")(b"\0\0\0\0\7\x02\x04")

    assert text is None
    assert "cannot be reached" in (why or "")
