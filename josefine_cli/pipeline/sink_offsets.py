"""Implementation of the `josefine pipeline offsets` verbs: inspect, plan, execute, report."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from josefine_cli.base.errors import UsageError, UserError
from josefine_cli.base.output import connect, print_json, print_table
from josefine_cli.kafka.group_offsets import Shift, moves, parse_topic, partitions_of
from josefine_cli.kafka.offset_spec import Place, parse_place
from josefine_cli.pipeline.sink_status import (
    COLUMNS,
    cell,
    effects_of,
    head,
    partitions,
    steps,
    verdict,
)
from pipelines.base.variables import hidden
from pipelines.config.section import nearest
from pipelines.exactly_once.checkpoint_start import Trust
from pipelines.exactly_once.offset_chain import Stop, Tip, Verdict
from pipelines.inspect.offset_moves import Move, is_for_trust, setting, trusting
from pipelines.inspect.offset_writer import put
from pipelines.inspect.sink_status import Sides, all_sides
from pipelines.model.pipeline import Pipeline
from pipelines.model.plan import SinkPlan, compile_plan
from pipelines.sources.at_once import look_at_once

Done = Mapping[str, str | None]
"""Moved sink → the new folder of its checkpoint, None without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The target of a move and its partitions; empty: all partitions that the source reads."""

    place: Place | Shift
    topics: Sequence[tuple[str, list[int] | None]]


def target_of(to: str | None, shift_by: int | None, topics: Iterable[str]) -> Target:
    """Read the options. Raises UsageError."""
    now_ms = time.time_ns() // 1_000_000
    place = Shift(shift_by or 0) if to is None else parse_place(to, "--to", now_ms)
    return Target(place=place, topics=[parse_topic(each) for each in topics])


def show_sinks(pipeline: Pipeline, names: Sequence[str] | None, *, as_json: bool) -> bool:
    """Print each sink; returns whether all would continue."""
    found = _look(pipeline, names)
    if as_json:
        sinks = [{**head(each), "partitions": partitions(each)} for each in found]
        print_json({"name": pipeline.name, "sinks": sinks})
    for each in found if not as_json else ():
        version = f", transaction {each.tip.txn_version}" if each.tip else ""
        _say(pipeline, f"{each.sink.name}: {each.table} ({each.sink.mode.value}{version})")
        if rows := partitions(each):
            print_table(COLUMNS, [[cell(name, row) for name in COLUMNS] for row in rows])
        _say(pipeline, f"  {verdict(each)}")
    return not any(each.stop or each.unknown for each in found)


def reconcile_sinks(
    pipeline: Pipeline,
    names: Sequence[str] | None,
    asked: Sequence[Trust],
    *,
    execute: bool,
    as_json: bool,
) -> bool:
    """Print the effect of trusting each of `asked`, do it with `execute`; returns whether all would
    continue."""
    found = _look(pipeline, names)
    ways = {each.sink.name: _ways(pipeline, each, asked) for each in found}
    last = {name: moves[asked[-1]] for name, moves in ways.items() if moves}
    done = _do(pipeline, found, last) if execute else {}
    report = []
    for each in found:
        name = each.sink.name
        effects = {way.value: effects_of(each, move) for way, move in ways[name].items()}
        report.append({**head(each), "ways": effects, "done": name in done})
        if as_json:
            continue
        _say(pipeline, f"{name}: {verdict(each)}")
        for way, lines in effects.items():
            _say(pipeline, f"  --trust {way}: {'; '.join(lines)}")
        could = any(isinstance(move, Move) for move in ways[name].values())
        _tell(pipeline, name, done, could=could and not execute)
    if as_json:
        print_json({"name": pipeline.name, "sinks": report})
    return not any(each.unknown or (each.stop and each.sink.name not in done) for each in found)


def set_sinks(
    pipeline: Pipeline,
    names: Sequence[str] | None,
    target: Target,
    *,
    execute: bool,
    as_json: bool,
) -> bool:
    """Print the move of each sink's end, do it with `execute`; returns whether all are possible."""
    found = _look(pipeline, names)
    # All are planned before the first is done: the moves are those of one look at the tables.
    planned = {each.sink.name: _moved(pipeline, each, target) for each in found}
    done = _do(pipeline, found, planned) if execute else {}
    report = []
    for each in found:
        name, move = each.sink.name, planned[each.sink.name]
        effects = effects_of(each, move)
        rows = [] if isinstance(move, Stop) else steps(move)
        said = {"effects": effects, "partitions": rows, "done": name in done}
        report.append({**head(each), **said})
        if as_json:
            continue
        _say(pipeline, f"{name}: {each.table}")
        if rows:
            columns = ("partition", "from", "to")
            print_table(columns, [[cell(name, row) for name in columns] for row in rows])
        _say(pipeline, f"  {'; '.join(effects)}")
        _tell(pipeline, name, done, could=isinstance(move, Move) and not execute)
    if as_json:
        print_json({"name": pipeline.name, "sinks": report})
    return not any(isinstance(move, Stop) for move in planned.values())


