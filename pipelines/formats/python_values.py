"""The base of formats that Spark's Python workers decode, with the reason for each bad value.

Shared by Avro and Protobuf: Spark's own from_avro and from_protobuf need a jar, do not support the
framing of a registry, and give no reason.
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
"""In place of a registry: inline records of the file have the file's own schema."""

TextBy = Callable[[int], str]
"""Lookup of a schema by its id. Raises NoSchemaError, RegistryError."""

Decode = Callable[[bytes | None], tuple[Any, str | None]]
"""Bytes to (value, reason). (None, None) for bytes: a record of another type, which is skipped.
Raises RegistryError."""


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
        """The function that makes a worker's decoder; it is pickled, the decoder is not."""

    def parse(self, data: Column) -> Column:
        """A struct of the value and the reason for a bad one."""
        import pyarrow as pa
        from pyspark.sql.pandas.functions import arrow_udf

        decoder, kind = self.decoder(), self.arrow()

        def parse(column: pa.Array) -> pa.Array:
            decode = decoder()
            pairs = [decode(data) for data in column.to_pylist()]
            values = pa.array([value for value, _ in pairs], kind)
            reasons = pa.array([why for _, why in pairs], pa.string())
            return pa.StructArray.from_arrays([values, reasons], [_VALUE, _WHY])

        # Spark derives the UDF kind from these hints and warns about an explicit one.
        parse.__annotations__ = {"column": pa.Array, "return": pa.Array}
        made: Any = arrow_udf
        column: Column = made(parse, f"{_VALUE} {self.sql()}, {_WHY} STRING")(data)
        return column

    def is_good(self, data: Column, parsed: Column) -> Column:
        return data.isNotNull() & parsed.getField(_WHY).isNull()

    def result(self, parsed: Column) -> Column:
        return parsed.getField(_VALUE)

    def is_skipped(self, data: Column, parsed: Column) -> Column:
        """Whether a record is of another type, and makes neither a row nor a dead letter."""
        return self.is_good(data, parsed) & parsed.getField(_VALUE).isNull()

    def reason(self, data: Column, parsed: Column) -> Column:
        return parsed.getField(_WHY)
