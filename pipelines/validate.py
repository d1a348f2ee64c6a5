"""The tree of a pipeline file to a Pipeline: every word known, every reference resolved.

Offline: no Spark, no broker, no look at the tables. What only Spark can judge (SQL, columns) is
left to `plan.py`. All problems are found before any is raised.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from pipelines.ddl import TYPES, unknown_types
from pipelines.errors import ConfigError, Place, Problem
from pipelines.loader import Scalar, Table, load
from pipelines.model import Aggregate, Decode, Pipeline, Placed, Sink, Source, Transform
from pipelines.reader import NAME, Reader, nearest, shown
from pipelines.vocabulary import WORDS

_AGGREGATE = re.compile(r"(count|sum|min|max)\(\s*(\*|[A-Za-z_]\w*)\s*\)", re.IGNORECASE)
_ADDRESS = re.compile(r"[^\s:,]+:\d{1,5}(,[^\s:,]+:\d{1,5})*")


def read_pipeline(file: str | os.PathLike[str], env: Mapping[str, str]) -> Pipeline:
    """Read and validate a file. Raises ConfigError; its text is one line per problem."""
    try:
        text = Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError([_at_top(file, f"cannot be read: {error.strerror}")]) from error
    except UnicodeDecodeError as error:
        raise ConfigError([_at_top(file, "not UTF-8 text")]) from error
    return validate(load(text, os.fspath(file), env))


def _at_top(file: str | os.PathLike[str], message: str) -> Problem:
    return Problem(place=Place(file=os.fspath(file), line=1, column=1), path="", message=message)


def validate(tree: Table) -> Pipeline:
    """Turn a loaded tree into a Pipeline or raise ConfigError with every problem."""
    problems: list[Problem] = []
    top = Reader(tree, "", problems)
    top.choice("version", ("1",)) if _is_text(tree, "version") else _version(top)
    name = top.text("name", required=True) or "unnamed"
    if not NAME.fullmatch(name):
        top.wrong_at("name", f"`{name}` is not a name: expected lower-case letters, digits and _")
    spark = top.section_of("spark", "spark", required=True)
    sources = {n: _source(n, r) for n, r in _named(top, "sources", "source").items()}
    transforms = {
        n: _transform(n, r) for n, r in _named(top, "transforms", "transform", False).items()
    }
    sink_readers = _named(top, "sinks", "sink")
    sinks = {n: _sink(n, r) for n, r in sink_readers.items()}
    pipeline = Pipeline(
        name=name,
        file=tree.place.file,
        master=spark.text("master") if spark else None,
        conf=spark.plain_texts("conf") if spark else {},
        checkpoint=_folder((spark.text("checkpoint", required=True) if spark else None) or "."),
        sources=sources,
        transforms=transforms,
        sinks=sinks,
        dead_letter_path=_dead_letter(top, sources),
        every_ms=_trigger(top),
    )
    _check_wiring(pipeline, tree, problems)
    _check_paths(pipeline, sink_readers)
    if problems:
        raise ConfigError(problems)
    return pipeline


def _is_text(tree: Table, key: str) -> bool:
    node = tree.nodes.get(key)
    return isinstance(node, Scalar) and isinstance(node.value, str)


def _version(top: Reader) -> None:
    if not top.has("version"):
        top.text("version", required=True)
        return
    node = top.table.nodes["version"]
    value = node.value if isinstance(node, Scalar) else None
    if value != 1 or isinstance(value, bool):
        top.wrong_at("version", f"expected {WORDS['']['version']}; found {shown(node)}")


def _named(top: Reader, key: str, section: str, required: bool = True) -> dict[str, Reader]:
    return top.named_tables(key, section, required=required)


def _source(name: str, reader: Reader) -> Source:
    reader.choice("type", ("josefine",))
    bootstrap = reader.text("bootstrap", required=True)
    if bootstrap and not _ADDRESS.fullmatch(bootstrap):
        expected = WORDS["source"]["bootstrap"]
        reader.wrong_at("bootstrap", f"expected {expected}; found `{bootstrap}`")
    topics = reader.texts("topics")
    pattern = reader.text("pattern")
    if reader.has("topics") == reader.has("pattern"):
        message = "expected exactly one of `topics` and `pattern`"
        reader.problem(reader.table.place, reader.table.path, message)
    limit = reader.section_of("limit", "limit")
    return Source(
        name=name,
        place=reader.table.place,
        bootstrap=bootstrap or "",
        topics=topics,
        pattern=pattern,
        start=reader.choice("start", ("earliest", "latest"), required=False) or "earliest",
        rows_max=limit.positive("rows") if limit else None,
        headers=reader.flag("headers"),
        decode=_decode(reader),
    )


def _decode(source: Reader) -> Decode | None:
    decode = source.section_of("decode", "decode")
    value = decode.section_of("value", "decode value", required=True) if decode else None
    if value is None:
        return None
    value.choice("format", ("json",))
    text = value.text("schema", required=True) or ""
    place = value.place_of("schema")
    if text.endswith(".ddl"):
        file = Path(place.file).parent / text
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            value.wrong_at("schema", f"{file}: {reason}")
    for word in unknown_types(text):
        hint = nearest(word.upper(), TYPES) or f"; expected one of: {', '.join(sorted(TYPES))}"
        value.wrong_at("schema", f"no type `{word}`{hint}")
    on_error = value.choice("on_error", ("dead_letter", "fail"), required=False)
    path = f"{value.table.path}.schema"
    schema = Placed(text=" ".join(text.split()), place=place, path=path)
    return Decode(schema=schema, dead_letter=on_error == "dead_letter")


def _transform(name: str, reader: Reader) -> Transform:
    sql = reader.text("sql", required=True) or ""
    place = reader.place_of("sql")
    return Transform(
        name=name,
        inputs=reader.texts("inputs", required=True),
        sql=Placed(text=sql, place=place, path=f"{reader.table.path}.sql"),
    )


def _sink(name: str, reader: Reader) -> Sink:
    reader.choice("type", ("delta",))
    mode = reader.choice("mode", ("append", "merge"))
    inputs = reader.texts("inputs", required=True)
    if len(inputs) > 1:
        reader.wrong_at("inputs", "a sink has one input: join several with UNION in a transform")
    if reader.has("path") == reader.has("table"):
        message = "expected exactly one of `path` and `table`"
        reader.problem(reader.table.place, reader.table.path, message)
    keys, aggregates = _merge(reader) if mode == "merge" else ((), ())
    for word in ("keys", "aggregate"):
        if mode == "append" and reader.has(word):
            reader.wrong_at(word, f"`{word}` is for mode merge; this sink's mode is append")
    path = reader.text("path")
    return Sink(
        name=name,
        place=reader.table.place,
        input=inputs[0] if inputs else "",
        path=_folder(path) if path else None,
        table=reader.text("table"),
        keys=keys,
        aggregates=aggregates,
    )


def _merge(reader: Reader) -> tuple[tuple[str, ...], tuple[Aggregate, ...]]:
    keys = reader.texts("keys", required=True)
    table = reader.table_of("aggregate", required=True)
    aggregates: list[Aggregate] = []
    for column, node in (table.nodes if table else {}).items():
        text = node.text if isinstance(node, Scalar) else ""
        match = _AGGREGATE.fullmatch(text.strip())
        function = match[1].lower() if match else ""
        if match is None or (match[2] == "*" and function != "count"):
            message = f"expected count(*), count(x), sum(x), min(x) or max(x); found {shown(node)}"
            if re.match(r"\s*(avg|mean)\(", text, re.IGNORECASE):
                message += ": averages cannot be added up, keep a sum and a count"
            reader.problem(node.place, node.path, message)
            continue
        if column in keys:
            reader.problem(node.place, node.path, f"`{column}` is a key already")
        argument = None if match[2] == "*" else match[2]
        aggregates.append(Aggregate(column=column, function=function, argument=argument))
    if table is not None and not table.nodes:
        reader.wrong_at("aggregate", "expected at least one column")
    return keys, tuple(aggregates)


def _dead_letter(top: Reader, sources: Mapping[str, Source]) -> str | None:
    reader = top.section_of("dead_letter", "dead_letter")
    if reader is None:
        users = [s for s in sources.values() if s.decode and s.decode.dead_letter]
        if users and not top.has("dead_letter"):
            message = (
                "`dead_letter`, where this source sends bad records, is missing at the top; "
                f"expected {WORDS['']['dead_letter']}"
            )
            top.problem(users[0].place, f"sources.{users[0].name}", message)
        return None
    reader.choice("type", ("delta",))
    path = reader.text("path", required=True)
    return _folder(path) if path else None


def _trigger(top: Reader) -> int | None:
    reader = top.section_of("trigger", "trigger", required=True)
    if reader is None:
        return None
    if reader.has("available_now") == reader.has("every"):
        message = f"expected {WORDS['']['trigger']}"
        reader.problem(reader.table.place, reader.table.path, message)
    if reader.has("available_now") and not reader.flag("available_now"):
        node = reader.table.nodes["available_now"]
        if isinstance(node, Scalar) and node.value is False:
            reader.wrong_at("available_now", "expected true; leave the key out and write `every`")
    return reader.duration_ms("every")


def _folder(path: str) -> str:
    """An absolute path, as Spark's JVM must not guess; a URI (s3a://...) stays as it is."""
    return path.rstrip("/") if "://" in path or path.startswith("file:") else os.path.abspath(path)


