"""Valid pipeline files: the pipeline that each of them becomes."""

from __future__ import annotations

import json

import pytest

from pipelines.base.errors import ConfigError
from pipelines.config.loader import load
from pipelines.config.validate import read_pipeline, validate
from pipelines.model.lineage import lineage
from pipelines.model.pipeline import Limit, Mode
from pipelines.model.plan import compile_plan
from pipelines.model.retry_policy import PAUSES_MS, Restart
from tests.unit.pipelines.config.bad_sinks import MERGE, SINK, UPSERT
from tests.unit.pipelines.config.test_validate import GOOD, complaint


def test_a_good_file_becomes_a_pipeline():
    pipeline = validate(load(GOOD.replace(SINK, MERGE), "f.yaml", {}))

    sink = pipeline.sinks["lake"]
    assert pipeline.name == "orders"
    assert pipeline.sources["raw"].topics == ("orders",)
    assert lineage(pipeline, "clean") == (("raw",), ("clean",))
    assert sink.merges
    assert [(a.column, a.function, a.argument) for a in sink.aggregates] == [
        ("n", "count", None),
        ("top", "max", "id"),
    ]
    assert pipeline.every_ms is None


@pytest.mark.parametrize(
    ("said", "column"),
    [("sum(`total amount`)", "total amount"), ("max( `b``t` )", "b`t"), ("min(größe)", "größe")],
)
def test_an_aggregate_is_of_a_column_of_any_name(said, column):
    text = GOOD.replace(SINK, MERGE.replace("max(id)", json.dumps(said, ensure_ascii=False)))

    sink = validate(load(text, "f.yaml", {})).sinks["lake"]
    assert sink.aggregates[1].argument == column


def test_an_upsert_has_its_order_and_its_deletes():
    sink = validate(load(GOOD.replace(SINK, UPSERT), "f.yaml", {})).sinks["lake"]

    assert (sink.mode, sink.keys, sink.merges) == (Mode.UPSERT, ("id",), False)
    latest = sink.latest
    assert latest is not None
    assert (latest.columns, latest.marks) == (("at", "_offset"), True)
    assert latest.delete_when is not None
    assert latest.delete_when.text == "op = 'd'"


def test_one_column_is_an_order():
    text = GOOD.replace(SINK, UPSERT.replace("[at, _offset]", "_offset"))

    latest = validate(load(text, "f.yaml", {})).sinks["lake"].latest

    assert latest is not None
    assert latest.columns == ("_offset",)


def test_variables_come_from_vars_then_the_name_then_the_environment_then_the_default():
    text = GOOD.replace("name: orders", "name: orders\nvars: { host: '${H:-h1}', port: 1 }")
    text = text.replace("localhost:9092", "${host}:${port}").replace(
        "/ck", "'/${name}/${D:-d}/$${x}'"
    )
    text = text.replace("topics: [orders]", "topics: [orders]\n    limit:\n      rows: ${ROWS:-7}")

    pipeline = validate(load(text, "f.yaml", {"ROWS": "", "D": "e", "host": "not me"}))

    assert pipeline.sources["raw"].bootstrap == "h1:1"
    assert pipeline.checkpoint == "/orders/e/${x}"
    assert pipeline.sources["raw"].limit.rows == 7


@pytest.mark.parametrize("rows", ["${N:-7}", '"${N:-7}"', "'${N:-7}'", '"${n}"'])
def test_a_number_that_comes_from_a_variable_is_a_number_in_quotes_too(rows):
    text = GOOD.replace("name: orders", 'name: orders\nvars: { n: "7", on: "true" }')
    text = text.replace("topics: [orders]", f"topics: [orders]\n    limit:\n      rows: {rows}")
    text = text.replace("available_now: true", 'available_now: "${on}"')

    pipeline = validate(load(text, "f.yaml", {}))

    assert pipeline.sources["raw"].limit.rows == 7
    assert pipeline.every_ms is None


def test_a_text_stays_as_it_was_written_though_yaml_would_read_a_number():
    text = GOOD.replace("{ checkpoint: /ck }", "{ checkpoint: /ck, conf: { a: 010, b: Yes } }")
    text = text.replace("topics: [orders]", 'topics: [0x10, "${T}", 1_000]')

    pipeline = validate(load(text, "f.yaml", {"T": "007"}))

    assert pipeline.sources["raw"].topics == ("0x10", "007", "1_000")
    assert pipeline.conf == {"a": "010", "b": "true"}


