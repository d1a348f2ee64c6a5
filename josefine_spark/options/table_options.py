"""Options of a catalog table (`CREATE TABLE … USING josefine OPTIONS (…)`), stored in its columns.

While a table is created, Spark passes its options twice, plain and with the prefix `option.`, mixed
with the catalog's own properties: provider, owner, location, comment, and TBLPROPERTIES. When the
table is read or written, Spark passes only its columns. So the options are stored in the metadata
of the last column, which the catalog keeps. A DataFrame carries that metadata on, for example into
the log of a Delta table: so it must not contain a secret, only a reference to one. Pure.
"""

import json
import re
from collections.abc import Mapping

from pyspark.sql.types import StructField, StructType

from josefine_spark.base.errors import OptionError

_OPTION = "option."
_METADATA = "josefine.options"
_CATALOG = frozenset(
    {
        "collation",
        "comment",
        "external",
        "is_managed_location",
        "location",
        "owner",
        "path",
        "provider",
        "table_type",
        "serialization.format",
    }
)

_SECRET = ("password", "passphrase", "secret", "ssl.keystore.key", "oauthbearer.token")
"""Suffixes of options with secret values, including options without effect here."""
_IN_LINES = "sasl.jaas.config"
"""Contains a password among other settings, or none (OAUTHBEARER)."""


def is_of_table(given: Mapping[str, str]) -> bool:
    """Whether these are the options that Spark passes while a table is created."""
    return "provider" in {key.lower() for key in given}


def plain_options(given: Mapping[str, str]) -> dict[str, str]:
    """The user's options, without a table's own properties."""
    if not is_of_table(given):
        return dict(given)
    named = {key.lower().removeprefix(_OPTION) for key in given if key.lower().startswith(_OPTION)}
    return {
        key: value
        for key, value in given.items()
        if key.lower() in named or (not named and key.lower() not in _CATALOG)
    }


def remember_options(columns: StructType, options: Mapping[str, str]) -> StructType:
    """The columns of a new table, with these options stored. Raises OptionError for a secret."""
    for name, value in sorted(options.items()):
        if _is_secret(name.lower(), value):
            instead = f"set {name}"
            if name.lower().endswith(_IN_LINES):
                instead = "set kafka.sasl.username, and kafka.sasl.password"
            raise OptionError(
                f"{name}: a table's options must not contain a secret, because every reader of the "
                f"table can see them: {instead} to file:PATH or env:NAME, read on the driver"
            )
    *others, last = columns.fields
    kept = {_METADATA: json.dumps(dict(options), sort_keys=True)}
    return StructType([*others, StructField(last.name, last.dataType, last.nullable, kept)])


def _is_secret(name: str, value: str) -> bool:
    if name.endswith(_IN_LINES):
        return re.search(r"\b(password|secret)\b", value, re.IGNORECASE) is not None
    return name.endswith(_SECRET) and not re.match(r"\s*(file|env):", value)


def options_with_table(
    given: Mapping[str, str], columns: StructType, *, written: bool
) -> dict[str, str]:
    """The options of a read or write, joined with those of its table. Raises OptionError.

    A DataFrame that was read from a table may be written anywhere. Its columns still carry the
    options of that table, which are not for the sink.
    """
    texts = [field.metadata[_METADATA] for field in columns if _METADATA in field.metadata]
    table: dict[str, str] = json.loads(texts[0]) if texts else {}
    if table and is_only_written(table) == written:
        return {**table, **given}
    if given:
        return dict(given)
    if not table:
        raise OptionError(
            "no options were given; a table that declares its own columns loses the options of its "
            "CREATE TABLE: declare no columns, or create a temporary view"
        )
    if written:
        raise OptionError("this table is read-only: its options have no topic to write to")
    raise OptionError(
        "this table is write-only: its options have a topic and no subscribe, "
        "subscribePattern or assign"
    )


def is_only_written(options: Mapping[str, str]) -> bool:
    """Whether the options name a topic to write to and nothing to read."""
    names = {key.lower() for key in options}
    return "topic" in names and not names & {"subscribe", "subscribepattern", "assign"}


def check_columns_named(options: Mapping[str, str]) -> None:
    """Raises OptionError for a write-only view that does not declare its columns."""
    if is_only_written(options):
        raise OptionError(
            "to write into topics, name the columns: (key STRING, value STRING) before USING; "
            "to read, set subscribe, subscribePattern or assign in place of topic"
        )
