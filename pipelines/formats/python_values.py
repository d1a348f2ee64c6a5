"""Values that Spark's Python workers decode, and the reason for every one that is none.

What Avro and Protobuf share: Spark's own from_avro and from_protobuf want a jar, know nothing of a
registry's framing, and give no reason.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column

_VALUE, _WHY = "value", "why"

OWN = ""
"""In place of a registry: records of the file itself have the file's own schema."""

TextBy = Callable[[int], str]
"""A schema by its number. Raises NoSchemaError, RegistryError."""

Decode = Callable[[bytes | None], tuple[Any, str | None]]
"""Bytes to (value, why not). Raises RegistryError."""


class PythonValues(ABC):
    """A format whose values a Python function decodes."""

    @abstractmethod
    def sql(self) -> str:
        """The values' type, in Spark's DDL. Raises SchemaError."""

    @abstractmethod
    def arrow(self) -> pa.DataType:
        """The same in Arrow. Raises SchemaError."""

    @abstractmethod
    def decoder(self) -> Callable[[], Decode]:
        """What a worker calls for its decoder; it is pickled, the decoder is not."""

    def parse(self, data: Column) -> Column:
        """A struct of the value and of why it is none."""
        import pyarrow as pa
        from pyspark.sql.pandas.functions import arrow_udf

        decoder, kind = self.decoder(), self.arrow()

        def parse(column: pa.Array) -> pa.Array:
            decode = decoder()
            pairs = [decode(data) for data in column.to_pylist()]
            values = pa.array([value for value, _ in pairs], kind)
            reasons = pa.array([why for _, why in pairs], pa.string())
            return pa.StructArray.from_arrays([values, reasons], [_VALUE, _WHY])

        # Spark takes its kind from these, and warns of one that is said; its stubs want that.
        parse.__annotations__ = {"column": pa.Array, "return": pa.Array}
        made: Any = arrow_udf
        column: Column = made(parse, f"{_VALUE} {self.sql()}, {_WHY} STRING")(data)
        return column

    def is_good(self, data: Column, parsed: Column) -> Column:
        return data.isNotNull() & parsed.getField(_WHY).isNull()

    def result(self, parsed: Column) -> Column:
        return parsed.getField(_VALUE)

    def reason(self, data: Column, parsed: Column) -> Column:
        return parsed.getField(_WHY)
