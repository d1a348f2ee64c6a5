"""What was decoded is compared with what its class declares, however deep it lies."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from josefine_broker.base.typed import INT_MAX, TEXT_CHARS_MAX, is_typed
from josefine_broker.engine.metadata.changes import CreateTopic, IsrItem, RegisterBroker
from josefine_broker.engine.metadata.image import Address, Endpoint
from josefine_broker.engine.metadata.log_completeness import Completeness, LogClaims

TOPIC = UUID(int=7)
GOOD = RegisterBroker(
    broker_id=1, incarnation="a", endpoints=(Endpoint("PLAINTEXT", "h", 9092),), raft=None
)


@pytest.mark.parametrize(
    "value",
    [
        GOOD,
        RegisterBroker(broker_id=1, incarnation="a", endpoints=(), raft=Address("h", 1)),
        CreateTopic(name="t", topic_id=TOPIC, replicas=((1, 2), (2,)), config=(("a", "b"),)),
        IsrItem(TOPIC, 0, 1, 1, (1,), (), ((1, 5),)),
    ],
)
def test_what_was_meant_is_typed(value: object) -> None:
    assert is_typed(value, type(value))


@pytest.mark.parametrize(
    "value",
    [
        RegisterBroker(broker_id="1", incarnation="a", endpoints=()),  # type: ignore[arg-type]
        RegisterBroker(broker_id=True, incarnation="a", endpoints=()),
        RegisterBroker(broker_id=1, incarnation="a\n", endpoints=()),
        RegisterBroker(broker_id=1, incarnation="a" * (TEXT_CHARS_MAX + 1), endpoints=()),
        RegisterBroker(broker_id=1, incarnation="a", endpoints=(Endpoint("P", "h", 9.0),)),  # type: ignore[arg-type]
        RegisterBroker(broker_id=1, incarnation="a", endpoints=(("P", "h", 9),)),  # type: ignore[arg-type]
        RegisterBroker(broker_id=1, incarnation="a", endpoints=(), clean=1),  # type: ignore[arg-type]
        RegisterBroker(broker_id=INT_MAX, incarnation="a", endpoints=()),
        IsrItem(TOPIC, 0, "1", 1, (1,), (), ()),  # type: ignore[arg-type]
        CreateTopic(name="t", topic_id="7", replicas=((1,),)),  # type: ignore[arg-type]
        CreateTopic(name="t", topic_id=TOPIC, replicas=(1,)),  # type: ignore[arg-type]
        CreateTopic(name="t", topic_id=TOPIC, replicas=((1,),), config=(("a",),)),  # type: ignore[arg-type]
    ],
)
def test_what_is_of_another_type_is_not(value: object) -> None:
    assert not is_typed(value, type(value))


@pytest.mark.parametrize(
    ("logs", "is_so"),
    [
        (None, True),
        (LogClaims(), True),
        (LogClaims(logs={(UUID(int=1), 0): Completeness.MISSING}), True),
        (LogClaims(logs={(UUID(int=1), "0"): Completeness.MISSING}), False),  # type: ignore[dict-item]
        (LogClaims(logs={(UUID(int=1), 0): "missing"}), False),  # type: ignore[dict-item]
        (LogClaims(default="missing"), False),  # type: ignore[arg-type]
        ({}, False),
    ],
)
def test_what_a_registration_says_of_logs_is_typed(logs: Any, is_so: bool) -> None:
    assert is_typed(replace(GOOD, logs=logs), RegisterBroker) is is_so
