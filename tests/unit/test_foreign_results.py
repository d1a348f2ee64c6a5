"""Outcomes of foreign test suites are read completely, explained, and counted for their table."""

import json
from datetime import date, timedelta
from pathlib import Path

import pytest

from tests.compat.matrix import AGE_MAX
from tests.foreign import franz_go, kafka_python, librdkafka, spark_kafka
from tests.foreign.results import (
    FILE,
    explained,
    lines,
    share_passed,
    unexplained,
    warnings,
    write_results,
)
from tests.foreign.suite import FAILED, PASSED, SKIPPED, Outcome, built

TODAY = date(2026, 11, 27)
OUTCOMES = {
    "a": Outcome(PASSED),
    "b[x]": Outcome(FAILED, "expected 1, got 2"),
    "c": Outcome(SKIPPED, "no share groups"),
}


def test_a_written_reason_takes_the_place_of_what_the_test_printed() -> None:
    told = explained(OUTCOMES, {"b*": "it counts its own brokers"}, {})

    assert told["b[x]"] == Outcome(FAILED, "it counts its own brokers")
    assert told["c"] == OUTCOMES["c"]


def test_an_excluded_test_counts_as_skipped_whatever_it_came_to() -> None:
    told = explained(OUTCOMES, {}, {"[ab]*": "it starts brokers itself"})

    assert told["a"] == told["b[x]"] == Outcome(SKIPPED, "it starts brokers itself")
    assert told["c"] == OUTCOMES["c"]


def test_a_failure_without_a_written_reason_is_unexplained_and_a_skipped_test_is_not() -> None:
    assert unexplained(OUTCOMES, {"a": "of another test"}) == ["b[x]: expected 1, got 2"]
    assert unexplained(OUTCOMES, {"b*": "known"}) == []


def test_skipped_tests_do_not_count_as_those_that_can_apply() -> None:
    assert share_passed({PASSED: 19, FAILED: 1, SKIPPED: 80}) == 0.95
    assert share_passed({SKIPPED: 3}) == 0


