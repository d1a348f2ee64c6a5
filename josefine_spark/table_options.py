"""The options of a catalog's table (`CREATE TABLE … USING josefine OPTIONS (…)`) as plain options.

Spark hands a table's options over twice, as they are and behind `option.`, among what the catalog
keeps of the table: its provider, owner, place, comment, and TBLPROPERTIES. Pure.
"""

from collections.abc import Mapping

from josefine_spark.errors import OptionError

_OPTION = "option."
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


def plain_options(given: Mapping[str, str]) -> dict[str, str]:
    """What the user gave as options; a table's own properties are left out."""
    if "provider" not in {key.lower() for key in given}:
        return dict(given)
    named = {key.lower().removeprefix(_OPTION) for key in given if key.lower().startswith(_OPTION)}
    return {
        key: value
        for key, value in given.items()
        if key.lower() in named or (not named and key.lower() not in _CATALOG)
    }


def check_columns_named(options: Mapping[str, str]) -> None:
    """A view or table that is only written has the columns that it names. Raises OptionError."""
    names = {key.lower() for key in options}
    if "topic" in names and not names & {"subscribe", "subscribepattern", "assign"}:
        raise OptionError(
            "to write into topics, name the columns: (key STRING, value STRING) before USING; "
            "to read, set subscribe, subscribePattern or assign in place of topic"
        )
