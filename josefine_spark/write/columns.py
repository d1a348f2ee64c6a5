"""The sink's columns: their names and types, and the check of a DataFrame's schema."""

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
)

from josefine_spark.base.errors import OptionError
from josefine_spark.options.options import SinkOptions

_TEXT_OR_BYTES = (StringType, BinaryType)
COLUMNS: dict[str, tuple[tuple[type[DataType], ...], str]] = {
    "key": (_TEXT_OR_BYTES, "string or binary"),
    "value": (_TEXT_OR_BYTES, "string or binary"),
    "topic": ((StringType,), "string"),
    "partition": ((IntegerType,), "int"),
    "headers": ((ArrayType,), "array<struct<key:string,value:binary>>"),
}


def check_columns(options: SinkOptions, schema: StructType) -> None:
    """Check the names and types of the written columns; other columns are ignored. Raises
    OptionError."""
    types = {one.name: one.dataType for one in schema.fields}
    if "value" not in types:
        raise OptionError(f"a column named value is needed; there are {', '.join(types) or 'none'}")
    if options.topic is None and "topic" not in types:
        raise OptionError("no topic is given: set the option topic, or add a column named topic")
    for name, (allowed, words) in COLUMNS.items():
        if schema.names.count(name) > 1:
            raise OptionError(
                f"{schema.names.count(name)} columns are named {name}, as after a join: select "
                "the one to write"
            )
        if name in types and not isinstance(types[name], allowed):
            raise OptionError(f"column {name} must be {words}, not {types[name].simpleString()}")
    headers = types.get("headers")
    if isinstance(headers, ArrayType) and not _is_header(headers.elementType):
        raise OptionError(f"column headers must be {COLUMNS['headers'][1]}")


def _is_header(kind: DataType) -> bool:
    if not isinstance(kind, StructType) or kind.fieldNames() != ["key", "value"]:
        return False
    return isinstance(kind["key"].dataType, StringType) and isinstance(
        kind["value"].dataType, BinaryType
    )
