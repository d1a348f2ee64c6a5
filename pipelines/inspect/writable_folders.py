"""Check, before Spark starts, that a run can write its folders.

Local folders only: an object store reports errors itself. Each error names key, path and cause.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pipelines.base.errors import SetupError
from pipelines.config.output_paths import in_store
from pipelines.model.pipeline import Pipeline
from pipelines.sinks.targets import target_of
from pipelines.storage.files import FolderFiles
from pipelines.storage.folders import Folders, TableFolder

METRICS = "metrics.table"
"""A folder whose failure does not stop a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A folder that a run writes. `local`: its path on this machine, None if it is remote.

    `cause`: why it cannot be created or written, "" if it can.
    """

    key: str
    path: str
    is_table: bool
    local: str | None
    cause: str


def refuse_unwritable(pipeline: Pipeline, env: Mapping[str, str]) -> None:
    """Raise SetupError that names every local folder that cannot be created or written."""
    found = dict.fromkeys(
        f"{pipeline.file}: {each.key}: {each.path} cannot be written: {each.cause}"
        for each in folders(pipeline, env)
        if each.cause and each.key != METRICS
    )
    if found:
        raise SetupError("\n".join(found))


def folders(pipeline: Pipeline, env: Mapping[str, str]) -> Iterator[Folder]:
    """Every folder that a run writes; the local ones are inspected."""
    for key, path, is_table in _named(pipeline):
        local = _local(path, True) if key == METRICS else local_path(pipeline, path, env)
        below = ["_delta_log"] if is_table else _of_checkpoint(pipeline, key)
        places = [local, *(os.path.join(local, each) for each in below)] if local else []
        cause = next(filter(None, map(_cause, places)), "")
        yield Folder(key=key, path=path, is_table=is_table, local=local, cause=cause)


def local_path(pipeline: Pipeline, path: str, env: Mapping[str, str]) -> str | None:
    """A path of the file on this machine; None if it is remote."""
    elsewhere = "spark.hadoop.fs.defaultFS" in pipeline.conf or "HADOOP_CONF_DIR" in env
    return _local(path, plain_is_local=not elsewhere)


def table_folder(pipeline: Pipeline, path: str, env: Mapping[str, str]) -> TableFolder | None:
    """A path of the file, on this machine or in a store; None if only Spark reaches it. Raises
    StorageError."""
    if in_store(path):
        return Folders(pipeline.conf, env).open(path)
    local = local_path(pipeline, path, env)
    return None if local is None else TableFolder(path=local, files=FolderFiles())


def _named(pipeline: Pipeline) -> Iterator[tuple[str, str, bool]]:
    yield "spark.checkpoint", pipeline.checkpoint, False
    for sink in pipeline.sinks.values():
        yield from ((key, path, True) for key, path in target_of(sink).folders())
    if pipeline.dead_letter_path:
        yield "dead_letter.path", pipeline.dead_letter_path, True
    if pipeline.metrics_table:
        yield METRICS, pipeline.metrics_table, True


def _of_checkpoint(pipeline: Pipeline, key: str) -> Iterator[str]:
    """Folders below it that a run of another user may have created."""
    if key == "spark.checkpoint":
        for sink in pipeline.sinks:
            name = os.path.basename(pipeline.checkpoint_of(sink))
            yield from (f"{name}/{each}" for each in ("offsets", "commits"))


def _local(path: str, plain_is_local: bool) -> str | None:
    """The path on this machine; None for a remote URI."""
    if path.startswith("file:"):
        rest = path.removeprefix("file:")
        return "/" + rest.lstrip("/")
    return path if plain_is_local and "://" not in path else None


def _cause(path: str) -> str:
    """Why a folder cannot be created or written; "" if it can."""
    nearest = path
    while not os.path.lexists(nearest) and os.path.dirname(nearest) != nearest:
        nearest = os.path.dirname(nearest)
    if not os.path.isdir(nearest):
        return f"{nearest} is not a folder"
    if not os.access(nearest, os.W_OK | os.X_OK):
        return f"no permission to write in {nearest}"
    return ""
