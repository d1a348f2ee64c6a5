"""Where the columns of a file have VARIANT."""

from __future__ import annotations

import pytest
from pyspark.sql.types import ArrayType, IntegerType, MapType, StringType, StructType, VariantType

from josefine_arrow.formats.json.variant_keys import Shape
from pipelines.formats.variant import shape_of

VARIANT = Shape(is_variant=True)
STRUCT = StructType().add("n", IntegerType()).add("v", VariantType())


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        (VariantType(), VARIANT),
        (STRUCT, Shape(fields={"v": VARIANT})),
        (ArrayType(STRUCT), Shape(items=Shape(fields={"v": VARIANT}))),
        (MapType(StringType(), VariantType()), Shape(items=VARIANT)),
        (ArrayType(IntegerType()), None),
        (MapType(StringType(), IntegerType()), None),
        (StructType().add("n", IntegerType()), None),
    ],
)
def test_the_shape_of_a_type_has_its_variants_alone(kind, shape):
    assert shape_of(kind) == shape
