"""End of a run of pipelines: its signals and its summary."""

from __future__ import annotations

import json
import signal
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

from josefine_cli.pipeline.secrets import print_hidden_json, say
from pipelines.base.plurals import counted
from pipelines.model.pipeline import Mode, Pipeline

if TYPE_CHECKING:
    from pipelines.report.totals import RunResult

_WROTE = {
    Mode.APPEND: "appended",
    Mode.MERGE: "merged",
    Mode.UPSERT: "changed",
    Mode.SCD2: "changed",
    Mode.UPDATE: "changed",
}


def stop_on_signals(stop: threading.Event) -> None:
    """The first Ctrl-C, SIGTERM or SIGHUP ends the run after the current batch; the same signal
    again ends it at once. A process that ignores SIGHUP (nohup) still ignores it."""

    def ask(number: int, _: object) -> None:
        stop.set()
        signal.signal(number, signal.default_int_handler)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, ask)


def summary(pipeline: Pipeline, result: RunResult, as_json: bool) -> None:
    """Print the totals of each sink to stdout, with `as_json` as one JSON line."""
    from josefine_spark.base.topic_offsets import nested
    from pipelines.transforms.checks import told as checks_told

    if as_json:
        sinks: dict[str, Any] = {
            name: {
                "records": totals.records,
                "rows": totals.rows,
                "dead_letters": totals.dead_letters,
                "copies": totals.copies,
                "skipped": totals.skipped,
                "late": totals.late,
                "checks": {check: each.to_json() for check, each in totals.checked.items()},
                "batches": totals.batches,
                "seconds": round(totals.seconds, 3),
                "ends": nested(totals.ends),
                "path": totals.path,
            }
            for name, totals in result.sinks.items()
        }
        seconds = round(result.seconds, 3)
        print_hidden_json(
            pipeline,
            {
                "name": pipeline.name,
                "seconds": seconds,
                "interrupted": result.interrupted,
                "failures": {name: str(each) for name, each in result.failures.items()},
                "sinks": sinks,
            },
        )
        return
    # Counts of 0 are left out below: the lines are for an operator, who looks for what is unusual.
    tell = partial(say, pipeline)
    how = "stopped on request" if result.interrupted else "done"
    if result.failures:
        how += f", {len(result.failures)} of {counted(len(result.sinks), 'sink')} failed,"
    tell(f"{pipeline.name}: {how} after {result.seconds:.1f} s")
    for name, totals in result.sinks.items():
        rate = totals.records / totals.seconds if totals.seconds else 0.0
        wrote = _WROTE[pipeline.sinks[name].mode]
        line = f"  {name}: {counted(totals.records, 'record')} read"
        line += f", {counted(totals.rows, 'row')} {wrote}"
        line += f" in {counted(totals.batches, 'batch', 'batches')}, {rate:,.0f} records/s"
        tell(line + (", failed" if name in result.failures else ""))
        if totals.copies:
            tell(f"    {counted(totals.copies, 'row')} left out, whose keys were there")
        if totals.skipped:
            tell(f"    {counted(totals.skipped, 'record')} of other types skipped")
        if totals.late:
            tell(f"    {counted(totals.late, 'late row')} left out, after the watermark")
        for told in checks_told(pipeline.checks, totals.checked):
            tell(f"    {told}")
        if totals.dead_letters:
            dead = counted(totals.dead_letters, "dead letter")
            tell(f"    {dead} in {pipeline.dead_letters}")
        tell(f"    {totals.path}{_reached(nested(totals.ends))}")


def _reached(ends: dict[str, dict[str, int]]) -> str:
    return f" reached {json.dumps(ends)}" if ends else ": nothing new"
