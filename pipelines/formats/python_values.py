"""The base of formats that Spark's Python workers decode, with the reason for each bad value.

Spark's own from_json and from_csv change values, from_avro and from_protobuf need a jar and do not
support the framing of a registry, and none of them gives a reason.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

_VALUE, _WHY = "value", "why"

Decode = Callable[[bytes], tuple[Any, str | None]]
"""Bytes to (value, reason). (None, None): a record of another type, which is skipped. Raises
RegistryError."""

DecodeColumn = Callable[["pa.Array"], tuple["pa.Array", "pa.Array"]]
"""A column of bytes to (values, reasons). Raises RegistryError."""


KERNEL_ROWS_MIN = 1_000
"""Below so many values a worker does not load kernels, which takes it a second."""


def of_parts(value: Column, why: Column) -> Column:
    """A parse result of a value and the reason for a bad one."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.struct(value.alias(_VALUE), why.alias(_WHY))


def with_name(column: Column, make: Callable[[Column], Column]) -> Column:
    """What `make` returns for a column, whose expression is then there once, however often `make`
    reads it: Spark's analysis of copies takes seconds."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.get(F.transform(F.array(column), make), F.lit(0))


def value_of(parsed: Column) -> Column:
    """The value of a parse result."""
    return parsed.getField(_VALUE)


def why_of(parsed: Column) -> Column:
    """The reason in a parse result."""
    return parsed.getField(_WHY)


class ArrowValues(ABC):
    """A format that Spark's Python workers decode, a column at a time."""

    @abstractmethod
    def spark_type(self) -> DataType:
        """The values' type. Raises SchemaError."""

    @abstractmethod
    def columns_decoder(self) -> Callable[[], DecodeColumn]:
        """The function that makes a worker's decoder; it is pickled, the decoder is not."""

    def parse(self, data: Column) -> Column:
        """A struct of the value and the reason for a bad one."""
        import pyarrow as pa
        from pyspark.sql.pandas.functions import arrow_udf
        from pyspark.sql.types import StringType, StructType

        decoder, kind = self.columns_decoder(), self.spark_type()

        def parse(column: pa.Array) -> pa.Array:
            return pa.StructArray.from_arrays(decoder()(column), [_VALUE, _WHY])

        # Spark derives the UDF kind from these hints and warns about an explicit one.
        parse.__annotations__ = {"column": pa.Array, "return": pa.Array}
        made: Any = arrow_udf
        column: Column = made(parse, StructType().add(_VALUE, kind).add(_WHY, StringType()))(data)
        return column

    def is_good(self, data: Column, parsed: Column) -> Column:
        return data.isNotNull() & why_of(parsed).isNull()

    def result(self, parsed: Column) -> Column:
        return value_of(parsed)

    def is_skipped(self, data: Column, parsed: Column) -> Column:
        """Whether a record is of another type, and makes neither a row nor a dead letter."""
        return self.is_good(data, parsed) & value_of(parsed).isNull()

    def reason(self, data: Column, parsed: Column) -> Column:
        return why_of(parsed)


class PythonValues(ArrowValues):
    """A format whose values a Python function decodes one by one."""

    @abstractmethod
    def sql(self) -> str:
        """The values' type, in Spark's DDL. Raises SchemaError."""

    @abstractmethod
    def arrow(self) -> pa.DataType:
        """The same in Arrow. Raises SchemaError."""

    @abstractmethod
    def decoder(self) -> Callable[[], Decode]:
        """The function that makes a worker's decoder; it is pickled, the decoder is not."""

    def spark_type(self) -> DataType:
        from pyspark.sql.types import StructType

        columns = StructType.fromDDL(f"{_VALUE} {self.sql()}")
        assert isinstance(columns, StructType)
        return columns[_VALUE].dataType

    def columns_decoder(self) -> Callable[[], DecodeColumn]:
        return partial(_of_worker, self.decoder(), self.arrow())


def _of_worker(decoder: Callable[[], Decode], kind: pa.DataType) -> DecodeColumn:
    return one_by_one(decoder(), kind)


def one_by_one(decode: Decode, kind: pa.DataType) -> DecodeColumn:
    """A decoder of columns from one of single values; null stays null."""
    from josefine_arrow.formats import value_by_value

    return lambda column: value_by_value.one_by_one(column, decode, kind)


class FewOrMany:
    """A decoder of columns that loads its kernels at the first column that is worth it."""

    def __init__(self, few: DecodeColumn, load: Callable[[], DecodeColumn]) -> None:
        """`few` and the decoder that `load` returns decode the same values alike."""
        self._few, self._load = few, load
        self._many: DecodeColumn | None = None

    def __call__(self, column: pa.Array) -> tuple[pa.Array, pa.Array]:
        if self._many is None and len(column) < KERNEL_ROWS_MIN:
            return self._few(column)
        if self._many is None:
            self._many = self._load()
        return self._many(column)
