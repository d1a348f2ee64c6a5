"""Where a file sends a run's progress."""

from __future__ import annotations

import pytest

from josefine_broker.base.addresses import HostPort
from pipelines.config.metrics import MetricWords, metrics_of
from pipelines.config.section import Reader
from tests.unit.pipelines.config.sections import tree


def metrics(text: str) -> tuple[MetricWords, list[str]]:
    reader = Reader(tree(f"metrics: {{ {text} }}\n" if text else "name: a\n"), "", [])
    return metrics_of(reader), [f"{each.path}: {each.message}" for each in reader.problems]


def test_a_file_without_metrics_reports_nowhere():
    assert metrics("") == (MetricWords(prometheus=None, table=None, json_log=False), [])


def test_each_place_is_read():
    found, problems = metrics("prometheus: '127.0.0.1:9404', table: /m/, log: json")

    assert problems == []
    assert found == MetricWords(prometheus=HostPort("127.0.0.1", 9404), table="/m", json_log=True)


def test_a_listener_at_any_port_is_refused_because_nobody_could_scrape_it():
    _, problems = metrics("prometheus: '127.0.0.1:0'")

    assert problems == [
        "metrics.prometheus: port 0 cannot be scraped: expected a port from 1 to 65535"
    ]


@pytest.mark.parametrize(
    ("table", "where"), [("lake.p", "in a catalog"), ("s3a://b/p", "on another machine")]
)
def test_the_table_is_a_folder_of_this_machine(table, where):
    _, (problem,) = metrics(f"table: '{table}'")

    assert problem == (
        "metrics.table: expected a folder of this machine such as /data/progress; "
        f"`{table}` is {where}"
    )
