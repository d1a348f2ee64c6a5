"""Whether a run can write where its file says, found out before Spark starts.

Local folders only: an object store says so itself. Each complaint names key, path and cause.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from pipelines.errors import SetupError
from pipelines.model import Pipeline


def refuse_unwritable(pipeline: Pipeline, env: Mapping[str, str]) -> None:
    """Raise SetupError naming every local folder that cannot be made or written."""
    elsewhere = "spark.hadoop.fs.defaultFS" in pipeline.conf or "HADOOP_CONF_DIR" in env
    found: dict[str, None] = {}
    for key, path in _folders(pipeline):
        local = _local(path, plain_is_local=not elsewhere)
        cause = _cause(local) if local else None
        if cause:
            found[f"{pipeline.file}: {key}: {path} cannot be written: {cause}"] = None
    if found:
        raise SetupError("\n".join(found))


def _folders(pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    yield "spark.checkpoint", pipeline.checkpoint
    for sink in pipeline.sinks.values():
        if sink.path:
            yield f"sinks.{sink.name}.path", sink.path
    if pipeline.dead_letter_path:
        yield "dead_letter.path", pipeline.dead_letter_path


def _local(path: str, plain_is_local: bool) -> str | None:
    """The path on this machine; None for a URI of another place."""
    if path.startswith("file:"):
        rest = path.removeprefix("file:")
        return "/" + rest.lstrip("/")
    return path if plain_is_local and "://" not in path else None


def _cause(path: str) -> str | None:
    """Why a folder cannot be made or written; None when it can."""
    nearest = path
    while not os.path.lexists(nearest) and os.path.dirname(nearest) != nearest:
        nearest = os.path.dirname(nearest)
    if not os.path.isdir(nearest):
        return f"{nearest} is not a folder"
    if not os.access(nearest, os.W_OK | os.X_OK):
        return f"no permission to write in {nearest}"
    return None
