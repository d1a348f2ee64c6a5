"""The keywords of a Delta table's layout and features, which `keywords.py` includes."""

from __future__ import annotations

from collections.abc import Mapping

from pipelines.config.keyword import Kind, Word
from pipelines.model.table_features import FEATURES

OF_TABLES: Mapping[str, Word] = {
    "cluster_by": Word(
        expected="a column, or a list of four at most, by which the table's rows lie together",
        kind=Kind.COLUMNS,
    ),
    "partition_by": Word(
        expected="a column, or a list of columns, of which each value gets a folder of files",
        kind=Kind.COLUMNS,
    ),
    "features": Word(
        expected=f"a mapping with {', '.join(each.keyword for each in FEATURES)}",
        kind=Kind.SECTION,
        of="features",
    ),
    "properties": Word(
        expected="a mapping of name: value, properties of the Delta table", kind=Kind.SETTINGS
    ),
}

OPTIMIZE: Mapping[str, Word] = {
    "every": Word(
        expected="a number of batches such as 100 batches", kind=Kind.BATCHES, required=True
    ),
    "within": Word(expected="how long it may take, such as 60s", kind=Kind.DURATION),
    "zorder_by": Word(
        expected="a column, or a list of columns, by whose values rows lie together in files",
        kind=Kind.COLUMNS,
    ),
    "file_size": Word(expected="up to which size files are joined, such as 128MiB", kind=Kind.TEXT),
}

FEATURE_WORDS: Mapping[str, Word] = {
    each.keyword: Word(
        expected=f"{' or '.join(each.choices) or 'true or false'}: {each.what}",
        kind=Kind.CHOICE if each.choices else Kind.FLAG,
        choices=each.choices,
    )
    for each in FEATURES
}
"""The keywords of section `features`."""
