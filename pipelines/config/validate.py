"""The validator: the tree of a pipeline file to a Pipeline with known keywords and resolved
references.

Offline: no Spark, no broker, no access to tables. `inspect/plan.py` checks what only Spark can
check (SQL, columns), and `lint/lint.py` the part of it that is possible without Spark. All problems
are found before any is raised.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pipelines.base.errors import ConfigError, Place, Problem
from pipelines.base.variables import Variables
from pipelines.config.change_positions import with_positions
from pipelines.config.checks import checks_of
from pipelines.config.freshness import every_of
from pipelines.config.gaps import Gaps, gaps_of
from pipelines.config.keyed_state import keyed_state_of
from pipelines.config.keywords import WORDS
from pipelines.config.loader import Items, Scalar, Table, load_all
from pipelines.config.lookup import is_lookup, lookup_of, lookup_problems
from pipelines.config.metrics import metrics_of
from pipelines.config.on_error import on_error_problems
from pipelines.config.output_paths import path_problems, place_in
from pipelines.config.params import params_of, with_params
from pipelines.config.python_function import function_of
from pipelines.config.section import NAME, Reader, shown
from pipelines.config.sink import sink_of
from pipelines.config.source import group_problems, source_of
from pipelines.config.spelling import nearest_word
from pipelines.config.start_stop import stop_problems
from pipelines.config.table_family import with_families
from pipelines.config.table_stream import table_stream_problems
from pipelines.config.tests import cases_of
from pipelines.config.topic import topic_problems, with_brokers
from pipelines.config.unavailable import with_unavailable
from pipelines.config.units import batches, pauses_ms
from pipelines.config.watermark import watermark_problems, watermarks_of
from pipelines.model.dead_letter_threshold import Threshold
from pipelines.model.lineage import lineage, stateful_of
from pipelines.model.pipeline import OnError, Pipeline, Sink, Source, Transform
from pipelines.model.retry_policy import PAUSES_MS, Restart


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """A file and all its problems; if there are any, the pipeline is only what could be read."""

    pipeline: Pipeline
    problems: list[Problem]


@dataclass(frozen=True, slots=True, kw_only=True)
class _DeadLetters:
    """The values of the `dead_letter` section."""

    path: str | None = None
    table: str | None = None
    threshold: Threshold | None = None


def read_pipeline(
    file: str | os.PathLike[str], env: Mapping[str, str], environment: str | None = None
) -> Pipeline:
    """Read and validate a file in one environment, with its secrets.

    Raises ConfigError, whose text is one line per problem, and WrongUsageError for an unknown
    environment.
    """
    examined = examine(read_text(file), os.fspath(file), Variables(env=env), environment)
    if any(problem.stops_run for problem in examined.problems):
        raise ConfigError(examined.problems)
    return examined.pipeline


def read_text(file: str | os.PathLike[str]) -> str:
    """The text of a pipeline file. Raises ConfigError."""
    try:
        return Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError([_at_top(file, f"cannot be read: {error.strerror}")]) from error
    except UnicodeDecodeError as error:
        raise ConfigError([_at_top(file, "not UTF-8 text")]) from error


def _at_top(file: str | os.PathLike[str], message: str) -> Problem:
    return Problem(place=Place(file=os.fspath(file), line=1, column=1), path="", message=message)


def examine(text: str, file: str, variables: Variables, environment: str | None = None) -> Examined:
    """Read a file's text. Raises ConfigError for invalid YAML; returns all other problems."""
    loaded = load_all(text, file, variables, environment)
    problems = loaded.problems
    pipeline = replace(
        _pipeline(loaded.tree, problems),
        environment=environment,
        secrets=frozenset(variables.secrets),
    )
    hidden = [replace(each, message=variables.hidden(each.message)) for each in problems]
    return Examined(pipeline=pipeline, problems=hidden)


def validate(tree: Table) -> Pipeline:
    """Turn a loaded tree into a Pipeline or raise ConfigError with every problem."""
    problems: list[Problem] = []
    pipeline = _pipeline(tree, problems)
    if any(problem.stops_run for problem in problems):
        raise ConfigError(problems)
    return pipeline


