"""The points of the plots, of results."""

from pathlib import Path

import pytest

from tests.bench.report.figures import FIGURES, lines_of
from tests.bench.report.plots import spans_decades
from tests.bench.report.results import CaseResult, Measured
from tests.unit.bench.test_results import CONDITIONS

THROUGHPUT = next(each for each in FIGURES if each.name == "throughput")


def at(x: float, ours: tuple[float, ...], theirs: tuple[float, ...]) -> CaseResult:
    values = {"josefine": ours, "kafka": theirs}
    measures = (
        Measured(name="produce", unit="MB/s", row="", x=x, values=values),
        Measured(name="produce CPU", unit="s/GB", row="", x=x, values=values),
    )
    return CaseResult(
        area="records", case=f"{x}", peer="Apache Kafka", conditions=CONDITIONS, measures=measures
    )


def test_line_goes_through_the_medians_in_order_of_x() -> None:
    ours, theirs = lines_of(THROUGHPUT, [at(1000, (5, 7, 6), (1,)), at(10, (2,), (1,))])

    assert (ours.side, theirs.side) == ("josefine", "kafka")
    assert (ours.x, ours.middle) == ((10, 1000), (2, 6))
    assert (ours.low, ours.high) == ((2, 5), (2, 7))


def test_single_point_is_no_line() -> None:
    assert lines_of(THROUGHPUT, [at(10, (2,), (1,))]) == []


def test_axis_is_logarithmic_only_where_it_has_ticks_to_label() -> None:
    near = lines_of(THROUGHPUT, [at(10, (50,), (70,)), at(1000, (60,), (90,))])
    far = lines_of(THROUGHPUT, [at(10, (5,), (70,)), at(1000, (60,), (900,))])

    assert not spans_decades(near)
    assert spans_decades(far)


def test_drawing_makes_svg_and_png_in_both_themes_the_same_each_time(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from tests.bench.report.plots import draw_all

    found = [at(10, (2,), (1,)), at(1000, (5, 7, 6), (1,))]
    assert draw_all(found, tmp_path / "one") == ["throughput", "cpu"]
    draw_all(found, tmp_path / "two")

    made = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert len(made) == 8
    assert {"throughput-dark.svg", "throughput-light.png"} <= set(made)
    for name in made:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
