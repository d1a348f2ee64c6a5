"""Reader of one sink of a pipeline file, by the keywords of its mode.

Like every reader, it records problems and continues with harmless values.
"""

from __future__ import annotations

import re

from josefine_arrow.formats.debezium.unavailable import PLACEHOLDER
from pipelines.base.quoting import quoted, unquoted
from pipelines.config.freshness import with_targets
from pipelines.config.iceberg import iceberg_sink
from pipelines.config.keywords import MODES, SINK_TYPES
from pipelines.config.loader import Scalar
from pipelines.config.section import NAME, Reader, shown
from pipelines.config.spelling import nearest_word
from pipelines.config.table_family import family_in
from pipelines.config.table_features import layout_in
from pipelines.config.topic import target_of, tombstone_of
from pipelines.config.units import batches, size_bytes
from pipelines.model.maintenance import BUDGET_MS, KEEP_MS_MIN, Chore, Upkeep
from pipelines.model.pipeline import (
    Aggregate,
    Deduplicate,
    Latest,
    Mode,
    OnError,
    Placed,
    Sink,
    Unavailable,
)
from pipelines.model.schema_evolution import Evolution
from pipelines.model.table_family import FAMILY

_FUNCTIONS = ("count", "sum", "min", "max")
_CALL = re.compile(r"(\w+)\(\s*(\*|[^\W\d]\w*|`(?:[^`]|``)+`)\s*\)")
_SOME_CALL = re.compile(r"(\w+)\(\s*([^`]+?)\s*\)")
NO_UPDATE = (
    "each change of a result is a record of a topic (type josefine): expected append for results "
    "that are final, or `mode: merge` on the rows before the windows"
)


def sink_of(name: str, reader: Reader) -> Sink:
    """The sink of a section."""
    kind = reader.chosen("type", SINK_TYPES, "delta")
    said = reader.choice("mode")
    mode = Mode(said or "append")
    inputs = reader.texts("inputs")
    if len(inputs) > 1:
        reader.wrong_at("inputs", "a sink has one input: join several with UNION in a transform")
    if kind == "josefine":
        return Sink(
            name=name,
            place=reader.table.place,
            input=inputs[0] if inputs else "",
            type=kind,
            path=None,
            table=None,
            keys=(),
            aggregates=(),
            mode=Mode.UPDATE if mode is Mode.UPDATE else Mode.APPEND,
            topic=target_of(reader, said),
            tombstone_when=tombstone_of(reader, said),
        )
    if kind == "iceberg":
        return iceberg_sink(name, reader, said, inputs[0] if inputs else "")
    # A Delta sink names its mode: a default would append where a merge was meant.
    if not reader.has("mode"):
        reader.missing("mode")
    reader.exactly_one()
    if mode is Mode.UPDATE:
        reader.wrong_at("mode", NO_UPDATE)
    if said:
        reader.refuse_others("mode", mode.value, MODES)
    has_keys = "keys" in MODES[mode.value].required
    keys = reader.texts("keys", required=True) if has_keys else ()
    evolution = Evolution(reader.choice("schema_evolution") or "none")
    if mode is Mode.MERGE and evolution is Evolution.ADD:
        message = "an aggregate that comes later would miss what was folded before"
        reader.wrong_at("schema_evolution", f"{message}: expected none or widen with mode merge")
    if reader.choice("delivery") == "at_least_once":
        reader.wrong_at(
            "delivery", "a table has each row once: expected exactly_once, or no `delivery`"
        )
    path = reader.folder("path")
    family = family_in(reader, path, mode)
    on_error = reader.choice("on_error")
    sink = Sink(
        name=name,
        place=reader.table.place,
        input=inputs[0] if inputs else "",
        type=FAMILY if family else kind,
        path=path,
        family=family,
        table=reader.text("table"),
        keys=keys,
        aggregates=_aggregates(reader, keys) if mode is Mode.MERGE else (),
        key_places=reader.item_places("keys") if keys else (),
        evolution=evolution,
        mode=mode,
        latest=_latest(reader, keys, mode) if mode in (Mode.UPSERT, Mode.SCD2) else None,
        deduplicate=_deduplicate(reader) if mode is Mode.APPEND else None,
        on_error=OnError(on_error or "fail"),
        on_error_place=reader.place_of("on_error") if on_error else None,
        **layout_in(reader, mode),
        constraints=_constraints(reader),
        upkeep=tuple(filter(None, (_upkeep(reader, chore) for chore in Chore))),
    )
    return with_targets(sink, reader)


def _constraints(reader: Reader) -> dict[str, Placed]:
    table = reader.table_of("constraints")
    found: dict[str, Placed] = {}
    for name, node in (table.nodes if table else {}).items():
        assert table is not None
        if not NAME.fullmatch(name):
            message = f"`{name}` is not a name: expected a-z, 0-9 and _"
            reader.problem(table.key_places[name], node.path, message)
        if isinstance(node, Scalar) and node.is_unknown:
            continue
        if not isinstance(node, Scalar) or not isinstance(node.value, str) or not node.text.strip():
            message = f"expected a condition such as amount > 0; found {shown(node)}"
            reader.problem(node.place, node.path, message)
            continue
        found[name] = Placed(
            text=node.text.strip(),
            place=node.place,
            path=node.path,
            written=node.written,
            raw=node.raw,
        )
    return found


