"""Which plots there are, and the points of each, of the results. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.bench.report.results import OURS, CaseResult
from tests.bench.report.statistics import spread_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """`measures`: names of the measures that are drawn, one line each and side. `unit`: of them,
    and of the y axis."""

    name: str
    area: str
    title: str
    x_title: str
    measures: tuple[str, ...]
    unit: str
    y_title: str
    is_y_log: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Points of one side's measure, by x: the median and its spread."""

    side: str
    measure: str
    x: tuple[float, ...]
    middle: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


FIGURES: tuple[Figure, ...] = (
    Figure(
        name="throughput", area="records", title="Throughput against record size",
        x_title="bytes of a record", measures=("produce", "consume"), unit="MB/s",
        y_title="MB/s",
    ),
    Figure(
        name="cpu", area="records", title="CPU of the broker against record size",
        x_title="bytes of a record", measures=("produce CPU", "consume CPU"), unit="s/GB",
        y_title="CPU seconds per GB",
    ),
    Figure(
        name="latency", area="load", title="Latency against offered load",
        x_title="requests per second, offered", measures=("p50", "p99", "p999"), unit="ms",
        y_title="milliseconds",
    ),
    Figure(
        name="requests", area="requests", title="One-record requests against connections",
        x_title="connections, each with one request in flight", measures=("rate",),
        unit="requests/s", y_title="requests per second", is_y_log=False,
    ),
    Figure(
        name="connections", area="connections", title="Memory against idle connections",
        x_title="open connections", measures=("resident",), unit="MB",
        y_title="resident MB",
    ),
    Figure(
        name="partitions", area="partitions", title="Memory against partitions",
        x_title="partitions", measures=("resident",), unit="MB", y_title="resident MB",
    ),
    Figure(
        name="recovery", area="recovery", title="Recovery after kill -9 against the log's size",
        x_title="GB of log", measures=("back after kill -9",), unit="s", y_title="seconds",
    ),
    Figure(
        name="big-logs", area="big_logs", title="Starts against the size of a log",
        x_title="GB of log", measures=("back after a clean stop", "back after kill -9"), unit="s",
        y_title="seconds",
    ),
    Figure(
        name="pipelines", area="pipelines", title="A pipeline's whole run against rows",
        x_title="rows", measures=("time",), unit="s", y_title="seconds",
    ),
    Figure(
        name="sinks", area="sinks", title="A pipeline's whole run against sinks",
        x_title="sinks", measures=("time",), unit="s", y_title="seconds",
    ),
)  # fmt: skip


def lines_of(figure: Figure, found: Sequence[CaseResult]) -> list[Line]:
    """Ours first; a side's measure without two points has no line."""
    points: dict[tuple[str, str], list[tuple[float, float, float, float]]] = {}
    for case in found:
        if case.area != figure.area:
            continue
        for each in case.measures:
            if each.name not in figure.measures or each.unit != figure.unit or each.x is None:
                continue
            for side, values in each.values.items():
                if values:
                    spread = spread_of(values)
                    point = (each.x, spread.middle, spread.low, spread.high)
                    points.setdefault((side, each.name), []).append(point)
    lines = [
        Line(
            side=side, measure=measure, x=tuple(p[0] for p in each),
            middle=tuple(p[1] for p in each), low=tuple(p[2] for p in each),
            high=tuple(p[3] for p in each),
        )
        for (side, measure), unsorted in points.items()
        if len(each := sorted(unsorted)) > 1
    ]  # fmt: skip
    return sorted(lines, key=lambda line: (line.side != OURS, figure.measures.index(line.measure)))


def peer_title(figure: Figure, found: Sequence[CaseResult]) -> str:
    return next((case.peer for case in found if case.area == figure.area), "")
