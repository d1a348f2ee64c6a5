"""Readers of a streaming checkpoint's files: the query id, and the fingerprint of a batch. Spark
writes these files before it plans the batch; they are read locally or by Arrow's file systems.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from josefine_spark.base.errors import SinkError

FINGERPRINT_CHARS = 32


def query_id(checkpoint: str) -> str:
    """The id of the checkpoint's query. Raises SinkError."""
    try:
        found: str = json.loads(_read(checkpoint, "metadata"))["id"]
    except (OSError, ValueError, KeyError, TypeError) as error:  # TypeError: not an object
        raise _unreadable(checkpoint, "metadata", error) from error
    return found


def fingerprint(checkpoint: str, batch_id: int) -> str:
    """Digest of a batch's offsets file; a batch that runs again has the same file. Raises
    SinkError."""
    name = f"offsets/{batch_id}"
    try:
        data = _read(checkpoint, name)
    except OSError as error:
        raise _unreadable(checkpoint, name, error) from error
    return hashlib.sha256(data).hexdigest()[:FINGERPRINT_CHARS]


def _read(checkpoint: str, name: str) -> bytes:
    if "://" not in checkpoint and not checkpoint.startswith("file:"):
        return (Path(checkpoint) / name).read_bytes()
    from pyarrow import fs

    if checkpoint.startswith("file:") and not checkpoint.startswith("file://"):
        checkpoint = checkpoint.replace("file:", "file://", 1)
    try:
        found: tuple[Any, str] = fs.FileSystem.from_uri(checkpoint)
    except ValueError as error:  # a scheme that Arrow does not know, or was built without
        raise OSError(str(error)) from error
    with found[0].open_input_stream(f"{found[1]}/{name}") as stream:
        data: bytes = stream.read()
    return data


def _unreadable(checkpoint: str, name: str, error: Exception) -> SinkError:
    return SinkError(
        f"delivery=exactly_once cannot read {name} in the checkpoint {checkpoint}: {error}"
    )
