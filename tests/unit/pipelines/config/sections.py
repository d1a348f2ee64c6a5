"""One section of a pipeline file as its reader gets it, with what the reader complains of."""

from __future__ import annotations

from pipelines.base.variables import Variables
from pipelines.config.loader import Table, load_all
from pipelines.config.section import Reader
from pipelines.config.validate import examine
from pipelines.model.pipeline import Pipeline


def tree(text: str) -> Table:
    """The tree of a text. A variable without a value, like `${GONE}`, is unknown, not an error."""
    return load_all(text, "f.yaml", Variables(env={}, must_exist=False)).tree


def section(text: str, name: str) -> Reader:
    """A reader of a section's keywords. `text`: the section, as the file's mapping of key `x`."""
    lines = "".join(f"  {line}\n" for line in text.splitlines())
    table = tree(f"x:\n{lines}").nodes["x"]
    assert isinstance(table, Table)
    return Reader(table, name, [])


def said(reader: Reader) -> list[str]:
    """The problems, each with its path below the section."""
    return [
        f"{each.path.removeprefix('x').lstrip('.')}: {each.message}" for each in reader.problems
    ]


def read(text: str) -> tuple[Pipeline, Table, list[str]]:
    """(the pipeline, its tree, its problems) of a whole file."""
    examined = examine(text, "f.yaml", Variables(env={}, must_exist=False))
    return examined.pipeline, tree(text), [f"{p.path}: {p.message}" for p in examined.problems]
