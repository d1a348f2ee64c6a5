"""Quotas as a client asks for them."""

from __future__ import annotations

from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.quotas import DEFAULT, QuotaEntity
from josefine_broker.client.quota_admin import alter_quotas, describe_quotas
from josefine_broker.wire.entities import alter_client_quotas as a
from josefine_broker.wire.entities import describe_client_quotas as d
from tests.unit.josefine_broker.client.driver import Driver


def test_each_entity_has_its_bounds_and_an_unnamed_one_is_the_default() -> None:
    def entry(bound: float, *parts: tuple[str, str | None]) -> Any:
        return d.QuotaEntry(
            entity=tuple(d.QuotaPart(entity_type=k, entity_name=n) for k, n in parts),
            values=(d.QuotaValue(key="producer_byte_rate", value=bound),),
        )

    driver = Driver(lambda call: d.DescribeClientQuotasResponse(
        entries=(entry(5.0, ("user", "alice"), ("client-id", "c")), entry(7.0, ("user", None))),
    ))  # fmt: skip

    found = driver.run(lambda t, end: describe_quotas(driver.session, t, end))

    assert found == {
        QuotaEntity("alice", "c"): {"producer_byte_rate": 5.0},
        QuotaEntity(DEFAULT, None): {"producer_byte_rate": 7.0},
    }


def test_a_bound_is_set_or_removed_and_the_default_entity_has_no_name() -> None:
    answer = a.AlterClientQuotasResponse(
        entries=(a.AlteredQuotas(error_code=ErrorCode.none, entity=()),)
    )
    driver = Driver(lambda call: answer)
    entity = QuotaEntity("alice", DEFAULT)

    driver.run(lambda t, end: alter_quotas(driver.session, entity, {"x": 2.5, "y": None}, t, end))

    (call,) = driver.calls
    (entry,) = call.request.entries
    assert [(p.entity_type, p.entity_name) for p in entry.entity] == [
        ("user", "alice"), ("client-id", None),
    ]  # fmt: skip
    assert [(o.key, o.value, o.remove) for o in entry.ops] == [("x", 2.5, False), ("y", 0.0, True)]


def test_a_refusal_has_the_brokers_words() -> None:
    answer = a.AlterClientQuotasResponse(
        entries=(a.AlteredQuotas(error_code=ErrorCode.invalid_request,
                                    error_message="no such key", entity=()),)
    )  # fmt: skip
    driver = Driver(lambda call: answer)

    with pytest.raises(KafkaError, match="no such key"):
        driver.run(
            lambda t, end: alter_quotas(driver.session, QuotaEntity("a", None), {"z": 1.0}, t, end)
        )