def _pipeline(tree: Table, problems: list[Problem]) -> Pipeline:
    top = Reader(tree, "", problems)
    _version(top)
    name = top.text("name") or "unnamed"
    if not NAME.fullmatch(name):
        top.wrong_at("name", f"`{name}` is not a name: expected a-z, 0-9 and _")
    _environments(top)
    _variables(top)
    spark = top.section_of("spark")
    conf = spark.table_of("conf") if spark else None
    readers = top.named_tables("sources")
    lookups = {n: lookup_of(n, r) for n, r in readers.items() if is_lookup(r)}
    sources = {n: source_of(n, r) for n, r in readers.items() if n not in lookups}
    transforms = {n: _transform(n, r) for n, r in top.named_tables("transforms").items()}
    sinks = {n: sink_of(n, r) for n, r in top.named_tables("sinks").items()}
    letters = _dead_letter(top, sources)
    every_ms, once = _trigger(top, sinks)
    metrics = metrics_of(top)
    pipeline = Pipeline(
        name=name,
        file=tree.place.file,
        master=spark.text("master") if spark else None,
        conf=spark.plain_texts("conf") if spark else {},
        conf_places=conf.key_places if conf else {},
        checkpoint=_checkpoint(spark),
        sources=sources,
        lookups=lookups,
        transforms=transforms,
        sinks=sinks,
        dead_letter_path=letters.path,
        dead_letter_table=letters.table,
        threshold=letters.threshold,
        every_ms=every_ms,
        once=once,
        restart=_restart(top),
        metrics=metrics.prometheus,
        metrics_table=metrics.table,
        json_log=metrics.json_log,
    )
    # Each check may rely on the earlier ones. They add to one list of problems, so that a file
    # with several faults is reported as a whole.
    pipeline = with_brokers(pipeline)
    _check_wiring(pipeline, tree, problems)
    problems.extend(group_problems(sources, tree))
    problems.extend(stop_problems(sources, every_ms, tree))
    problems.extend(topic_problems(pipeline, tree, gaps_of(problems)))
    pipeline = replace(pipeline, checks=checks_of(top, pipeline))
    pipeline = with_params(pipeline, params_of(top))
    problems.extend(lookup_problems(pipeline, tree))
    problems.extend(table_stream_problems(pipeline, tree))
    problems.extend(watermark_problems(pipeline, tree, gaps_of(problems)))
    problems.extend(path_problems(pipeline, tree))
    pipeline = with_positions(pipeline, problems)
    pipeline = with_unavailable(pipeline, problems)
    pipeline = with_families(pipeline, problems)
    problems.extend(on_error_problems(pipeline))
    return replace(pipeline, cases=cases_of(top, pipeline))


def _environments(top: Reader) -> None:
    table = top.table_of("environments")
    for name, node in (table.nodes if table else {}).items():
        assert table is not None
        at = table.key_places[name]
        if not NAME.fullmatch(name):
            message = f"`{name}` is not a name: expected a-z, 0-9 and _"
            top.problem(at, node.path, message)
        if not isinstance(node, Table):
            message = f"expected a mapping with what differs there; found {shown(node)}"
            top.problem(node.place, node.path, message)


def _variables(top: Reader) -> None:
    table = top.table_of("vars")
    for node in table.nodes.values() if table else ():
        if not isinstance(node, Scalar):
            top.problem(node.place, node.path, f"expected a text, found {shown(node)}")


def _checkpoint(spark: Reader | None) -> str:
    """ "" if the file does not set it."""
    return (spark.folder("checkpoint") if spark else None) or ""


def _version(top: Reader) -> None:
    text = top.text("version")
    if text is not None and text != "1":
        node = top.table.nodes["version"]
        top.wrong_at("version", f"expected {WORDS['']['version'].expected}; found {shown(node)}")


def _transform(name: str, reader: Reader) -> Transform:
    reader.exactly_one()
    inputs = reader.texts("inputs")
    is_python = reader.has("python")
    return Transform(
        name=name,
        place=reader.table.place,
        inputs=inputs,
        said=reader.placed("python" if is_python else "sql"),
        function=function_of(reader, inputs) if is_python else None,
        watermarks=watermarks_of(reader),
        state=keyed_state_of(reader),
    )


def _dead_letter(top: Reader, sources: Mapping[str, Source]) -> _DeadLetters:
    reader = top.section_of("dead_letter")
    if reader is None:
        users = [s for s in sources.values() if s.has_on_error(OnError.DEAD_LETTER)]
        if users and not top.has("dead_letter"):
            message = (
                "`dead_letter`, where this source sends bad records, is missing at the top; "
                f"expected {WORDS['']['dead_letter'].expected}"
            )
            top.problem(users[0].place, f"sources.{users[0].name}", message)
        return _DeadLetters()
    reader.choice("type")
    reader.exactly_one()
    return _DeadLetters(
        path=reader.folder("path"),
        table=reader.text("table"),
        threshold=_threshold(reader),
    )


