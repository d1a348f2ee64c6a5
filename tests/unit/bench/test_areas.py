"""The engine that measures areas: rounds, the order of sides, what is continued; its clients."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.bench import all_bench
from tests.bench.areas import older
from tests.bench.areas.area import Area, Case, Opened, Options, Sample, measure_area
from tests.bench.areas.pipelines import with_copies
from tests.bench.offered_load import percentiles
from tests.bench.report.results import CaseResult
from tests.unit.bench.test_results import CONDITIONS


def area_of(calls: list[str], sides: dict[str, str], missing: str = "") -> Area:
    def case(name: str) -> Case:
        def run(side: str, _: Path) -> Iterator[Sample]:
            calls.append(f"{name} {side}")
            yield "row", "rate", "MB/s", float(len(calls))

        return Case(name=name, x=1.0, run=run)

    @contextmanager
    def opened(_: Path, __: Options) -> Iterator[Opened]:
        calls.append("open")
        yield Opened(sides=sides, missing=missing)

    return Area(
        name="records", title="", peer="Apache Kafka", settings="", open=opened,
        cases=lambda _: [case("a"), case("b")],
    )  # fmt: skip


def measured(area: Area, tmp_path: Path, rounds: int = 2, **more: object) -> list[CaseResult]:
    written: list[CaseResult] = []
    asked = {"only": (), "done": (), **more}
    measure_area(
        area, Options(rounds=rounds), tmp_path, conditions=lambda: CONDITIONS,
        write=written.append, **asked,
    )  # type: ignore[arg-type]  # fmt: skip
    return written


def test_sides_swap_places_from_round_to_round(tmp_path: Path) -> None:
    calls: list[str] = []

    (one, _) = measured(area_of(calls, {"josefine": "j", "kafka": "k"}), tmp_path)

    assert calls[1:5] == ["a j", "a k", "a k", "a j"]
    assert one.measures[0].values == {"josefine": (2.0, 5.0), "kafka": (3.0, 4.0)}


def test_cases_that_are_done_are_not_measured_again(tmp_path: Path) -> None:
    calls: list[str] = []

    written = measured(area_of(calls, {"josefine": "j"}), tmp_path, rounds=1, done={"a"})

    assert [each.case for each in written] == ["b"]
    assert calls == ["open", "b j"]


def test_area_without_pending_cases_opens_nothing(tmp_path: Path) -> None:
    calls: list[str] = []

    assert measured(area_of(calls, {"josefine": "j"}), tmp_path, done={"a", "b"}) == []
    assert calls == []


def test_missing_peer_leaves_ours_measured_with_the_reason(tmp_path: Path) -> None:
    written = measured(area_of([], {"josefine": "j"}, missing="there is no Java"), tmp_path)

    assert [each.missing for each in written] == ["there is no Java"] * 2
    assert set(written[0].measures[0].values) == {"josefine"}


def test_unknown_area_and_case_are_refused_with_what_there_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for arguments, reason in (
        (["--only", "nothing"], "invalid choice: 'nothing' (choose from"),
        (["--case", "100B"], "--case needs the one area that it is of"),
        (["--only", "acks", "--case", "x"], "acks has no case 'x'; it has rf1-acks-0-100B"),
    ):
        with pytest.raises(SystemExit):
            all_bench.options(arguments)
        assert reason in capsys.readouterr().err


def test_area_that_fails_is_reported_and_the_next_one_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[str] = []

    @contextmanager
    def broken(_: Path, __: Options) -> Iterator[Opened]:
        raise RuntimeError("the broker ended")
        yield

    good = area_of(calls, {"josefine": "j"})
    bad = Area(name="bad", title="", peer="", settings="", open=broken, cases=good.cases)
    monkeypatch.setattr(all_bench, "AREAS", {"bad": bad, "records": good})

    all_bench.run(all_bench.options(["--rounds", "1"]), tmp_path)

    assert "bad is not complete: the broker ended" in capsys.readouterr().err
    assert calls == ["open", "a j", "b j"]


def test_quick_run_writes_its_page_and_plots_into_its_folder_and_publishes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    area = area_of([], {"josefine": "j"})
    monkeypatch.setattr(all_bench, "AREAS", {"records": area})
    monkeypatch.setattr(all_bench.signal, "signal", lambda *_: None)
    repository, folder = tmp_path / "repository", tmp_path / "results"
    notes = repository / all_bench.NOTES
    notes.parent.mkdir(parents=True)
    notes.write_text("## Notes\n")
    monkeypatch.setattr(all_bench, "REPOSITORY", repository)

    for _ in range(2):  # the second run continues, and finds nothing left to measure
        all_bench.main(["--quick", "--rounds", "1", "--results", str(folder)])

    assert "| row | rate | 2 MB/s |" in (folder / "BENCHMARKS.md").read_text()
    assert len((folder / "records.jsonl").read_text().splitlines()) == 2
    assert sorted(path for path in repository.rglob("*") if path.is_file()) == [notes]


def test_quick_run_in_which_every_area_fails_still_ends_with_its_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: Path, __: Options) -> AbstractContextManager[Opened]:
        raise RuntimeError("the broker ended")

    cases = area_of([], {"josefine": "j"}).cases
    area = Area(name="bad", title="", peer="", settings="", open=broken, cases=cases)
    monkeypatch.setattr(all_bench, "AREAS", {"bad": area})
    monkeypatch.setattr(all_bench.signal, "signal", lambda *_: None)
    folder = tmp_path / "results"

    all_bench.main(["--quick", "--results", str(folder)])

    assert "**Not measured yet**: `bad`" in (folder / "BENCHMARKS.md").read_text()


def test_latency_percentiles_are_microseconds_of_sorted_seconds() -> None:
    found = percentiles([each / 1e6 for each in range(1000, -1, -1)])

    assert found == {"p50_us": 500.0, "p99_us": 990.0, "p999_us": 999.0, "max_us": 1000.0}


def test_copies_of_a_sink_have_tables_of_their_own() -> None:
    text = with_copies("sinks: {flights: {type: delta, path: /t/flights}}", ["f_0", "f_1"])

    assert "path: /t/f_0" in text
    assert "path: /t/f_1" in text


def test_line_of_a_bench_gives_each_side_its_own_value() -> None:
    column = {"measure": "produce/records_per_s", "coordinators": 4, "kafka": 2, "page_cache": 5}
    prefix = {"measure": "apache_kafka_idle", "unit": "percent", "value": 31}

    assert list(older.of_columns(column, "josefine", ours="coordinators")) == [
        ("produce", "", "records/s", 4.0)
    ]
    for unit, expected in (("p50_us", ("p50", "µs")), ("per_s", ("", "done/s"))):
        line = {"measure": f"one/{unit}", "josefine": 4}
        assert list(older.of_columns(line, "josefine")) == [("one", *expected, 4.0)]
    assert list(older.of_columns(column, "kafka")) == [("produce", "", "records/s", 2.0)]
    assert list(older.of_prefix(prefix, "josefine")) == []
    assert list(older.of_prefix(prefix, "kafka")) == [("idle", "", "percent", 31.0)]
