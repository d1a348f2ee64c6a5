"""Several pipelines on one Spark: which files may be together, and what becomes of each."""

from __future__ import annotations

import io
import threading
from contextlib import contextmanager
from dataclasses import replace

import pytest
from rich.console import Console

from josefine_broker.base.addresses import HostPort
from josefine_cli.main import run
from pipelines.base.errors import ConfigError, RunError
from pipelines.config.loader import load
from pipelines.config.validate import validate
from pipelines.report.progress import reporter_for
from pipelines.report.totals import RunResult
from pipelines.run.multi_run import conf_of, refuse_strangers, run_all
from tests.unit.pipelines.config.test_validate import GOOD

CONF = "conf: { spark.sql.shuffle.partitions: 2, spark.driver.memory: 1g }"


def one_of(file, name, conf=CONF, **more):
    assert "name: orders" in GOOD
    text = GOOD.replace("name: orders", f"name: {name}").replace("spark: { ", f"spark: {{ {conf}, ")
    return replace(validate(load(text, file, {})), **more)


A = one_of("a.yaml", "first")
B = one_of("b.yaml", "second", "conf: { spark.sql.shuffle.partitions: 2, spark.ui.enabled: false }")


def told(*pipelines):
    with pytest.raises(ConfigError) as caught:
        refuse_strangers(pipelines)
    return str(caught.value).splitlines()


def test_files_that_agree_have_the_settings_of_all():
    refuse_strangers([A, B])

    assert conf_of([A, B]) == (dict(A.conf) | dict(B.conf), A.master)
    assert conf_of([replace(A, master=None), replace(B, master="local[3]")])[1] == "local[3]"


def test_what_cannot_be_together_is_told_with_both_files_and_the_later_ones_place():
    other = one_of("b.yaml", "second", "conf: { spark.sql.shuffle.partitions: 3 }")
    (line,) = told(A, other)
    assert line.startswith("b.yaml:")
    assert line.endswith(
        ": spark.conf.spark.sql.shuffle.partitions: a.yaml has another value: both are to run on "
        "one Spark"
    )
    assert not line.startswith("b.yaml:1:1:")
    assert told(A, replace(B, name="first")) == [
        "b.yaml:1:1: name: a.yaml has it, too: both would share one Delta txnAppId"
    ]
    assert told(replace(A, master="local[2]"), replace(B, master="local[4]")) == [
        "b.yaml:1:1: spark.master: a.yaml has another one: both are to run on one Spark"
    ]
    at = HostPort("127.0.0.1", 9404)
    assert told(replace(A, metrics=at), replace(B, metrics=at)) == [
        f"b.yaml:1:1: metrics.prometheus: a.yaml has {at}, too: give each a port"
    ]


def test_one_failure_does_not_stop_the_others():
    others_went_on = threading.Event()
    ended = {}

    def fails():
        raise RunError("no room")

    def waits():
        while "a" not in ended:
            assert not others_went_on.wait(0.001)
        others_went_on.set()

    run_all({"a": fails, "b": waits}, lambda name, failure: ended.update({name: failure}))

    assert others_went_on.is_set()
    assert str(ended["a"]) == "no room"
    assert ended["b"] is None


def test_each_line_has_its_pipelines_name():
    out = io.StringIO()
    reporter_for(Console(file=out), A, is_one_of_many=True).starting("Spark")

    assert out.getvalue() == "first: preparing Spark\n"


@pytest.fixture
def files(tmp_path):
    paths = []
    for name in ("first", "second"):
        file = tmp_path / f"{name}.yaml"
        text = GOOD.replace("name: orders", f"name: {name}").replace("/ck", f"{tmp_path}/ck")
        file.write_text(text.replace("/lake", f"{tmp_path}/{name}"))
        paths.append(str(file))
    return paths


def test_what_settles_one_file_is_not_said_to_several(files, capsys):
    for option in (["--trust", "table"], ["--rename", "a=b"], ["--new-chain", "lake"]):
        assert run(["pipeline", "run", *option, *files]) == 2
        assert "are for one file" in capsys.readouterr().err


def test_a_file_that_is_there_twice_is_refused(files, capsys):
    assert run(["pipeline", "run", files[0], files[0]]) == 78
    assert "name: " in capsys.readouterr().err


def test_a_failed_pipeline_makes_the_exit_code_1_and_the_others_are_summed_up(
    files, monkeypatch, capsys
):
    @contextmanager
    def no_spark(_):
        yield None

    def run_sinks(spark, pipeline, reporter, **_):
        if pipeline.name == "first":
            raise RunError("no room\nmore")
        return RunResult(sinks={}, seconds=0.0, interrupted=False)

    monkeypatch.setattr("pipelines.run.session.session_of_all", no_spark)
    monkeypatch.setattr("pipelines.run.session.arm_failpoints", lambda _: None)
    monkeypatch.setattr("josefine_cli.pipeline.run_many.stop_on_signals", lambda _: None)
    monkeypatch.setattr("pipelines.run.run.run_sinks", run_sinks)

    assert run(["pipeline", "run", *files]) == 1

    said = capsys.readouterr()
    assert said.out == "second: done after 0.0 s\n"
    assert said.err.splitlines()[-2:] == ["error: first: no room", "more"]