def _threshold(dead_letter: Reader) -> Threshold | None:
    reader = dead_letter.section_of("threshold")
    if reader is None:
        return None
    ratio, window = reader.ratio("ratio"), batches(reader, "window")
    if ratio is None or window is None:
        return None
    return Threshold(ratio=ratio, window=window)


def _trigger(top: Reader, sinks: Mapping[str, Sink]) -> tuple[int | None, bool]:
    """(milliseconds between two batches or None, whether there is only one batch)."""
    reader = top.section_of("trigger")
    if reader is None:
        return every_of(top, None, None, sinks.values()), False
    reader.exactly_one()
    for word in ("available_now", "once"):
        if reader.has(word) and not reader.flag(word):
            node = reader.table.nodes[word]
            if isinstance(node, Scalar) and node.value is False:
                reader.wrong_at(word, "expected true; leave the key out and write `every`")
    every_ms = every_of(top, reader, reader.duration_ms("every"), sinks.values())
    return every_ms, reader.has("once")


def _restart(top: Reader) -> Restart | None:
    reader = top.section_of("restart")
    if reader is None:
        return None
    attempts = reader.positive("attempts")
    first_ms, last_ms = pauses_ms(reader, "backoff") or PAUSES_MS
    if attempts is None:
        return None
    return Restart(attempts=attempts, first_ms=first_ms, last_ms=last_ms)


def _check_wiring(pipeline: Pipeline, tree: Table, problems: list[Problem]) -> None:
    before = len(problems)

    def note(section: str, name: str, key: str, message: str) -> None:
        at, path = place_in(tree, section, name, key)
        problems.append(Problem(place=at, path=path, message=message))

    for name in {*pipeline.sources, *pipeline.lookups} & pipeline.transforms.keys():
        note("transforms", name, "", f"`{name}` is a source already")
    problems.extend(_unknown_inputs(pipeline, tree, gaps_of(problems)))
    for name in _in_circles(pipeline):
        note("transforms", name, "inputs", f"`{name}` is its own input, directly or through others")
    gaps = gaps_of(problems)
    if len(problems) > before or any(
        gaps.touches(f"transforms.{name}.watermark") for name in pipeline.transforms
    ):
        # The lineage of a broken graph is incomplete: further problems would be consequences.
        return
    for sink in pipeline.sinks.values():
        sources = lineage(pipeline, sink.input)[0] if sink.input else ()
        if len(sources) > 1 and stateful_of(pipeline, sink) is None:
            message = (
                f"rows of several sources ({', '.join(sources)}) come together: expected a "
                "transform that joins them, with a `watermark` of each"
            )
            note("sinks", sink.name, "inputs", message)


def _unknown_inputs(pipeline: Pipeline, tree: Table, gaps: Gaps) -> Iterator[Problem]:
    """A problem for each name among the inputs that nothing defines, at its first use.

    If several inputs have the name and nothing uses a similar one, that one is misspelt, where it
    is defined.
    """
    known = [*pipeline.sources, *pipeline.lookups, *pipeline.transforms]
    users: dict[str, list[tuple[str, str]]] = {}
    for transform in pipeline.transforms.values():
        for name in transform.inputs:
            users.setdefault(name, []).append(("transforms", transform.name))
    for sink in pipeline.sinks.values():
        if sink.input:
            users.setdefault(sink.input, []).append(("sinks", sink.name))
    for name, of in users.items():
        if name in known or gaps.has_name(name, "sources", "transforms"):
            continue
        close = nearest_word(name, known)
        defined = next((s for s in ("transforms", "sources") if _has(tree, s, close)), "")
        if close and close not in users and len(of) > 1 and defined:
            place, path = place_in(tree, defined, close)
            message = f"no input is `{close}`, but {len(of)} are `{name}`: did you mean `{name}`?"
        else:
            place, path = _place_of_input(tree, *of[0], name)
            hint = f"; did you mean `{close}`?" if close else ""
            hint = hint or f"; expected one of: {', '.join(known)}"
            message = f"no source or transform `{name}`{hint}"
        yield Problem(place=place, path=path, message=message, about=f"transforms.{name}")


def _place_of_input(tree: Table, section: str, node: str, name: str) -> tuple[Place, str]:
    table = tree.nodes.get(section)
    said = table.nodes.get(node) if isinstance(table, Table) else None
    inputs = said.nodes.get("inputs") if isinstance(said, Table) else None
    for each in inputs.nodes if isinstance(inputs, Items) else ():
        if isinstance(each, Scalar) and each.text == name:
            return each.place, each.path
    return place_in(tree, section, node, "inputs")


def _has(tree: Table, section: str, name: str | None) -> bool:
    table = tree.nodes.get(section)
    return isinstance(table, Table) and name in table.nodes


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
