"""Where a file sends a run's progress."""

from __future__ import annotations

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


def test_the_table_is_a_folder_because_a_catalog_has_no_place_of_its_own():
    _, (problem,) = metrics("table: lake.p")

    assert problem == (
        "metrics.table: expected a folder such as /data/progress or s3a://BUCKET/progress; "
        "`lake.p` is in a catalog"
    )


def test_the_table_may_be_in_an_object_store():
    found, problems = metrics("table: 's3a://b/p'")

    assert (found.table, problems) == ("s3a://b/p", [])
