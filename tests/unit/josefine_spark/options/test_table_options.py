"""A table's options are told from what the catalog keeps beside them."""

from __future__ import annotations

import json

import pytest
from pyspark.sql.types import StructType

from josefine_spark.base.errors import OptionError
from josefine_spark.options.table_options import (
    check_columns_named,
    options_with_table,
    plain_options,
    remember_options,
)
from josefine_spark.read.columns import spark_schema, written_schema
from josefine_spark.source import JosefineDataSource


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


READ = {"kafka.bootstrap.servers": "b:1", "subscribe": "t"}
WRITTEN = {"kafka.bootstrap.servers": "b:1", "topic": "t"}


def test_a_table_is_read_with_what_it_was_made_with() -> None:
    columns = remember_options(spark_schema(include_headers=True), READ)

    assert options_with_table({}, columns, written=False) == READ
    assert options_with_table({"subscribe": "u"}, columns, written=False) == {
        **READ,
        "subscribe": "u",
    }


def test_a_catalog_keeps_what_is_remembered() -> None:
    """It stores columns as JSON."""
    columns = remember_options(written_schema(), WRITTEN)

    kept = StructType.fromJson(json.loads(columns.json()))

    assert [field.name for field in kept] == ["key", "value"]
    assert options_with_table({}, kept, written=True) == WRITTEN


SECRETS = {
    "kafka.sasl.password": "hunter2",
    "KAFKA.SSL.KEY.PASSWORD": "hunter2",
    "kafka.sasl.jaas.config": 'x.PlainLoginModule required username="u" password="hunter2";',
    "kafka.ssl.keystore.password": "hunter2",  # without an effect, and a secret all the same
    "kafka.ssl.keystore.key": "hunter2",
    "kafka.sasl.oauthbearer.token": "hunter2",
}


@pytest.mark.parametrize("name", SECRETS)
def test_a_table_is_not_made_with_a_secret_in_it(name: str) -> None:
    with pytest.raises(
        OptionError, match=rf"{name}: .* a secret,.* to file:PATH or env:NAME"
    ) as said:
        remember_options(written_schema(), {**WRITTEN, name: SECRETS[name]})

    assert "hunter2" not in str(said.value)


@pytest.mark.parametrize("made_with", [READ, WRITTEN])
def test_making_a_table_is_refused_before_the_catalog_has_the_secret(
    made_with: dict[str, str],
) -> None:
    """As Spark makes one: it asks for the columns first."""
    given = {"provider": "josefine", **made_with, "kafka.security.protocol": "SASL_PLAINTEXT"}
    given |= {"kafka.sasl.mechanism": "PLAIN", "kafka.sasl.username": "u"}

    with pytest.raises(
        OptionError, match=r"kafka\.sasl\.password: a table.s options must not contain a secret"
    ):
        JosefineDataSource({**given, "kafka.sasl.password": "hunter2"}).schema()


def test_a_table_is_made_with_where_its_secrets_are() -> None:
    places = {
        "kafka.sasl.password": "env:PASSWORD",
        "kafka.ssl.key.password": "file:/run/secrets/key",
        "kafka.sasl.jaas.config": "x.OAuthBearerLoginModule required;",
        "kafka.sasl.oauthbearer.token": "file:/run/secrets/token",
        "kafka.sasl.oauthbearer.token.endpoint.url": "file:///run/secrets/token",
    }

    columns = remember_options(written_schema(), {**WRITTEN, **places})

    assert options_with_table({}, columns, written=True) == {**WRITTEN, **places}


def test_a_frame_that_was_read_from_a_table_is_written_with_the_sinks_options() -> None:
    columns = remember_options(spark_schema(include_headers=False), READ)

    assert options_with_table(WRITTEN, columns, written=True) == WRITTEN


@pytest.mark.parametrize(
    ("made_with", "written", "what"),
    [
        (READ, True, "read-only"),
        (WRITTEN, False, "write-only"),
        (None, True, "declares its own columns"),
        (None, False, "declares its own columns"),
    ],
)
def test_a_table_that_is_not_for_this_says_so(
    made_with: dict[str, str] | None, written: bool, what: str
) -> None:
    columns = written_schema()
    if made_with is not None:
        columns = remember_options(columns, made_with)

    with pytest.raises(OptionError, match=what):
        options_with_table({}, columns, written=written)
