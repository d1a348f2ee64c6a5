"""Protobuf values of a table topic: the message of a descriptor file, or of the registry's newest
schema.

A registry's schema is the text of one .proto file. If it imports others than Google's own, they are
not in its answer: then the topic needs a descriptor file.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from josefine_arrow.formats import value_by_value
from josefine_arrow.formats.confluent.schema_registry import PROTOBUF
from josefine_arrow.formats.protobuf.decoder import Decoder, arrow_of
from josefine_arrow.formats.protobuf.descriptors import SchemaError, name_at
from josefine_arrow.formats.protobuf.registered import descriptors_of
from josefine_broker.base.install_commands import install_command
from josefine_lake.config.table_topic import TableTopic
from josefine_lake.formats.registry import Subject


def decoder(table: TableTopic, env: Mapping[str, str]) -> tuple[pa.StructType, Any]:
    """(the columns, the decoder of a column of bytes). Raises ValueError for a schema without
    columns, OSError for a file or registry without an answer."""
    subject = Subject(table, env, PROTOBUF) if table.registry else None
    try:
        if table.schema:
            descriptors, name = Path(table.schema).read_bytes(), table.message
        else:
            if subject is None:
                raise SchemaError("no descriptor file and no registry")
            text = subject.newest().text
            descriptors, name = descriptors_of(text), table.message or name_at(text, (0,))
        made = Decoder(descriptors, name, None if subject is None else subject.text)
    except SchemaError as error:
        where = table.schema or f"subject {table.subject}"
        advice = "" if table.schema else "; or set 'josefine.table.schema' to a descriptor file"
        raise ValueError(f"the Protobuf schema of the values ({where}): {error}{advice}") from error
    except ModuleNotFoundError as error:
        raise ValueError(
            f"format protobuf takes a package: {install_command('protobuf')}"
        ) from error
    kind = arrow_of(made.type)
    return kind, partial(value_by_value.one_by_one, read=made, kind=kind)
