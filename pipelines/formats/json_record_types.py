"""Framed JSON of a topic with several record types: the objects of one type to a struct."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from josefine_arrow.formats.json.record_types import TypeFilter, type_filter_of
from pipelines.formats.json import JsonValues
from pipelines.formats.python_values import DecodeColumn

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from josefine_arrow.formats.json.options import JsonOptions


class TypedJsonValues(JsonValues):
    """`format: json` with `registry` and `type`. `registry`, `skips`: as of `type_filter_of`."""

    def __init__(
        self,
        schema: StructType,
        options: JsonOptions | None,
        record_type: str,
        registry: str,
        *,
        skips: bool = False,
    ) -> None:
        super().__init__(schema, options)
        self._types = partial(type_filter_of, record_type, registry, skips=skips)

    def decoder_for(self, kind: pa.StructType, options: JsonOptions) -> Callable[[], DecodeColumn]:
        return partial(_decoder, self._types, super().decoder_for(kind, options))


def _decoder(types: Callable[[], TypeFilter], json: Callable[[], DecodeColumn]) -> DecodeColumn:
    return types().column(json())
