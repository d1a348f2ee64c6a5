"""The JSON format: objects to a struct, with the reason for each bad text.

A value is good only if the whole text is one JSON object that fits the schema. Spark's parser alone
would accept `{"a":1} rubbish`, give no reason, and turn an empty value into a null row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.formats.strict_json import reasons

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
        return F.from_json(data.cast("string"), wide, _STRICT)

    def of_object(self, found: Column) -> Column:
        """The parse result of a good value, made from its decoded object; null for null."""
        from pyspark.sql import functions as F  # noqa: N812

        nothing = F.lit(None).cast("string").alias(BAD_TEXT)
        names = self._schema.names
        wide = F.struct(*(found.getField(name).alias(name) for name in names), nothing)
        return F.when(found.isNotNull(), wide)

    def is_good(self, data: Column, parsed: Column) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        text = data.cast("string")
        # The parser stops at the object's end. If the first closing brace is the last byte, that is
        # also the text's end; else (nested objects, trailing text) the slower check decides. By
        # bytes, because Spark counts characters one by one.
        but_last = F.substring(data, F.lit(1), F.octet_length(data) - 1).cast("string")
        ends_there = (text.endswith("}") & ~but_last.contains("}")) | (_json_values(text) == 1)
        good = (
            parsed.isNotNull()
            & parsed.getField(BAD_TEXT).isNull()
            & F.is_valid_utf8(data)
            & ends_there
        )
        if self._strict:
            good &= F.coalesce(*reasons(text, self._schema)).isNull()
        return good

    def result(self, parsed: Column) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        return F.struct(*[parsed.getField(name).alias(name) for name in self._schema.names])

    def reason(self, data: Column, parsed: Column) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        text = data.cast("string")
        wrong = [misfit(text, field) for field in self._schema.fields]
        wrong += reasons(text, self._schema) if self._strict else []
        misfits = F.concat_ws(", ", *wrong)
        # Two parsers: one reads to the end but accepts single quotes, the other the reverse.
        whole = F.coalesce(_json_values(text), F.lit(0)) == 1
        is_json = whole & F.try_parse_json(text).isNotNull()
        return (
            F.when(~F.is_valid_utf8(data), "not UTF-8 text")
            .when(~is_json, "not JSON")
            .when(F.json_object_keys(text).isNull(), "JSON, but not an object")
            .otherwise(F.concat(F.lit(MISFIT), misfits))
        )


def _json_values(text: Column) -> Column:
    """The number of JSON values in a text: parsed as elements of one array, to its end."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.json_array_length(F.concat(F.lit("["), text, F.lit("]")))


def misfit(text: Column, field: object) -> Column:
    """`name TYPE` if this field does not fit, otherwise null. Evaluated only for bad rows."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import StringType, StructField, StructType

    assert isinstance(field, StructField)
    alone = StructType([field]).add(BAD_TEXT, StringType())
    bad = F.from_json(text, alone, _STRICT).getField(BAD_TEXT).isNotNull()
    return F.when(bad, F.lit(f"{field.name} {field.dataType.simpleString().upper()}"))
