"""Warnings about paths in object stores: the settings that a run needs and nobody can guess.

Pure. They refuse nothing: only the user knows who else writes a table. A setting that is there,
whatever its value, settles its question: its value may be a secret that lint does not read.
"""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.base.errors import Problem
from pipelines.config.output_paths import in_s3
from pipelines.model.pipeline import Pipeline
from pipelines.storage.s3 import ENDPOINT, PATH_STYLE, PREFIX

SINGLE_DRIVER = "io.delta.storage.S3SingleDriverLogStore"
MANY_DRIVERS = "io.delta.storage.S3DynamoDBLogStore"


def store_notices(pipeline: Pipeline) -> Iterator[Problem]:
    """The settings that are missing for S3, each once in a file."""
    given = {*pipeline.conf, *pipeline.conf_places}
    first = next(iter(pipeline.sinks.values())).place
    paths = (*(sink.path for sink in pipeline.sinks.values()), pipeline.dead_letter_path)
    yield from _credentials(pipeline, [pipeline.checkpoint, *filter(None, paths)], given)
    tables = [path for path in paths if path and in_s3(path)]
    if tables:
        yield from _log_store(pipeline, tables[0], given)
    if not tables and not in_s3(pipeline.checkpoint):
        return
    place = pipeline.conf_places.get(ENDPOINT, first)
    if (
        ENDPOINT in given
        and PATH_STYLE not in given
        and "amazonaws" not in pipeline.conf.get(ENDPOINT, "")
    ):
        message = "S3A puts the bucket into the host's name, which few stores but AWS's serve: add "
        message += f"`{PATH_STYLE}: true`, or false to keep it"
        yield Problem(place=place, path=f"spark.conf.{ENDPOINT}", message=message, stops_run=False)
    for one, other in (("access", "secret"), ("secret", "access")):
        key = f"{PREFIX}{one}.key"
        if key in given and f"{PREFIX}{other}.key" not in given:
            message = f"add `{PREFIX}{other}.key`, or remove this to use AWS's usual chain"
            at = pipeline.conf_places.get(key, first)
            yield Problem(place=at, path=f"spark.conf.{key}", message=message, stops_run=False)


_AZURE = "spark.hadoop.fs.azure."
_NEEDS = {
    "abfs": (_AZURE, f"{_AZURE}account.auth.type.ACCOUNT.dfs.core.windows.net"),
    "abfss": (_AZURE, f"{_AZURE}account.auth.type.ACCOUNT.dfs.core.windows.net"),
}
"""Scheme -> the prefix of its settings, and the first one to set: Hadoop has no default user."""


def _credentials(pipeline: Pipeline, paths: list[str], given: set[str]) -> Iterator[Problem]:
    """Once for a store whose settings name no user; they may also be in `core-site.xml`."""
    for path in paths:
        prefix, key = _NEEDS.get(path.partition("://")[0], ("", ""))
        if prefix and not any(each.startswith(prefix) for each in given):
            message = f"{path}: no setting `{prefix}*` names the user of this store: add `{key}` "
            message += "and the settings of that kind, or keep them in HADOOP_CONF_DIR"
            place = next(iter(pipeline.sinks.values())).place
            yield Problem(place=place, path="spark.conf", message=message, stops_run=False)
            return


def _log_store(pipeline: Pipeline, table: str, given: set[str]) -> Iterator[Problem]:
    """One file cannot show whether another file's driver writes its table: the user names it."""
    key = f"spark.delta.logStore.{table.partition('://')[0]}.impl"
    if key in given:
        return
    message = (
        f"{table}: Delta's default for S3 is safe for one driver at a time: two would overwrite "
        f"each other's commits. Set `{key}: {SINGLE_DRIVER}` if no other driver writes these "
        f"tables, or {MANY_DRIVERS} with its package"
    )
    place = next(iter(pipeline.sinks.values())).place
    yield Problem(place=place, path="spark.conf", message=message, stops_run=False)
