"""Configurations of groups as values: defaults, bounds, effects."""

from __future__ import annotations

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.groups.consumer.coordinated import AGAIN_MS
from josefine_broker.engine.groups.consumer.member_records import encode_key
from josefine_broker.engine.groups.group_configs import KEYS, check, normal, resolve, shown
from josefine_broker.engine.groups.share.config import ShareConfig, StartAt
from josefine_broker.engine.groups.share.values import Limits
from josefine_broker.engine.groups.values import GroupSettings

OURS = GroupSettings(share=ShareConfig(Limits(lock_ms=1_000)))


def test_group_without_a_configuration_does_what_the_broker_says() -> None:
    found = resolve((), OURS)
    assert (found.share, found.share_session_ms) == (OURS.share, 45_000)
    assert shown(OURS)["share.record.lock.duration.ms"] == "1000"
    assert {name: key.default for name, key in KEYS.items()} == shown(GroupSettings())


def test_what_the_broker_has_is_within_the_bounds() -> None:
    check([("share.record.lock.duration.ms", "1000")], OURS)
    for text in ("999", "60001"):
        with pytest.raises(KafkaError) as refused:
            check([("share.record.lock.duration.ms", text)], OURS)
        assert refused.value.code is ErrorCode.invalid_config


def test_value_of_a_broker_with_other_bounds_has_no_effect() -> None:
    found = resolve((("share.record.lock.duration.ms", "1000"), ("no.such", "1")), GroupSettings())
    assert found.share == ShareConfig()
    found = resolve((("share.auto.offset.reset", "earliest"),), GroupSettings())
    assert found.share.start_at is StartAt.EARLIEST
    assert normal("share.renew.acknowledge.enable", " TRUE ") == "true"


def test_keys_of_both_protocols_are_built_alike() -> None:
    assert encode_key(5, "g") == b"\0\x05\0\x01g"
    assert encode_key(10, "g", "m") == b"\0\x0a\0\x01g\0\x01m"
    assert GroupSettings().consumer_session_timeout_ms > AGAIN_MS