def test_a_run_takes_the_place_of_its_suite_and_leaves_the_others(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    write_results(file, franz_go.FranzGo(), {"old": Outcome(FAILED, "broken")}, TODAY)
    write_results(file, kafka_python.KafkaPython(), OUTCOMES, TODAY)
    write_results(file, franz_go.FranzGo(), {"new": Outcome(PASSED)}, TODAY)

    rows = json.loads(file.read_text())
    assert rows["franz-go (kgo)"]["not_passed"] == {}
    found = rows["kafka-python"]
    assert (found["passed"], found["failed"], found["skipped"]) == (1, 1, 1)
    assert (found["date"], bool(found["commit"])) == ("2026-11-27", True)
    table = "\n".join(lines(file))
    assert "| kafka-python 3.0.12 | 1 | 1 | 1 | 1 | 50% |" in table
    assert "| kafka-python | `b[x]` | failed | expected 1, got 2 |" in table


def test_row_older_than_a_month_is_warned_of(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    write_results(file, kafka_python.KafkaPython(), OUTCOMES, TODAY)

    assert warnings(file, TODAY + AGE_MAX) == []
    (warning,) = warnings(file, TODAY + AGE_MAX + timedelta(days=1))
    assert "./build.sh test foreign" in warning


def test_every_test_that_did_not_pass_has_a_reason_in_the_committed_table() -> None:
    rows = json.loads(FILE.read_text())

    assert rows
    assert [
        f"{suite}: {test}"
        for suite, row in rows.items()
        for test, outcome in row["not_passed"].items()
        if not outcome["reason"]
    ] == []


def test_a_folder_of_the_cache_appears_only_when_its_build_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOSEFINE_CACHE", str(tmp_path))

    def half(folder: Path) -> None:
        (folder / "half").touch()
        raise RuntimeError("the build broke")

    with pytest.raises(RuntimeError):
        built("suite-1", half)
    assert [*(tmp_path / "foreign").iterdir()] == []
    assert built("suite-1", lambda folder: (folder / "whole").touch()).name == "suite-1"
    assert built("suite-1", half).joinpath("whole").exists()


def test_franz_go_tests_without_a_broker_are_left_out() -> None:
    text = (
        "func TestRing(t *testing.T) {\n\tif x {\n\t}\n}\n\n"
        "func TestPing(t *testing.T) {\n\tcl, _ := newTestClient()\n}\n"
    )

    assert franz_go.tests_that_ask([text]) == ["TestPing"]


def test_franz_go_subtests_count_and_a_test_that_did_not_end_failed() -> None:
    events = [
        {"Action": "run", "Test": "TestA/one"},
        {"Action": "output", "Test": "TestA/one", "Output": "    a_test.go:7: got 1\n"},
        {"Action": "fail", "Test": "TestA/one"},
        {"Action": "pass", "Test": "TestA/two"},
        {"Action": "fail", "Test": "TestA"},
        {"Action": "run", "Test": "TestHangs"},
    ]

    found = franz_go.outcomes_of([json.dumps(each) for each in events], ["TestNever"])

    assert found["TestA/one"] == Outcome(FAILED, "got 1")
    assert {test: outcome.result for test, outcome in found.items()} == {
        "TestA/one": FAILED, "TestA/two": PASSED, "TestHangs": FAILED, "TestNever": FAILED,
    }  # fmt: skip


def test_kafka_python_errors_of_setup_are_failures() -> None:
    report = (
        '<testsuites><testsuite><testcase classname="test.x" name="a"/>'
        '<testcase classname="test.x" name="b"><error message="no broker"/></testcase>'
        '<testcase classname="test.x" name="c"><skipped message="old"/></testcase>'
        "</testsuite></testsuites>"
    )

    assert kafka_python.outcomes_of(report) == {
        "test.x::a": Outcome(PASSED),
        "test.x::b": Outcome(FAILED, "no broker"),
        "test.x::c": Outcome(SKIPPED, "old"),
    }


def test_librdkafka_tests_without_brokers_are_left_out() -> None:
    table = (
        "    _TEST(0000_unittests,\n          TEST_F_LOCAL,\n          /* x */),\n"
        "    _TEST(0001_multiobj, 0),\n    _TEST(0047_partial, TEST_F_KNOWN_ISSUE),\n"
        "    _TEST(0049_close, TEST_F_SOCKEM, TEST_BRKVER(0, 9, 0, 0)),\n"
        "    _TEST(0150_telemetry_mock, 0),\n"
    )

    found = librdkafka.tests_with_brokers(table, librdkafka.DEFAULT)
    assert found == ["0001_multiobj", "0049_close"]


def test_librdkafka_tests_of_another_scenario_are_those_that_name_it() -> None:
    table = (
        "    _TEST(0049_close, 0, TEST_BRKVER(0, 9, 0, 0)),\n"
        '    _TEST(0107_topic_recreate,\n          0,\n          .scenario = "noautocreate"),\n'
        "    _TEST(0109_auto_create_topics, 0),\n"
    )

    wanted = ["0107_topic_recreate"]
    assert librdkafka.tests_with_brokers(table, librdkafka.NO_AUTO_CREATE) == wanted
    assert len(librdkafka.tests_with_brokers(table, librdkafka.DEFAULT)) == 3


def test_librdkafka_test_that_aborted_failed_with_what_it_printed() -> None:
    said = '\x1b[31m### Test "0081_admin (x)" failed at 81.c:5:f() at Fri: ###\nf():5: no leader\n'

    assert librdkafka.outcome_of("0081_admin", "", said) == Outcome(FAILED, "f():5: no leader")
    assert librdkafka.outcome_of("0081_other", "", said).result == FAILED


def test_librdkafka_test_that_did_nothing_is_not_passed() -> None:
    def outcome(seconds: float) -> str:
        report = {"tests": {"0081_admin": {"state": "PASSED", "duration": seconds}}}
        return librdkafka.outcome_of("0081_admin", json.dumps(report), "").result

    assert outcome(0.2) == PASSED
    assert outcome(0.0) == SKIPPED


def test_spark_test_counts_as_its_report_says_and_a_suite_without_a_report_failed() -> None:
    report = (
        '<testsuite name="KafkaRelationSuiteV2"><properties/>'
        '<testcase name="reads" time="1.5"/>'
        '<testcase name="reads late"><failure message="got 1&#010;  not 2" type="X"/></testcase>'
        '<testcase name="is ignored"><skipped/></testcase></testsuite>'
    )

    assert spark_kafka.outcomes_of(report, "") == {
        "reads": Outcome(PASSED),
        "reads late": Outcome(FAILED, "got 1 not 2"),
        "is ignored": Outcome(SKIPPED, "the suite ignores it"),
    }
    (stopped,) = spark_kafka.outcomes_of("", "Run starting.\n").values()
    assert (stopped.result, "did not end" in stopped.reason) == (FAILED, True)
    said = "Run starting.\n*** RUN ABORTED ***\nNo such method\n  at A.b\n"
    assert [*spark_kafka.outcomes_of("", said).values()] == [Outcome(FAILED, "No such method")]


def test_a_test_that_is_stopped_has_its_own_limit_as_the_reason() -> None:
    for test, seconds in (("0081_admin", 300), ("0174_share_consumer_concurrency", 1_500)):
        outcome = librdkafka.outcome_of(test, "", "")
        assert outcome == Outcome(
            FAILED, f"the runner reports no reason (ENDED); limit {seconds} s"
        )
