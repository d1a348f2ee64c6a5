"""The folders that a pipeline writes: no two may be equal or nested.

A folder inside a table's folder is not safe: VACUUM deletes files that the table's log does not
name, and deleting the table deletes the folder too. Delta ignores names that start with `_` or
`.`, so such a checkpoint is only a warning.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from urllib.parse import unquote

from josefine_broker.base.store_urls import S3_SCHEMES, STORE_SCHEMES
from pipelines.base.errors import Place, Problem
from pipelines.config.loader import Table
from pipelines.model.pipeline import Pipeline


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """A table that the pipeline writes. `where` is normalized: equal for the same folder."""

    where: str
    is_folder: bool
    owner: str
    place: Place
    path: str


_ALIASES = {"s3": "s3a", "abfs": "abfss"}
"""Schemes of the same folders."""
NO_HOME = "`~` is not expanded: expected a path, such as ${HOME}/lake"


def folder(path: str) -> str:
    """An absolute path, because the JVM may have another working directory; s3a://... stays."""
    return path.rstrip("/") if "://" in path or path.startswith("file:") else os.path.abspath(path)


def local_folder(path: str) -> str | None:
    """The folder on this machine; None for a remote URI."""
    return None if "://" in path and not path.startswith("file:") else _comparable(path)


def scheme_of(path: str) -> str:
    """The scheme of a URI; "" for a plain path."""
    return path.partition("://")[0] if "://" in path else ""


def in_s3(path: str) -> bool:
    """Whether a path is a URI of S3, in the scheme of AWS's tools or of Hadoop's."""
    return scheme_of(path) in S3_SCHEMES


def in_store(path: str) -> bool:
    """Whether a path is in an object store that this program knows."""
    return scheme_of(path) in STORE_SCHEMES


def path_problems(pipeline: Pipeline, tree: Table) -> Iterator[Problem]:
    """The problems of a pipeline's folders, each at the later of two conflicting keys."""
    before: list[_Table] = []
    for table in _tables(pipeline, tree):
        if table.is_folder and "/~/" in f"{table.where}/":
            yield Problem(place=table.place, path=table.path, message=NO_HOME)
        for other in before:
            problem = _between(table, other)
            if problem:
                yield problem
                break
        before.append(table)
        yield from _in_families(pipeline, table)
    folders = {table.where: table for table in reversed(before) if table.is_folder}
    yield from _checkpoint_problems(pipeline, tree, list(folders.values())[::-1])


def _tables(pipeline: Pipeline, tree: Table) -> Iterator[_Table]:
    letters = (pipeline.dead_letter_path, pipeline.dead_letter_table)
    yield from _table(tree, ("dead_letter",), *letters, "the dead letters")
    yield from _table(tree, ("metrics",), pipeline.metrics_table, None, "the metrics")
    for sink in pipeline.sinks.values():
        words = ("sinks", sink.name)
        yield from _table(tree, words, sink.path, sink.table, f"sink `{sink.name}`")


def _table(
    tree: Table, words: tuple[str, ...], folder: str | None, table: str | None, owner: str
) -> Iterator[_Table]:
    for word, name in (("path", folder), ("table", table)):
        if name:
            place, path = place_in(tree, *words, "table" if words == ("metrics",) else word)
            yield _Table(
                where=_comparable(name) if word == "path" else name.lower(),
                is_folder=word == "path",
                owner=owner,
                place=place,
                path=path,
            )


def _between(table: _Table, other: _Table) -> Problem | None:
    if table.is_folder != other.is_folder:
        return None
    message = ""
    if table.where == other.where:
        rows = "the rows of " if other.owner.startswith("sink") else ""
        message = f"{rows}{other.owner} are written there already"
    elif table.is_folder and _is_in(table.where, other.where):
        message = f"this lies in the table of {other.owner}, where VACUUM would delete it"
    elif table.is_folder and _is_in(other.where, table.where):
        message = f"the table of {other.owner} lies in it, where VACUUM would delete it"
    return Problem(place=table.place, path=table.path, message=message) if message else None


def _in_families(pipeline: Pipeline, table: _Table) -> Iterator[Problem]:
    """A record names the tables of a template, so no other folder may be among them."""
    for name, sink in pipeline.sinks.items():
        if sink.family is None or table.path.startswith(f"sinks.{name}."):
            continue
        if replace(sink.family, base=_comparable(sink.family.base)).may_make(table.where):
            yield Problem(place=table.place, path=table.path, message=_could_be(name))


def _could_be(sink: str) -> str:
    return (
        f"a table of sink `{sink}` could be there, by the value of a record: expected another "
        "folder, or one whose name starts with `_`"
    )


def _checkpoint_problems(
    pipeline: Pipeline, tree: Table, tables: list[_Table]
) -> Iterator[Problem]:
    if not pipeline.checkpoint:
        return
    place, path = place_in(tree, "spark", "checkpoint")
    checkpoint = _comparable(pipeline.checkpoint)
    if "/~/" in f"{checkpoint}/":
        yield Problem(place=place, path=path, message=NO_HOME)
    # A value of a record could name the folder; its rows would lie among the checkpoint's files.
    for each in pipeline.sinks.values():
        if each.family is not None and each.family.may_make(checkpoint):
            yield Problem(place=place, path=path, message=_could_be(each.name))
    own = {_comparable(pipeline.checkpoint_of(name)): name for name in pipeline.sinks}
    own |= {_comparable(pipeline.old_checkpoint_of(name)): name for name in pipeline.sinks}
    for table in tables:
        if _is_in(checkpoint, table.where):
            below = checkpoint.removeprefix(table.where).split("/")
            is_hidden = any(part.startswith(("_", ".")) for part in below)
            message = f"the checkpoint lies in the table of {table.owner}, "
            message += (
                "and goes when somebody deletes the table"
                if is_hidden
                else "where VACUUM would delete it"
            )
            message += "; expected a folder next to the tables"
            yield Problem(place=place, path=path, message=message, stops_run=not is_hidden)
            continue
        for mine, sink in own.items():
            if mine == table.where or _is_in(mine, table.where) or _is_in(table.where, mine):
                message = f"the checkpoint of sink `{sink}` is in {mine}: expected another folder"
                yield Problem(place=table.place, path=table.path, message=message)
                break


def place_in(tree: Table, *words: str) -> tuple[Place, str]:
    """The place and path of a value, or of the nearest mapping above it."""
    node: Table = tree
    for word in words:
        below = node.nodes.get(word)
        if below is None:
            break
        if not isinstance(below, Table):
            return below.place, below.path
        node = below
    return node.place, node.path


def _is_in(path: str, folder_of: str) -> bool:
    return path.startswith(folder_of.rstrip("/") + "/") and path != folder_of


def _comparable(path: str) -> str:
    """The same text for `file:/a`, `file:///a/` and `/a`, and for `s3a://b/x` and `s3://b//x/`."""
    if path.startswith("file:"):
        return os.path.normpath("/" + unquote(path.removeprefix("file:")).lstrip("/"))
    scheme, separator, rest = path.partition("://")
    scheme = _ALIASES.get(scheme, scheme)
    return f"{scheme}://{os.path.normpath(rest)}" if separator else os.path.normpath(path)
