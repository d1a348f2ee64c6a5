"""Versions and sizes as `josefine sql` takes them."""

from __future__ import annotations

import pytest

from josefine_cli.base.errors import UsageError
from josefine_cli.sql.command import _bytes, _version


def test_a_version_is_of_the_only_topic_or_of_a_named_one() -> None:
    assert (_version("7"), _version("a=b=7")) == (("", 7), ("a=b", 7))
    with pytest.raises(UsageError, match="--at now: expected VERSION or TOPIC=VERSION"):
        _version("now")


def test_a_size_has_a_unit() -> None:
    assert _bytes("2MB") in (2_000_000, 2 << 20)
    with pytest.raises(UsageError, match="expected a size"):
        _bytes("much")