def _look(pipeline: Pipeline, names: Sequence[str] | None) -> list[Sides]:
    for name in names or ():
        if name not in pipeline.sinks:
            known = ", ".join(pipeline.sinks)
            hint = nearest(name, pipeline.sinks) or f"; expected one of: {known}"
            raise UsageError(f"--sink {name}: the file has no such sink{hint}")
    found = all_sides(pipeline, look_at_once)
    return [each for each in found if not names or each.sink.name in names]


def _plan(pipeline: Pipeline, sides: Sides) -> SinkPlan:
    return compile_plan(pipeline).sinks[sides.sink.name]


def _ways(pipeline: Pipeline, sides: Sides, asked: Sequence[Trust]) -> dict[Trust, Move | Stop]:
    """None if trusting a side does not resolve the stop."""
    if not is_for_trust(sides.checkpoint, sides.tip, sides.stop):
        return {}
    if _plan(pipeline, sides).stateful:
        return dict.fromkeys(asked, Stop(verdict=Verdict.STATE_STAYS))
    topics = sides.topics.latest.topic_ids if sides.topics else {}
    return {way: trusting(sides.checkpoint, sides.tip, way, topics) for way in asked}


def _moved(pipeline: Pipeline, sides: Sides, target: Target) -> Move | Stop:
    name = sides.sink.name
    if _plan(pipeline, sides).stateful:
        return Stop(verdict=Verdict.STATE_STAYS)
    if sides.topics is None:
        raise UserError(f"sink `{name}`: {sides.unknown}")
    if sides.tip is None:
        raise UserError(f"sink `{name}` has committed nothing: it starts at its source's `start`")
    ends = sides.tip.reached.ends if isinstance(sides.tip, Tip) else {}
    latest = dict(sides.topics.latest.ends)
    source = _plan(pipeline, sides).source
    if source.local is not None:
        raise UserError(
            f"sink `{name}`: source `{source.name}` has no broker that knows places; to read it "
            "again, RESTORE the table"
        )
    with connect(source.bootstrap) as client:
        if target.topics:
            wanted = partitions_of(client, target.topics)
            strange = [tp for tp in wanted if tp not in latest]
            if strange:
                raise UserError(f"sink `{name}` does not read {strange[0].topic}")
            latest = {tp: latest[tp] for tp in wanted}
        earliest = {tp: sides.topics.earliest.get(tp, 0) for tp in latest}
        asked = moves(client, target.place, ends, earliest, latest)
    to = {move.tp: move.to for move in asked}
    return setting(sides.tip, to, sides.topics.latest.topic_ids)


def _do(
    pipeline: Pipeline, found: Iterable[Sides], planned: Mapping[str, Move | Stop]
) -> dict[str, str | None]:
    done: dict[str, str | None] = {}
    with _session(pipeline) as session:
        for each in found:
            move = planned.get(each.sink.name)
            if isinstance(move, Move):
                done[each.sink.name] = put(pipeline, each, move, session)
    return done


@contextmanager
def _session(pipeline: Pipeline) -> Iterator[Any]:
    """One Spark session for all callers, started by the first one."""
    from pipelines.run.session import session_of

    started: list[Any] = []
    with ExitStack() as stack:

        def session() -> Any:
            if not started:
                started.append(stack.enter_context(session_of(pipeline)))
            return started[0]

        yield session


def _tell(pipeline: Pipeline, name: str, done: Done, *, could: bool) -> None:
    if name in done:
        aside = done[name]
        _say(pipeline, "  done" + (f": the checkpoint is {aside} now" if aside else ""))
    elif could:
        _say(pipeline, "  nothing was changed: --execute does it")


def _say(pipeline: Pipeline, text: str) -> None:
    print(hidden(text, pipeline.secrets))
