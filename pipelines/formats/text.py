"""The string and CSV formats, with the reason for each bad value.

A line of CSV is good if it has as many fields as the schema and each fits its type
(`josefine_arrow.formats.csv`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from josefine_arrow.formats.json.options import JsonOptions
from pipelines.formats.json import StructValues
from pipelines.formats.python_values import DecodeColumn, FewOrMany, one_by_one

if TYPE_CHECKING:
    import pyarrow as pa
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

        return F.lit("not UTF-8 text")


class CsvValues(StructValues):
    """`format: csv`: one line each, without a header."""

    def __init__(
        self, schema: StructType, *, separator: str = ",", options: JsonOptions | None = None
    ) -> None:
        super().__init__(schema, options)
        self._separator = separator

    def decoder_for(self, kind: pa.StructType, options: JsonOptions) -> Callable[[], DecodeColumn]:
        return partial(_decoder, kind, options, self._separator)


@lru_cache(maxsize=16)
def _decoder(kind: pa.StructType, options: JsonOptions, separator: str) -> FewOrMany:
    """The decoder of this process: Spark reuses a Python worker for many batches."""
    from josefine_arrow.formats.csv.decoder import CsvDecoder
    from josefine_arrow.formats.csv.line_reader import LineReader

    few = one_by_one(LineReader(kind, options, separator).read, kind)
    return FewOrMany(few, lambda: CsvDecoder(kind, options, separator).decode)
