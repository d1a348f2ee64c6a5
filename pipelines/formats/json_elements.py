"""The format of a JSON array's pieces: an element each, with its index in the reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipelines.formats.json_array import ELEMENT, NOT_AN_ARRAY

if TYPE_CHECKING:
    from pyspark.sql import Column

    from pipelines.formats.decode import Values


@dataclass(frozen=True, slots=True)
class ElementValues:
    """The format of pieces. `inner`: that of an element."""

    inner: Values

    def parse(self, data: Column) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        return F.when(F.col(ELEMENT).isNotNull(), self.inner.parse(_inside(data)))

    def is_good(self, data: Column, parsed: Column) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        return F.col(ELEMENT).isNotNull() & self.inner.is_good(_inside(data), parsed)

    def result(self, parsed: Column) -> Column:
        return self.inner.result(parsed)

    def reason(self, data: Column, parsed: Column) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        index = F.col(ELEMENT).cast("string")
        why = self.inner.reason(_inside(data), parsed)
        element = F.concat(F.lit("element "), index, F.lit(": "), why)
        return F.coalesce(element, F.col(NOT_AN_ARRAY))


def _inside(data: Column) -> Column:
    """The element of a piece."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.substr(data, F.lit(2), F.octet_length(data) - 2)
