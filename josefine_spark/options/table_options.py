"""The options of a catalog's table (`CREATE TABLE … USING josefine OPTIONS (…)`) as plain options.

While a table is made, Spark hands its options over twice, as they are and behind `option.`, among
what the catalog keeps of it: its provider, owner, place, comment, and TBLPROPERTIES. When it is
read or written, Spark hands over none of them, only the table's columns. So the options are put
into the metadata of its last column, which the catalog keeps too, and which a frame carries on, say
into the log of a Delta table: no secret may stand there, only where it is. Pure.
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
"""How the names of options end whose values nobody may read, those without an effect here too."""
_IN_LINES = "sasl.jaas.config"
"""Has a password among other words, or none (OAUTHBEARER)."""


def is_of_table(given: Mapping[str, str]) -> bool:
    """Is this what Spark hands over while a table is made?"""
    return "provider" in {key.lower() for key in given}


def plain_options(given: Mapping[str, str]) -> dict[str, str]:
    """What the user gave as options; a table's own properties are left out."""
    if not is_of_table(given):
        return dict(given)
    named = {key.lower().removeprefix(_OPTION) for key in given if key.lower().startswith(_OPTION)}
    return {
        key: value
        for key, value in given.items()
        if key.lower() in named or (not named and key.lower() not in _CATALOG)
    }


def remember_options(columns: StructType, options: Mapping[str, str]) -> StructType:
    """The columns of a table that is made with these options. Raises OptionError for a secret."""
    for name, value in sorted(options.items()):
        if _is_secret(name.lower(), value):
            instead = f"set {name}"
            if name.lower().endswith(_IN_LINES):
                instead = "set kafka.sasl.username, and kafka.sasl.password"
            raise OptionError(
                f"{name}: a secret must not be among the options of a table, which everyone can "
                f"read who reads it: {instead} to file:PATH or env:NAME, read on the driver"
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
    """What was given with a read or write, and with the table that it is of. Raises OptionError.

    A frame that was read from a table may be written anywhere: its columns still carry what the
    table was made with, which is not for the sink.
    """
    texts = [field.metadata[_METADATA] for field in columns if _METADATA in field.metadata]
    table: dict[str, str] = json.loads(texts[0]) if texts else {}
    if table and is_only_written(table) == written:
        return {**table, **given}
    if given:
        return dict(given)
    if not table:
        raise OptionError(
            "no options were given; a table that names its own columns loses those that it was "
            "made with: leave its columns out, or make a temporary view"
        )
    if written:
        raise OptionError("this table is only read: its options name no topic to write to")
    raise OptionError(
        "this table is only written: its options name a topic, and no subscribe, "
        "subscribePattern or assign"
    )


def is_only_written(options: Mapping[str, str]) -> bool:
    """Do they name where to write and not what to read?"""
    names = {key.lower() for key in options}
    return "topic" in names and not names & {"subscribe", "subscribepattern", "assign"}


def check_columns_named(options: Mapping[str, str]) -> None:
    """A view that is only written has the columns that it names. Raises OptionError."""
    if is_only_written(options):
        raise OptionError(
            "to write into topics, name the columns: (key STRING, value STRING) before USING; "
            "to read, set subscribe, subscribePattern or assign in place of topic"
        )
