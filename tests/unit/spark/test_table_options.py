"""A table's options are told from what the catalog keeps beside them."""

from __future__ import annotations

import pytest

from josefine_spark.errors import OptionError
from josefine_spark.table_options import check_columns_named, plain_options


def test_plain_options_stay_as_they_are() -> None:
    given = {"Subscribe": "t", "topic": "t", "option.x": "1"}

    assert plain_options(given) == given


def test_of_a_table_only_what_stood_in_its_options_is_an_option() -> None:
    """As Spark 4.2 hands them over."""
    given = {
        "provider": "josefine",
        "owner": "root",
        "comment": "c",
        "team": "x",
        "path": "/warehouse/t",
        "option.kafka.bootstrap.servers": "b:1",
        "kafka.bootstrap.servers": "b:1",
        "option.Subscribe": "t",
        "subscribe": "t",
    }

    assert plain_options(given) == {"kafka.bootstrap.servers": "b:1", "subscribe": "t"}


def test_a_misspelt_option_of_a_table_is_not_lost() -> None:
    given = {"provider": "josefine", "option.subscrib": "t", "subscrib": "t", "location": "/x"}

    assert plain_options(given) == {"subscrib": "t"}


def test_what_is_only_written_has_to_name_its_columns() -> None:
    with pytest.raises(OptionError, match="name the columns"):
        check_columns_named({"Topic": "t"})

    check_columns_named({"topic": "t", "Subscribe": "t"})
    check_columns_named({"subscribe": "t"})