def _upkeep(sink: Reader, chore: Chore) -> Upkeep | None:
    reader = sink.section_of(chore.value)
    if reader is None:
        return None
    keep_ms = reader.duration_ms("keep") if chore is Chore.VACUUM else None
    if keep_ms is not None and keep_ms < KEEP_MS_MIN:
        message = "expected 168h at least: a reader may still use those files, and Delta refuses it"
        reader.wrong_at("keep", message)
    every = batches(reader, "every")
    zorder: tuple[str, ...] = ()
    file_bytes = None
    if chore is Chore.OPTIMIZE:
        zorder, file_bytes = reader.columns("zorder_by"), size_bytes(reader, "file_size")
        if zorder and sink.has("cluster_by"):
            message = "OPTIMIZE lays the rows by `cluster_by` already: leave one of them out"
            reader.wrong_at("zorder_by", message)
    within_ms = reader.duration_ms("within") or BUDGET_MS
    if every is None:
        return None
    return Upkeep(
        chore=chore,
        every=every,
        within_ms=within_ms,
        keep_ms=keep_ms,
        zorder_by=zorder,
        zorder_places=reader.item_places("zorder_by"),
        file_bytes=file_bytes,
    )


def _latest(reader: Reader, keys: tuple[str, ...], mode: Mode) -> Latest:
    columns = reader.columns("order_by", required=True)
    places = reader.item_places("order_by")
    for column in columns:
        if column in keys:
            reader.wrong_at("order_by", f"`{column}` is a key: it does not order the rows of one")
    has_condition = reader.has("delete_when")
    if reader.has("on_delete") and not has_condition:
        message = "`delete_when` is missing, which selects the deleting rows"
        reader.wrong_at("on_delete", message)
    said = reader.choice("unavailable")
    return Latest(
        columns=columns,
        places=places,
        delete_when=reader.placed("delete_when") if has_condition else None,
        marks=reader.choice("on_delete") == "mark" or mode is Mode.SCD2,
        unavailable=Unavailable(said or "keep"),
        unavailable_place=reader.place_of("unavailable") if said else None,
        placeholder=reader.text("placeholder") or PLACEHOLDER,
    )


def _deduplicate(sink: Reader) -> Deduplicate | None:
    reader = sink.section_of("deduplicate")
    if reader is None:
        return None
    for word, other in (("time", "within"), ("within", "time")):
        if reader.has(word) and not reader.has(other):
            reader.wrong_at(word, f"`{other}` is missing: both are there or neither")
    return Deduplicate(
        keys=reader.texts("keys"),
        key_places=reader.item_places("keys"),
        time=reader.text("time"),
        time_place=reader.place_of("time"),
        within_ms=reader.duration_ms("within"),
    )


def _aggregates(reader: Reader, keys: tuple[str, ...]) -> tuple[Aggregate, ...]:
    table = reader.table_of("aggregate", required=True)
    aggregates: list[Aggregate] = []
    for column, node in (table.nodes if table else {}).items():
        if isinstance(node, Scalar) and node.is_unknown:
            continue
        text = node.text.strip() if isinstance(node, Scalar) else ""
        match = _CALL.fullmatch(text)
        function = match[1].lower() if match else ""
        if match is None or function not in _FUNCTIONS or (match[2] == "*" and function != "count"):
            message = f"expected count(*), count(x), sum(x), min(x) or max(x); found {shown(node)}"
            reader.problem(node.place, node.path, message + _hint(text))
            continue
        if column in keys:
            reader.problem(node.place, node.path, f"`{column}` is a key already")
        argument = None if match[2] == "*" else unquoted(match[2])
        aggregates.append(
            Aggregate(column=column, function=function, argument=argument, place=node.place)
        )
    if table is not None and not table.nodes:
        reader.wrong_at("aggregate", "expected at least one column")
    return tuple(aggregates)


def _hint(text: str) -> str:
    """A suggestion for an unknown aggregate."""
    if re.match(r"(avg|mean)\(", text, re.IGNORECASE):
        return ": averages cannot be added up, keep a sum and a count"
    match = _CALL.fullmatch(text)
    if match is None and (other := _SOME_CALL.fullmatch(text)) and other[1].lower() in _FUNCTIONS:
        return f"; did you mean `{other[1]}({quoted(other[2])})`, a name in backticks?"
    if match is None or match[2] == "*":
        return ""
    close = nearest_word(match[1].lower(), _FUNCTIONS, 0.7)
    return f"; did you mean `{close}({match[2]})`?" if close else ""
