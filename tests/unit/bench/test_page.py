"""BENCHMARKS.md as it is generated of results, and the committed page itself."""

import re
from dataclasses import replace

import pytest

from tests.bench.all_bench import NOTES, PAGE, PUBLISHED
from tests.bench.areas import acks
from tests.bench.areas.area import Options
from tests.bench.areas.table import AREAS
from tests.bench.report.figures import FIGURES
from tests.bench.report.page import number, page, section
from tests.bench.report.results import CaseResult, Measured, load
from tests.unit.bench.test_results import CONDITIONS
from tests.unit.test_style import ROOT

AREA = AREAS["records"]


def result(values: dict[str, tuple[float, ...]], unit: str = "MB/s", **more: object) -> CaseResult:
    measure = Measured(name="produce", unit=unit, row="100 B, written", x=100.0, values=values)
    found = CaseResult(
        area="records", case="100B", peer="Apache Kafka", conditions=CONDITIONS,
        measures=(measure,),
    )  # fmt: skip
    return replace(found, **more)  # type: ignore[arg-type]


def row_of(found: CaseResult) -> str:
    text = section("records", AREA, [found])
    return next(line for line in text.splitlines() if line.startswith("| 100 B, written"))


def test_row_has_medians_spreads_ratio_and_its_case() -> None:
    found = result({"josefine": (200.0, 210.0, 190.0), "kafka": (100.0, 105.0, 190.0)})

    assert row_of(found) == (
        "| 100 B, written | produce | 200 MB/s (190–210) | 105 MB/s (100–190) | "
        "**2** (1–2) | `100B` |"
    )


def test_ratio_of_a_cost_is_above_one_where_ours_is_less() -> None:
    assert "| **4** |" in row_of(result({"josefine": (1.0,), "kafka": (4.0,)}, unit="s/GB"))


def test_missing_peer_is_an_empty_column_and_its_reason() -> None:
    found = result({"josefine": (200.0,)}, missing="there is no Java (`java`): install a runtime")

    assert row_of(found) == "| 100 B, written | produce | 200 MB/s |  |  | `100B` |"
    assert "Apache Kafka was not measured: there is no Java (`java`)" in section(
        "records", AREA, [found]
    )


def test_section_has_machine_versions_commit_date_load_settings_and_command() -> None:
    text = section("records", AREA, [result({"josefine": (1.0,)}, quick=True)])

    for part in ("2 cores", "Python 3.11", "commit abc", "2026-11-27", "load before", AREA.settings,
                 "./build.sh bench all --only records", "A quick share"):  # fmt: skip
        assert part in text


def test_area_without_results_is_named_and_the_page_ends_with_the_notes() -> None:
    text = page([result({"josefine": (1.0,), "kafka": (2.0,)})], AREAS, "## Notes\n")

    assert "**Not measured yet**: `acks`, `requests`" in text
    assert text.endswith("## Notes\n")


@pytest.mark.parametrize(
    ("value", "text"),
    [(1_234_567, "1,230,000"), (123.4, "123"), (99.94, "99.9"), (0.01234, "0.0123"), (0, "0")],
)
def test_number_has_three_significant_digits(value: float, text: str) -> None:
    assert number(value) == text


def test_matrix_has_a_row_for_each_cell_and_a_column_for_each_measure() -> None:
    both = {"josefine": (0.2,), "kafka": (0.4,)}
    measures = (
        Measured(name="throughput", unit="MB/s", row="RF 3, acks=all, 1 KB", values=both),
        Measured(name="p50", unit="ms", row="RF 3, acks=all, 1 KB", values=both),
        Measured(name="throughput", unit="MB/s", row="RF 3, acks=0", values={"josefine": (5.0,)}),
    )
    text = section("acks", AREAS["acks"], [result({}, area="acks", measures=measures)])

    assert (
        "| replication factor, acks, record size | throughput, MB/s | p50, ms |\n|---|---|---|\n"
        "| RF 3, acks=all, 1 KB | 0.2 / 0.4 (**0.5**) | 0.2 / 0.4 (**2**) |\n"
        "| RF 3, acks=0 | 5 |  |\n"
    ) in text


def test_busy_machine_is_named_in_the_conditions() -> None:
    busy = result({"josefine": (1.0,)}, conditions=replace(CONDITIONS, load=20.0))

    assert "Other work shared the machine" in section("records", AREA, [busy])
    assert "Other work" not in section("records", AREA, [result({"josefine": (1.0,)})])


def test_acks_area_has_every_acks_replication_factor_and_size() -> None:
    """Checklist row 95: throughput and latency in one table; the machine is in its section."""
    names = {case.name for case in acks.cases(Options())}

    assert names == {
        f"rf{copies}-acks-{mode}-{size}"
        for copies in (1, 3)
        for mode in ("0", "1", "all")
        for size in ("100B", "1KB", "10KB")
    }


def test_quick_run_is_a_share_of_the_cases() -> None:
    for area in AREAS.values():
        quick = {case.name for case in area.cases(Options(quick=True))}
        full = {case.name for case in area.cases(Options())}
        assert quick, area.name
        assert len(quick) <= len(full), area.name


def test_committed_page_is_that_of_the_committed_results() -> None:
    found = load(ROOT / PUBLISHED / "results")

    assert (ROOT / PAGE).read_text() == page(found, AREAS, (ROOT / NOTES).read_text()), (
        "BENCHMARKS.md is generated: ./build.sh bench all --page-only"
    )


def test_committed_page_shows_only_plots_that_are_committed() -> None:
    shown = re.findall(r'(?:src|srcset)="(docs/benchmarks/[\w-]+\.svg)"', (ROOT / PAGE).read_text())

    assert shown
    missing = [
        name
        for name in shown
        if not (ROOT / name).exists() or not (ROOT / name).with_suffix(".png").exists()
    ]
    assert missing == []
    assert {each.area for each in FIGURES} <= set(AREAS)
