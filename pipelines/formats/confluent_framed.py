"""Confluent-framed values of a format that does not need the writer schema.

JSON is self-describing: the zero byte and the schema id are removed, and the inner format decodes
the rest. The registry is not queried.

Source: "Wire format" of Confluent's Schema Registry documentation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from josefine_arrow.formats.confluent.framing import HEADER_BYTES
from pipelines.formats.decode import Values

if TYPE_CHECKING:
    from pyspark.sql import Column


@dataclass(frozen=True, slots=True)
class FramedValues:
    """A format whose values are those of `inner`, each after a frame."""

    inner: Values

    def parse(self, data: Column) -> Column:
        return self.inner.parse(behind_frame(data))

    def is_good(self, data: Column, parsed: Column) -> Column:
        return _misframed(data).isNull() & self.inner.is_good(behind_frame(data), parsed)

    def result(self, parsed: Column) -> Column:
        return self.inner.result(parsed)

    def reason(self, data: Column, parsed: Column) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        return F.coalesce(_misframed(data), self.inner.reason(behind_frame(data), parsed))


def behind_frame(data: Column) -> Column:
    """The bytes without their frame."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.substr(data, F.lit(HEADER_BYTES + 1))


def _misframed(data: Column) -> Column:
    """Why bytes are not framed, with the texts of `wire_format.split`; null if they are framed."""
    from pyspark.sql import functions as F  # noqa: N812

    first, length = F.hex(F.substr(data, F.lit(1), F.lit(1))), F.octet_length(data)
    begins = F.concat(F.lit("begins with 0x"), F.lower(first))
    ends = F.concat(F.lit("ends within the schema's number: "), length.cast("string"))
    return (
        F.when(length == 0, "no bytes, expected a schema's number")
        .when(first != "00", F.concat(begins, F.lit(", expected 0x00 and a schema's number")))
        .when(length < HEADER_BYTES, F.concat(ends, F.lit(f" of {HEADER_BYTES} bytes")))
    )