def _check_wiring(pipeline: Pipeline, tree: Table, problems: list[Problem]) -> None:
    known = [*pipeline.sources, *pipeline.transforms]
    before = len(problems)

    def place(section: str, name: str, key: str) -> tuple[Place, str]:
        table = tree.nodes[section]
        entry = table.nodes.get(name) if isinstance(table, Table) else None
        node = entry.nodes.get(key, entry) if isinstance(entry, Table) else table
        return node.place, node.path

    def note(section: str, name: str, key: str, message: str) -> None:
        at, path = place(section, name, key)
        problems.append(Problem(place=at, path=path, message=message))

    for name in pipeline.sources.keys() & pipeline.transforms.keys():
        note("transforms", name, "", f"`{name}` is a source already")
    for section, users in (
        ("transforms", {t.name: t.inputs for t in pipeline.transforms.values()}),
        ("sinks", {s.name: (s.input,) for s in pipeline.sinks.values() if s.input}),
    ):
        for name, inputs in users.items():
            for wanted in inputs:
                if wanted not in known:
                    hint = nearest(wanted, known) or f"; expected one of: {', '.join(known)}"
                    note(section, name, "inputs", f"no source or transform `{wanted}`{hint}")
    for name in _in_circles(pipeline):
        note("transforms", name, "inputs", f"`{name}` is its own input, directly or through others")
    if len(problems) > before:
        return
    for sink in pipeline.sinks.values():
        sources = pipeline.lineage(sink.input)[0] if sink.input else ()
        if len(sources) > 1:
            several = ", ".join(sources)
            message = f"rows of several sources ({several}) in one sink are not supported yet"
            note("sinks", sink.name, "inputs", message)


def _in_circles(pipeline: Pipeline) -> list[str]:
    found = []
    for name in pipeline.transforms:
        seen: set[str] = set()
        below = list(pipeline.transforms[name].inputs)
        while below:
            node = below.pop()
            if node in pipeline.transforms and node not in seen:
                seen.add(node)
                below.extend(pipeline.transforms[node].inputs)
        if name in seen:
            found.append(name)
    return found


def _check_paths(pipeline: Pipeline, readers: Mapping[str, Reader]) -> None:
    """Two writers of one folder would be one table with two meanings."""
    taken: dict[str, str] = {}
    if pipeline.dead_letter_path:
        taken[pipeline.dead_letter_path] = "the dead letters"
    for sink in pipeline.sinks.values():
        for word, where in (("path", sink.path), ("table", sink.table)):
            if where is None:
                continue
            if where in taken:
                readers[sink.name].wrong_at(word, f"{taken[where]} are written there already")
            taken[where] = f"the rows of sink `{sink.name}`"
