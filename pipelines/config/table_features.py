"""Reader of `partition_by`, `cluster_by`, `features` and `properties` of a Delta sink.

Like every reader, it records problems and continues with harmless values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pipelines.config.loader import Scalar
from pipelines.config.section import Reader, as_setting, nearest, shown
from pipelines.model.pipeline import Mode
from pipelines.model.table_features import FEATURES, PLAIN, Feature, Wish, why_refused, wishes_of

CLUSTERING_MAX = 4
_AUTO = (
    "to choose columns by itself is Databricks' alone, Delta for Spark has no CLUSTER BY AUTO: "
    "name up to four columns (a column of this name is written as a list, [auto])"
)
_ALL_ROWS_STAY = "delta.appendOnly"


def layout_in(reader: Reader, mode: Mode) -> dict[str, Any]:
    """The arguments of a `Sink` for the layout and features of its table."""
    return {
        "cluster_by": _clustering(reader),
        "cluster_places": reader.item_places("cluster_by"),
        "partition_by": _partitions(reader),
        "partition_places": reader.item_places("partition_by"),
        "wishes": (*_features(reader), *_properties(reader, mode)),
    }


def _clustering(reader: Reader) -> tuple[str, ...]:
    """The columns of `cluster_by`."""
    node = reader.table.nodes.get("cluster_by")
    if isinstance(node, Scalar) and node.value == "auto":
        reader.wrong_at("cluster_by", _AUTO)
        return ()
    columns = reader.columns("cluster_by")
    if len(columns) > CLUSTERING_MAX:
        message = f"Delta lays rows together by {CLUSTERING_MAX} columns at most"
        reader.wrong_at("cluster_by", f"{message}; here are {len(columns)}")
    return columns


def _partitions(reader: Reader) -> tuple[str, ...]:
    """The columns of `partition_by`."""
    columns = reader.columns("partition_by")
    if columns and reader.has("cluster_by"):
        message = "Delta lays rows together by `cluster_by` or by partitions, never by both"
        reader.wrong_at("partition_by", f"{message}: leave one of them out")
    return columns


def _features(sink: Reader) -> Iterator[Wish]:
    reader = sink.section_of("features")
    if reader is None:
        return
    for feature in FEATURES:
        if not reader.has(feature.keyword):
            continue
        value = _value(reader, feature)
        if value is None:
            continue
        yield from wishes_of(feature, value, reader.place_of(feature.keyword))


def _value(reader: Reader, feature: Feature) -> str | None:
    if feature.choices:
        return reader.choice(feature.keyword)
    before = len(reader.problems)
    is_on = reader.flag(feature.keyword)
    return None if len(reader.problems) > before else feature.on if is_on else feature.off


def _properties(reader: Reader, mode: Mode) -> Iterator[Wish]:
    table = reader.table_of("properties")
    for key, node in (table.nodes if table else {}).items():
        assert table is not None
        if isinstance(node, Scalar) and node.is_unknown:
            continue
        if not isinstance(node, Scalar) or node.value is None:
            message = f"expected a text, a number or a flag, found {shown(node)}"
            reader.problem(node.place, node.path, message)
            continue
        value = as_setting(node)
        why = why_refused(key, value, nearest(key, PLAIN))
        if key == _ALL_ROWS_STAY and value == "true" and mode is not Mode.APPEND:
            why = f"mode {mode.value} changes rows of the table: leave it out"
        if why:
            reader.problem(table.key_places[key], node.path, why)
            continue
        yield Wish(key=key, value=value, word="properties", place=node.place)
