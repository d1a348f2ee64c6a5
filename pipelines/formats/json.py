"""The JSON format: objects to a struct, with the reason for each bad text.

A value is good only if the whole text is one JSON object that fits the schema. Spark's parser alone
would accept `{"a":1} rubbish`, give no reason, and turn an empty value into a null row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pipelines.formats.json_contract import reasons
from pipelines.formats.text_encoding import why_not_utf_8, without_mark

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

BAD_TEXT = "_josefine_bad_text"
"""The column in which Spark's parsers put a text that does not fit; never visible to a user."""

MISFIT = "does not fit the schema: "

_STRICT = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": BAD_TEXT,
    # JSON of RFC 8259: by default Spark also accepts 'single quotes' and NaN.
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
}


class JsonValues:
    """`format: json`."""

    def __init__(self, schema: StructType, *, strict: bool = False) -> None:
        self._schema = schema
        self._strict = strict

    def parse(self, data: Column) -> Column:
        from pyspark.sql import functions as F  # noqa: N812
        from pyspark.sql.types import StringType, StructType

        wide = StructType([*self._schema.fields]).add(BAD_TEXT, StringType())
        return F.from_json(without_mark(data).cast("string"), wide, _STRICT)

    def of_object(self, found: Column) -> Column:
        """The parse result of a good value, made from its decoded object; null for null."""
        from pyspark.sql import functions as F  # noqa: N812

        nothing = F.lit(None).cast("string").alias(BAD_TEXT)
        names = self._schema.names
        wide = F.struct(*(found.getField(name).alias(name) for name in names), nothing)
        return F.when(found.isNotNull(), wide)

    def is_good(self, data: Column, parsed: Column) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        data = without_mark(data)
        text = data.cast("string")
        # The parser stops at the object's end. If the first closing brace is the last byte, that is
        # also the text's end; else (nested objects, trailing text) the slower check decides. By
        # bytes, because Spark counts characters one by one.
        but_last = F.substring(data, F.lit(1), F.octet_length(data) - 1).cast("string")
        ends_there = (text.endswith("}") & ~but_last.contains("}")) | _is_whole(text)
        good = (
            parsed.isNotNull()
            & parsed.getField(BAD_TEXT).isNull()
            & F.is_valid_utf8(data)
            & ends_there
        )
        found = [_given_twice(text, self._schema.names)]
        found += reasons(text, self._schema, strict=self._strict)
        return good & F.coalesce(*found).isNull()

    def result(self, parsed: Column) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        return F.struct(*[parsed.getField(name).alias(name) for name in self._schema.names])

    def reason(self, data: Column, parsed: Column) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        text = without_mark(data).cast("string")
        wrong = [misfit(text, field) for field in self._schema.fields]
        twice = _given_twice(text, self._schema.names)
        wrong += [twice, *reasons(text, self._schema, strict=self._strict)]
        misfits = F.concat_ws(", ", *wrong)
        # Two parsers: one reads to the end but accepts single quotes, the other the reverse. The
        # second one refuses a key that is given twice, too, which is JSON.
        is_json = F.try_parse_json(text).isNotNull() | twice.isNotNull()
        is_json = _is_whole(text) & is_json
        other = why_not_utf_8(data)
        return (
            F.when(other.isNotNull(), other)
            .when(~is_json, "not JSON")
            .when(F.json_object_keys(text).isNull(), "JSON, but not an object")
            .otherwise(F.concat(F.lit(MISFIT), misfits))
        )


def _given_twice(text: Column, names: Sequence[str]) -> Column:
    """The complaint about a column's key that an object has twice: Spark would take the last one.
    Keys that are no column are ignored, as everywhere."""
    from pyspark.sql import functions as F  # noqa: N812

    keys = F.filter(F.json_object_keys(text), lambda key: key.isin(*names))
    again = F.filter(keys, lambda key: F.size(F.filter(keys, lambda each: each == key)) > 1)
    return F.when(F.size(again) > 0, F.concat(F.lit("key "), F.get(again, 0), F.lit(" twice")))


def _is_whole(text: Column) -> Column:
    """Whether a text is one JSON value up to its end.

    Spark's functions stop at the end of a value and ignore the rest. Put into an array, a value is
    followed by the array's end; but a text like `{}] rest` ends the array itself. Put into an
    object, such a text is an error, and only one like `{}} rest` would pass: no text passes both.
    """
    from pyspark.sql import functions as F  # noqa: N812

    in_array = F.json_array_length(F.concat(F.lit("["), text, F.lit("]")))
    in_object = F.json_object_keys(F.concat(F.lit('{"value":'), text, F.lit("}")))
    return F.coalesce((in_array == 1) & (F.size(in_object) == 1), F.lit(False))


def misfit(text: Column, field: object) -> Column:
    """`name TYPE` if this field does not fit, otherwise null. Evaluated only for bad rows."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import StringType, StructField, StructType

    assert isinstance(field, StructField)
    alone = StructType([field]).add(BAD_TEXT, StringType())
    bad = F.from_json(text, alone, _STRICT).getField(BAD_TEXT).isNotNull()
    return F.when(bad, F.lit(f"{field.name} {field.dataType.simpleString().upper()}"))
