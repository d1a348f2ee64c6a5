"""Decoder of values in the registry's frame, for the message browser: Avro, and JSON."""

from __future__ import annotations

import json

from josefine_cli.base.extras import need
from josefine_cli.dashboard.browse import Decode
from josefine_cli.kafka.decode import avro_as_written

FRAME_BYTES = 5
"""A zero byte and the schema's id."""


def registry_decoder(registry: str) -> Decode:
    """A decoder by the schemas of a registry. Raises UsageError for an address that is none,
    UserError without the packages."""
    need("dashboard --registry", "pyarrow")
    from josefine_arrow.formats.confluent.schema_registry import RegistryError

    read = avro_as_written(registry)

    def decode(data: bytes) -> tuple[str | None, str | None]:
        if len(data) < FRAME_BYTES or data[0] != 0:
            return None, None
        try:
            # JSON needs no schema to be read, and no Avro record of a use is valid JSON.
            text = data[FRAME_BYTES:].decode()
            json.loads(text)
            return text, None
        except ValueError:
            pass
        try:
            return read(data)
        except RegistryError as error:
            return None, str(error)

    return decode
