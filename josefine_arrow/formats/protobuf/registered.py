"""The descriptors of a schema that a registry has: its own file and all files that it imports.

Source: "Protobuf schema references" of the Schema Registry documentation: a reference's name is the
import's path. Google's own files are registered nowhere, every Protobuf library has them.
"""

from __future__ import annotations

import base64
import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from josefine_arrow.formats.protobuf.descriptors import SchemaError

_GOOGLES = (
    "any", "api", "duration", "empty", "field_mask", "source_context", "struct", "timestamp",
    "type", "wrappers",
)  # fmt: skip
"""The files that every installation of Protobuf has."""


def descriptors_of(text: str, referenced: Sequence[tuple[str, str]] = ()) -> bytes:
    """A FileDescriptorSet with all that a registry's file needs, imports first.

    `text`: its FileDescriptorProto in base64; `referenced`: the (path, text) of the files that it
    imports. Raises SchemaError, also for an import that is in neither.
    """
    from google.protobuf import descriptor_pb2

    found = descriptor_pb2.FileDescriptorSet()
    _add(found, _file(text), dict(referenced), {})
    return bytes(found.SerializeToString())


def _add(found: Any, file: Any, referenced: Mapping[str, str], there: dict[str, bool]) -> None:
    """Add a file after its imports. `there`: path → whether all its imports are in `found`."""
    there[file.name] = False
    for path in file.dependency:
        if path not in there:
            each = _file(referenced[path]) if path in referenced else _googles(path)
            each.name = path  # a registry may have it under the name of its subject
            _add(found, each, referenced, there)
        elif not there[path]:
            raise SchemaError(f"{path} imports itself")
    there[file.name] = True
    found.file.append(file)


def _file(text: str) -> Any:
    from google.protobuf import descriptor_pb2
    from google.protobuf.message import DecodeError

    try:
        return descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (ValueError, DecodeError) as error:
        raise SchemaError("the registry's answer has no descriptors") from error


def _googles(path: str) -> Any:
    """The descriptors of one of Google's own files. Raises SchemaError for another file."""
    from google.protobuf import descriptor_pb2

    word = path.removeprefix("google/protobuf/").removesuffix(".proto")
    if path != f"google/protobuf/{word}.proto" or word not in _GOOGLES:
        raise SchemaError(f"it imports {path}, which the registry's answer does not have")
    found = descriptor_pb2.FileDescriptorProto()
    importlib.import_module(f"google.protobuf.{word}_pb2").DESCRIPTOR.CopyToProto(found)
    return found
