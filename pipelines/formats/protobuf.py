"""The Protobuf format: its decoder (`josefine_arrow.formats.protobuf`) bound to Spark's columns."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from josefine_arrow.formats.protobuf.decoder import arrow_of, decoder_of
from josefine_arrow.formats.protobuf.descriptors import Type, message_of, type_of
from pipelines.formats.python_values import Decode, PythonValues

if TYPE_CHECKING:
    import pyarrow as pa


class ProtobufValues(PythonValues):
    """`format: protobuf`. `schema`: a FileDescriptorSet; `name`: a message in it; `registry`,
    `skips`: as in `decoder_of`."""

    def __init__(
        self, schema: bytes, name: str, registry: str | None, *, skips: bool = False
    ) -> None:
        self._schema, self._name, self._registry = schema, name, registry
        self._skips = skips

    def sql(self) -> str:
        return self._type().sql

    def arrow(self) -> pa.DataType:
        return arrow_of(self._type())

    def decoder(self) -> Callable[[], Decode]:
        of = (self._schema, self._name, self._registry)
        return partial(decoder_of, *of, skips=self._skips)

    def _type(self) -> Type:
        return type_of(message_of(self._schema, self._name).DESCRIPTOR)
