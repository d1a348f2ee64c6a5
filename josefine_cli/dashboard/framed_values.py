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
            text, why = read(data)
        except RegistryError as error:
            text, why = None, str(error)
        if text is not None:
            return text, None
        # The registry names the type of a schema: Avro comes first, since the bytes of a small
        # record may be valid JSON by chance.
        return (plain, None) if (plain := _json_object(data[FRAME_BYTES:])) else (None, why)

    return decode


def _json_object(data: bytes) -> str | None:
    """The text of a JSON object; None if the bytes are not one."""
    try:
        text = data.decode()
        return text if isinstance(json.loads(text), dict) else None
    except ValueError:
        return None