def test_once_makes_one_batch_whatever_the_limit_says():
    text = GOOD.replace("[orders]", "[orders]\n    limit: { rows: 5 }")

    often = validate(load(text, "f.yaml", {}))
    once = validate(load(text.replace("available_now", "once"), "f.yaml", {}))

    assert (often.every_ms, often.once) == (None, False)
    assert (once.every_ms, once.once) == (None, True)
    assert often.streamed(often.sources["raw"]).limit == Limit(rows=5)
    assert once.streamed(once.sources["raw"]).limit == Limit()


def test_restart_is_read_with_its_pauses():
    pauses = {", backoff: 2s..1m": (2_000, 60_000), ", backoff: 5s": (5_000, 5_000), "": PAUSES_MS}
    for words, (first_ms, last_ms) in pauses.items():
        text = f"{GOOD}restart: {{ attempts: 3{words} }}\n"

        restart = validate(load(text, "f.yaml", {})).restart

        assert restart == Restart(attempts=3, first_ms=first_ms, last_ms=last_ms)


def test_the_first_sink_of_a_source_writes_its_dead_letters():
    text = GOOD.replace("on_error: fail", "on_error: dead_letter")
    text = text.replace(SINK, SINK + SINK.replace("lake", "pond"))
    text += "dead_letter: { type: delta, path: /dead }\n"

    pipeline = validate(load(text, "f.yaml", {}))

    assert [bool(sink.leads) for sink in compile_plan(pipeline).sinks.values()] == [True, False]


def test_a_schema_file_lies_beside_the_pipeline_file(tmp_path):
    (tmp_path / "order.ddl").write_text("id INT,\n  amount DOUBLE\n")
    file = tmp_path / "orders.yaml"
    file.write_text(GOOD.replace('schema: "id INT"', "schema: order.ddl"))

    pipeline = read_pipeline(file, {})

    decode = pipeline.sources["raw"].decode
    assert decode is not None
    assert decode.schema.text == "id INT, amount DOUBLE"


def test_a_file_that_is_not_there_or_not_text_is_a_bad_file(tmp_path):
    (tmp_path / "f.yaml").write_bytes(b"\xff\xfe")

    for name, reason in (("f.yaml", "not UTF-8 text"), ("g.yaml", "cannot be read: No such file")):
        with pytest.raises(ConfigError, match=reason):
            read_pipeline(tmp_path / name, {})


def test_the_shipped_pipeline_is_good():
    pipeline = read_pipeline("conf/pipelines/flights.yaml", {"DEMO_DIR": "/demo"})

    assert pipeline.sinks["flights"].path == "/demo/tables/flights"
    assert pipeline.sinks["delays"].keys == ("carrier", "time_hour")


def test_a_run_without_an_end_has_no_stop():
    text = GOOD.replace("topics: [orders]", "topics: [orders]\n    stop: { ago: 5m }")

    assert complaint(text.replace("available_now: true", "every: 5s")) == (
        "f.yaml:9:5: sources.raw.stop: `stop` ends a run, and with `trigger.every` or `fresh` a "
        "run has no end: expected `available_now: true` or `once: true`, or no `stop`"
    )
    for trigger in ("available_now", "once"):
        validate(load(text.replace("available_now", trigger), "f.yaml", {}))


def test_the_interval_follows_from_the_freshness_of_a_sink():
    fresh = GOOD.replace("mode: append", "mode: append, fresh: 30s")
    assert fresh != GOOD
    without = fresh.replace("trigger: { available_now: true }", "")

    assert validate(load(without, "f.yaml", {})).every_ms == 15_000
    assert validate(load(fresh, "f.yaml", {})).every_ms is None
    assert "trigger.every: the interval follows from `fresh` of a sink" in complaint(
        fresh.replace("available_now: true", "every: 5s")
    )
    assert "`trigger` is missing; expected a mapping" in complaint(
        GOOD.replace("trigger: { available_now: true }", "")
    )
