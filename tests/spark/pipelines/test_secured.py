"""A pipeline whose brokers want TLS and a password: all verbs come in, none tells the password."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from josefine_broker.client.io_blocking import NewTopic
from pipelines.base.errors import SetupError
from pipelines.config.validate import read_pipeline
from pipelines.inspect.preflight import findings
from pipelines.inspect.preflight_probe import inquire
from pipelines.inspect.preview import preview
from pipelines.inspect.sink_status import all_sides
from pipelines.sources.kinds import ANY_KIND
from tests.spark.pipelines.conftest import APPS, ROWS, Lab
from tests.support.committed import committed_records
from tests.support.secured import PASSWORD, USER, Secured, secured_broker

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

BROKERS = "bootstrap: ${BOOTSTRAP}"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Secured]:
    with secured_broker(tmp_path / "served") as broker:
        yield broker


def test_rows_go_into_a_table_and_a_topic_once_and_no_file_has_the_password(
    served: Secured, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also beyond a driver that dies before the commit of a batch."""
    security = (
        f"security: {{ protocol: SASL_SSL, ca: {served.ca}, mechanism: SCRAM-SHA-256, "
        f'username: {USER}, password: "${{secret:env:LAKE_PASSWORD}}" }}'
    )
    out = "  out: { type: josefine, inputs: [rows], topic: out, key: id }\n"
    with served.client() as client:
        client.create_topics([NewTopic("events", 2), NewTopic("out", 2)])
        lab = Lab(tmp_path / "lab", client, served.broker.bootstrap, "events", spark)
        lab.directory.mkdir()
        lab.apps = APPS[:1]
        lab.write_file("dead_letter", ROWS + out, **{BROKERS: f"{BROKERS}\n    {security}"})
        monkeypatch.setenv("LAKE_PASSWORD", PASSWORD)

        lab.produce(20)
        lab.produce_raw(0, b"not json")
        lab.die("before_commit", rows=15)
        lab.run(rows=15)

        lab.check()
        ids = sorted(int(each.key or b"") for each in committed_records(client, "out"))
        assert ids == list(range(lab.sent))
        assert lab.arrow("dead")["reason"].to_pylist() == ["not JSON"]
        assert lab.committed("lab.rows") == lab.topic_ends()
        pipeline = read_pipeline(lab.file, lab.environment(8))
        told = [str(each) for each in findings(pipeline, inquire(pipeline, {}))]
        told += [str(each) for each in all_sides(pipeline, ANY_KIND.look)]
        assert not [each for each in told if each.startswith("error") or PASSWORD in each]
        shown = preview(spark, pipeline, "rows", rows=3, records=5)
        assert (len(shown.rows), shown.bad) == (3, {"not JSON": 1})
        files = [path for path in lab.directory.rglob("*") if path.is_file()]
        assert not [path for path in files if PASSWORD.encode() in path.read_bytes()]

        monkeypatch.setenv("LAKE_PASSWORD", "guessed-one")
        with pytest.raises(SetupError, match="authentication failed") as refused:
            lab.run()
        assert "guessed-one" not in str(refused.value)
