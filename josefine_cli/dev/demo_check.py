"""The check of the demo's tables against its input. delta-rs reads the tables, without Spark."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from josefine_cli.dev.demo_lake import Lake
from josefine_cli.dev.demo_produce import Produced


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTotals:
    """Aggregates of both tables; all zero before the first run."""

    rows: int = 0
    distinct_offsets: int = 0
    null_keys: int = 0
    distance_miles: int = 0
    dep_delay_minutes: int = 0
    merged_flights: int = 0
    merged_dep_delay_minutes: int = 0
    dead_letters: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One statement about the tables, with both sides of it."""

    statement: str
    expected: int
    found: int

    @property
    def ok(self) -> bool:
        return self.expected == self.found


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Everything the demo prints at its end."""

    checks: tuple[Check, ...]
    produced: Produced
    pipeline: dict[str, Any]
    rows: int

    @property
    def ok(self) -> bool:
        return all(check.ok for check in self.checks)

    def as_dict(self) -> dict[str, Any]:
        """For `--json`: the checks, the legs' throughput, the pipeline's own summary."""
        return {
            "ok": self.ok,
            "checks": [{**asdict(check), "ok": check.ok} for check in self.checks],
            "produce": {
                "events": self.produced.totals.events,
                "seconds": round(self.produced.seconds, 3),
            },
            "pipeline": self.pipeline,
        }


def read_tables(lake: Lake) -> TableTotals:
    """The aggregates of the tables now; a missing table counts as empty. `flights` has a row for
    each event, `delays` partial sums per carrier and hour, `dead_letters` the undecoded events."""
    import pyarrow.compute as pc

    flights = _read(f"{lake.root}/tables/flights", lake)
    delays = _read(f"{lake.root}/tables/delays", lake)
    dead = _read(f"{lake.root}/tables/dead_letters", lake)

    def total(table: Any, column: str) -> int:
        return int(pc.sum(table[column]).as_py() or 0)

    totals: dict[str, int] = {"dead_letters": dead.num_rows if dead is not None else 0}
    if flights is not None:
        totals |= {
            "rows": flights.num_rows,
            "distinct_offsets": flights.group_by(["_partition", "_offset"]).aggregate([]).num_rows,
            "null_keys": flights["tailnum"].null_count,
            "distance_miles": total(flights, "distance"),
            "dep_delay_minutes": total(flights, "dep_delay"),
        }
    if delays is not None:
        totals |= {
            "merged_flights": total(delays, "flights"),
            "merged_dep_delay_minutes": total(delays, "dep_delay_sum"),
        }
    return TableTotals(**totals)


def open_table(path: Path | str, lake: Lake | None = None) -> Any:
    """A Delta table as an Arrow dataset, None if it does not exist."""
    from deltalake import DeltaTable

    folder = (lake or Lake(root="")).opener()(str(path))
    assert folder is not None, "the demo's lake is reached without Spark"
    options = dict(folder.options)
    if not DeltaTable.is_deltatable(folder.path, options):
        return None
    # deltalake's own file system is Python's: a reading thread of Arrow that still lets go of one
    # of its files when the interpreter ends takes the process with it ("terminate called without
    # an active exception", in one of seven runs on a busy machine). Arrow's own is not.
    table = DeltaTable(folder.path, storage_options=options)
    return table.to_pyarrow_dataset(filesystem=folder.arrow())


def _read(path: Path | str, lake: Lake | None = None) -> Any:
    rows = open_table(path, lake)
    return None if rows is None else rows.to_table()


def compare(
    *,
    before: TableTotals,
    after: TableTotals,
    produced: Produced,
    topic_ends: dict[int, int],
    pipeline: dict[str, Any],
) -> Outcome:
    """Compare the tables with the topic, the input, and each other.

    The sums of the input apply if the tables had caught up with the topic before this run (always
    on a fresh run); after an interrupted run, `--keep` compares the tables with the topic only.
    """
    events = sum(topic_ends.values())
    totals = produced.totals
    checks = [
        Check(statement="rows in flights = events in the topic", expected=events, found=after.rows),
        Check(statement="no event twice", expected=after.rows, found=after.distinct_offsets),
        Check(statement="flights counted in delays", expected=events, found=after.merged_flights),
        Check(
            statement="minutes late: delays = flights",
            expected=after.dep_delay_minutes,
            found=after.merged_dep_delay_minutes,
        ),
        Check(statement="dead letters", expected=0, found=after.dead_letters),
    ]
    # Else the topic has events of an interrupted run whose input totals are unknown: the sums of
    # this run's input do not cover them.
    if before.rows + totals.events == events:
        checks += [
            Check(
                statement="null keys as in the input",
                expected=before.null_keys + totals.null_keys,
                found=after.null_keys,
            ),
            Check(
                statement="miles flown as in the input",
                expected=before.distance_miles + totals.distance_miles,
                found=after.distance_miles,
            ),
            Check(
                statement="minutes late as in the input",
                expected=before.dep_delay_minutes + totals.departure_delay_minutes,
                found=after.dep_delay_minutes,
            ),
        ]
    return Outcome(checks=tuple(checks), produced=produced, pipeline=pipeline, rows=after.rows)


def print_outcome(console: Console, outcome: Outcome, lake: Lake) -> None:
    """The checks, a small table of results, the throughput, and where the tables are."""
    table = Table("check", "expected", "found", "", title="What landed, against what went in")
    for check in outcome.checks:
        verdict = "[green]ok[/]" if check.ok else "[red]WRONG[/]"
        table.add_row(check.statement, f"{check.expected:,}", f"{check.found:,}", verdict)
    for column in table.columns[1:3]:
        column.justify = "right"
    console.print(table)
    console.print(_results(lake))
    _print_throughput(console, outcome)
    if lake.is_local:
        console.print(f"\nThe tables are in {lake.root}/tables. To ask them:\n")
        console.print(_how_to_query(lake), markup=False, soft_wrap=True)
        return
    kept = "were in its own server of S3, which ends now" if lake.env else f"are in {lake.root}"
    console.print(f"\nThe tables {kept}.")


def _results(lake: Lake) -> Table:
    """The carriers by mean departure delay, folded from the merged partial sums."""
    carriers = (
        _read(f"{lake.root}/tables/delays", lake)
        .group_by("carrier")
        .aggregate([("flights", "sum"), ("dep_delay_sum", "sum"), ("departed", "sum")])
        .to_pylist()
    )
    table = Table("carrier", "flights", "mean departure delay", title="Delays by carrier, 2013")
    for column in table.columns[1:]:
        column.justify = "right"

    def mean(row: dict[str, Any]) -> float:
        return float(row["dep_delay_sum_sum"]) / max(1, row["departed_sum"])

    for row in sorted(carriers, key=mean, reverse=True)[:8]:
        table.add_row(row["carrier"], f"{row['flights_sum']:,}", f"{mean(row):.1f} min")
    return table


def _print_throughput(console: Console, outcome: Outcome) -> None:
    produced = outcome.produced
    rate = produced.totals.events / produced.seconds
    megabytes = produced.totals.bytes / produced.seconds / 1e6
    console.print(
        f"produce     {produced.totals.events:,} events in {produced.seconds:.1f} s: "
        f"{rate:,.0f} events/s, {megabytes:.1f} MB/s"
    )
    for name, sink in outcome.pipeline.get("sinks", {}).items():
        seconds = max(float(sink["seconds"]), 1e-9)
        console.print(
            f"{name:<11} {sink['records']:,} events in {seconds:.1f} s: "
            f"{sink['records'] / seconds:,.0f} events/s, {sink['rows']:,} rows written"
        )


def _how_to_query(lake: Lake) -> str:
    path = f"{lake.root}/tables/flights"
    return (
        f'  .venv/bin/python -c "from deltalake import DeltaTable, QueryBuilder; '
        f"table = DeltaTable('{path}'); print(QueryBuilder().register('flights', table)"
        f".execute('select origin, count(*) from flights group by 1').read_all())\"\n"
        f'  .venv/bin/python -c "from josefine_spark import session; '
        f"session('ask').sql('select carrier, count(*) from delta.`{path}` group by 1').show()\""
    )
