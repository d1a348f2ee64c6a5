"""NAME=VALUE configurations: times with units, and hints for unknown names."""

from __future__ import annotations

import pytest

from josefine_cli.base.errors import UsageError
from josefine_cli.kafka.config_pairs import check_known, parse_configs


def test_times_of_configs_may_have_units_and_other_values_are_taken_as_they_are() -> None:
    pairs = ["retention.ms=7d", " segment.bytes = 1024 ", "cleanup.policy=", "flush.ms=7"]

    assert parse_configs(pairs) == {
        "retention.ms": "604800000", "segment.bytes": "1024", "cleanup.policy": "", "flush.ms": "7",
    }  # fmt: skip
    assert parse_configs(None) == {}


@pytest.mark.parametrize("pair", ["retention.ms", "=1", " =1"])
def test_a_pair_without_a_name_or_a_value_is_named(pair: str) -> None:
    with pytest.raises(UsageError, match=rf"--config '{pair}' is not KEY=VALUE"):
        parse_configs([pair])


def test_an_unknown_name_is_refused_with_the_nearest_known_one() -> None:
    check_known(["retention.ms"], ["retention.ms"], "--remove ")

    with pytest.raises(
        UsageError, match=r"--remove 'retention.m' .*nearest known key is retention\.ms"
    ):
        check_known(["retention.m"], ["retention.ms", "segment.bytes"], "--remove ")
