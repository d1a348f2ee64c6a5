"""Results as JSON lines: written case by case, continued after a broken run, published."""

from pathlib import Path

from tests.bench.report.results import (
    CaseResult,
    Conditions,
    Measured,
    append,
    load,
    of_line,
    publish,
    to_line,
)

CONDITIONS = Conditions(
    date="2026-11-27", commit="abc", machine="2 cores", versions="Python 3.11", load=1.5
)


def case(name: str, value: float = 1.0, area: str = "records") -> CaseResult:
    measure = Measured(
        name="produce", unit="MB/s", row="100 B", x=100.0, values={"josefine": (value,)}
    )
    return CaseResult(
        area=area, case=name, peer="Apache Kafka", conditions=CONDITIONS, measures=(measure,)
    )


def test_line_is_read_as_what_was_written() -> None:
    assert of_line(to_line(case("100B"))) == case("100B")


def test_half_written_line_is_not_a_case_and_the_next_one_is_whole(tmp_path: Path) -> None:
    append(tmp_path, case("100B"))
    with (tmp_path / "records.jsonl").open("a") as file:
        file.write(to_line(case("1KB"))[:40])

    append(tmp_path, case("10KB"))

    assert [each.case for each in load(tmp_path)] == ["100B", "10KB"]


def test_case_measured_again_replaces_the_first(tmp_path: Path) -> None:
    for value, name in ((1.0, "100B"), (1.0, "1KB"), (7.0, "100B")):
        append(tmp_path, case(name, value))

    assert [each.case for each in load(tmp_path)] == ["100B", "1KB"]
    assert load(tmp_path)[0] == case("100B", 7.0)


def test_publishing_a_case_keeps_the_others(tmp_path: Path) -> None:
    publish([case("100B"), case("1KB"), case("one", area="load")], tmp_path)

    publish([case("1KB", 5.0)], tmp_path)

    found = {(each.area, each.case): each for each in load(tmp_path)}
    assert sorted(found) == [("load", "one"), ("records", "100B"), ("records", "1KB")]
    assert found["records", "1KB"] == case("1KB", 5.0)


def test_nothing_measured_is_no_case(tmp_path: Path) -> None:
    assert load(tmp_path / "nothing") == []
