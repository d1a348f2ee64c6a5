"""The string and CSV formats, with the reason for each bad value.

A line of CSV (RFC 4180) is good if it has as many fields as the schema and each fits its type.
Spark's parser alone would accept an empty value as nulls and an unclosed quote, and store other
values than were sent: the DECIMAL `2,5` as 25, the DATE `20240105` as a day of the year 57385, the
TIMESTAMP `10:15` as today's, the DOUBLE `1e400` as Infinity (rules of `json_contract`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pipelines.formats.json import BAD_TEXT
from pipelines.formats.json_contract import is_infinite, is_no_date, is_no_time
from pipelines.formats.text_encoding import NOT_UTF_8, why_not_utf_8, without_mark

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType


class TextValues:
    """`format: string`."""

    def parse(self, data: Column) -> Column:
        return data.cast("string")

    def is_good(self, data: Column, parsed: Column) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        return F.is_valid_utf8(data)

    def result(self, parsed: Column) -> Column:
        return parsed

    def reason(self, data: Column, parsed: Column) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        return F.lit(NOT_UTF_8)


class CsvValues:
    """`format: csv`: one line each, without a header."""

    def __init__(self, schema: StructType, *, separator: str = ",") -> None:
        self._types = {field.name: field.dataType.simpleString() for field in schema.fields}
        self._options = {
            "mode": "PERMISSIVE",
            "columnNameOfCorruptRecord": BAD_TEXT,
            "sep": separator,
            # A quote inside quotes is doubled; Spark's default escape is a backslash.
            "escape": '"',
        }

    def parse(self, data: Column) -> Column:
        return self._parse(data, self._types)

    def _parse(self, data: Column, types: Mapping[str, str]) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        columns = {**types, BAD_TEXT: "string"}
        ddl = ", ".join(f"{_quoted(name)} {kind}" for name, kind in columns.items())
        return F.from_csv(_line(data), ddl, self._options)

    def is_good(self, data: Column, parsed: Column) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        return (
            parsed.isNotNull()
            & parsed.getField(BAD_TEXT).isNull()
            & F.is_valid_utf8(data)
            & ~self._is_empty(data)
            & ~_is_open(data)
            & ~self._is_changed(data, self._types)
        )

    def result(self, parsed: Column) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        return F.struct(*[parsed.getField(name).alias(name) for name in self._types])

    def reason(self, data: Column, parsed: Column) -> Column:
        """Evaluated only for bad rows: it parses the line once per column."""
        from pyspark.sql import functions as F  # noqa: N812

        texts = dict.fromkeys(self._types, "string")
        misfits = [
            F.when(
                self._parse(data, {**texts, name: kind}).getField(BAD_TEXT).isNotNull()
                | self._is_changed(data, {name: kind}),
                F.lit(f"{name} {kind.upper()}"),
            )
            for name, kind in self._types.items()
        ]
        other_count = self._parse(data, texts).getField(BAD_TEXT).isNotNull()
        fields = f"{len(texts)} field{'' if len(texts) == 1 else 's'}"
        listed = F.concat_ws(", ", *misfits)
        other = why_not_utf_8(data)
        return (
            F.when(other.isNotNull(), other)
            .when(_is_open(data), "a quote is not closed")
            .when(other_count | self._is_empty(data), f"not a line of {fields}")
            .otherwise(F.concat(F.lit("does not fit the schema: "), listed))
        )

    def _is_changed(self, data: Column, types: Mapping[str, str]) -> Column:
        """Whether Spark would store another value than one of these columns' texts means."""
        from pyspark.sql import functions as F  # noqa: N812

        line = self._parse(data, dict.fromkeys(self._types, "string"))
        found = F.lit(False)
        for name, kind in types.items():
            rule = _CHANGED.get(kind.partition("(")[0])
            if rule is not None:
                found |= F.coalesce(rule(line.getField(name)), F.lit(False))
        return found

    def _is_empty(self, data: Column) -> Column:
        """An empty text is one empty field, so it is valid only for a single column."""
        from pyspark.sql import functions as F  # noqa: N812

        return (_line(data) == "") & F.lit(len(self._types) > 1)


def _has_comma(text: Column) -> Column:
    return text.contains(",")


def _is_infinite(text: Column) -> Column:
    return is_infinite(text.try_cast("double"))


def _is_infinite_float(text: Column) -> Column:
    return is_infinite(text.try_cast("float"))


_CHANGED: Mapping[str, Callable[[Column], Column]] = {
    "decimal": _has_comma,
    "date": is_no_date,
    "timestamp": is_no_time,
    "timestamp_ntz": is_no_time,
    "double": _is_infinite,
    "float": _is_infinite_float,
}
"""Type in Spark's words → whether a text, null where the field is empty, would be stored otherwise
than it means."""


def _line(data: Column) -> Column:
    """The text without a byte order mark and its final line break, if any."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.regexp_replace(without_mark(data).cast("string"), r"\r?\n\z", "")


def _is_open(data: Column) -> Column:
    """Whether a line has an odd number of quotes."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.length(F.regexp_replace(data.cast("string"), '[^"]', "")) % 2 == 1


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
