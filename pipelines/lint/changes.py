"""What a sink with `mode: update` cannot have in its SQL, found with sqlglot, for `lint`.

Only certain errors are reported: the rest is left to `plan` and `run`, which ask Spark
(`transforms/changes.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from pipelines.base.errors import Problem
from pipelines.config.gaps import Gaps
from pipelines.config.source_positions import place_at
from pipelines.lint.sql_columns import parsed
from pipelines.model.lineage import lineage, stateful_of
from pipelines.model.pipeline import Mode, Pipeline, Transform
from pipelines.transforms.changes import JOINS, SESSIONS, why_wrong

_AT_STATE, _AFTER_STATE = ("having",), ("where", "having", "qualify")
"""The clauses that leave out changes, in the transform with the state and after it."""


def change_problems(pipeline: Pipeline, gaps: Gaps) -> Iterator[Problem]:
    """The problems of the transforms whose changes a topic gets."""
    if gaps.of_graph:
        return
    for sink in pipeline.sinks.values():
        stateful = stateful_of(pipeline, sink) if sink.mode is Mode.UPDATE else None
        if stateful is None:
            continue
        before = lineage(pipeline, stateful.name)[1]
        names = [name for name in lineage(pipeline, sink.input)[1] if name not in before]
        for name in (stateful.name, *names):
            transform = pipeline.transforms[name]
            if transform.function is None and transform.said.text:
                yield from _of_transform(transform, is_state=name == stateful.name)


def _of_transform(transform: Transform, *, is_state: bool) -> Iterator[Problem]:
    query, said = parsed(transform.said.text), transform.said
    if not isinstance(query, exp.Select):
        return
    for part, message in _wrong(query, is_state=is_state):
        starts = [int(each.meta["start"]) for each in part.walk() if "start" in each.meta]
        place = place_at(said, min(starts, default=0))
        yield Problem(place=place, path=said.path, message=message, stops_run=False)


def _wrong(select: exp.Select, *, is_state: bool) -> Iterator[tuple[exp.Expr, str]]:
    for name in _AT_STATE if is_state else _AFTER_STATE:
        clause = select.args.get(name)
        if isinstance(clause, exp.Expr):
            yield clause, why_wrong("Filter")
    if not is_state:
        return
    for call in select.find_all(exp.Anonymous):
        if call.name.lower() == "session_window":
            yield call, SESSIONS
    for join in (select.args.get("joins") or ())[:1]:
        yield join, JOINS
